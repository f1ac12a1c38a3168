/** Blackboard for host code: the async interface that agents also have, on top of `Board`. */
import type { StandardSchemaV1 } from '@standard-schema/spec'
import type { Scheduler } from '../shared/clock.ts'
import { CancelledError, DramatisError, MessageRejectedError, RequestTimeoutError } from '../shared/errors.ts'
import { onAbort } from '../shared/on-abort.ts'
import type { Board } from './board.ts'
import {
  type Blackboard,
  type BlackboardEntry,
  checkCallback,
  checkFilter,
  checkKey,
  checkWait,
  type QueryFilter,
} from './entry.ts'

const WAIT_TIMEOUT_MS = 60_000

export interface HostBlackboardOptions {
  /** Author of the entries that are written here. */
  author: string
  scheduler: Scheduler
  /** Finds the part of a value that is not JSON, and its path: `jsonIssue`. */
  check: (value: unknown, path: string) => { path: string; got: string } | undefined
  /** Time limit of `waitFor` in ms, if its caller gives none. Default: 60_000. */
  waitTimeoutMs?: number
  /** Signal that ends all open waits, for example when the run is over. */
  signal?: AbortSignal
}

/**
 * Returns the blackboard for callers in the host. Values are copied, then frozen, so callers may keep what they write.
 *
 * - `write` rejects with MessageRejectedError as `Board.write` does, and for a value that is not JSON, with
 *   `details.path`.
 * - `read` with a schema rejects with MessageRejectedError, which names the key and the schema's issues, if the value
 *   does not match the schema. Otherwise the entry has the schema's output. Only this reader gets that output; the
 *   stored entry stays as it is.
 * - `waitFor` rejects with RequestTimeoutError at its deadline, and with CancelledError when its signal is aborted. If
 *   the signal's reason is an error of this library, it rejects with that one.
 *
 * @example
 * const blackboard = hostBlackboard(board, { author: '$user', scheduler: systemClock, check: jsonIssue })
 * await blackboard.write('dataset', { rows: 3 }, 'fact')
 */
export function hostBlackboard(board: Board, options: HostBlackboardOptions): Blackboard {
  const { author, scheduler, check, waitTimeoutMs = WAIT_TIMEOUT_MS, signal: over } = options

  async function read<T = unknown>(
    key: string,
    schema?: StandardSchemaV1<unknown, T>,
  ): Promise<BlackboardEntry<T> | undefined>
  async function read(key: string, schema?: StandardSchemaV1): Promise<BlackboardEntry | undefined> {
    checkKey(key)
    const entry = board.read(key)
    if (entry === undefined || schema === undefined) return entry
    return { ...entry, value: await validated(entry, schema) }
  }

  return {
    read,
    async write(key, value, entryType, writeOptions = {}) {
      return board.write(author, key, ownCopy(key, value, check), entryType, writeOptions, scheduler.now())
    },
    async query(filter = {}) {
      checkFilter(filter)
      return board.query(filter)
    },
    async subscribe(pattern, callback) {
      checkCallback(callback)
      return board.subscribe(pattern, callback)
    },
    async waitFor(key, options = {}) {
      checkWait(options)
      const { timeoutMs = waitTimeoutMs, signal } = options
      const signals = [signal, over].filter((given) => given !== undefined)
      return waitFor(board, key, timeoutMs, signals, scheduler)
    },
    async getHistory(key) {
      checkKey(key)
      return board.getHistory(key)
    },
  }
}

function ownCopy<T>(key: string, value: T, check: HostBlackboardOptions['check']): T {
  const issue = check(value, 'value')
  if (issue === undefined) return JSON.parse(JSON.stringify(value))
  throw new MessageRejectedError(
    `The value of "${key}" is no JSON value: ${issue.path} is ${issue.got}. Write strings, finite numbers, booleans, ` +
      'null, lists and plain objects of these.',
    { key, path: issue.path, got: issue.got },
  )
}

async function validated<T>({ key, author, version, value }: BlackboardEntry, schema: StandardSchemaV1<unknown, T>) {
  const result = await schema['~standard'].validate(value)
  if (result.issues === undefined) return result.value
  const issues = result.issues.map(({ path = [], message }) => {
    const where = path.map((part) => String(typeof part === 'object' ? part.key : part)).join('.')
    return where === '' ? message : `${where}: ${message}`
  })
  throw new MessageRejectedError(
    `"${key}" on the blackboard (version ${version}, by "${author}") is not what the reader's schema wants: ` +
      `${issues.join('; ')}.`,
    { key, version, author, issues },
  )
}

function waitFor(board: Board, key: string, timeoutMs: number, signals: AbortSignal[], scheduler: Scheduler) {
  return new Promise<BlackboardEntry>((resolve, reject) => {
    if (!Number.isFinite(timeoutMs) || timeoutMs < 0) {
      const message = `timeoutMs of a wait for "${key}" must be a finite number from 0 on, not ${timeoutMs}.`
      return reject(new MessageRejectedError(message, { path: 'timeoutMs', key }))
    }
    if (signals.some((signal) => signal.aborted)) return reject(cancelled(key, signals))
    const entry = board.read(key)
    if (entry) return resolve(entry)

    const stop = board.once(key, (written) => {
      end()
      resolve(written)
    })
    const expire = () => {
      end()
      const message = `Nobody wrote "${key}" to the blackboard within ${timeoutMs} ms.`
      const advice = 'Raise timeoutMs, or see why its writer did not come to it.'
      reject(new RequestTimeoutError(`${message} ${advice}`, { key, waitedMs: timeoutMs }))
    }
    const timer = scheduler.timer(timeoutMs, expire, true)
    const abort = () => {
      end()
      reject(cancelled(key, signals))
    }
    const forget = signals.map((signal) => onAbort(signal, abort))
    const end = () => {
      stop()
      timer.cancel()
      for (const each of forget) each()
    }
  })
}

/**
 * Returns the error for a cancelled wait. If the abort reason is an error that already says what happened, such as "the
 * turn ended", it returns that one.
 */
function cancelled(key: string, signals: AbortSignal[]): DramatisError {
  const reason: unknown = signals.find((signal) => signal.aborted)?.reason
  if (reason instanceof DramatisError) return reason
  return new CancelledError(`The wait for "${key}" on the blackboard was cancelled.`, { key }, reason)
}

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
