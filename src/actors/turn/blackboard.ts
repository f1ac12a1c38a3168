/**
 * The blackboard as a turn uses it: each use is a call to the host and a logged step. Callbacks stay in the thread:
 * entries come to it as messages of type publish.
 */
import { checkCallback } from '../../blackboard/check-write.ts'
import type { Blackboard, BlackboardEntry, QueryFilter, WriteOptions } from '../../blackboard/entry.ts'
import { compilePattern } from '../../blackboard/pattern.ts'
import { type EntryCallback, Subscriptions } from '../../blackboard/subscriptions.ts'
import { describe, MessageRejectedError } from '../../errors.ts'
import { checkKnown, durationOf, reading, wrongArgument } from '../definition/checks.ts'
import { handled } from '../definition/promises.ts'
import { checkBySchema } from '../definition/schema.ts'
import type { Schema } from '../definition/tool.ts'
import type { Turn } from './turn.ts'

type Call = (operation: string, args: object, signal?: AbortSignal) => Promise<unknown>

export function turnBlackboard(turn: Turn): Blackboard {
  const call: Call = (operation, args, signal) => turn.call(operation, args, signal)
  return {
    write: <T>(key: string, value: T, entryType: string, options?: WriteOptions) =>
      call('blackboard.write', { key, value, entryType, options }) as Promise<BlackboardEntry<T>>,
    read: <T>(key: string, schema?: Schema<unknown, T>) => handled(read(call, key, schema)),
    query: (filter: QueryFilter = {}) => call('blackboard.query', filter) as Promise<BlackboardEntry[]>,
    subscribe: (pattern, callback) => handled(subscribe(turn, pattern, callback)),
    waitFor: (key, options = {}) => handled(waitFor(call, key, options)),
    getHistory: (key) => call('blackboard.history', { key }) as Promise<BlackboardEntry[]>,
  }
}

async function subscribe(turn: Turn, pattern: string, callback: EntryCallback): Promise<() => void> {
  const wants = compilePattern(pattern)
  checkCallback(callback)
  turn.assertOneThread('blackboard.subscribe')
  await turn.call('subscribe', { pattern })
  const { view } = turn.start
  view.listeners ??= new Subscriptions((error, { key }) =>
    turn.log.error({ key, error: describe(error) }, 'a subscriber of the blackboard threw'),
  )
  return view.listeners.add(wants, callback)
}

async function read<T>(call: Call, key: string, schema?: Schema<unknown, T>): Promise<BlackboardEntry<T> | undefined> {
  const entry = ((await call('blackboard.read', { key })) ?? undefined) as BlackboardEntry<T> | undefined
  if (!entry || !schema) return entry
  const value = await checkBySchema(
    schema,
    entry.value,
    (issues) =>
      new MessageRejectedError(`Blackboard entry "${key}" does not have the expected shape: ${issues}`, {
        key,
        issues,
      }),
  )
  return { ...entry, value }
}

const WAIT_OPTIONS: ReadonlySet<string> = new Set(['timeoutMs', 'signal'])

async function waitFor(
  call: Call,
  key: string,
  options: { timeoutMs?: number; signal?: AbortSignal },
): Promise<BlackboardEntry> {
  checkKnown(options, WAIT_OPTIONS)
  const { timeoutMs, signal } = reading('options', () => ({ ...options }))
  if (timeoutMs !== undefined) durationOf(timeoutMs, 'timeoutMs')
  if (signal !== undefined && !(signal instanceof AbortSignal))
    throw wrongArgument('signal', signal, 'an AbortSignal is needed')
  const args = timeoutMs === undefined ? { key } : { key, timeoutMs }
  return (await call('blackboard.waitFor', args, signal)) as BlackboardEntry
}
