/**
 * Blackboard for callers outside of the team: its data is free of the team's keys, like all that leaves the team.
 * Agents read the original data.
 */
import { checkCallback } from '../../blackboard/check-write.ts'
import type { Blackboard } from '../../blackboard/entry.ts'
import type { Redactor } from '../logging/redactor.ts'

export function redactedBlackboard(board: Blackboard, redactor: Redactor): Blackboard {
  return {
    write: board.write,
    read: async (key, schema) => redactor.data(await board.read(key, schema)),
    query: async (filter) => redactor.data(await board.query(filter)),
    async subscribe(pattern, callback) {
      checkCallback(callback)
      return board.subscribe(pattern, (entry) => callback(redactor.data(entry)))
    },
    waitFor: async (key, options) => redactor.data(await board.waitFor(key, options)),
    getHistory: async (key) => redactor.data(await board.getHistory(key)),
  }
}
