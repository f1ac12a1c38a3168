/** State of the team, which no run owns: places, numbers and states of its agents. */

import { jsonIn } from '../../mailbox/codec.ts'
import { readBody } from '../../mailbox/frame-body.ts'
import { readableParts } from '../../mailbox/stored-parts.ts'
import { callerIn } from '../state/caller.ts'
import type { RunState } from '../state/run-state.ts'
import type { OldLog } from './old-log.ts'
import type { RestoredOwners } from './restored-owners.ts'

/** Gives the agents of the team the indices that they had, and continues all numbers. */
export function restoreNames({ directory, hostMessages, runs }: RestoredOwners, old: OldLog): void {
  const [ofTeam, ofRuns, free] = [new Map<string, number>(), new Set<number>(), new Set<number>()]
  for (const [index, { name, run }] of old.names) {
    if (run === 0) ofTeam.set(name, index)
    else ofRuns.add(index)
    if (run !== 0 && !old.runs.has(run)) free.add(index)
  }
  directory.reseat(ofTeam, ofRuns, free)
  for (const [index, counters] of old.counters) directory.cells[index]?.continueFrom(counters)
  hostMessages.continueFrom(old.lastHostNumber)
  runs.continueFrom(old.lastRun)
}

/** Puts the states of agents in place, their conversations, and what they have for the runs that go on. */
export function restoreStates({ agentStates, directory }: RestoredOwners, old: OldLog, runs: Iterable<RunState>): void {
  for (const [index, state] of old.states.ofAgents) {
    const cell = directory.cells[index] // also of an agent that may be added later
    if (cell) cell.state = state
  }
  const { owners } = agentStates.conversations
  for (const [threadId, owner] of old.states.conversations.owners.all()) owners.set(threadId, owner)
  for (const { agent, threadId, conversation } of old.states.conversations.all()) {
    const cell = directory.cells[agent]
    if (cell?.removed || cell?.settings.playedByModel) agentStates.conversations.keep(agent, threadId, conversation)
  }
  for (const { threadId, metadata } of runs) if (threadId !== undefined) owners.begin(threadId, callerIn(metadata)) // whatever became of it meanwhile
  for (const run of runs)
    for (const [index, state] of old.states.ofRun(run.index)) if (directory.cells[index]) run.states.set(index, state)
}

/** Puts in place what agents have shared, and the blackboard of the team. */
export function restoreShared({ boards, sharedStates }: RestoredOwners, { team }: OldLog): void {
  for (const fact of team.shared) sharedStates.restore(fact)
  for (const entry of team.board) boards.restoreOfTeam(entry)
}

/**
 * Puts the dead letters into their list. Without those of messages that were sent again and wait for room: all that
 * wait have it now.
 */
export function restoreLetters({ journal, parts }: RestoredOwners, { team, work }: OldLog): void {
  for (const { letter, bytes } of team.letters.entries) {
    const { message } = letter
    if (message.parts)
      message.parts = readableParts(message.parts, ({ hash }) => {
        const stored = parts.get(hash)
        return stored && (() => stored)
      })
    journal.deadLetters.add(letter, bytes)
  }
  for (const { memory, at } of work.messages()) {
    const { metadata } = readBody(memory, at)
    const replayed: unknown = metadata && Reflect.get(Object(jsonIn(metadata)), 'replayOf')
    if (typeof replayed === 'string') journal.removeLetter(replayed)
  }
}
