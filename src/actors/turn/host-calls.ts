/**
 * Verbs that are a single call to the host: sync points, questions to people, new agents, and subscriptions for
 * `observe`.
 */
import {
  type Blackboard,
  type BlackboardEntry,
  checkCallback,
  compilePattern,
  type EntryCallback,
  type QueryFilter,
  Subscriptions,
  type WriteOptions,
} from '../../blackboard/entry.ts'
import { LOG } from '../../mailbox/frame.ts'
import { ORCHESTRATOR } from '../../mailbox/message.ts'
import { ConfigurationError, describe, MessageRejectedError } from '../../shared/errors.ts'
import {
  checkKnown,
  checkObject,
  checkReadable,
  checkText,
  durationOf,
  reading,
  wrongArgument,
} from '../definition/checks.ts'
import type { AgentType, AskOptions, SpawnRole, SyncResult } from '../definition/context.ts'
import { handled, quiet } from '../definition/promises.ts'
import { checkBySchema } from '../definition/schema.ts'
import { LEVELS, type Logger, type LogLevel, logFields, type Schema } from '../definition/tool.ts'
import type { Outbox } from './link.ts'
import type { TurnStart } from './replay.ts'
import type { Turn } from './turn.ts'

/*
 * The blackboard as a turn uses it: each use is a call to the host and a logged step. Callbacks stay in the thread:
 * entries come to it as messages of type publish.
 */

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

/** Subscribes to entries or exits, which arrive at the agent's `observe` handler. Refuses the verb if there is none. */
export async function observeMore(
  turn: Turn,
  verb: 'subscribe' | 'watch',
  args: { pattern: string } | { agent: string },
): Promise<void> {
  if (!turn.ended && !turn.thread.observes) throw hasNoObserve(turn.role.name, verb)
  return turn.call(verb, args).then(quiet)
}

export async function sync<T>(turn: Turn, point: string, data: T | undefined): Promise<SyncResult<T>> {
  checkText(point, 'point')
  return (await turn.call('sync', { point, data })) as SyncResult<T>
}

export async function synced<T>(turn: Turn, point: string): Promise<SyncResult<T>> {
  checkText(point, 'point')
  return (await turn.call('synced', { point })) as SyncResult<T>
}

export async function askPerson(turn: Turn, question: string, options: AskOptions): Promise<string> {
  checkObject(options, 'options')
  const { signal, ...asked } = reading('options', () => ({ ...options }))
  if (signal !== undefined && !(signal instanceof AbortSignal))
    throw wrongArgument('signal', signal, 'an AbortSignal is needed')
  return (await turn.call('ask', { ...asked, question }, signal)) as string
}

export async function spawn(turn: Turn, role: SpawnRole): Promise<string> {
  checkObject(role, 'role')
  checkReadable(role, 'role')
  return (await turn.call('spawn', role)) as string
}

export async function defineType(turn: Turn, type: AgentType): Promise<string> {
  checkObject(type, 'type')
  checkReadable(type, 'type')
  return (await turn.call('define', type)) as string
}

function hasNoObserve(agent: string, verb: string): ConfigurationError {
  const text =
    agent === ORCHESTRATOR
      ? `context.${verb}: a protocol script has no observe, so it would hear of nothing. Let an agent ${verb}.`
      : `context.${verb}: agent "${agent}" has no observe, so it would hear of nothing. Give its definition one.`
  return new ConfigurationError(text, { agent, path: `context.${verb}` })
}

/** Creates the logger of a turn; the fields of `all` are added to each line. */
export function turnLogger(outbox: Outbox, start: TurnStart, all?: object): Logger {
  const write = (level: LogLevel) => (fields: object, text: string) => {
    // pino accepts a text alone as well
    const [data, words] = typeof fields === 'string' && text === undefined ? [{}, fields] : [fields, String(text)]
    outbox.begin(LOG, start.run, start.turn, 0, words, logFields(all ? { ...data, ...all } : data)).limit =
      LEVELS.indexOf(level)
    outbox.write(outbox.size(), 'soon')
  }
  return { debug: write('debug'), info: write('info'), warn: write('warn'), error: write('error') }
}
