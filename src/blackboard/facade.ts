/** The blackboard as host code sees it: the async interface that agents have too, over the board itself. */
import type { StandardSchemaV1 } from '@standard-schema/spec'
import type { Scheduler } from '../clock.ts'
import { CancelledError, DramatisError, MessageRejectedError, RequestTimeoutError } from '../errors.ts'
import { onAbort } from '../on-abort.ts'
import type { Board } from './board.ts'
import { checkCallback, checkFilter, checkKey, checkWait } from './check-write.ts'
import type { Blackboard, BlackboardEntry } from './entry.ts'

const WAIT_TIMEOUT_MS = 60_000

export interface HostBlackboardOptions {
  /** Who is named as the author of what is written here. */
  author: string
  scheduler: Scheduler
  /** Finds what is no JSON in a value, and where: `jsonIssue`. */
  check: (value: unknown, path: string) => { path: string; got: string } | undefined
  /** How long `waitFor` waits when its caller does not say; 60_000. */
  waitTimeoutMs?: number
  /** Ends all open waits, as when the run is over. */
  signal?: AbortSignal
}

/**
 * The blackboard for callers in the host, who may keep what they write: values are copied, then frozen.
 *
 * - `write` rejects with MessageRejectedError as `Board.write` does, and for a value that is no JSON value, with
 *   `details.path`.
 * - `read` with a schema rejects with MessageRejectedError, naming the key and the schema's issues, if the value misses
 *   it; else the entry carries the schema's output. The schema is the reader's, the entry stays as it is.
 * - `waitFor` rejects with RequestTimeoutError at its deadline, and with CancelledError when its signal is aborted, or
 *   with the signal's reason if that is an error of this library.
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

/** A reason that already says what happened, such as "the turn ended", is not told a second way. */
function cancelled(key: string, signals: AbortSignal[]): DramatisError {
  const reason: unknown = signals.find((signal) => signal.aborted)?.reason
  if (reason instanceof DramatisError) return reason
  return new CancelledError(`The wait for "${key}" on the blackboard was cancelled.`, { key }, reason)
}
