/** A blackboard at one moment, for those who look at it: nobody can write on it, and it never changes. */
import type { Board } from './board.ts'
import type { BlackboardEntry, QueryFilter } from './entry.ts'

/**
 * A blackboard as it was at one moment. Later writes do not show in it.
 *
 * @example
 * const board = team.getRun('report-7')?.board()
 * console.log(board?.query({ entryType: 'finding' }))
 */
export interface BlackboardView {
  /** Number of writes until then. */
  readonly revision: number
  /** Returns the newest entry of a key, superseded or not. */
  read(key: string): BlackboardEntry | undefined
  /**
   * Returns the valid entries, in the order in which they were last written; superseded ones only if the filter names
   * their key.
   */
  query(filter?: QueryFilter): BlackboardEntry[]
  /** Returns all versions of a key, the oldest first. */
  getHistory(key: string): BlackboardEntry[]
}

/** Returns the board as it is now, or as it was after that number of writes. `shown` makes what may leave the team. */
export function readOnly(
  board: Board,
  revision: number,
  shown: <T extends BlackboardEntry[] | BlackboardEntry | undefined>(entries: T) => T,
): BlackboardView {
  const view = board.at(revision)
  const isIncluded = ({ version, key }: BlackboardEntry) => version <= (view.read(key)?.version ?? 0)
  return {
    revision,
    read: (key) => shown(view.read(key)),
    query: (filter) => shown(view.query(filter)),
    getHistory: (key) => shown(board.getHistory(key).filter(isIncluded)),
  }
}
