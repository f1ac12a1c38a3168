/** The blackboard as a turn uses it: each use is a call to the host and a logged step. */
import type { Blackboard, BlackboardEntry, QueryFilter, WriteOptions } from '../../blackboard/entry.ts'
import { ConfigurationError, MessageRejectedError } from '../../errors.ts'
import { checkKnown, durationOf, reading, wrongArgument } from '../definition/checks.ts'
import { handled, rejected } from '../definition/promises.ts'
import { checkBySchema } from '../definition/schema.ts'
import type { Schema } from '../definition/tool.ts'

type Call = (operation: string, args: object, signal?: AbortSignal) => Promise<unknown>

export function turnBlackboard(call: Call): Blackboard {
  return {
    write: <T>(key: string, value: T, entryType: string, options?: WriteOptions) =>
      call('blackboard.write', { key, value, entryType, options }) as Promise<BlackboardEntry<T>>,
    read: <T>(key: string, schema?: Schema<unknown, T>) => handled(read(call, key, schema)),
    query: (filter: QueryFilter = {}) => call('blackboard.query', filter) as Promise<BlackboardEntry[]>,
    subscribe: () =>
      rejected(
        new ConfigurationError(
          'context.blackboard.subscribe: a callback cannot leave the thread of its agent. Use context.subscribe; matches arrive at observe.',
          { path: 'context.blackboard.subscribe' },
        ),
      ),
    waitFor: (key, options = {}) => handled(waitFor(call, key, options)),
    getHistory: (key) => call('blackboard.history', { key }) as Promise<BlackboardEntry[]>,
  }
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
