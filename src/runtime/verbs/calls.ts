/** Table of the verbs that the host serves. Each call is a logged step of its caller. */

import { isVerb, OWN_WORK, REMOTE, type Verb } from '../../actors/definition/role.ts'
import { jsonIn } from '../../mailbox/codec.ts'
import {
  CHUNK,
  correlationOf,
  FAILED,
  idOf,
  type Memory,
  RESULT,
  readBody,
  recipientOf,
  SIGNALLED,
  STREAMS,
  turnOf,
  waitingOf,
} from '../../mailbox/frame.ts'
import { placeOf } from '../../remote/role.ts'
import { refused } from '../../shared/checks.ts'
import { AgentFailedError, ConfigurationError, DramatisError, describe, errorData } from '../../shared/errors.ts'
import type { HostMessages } from '../host/admission.ts'
import type { Agent, OpenCall, Waiter } from '../host/agent.ts'
import type { Core } from '../host/core.ts'
import { callRefusal } from '../host/delegation.ts'
import type { Reader } from '../host/journal.ts'
import type { ReplyQueue } from '../host/replies.ts'
import type { RunState, Watch } from '../host/run.ts'

/** Subject of the call of a verb, by its arguments: a sync point, a key, a tool, an agent or a model. */
const SUBJECTS = ['point', 'key', 'name', 'agent', 'model', 'pattern'] as const

export function subjectOf(args: Readonly<Record<string, unknown>>): string | undefined {
  return SUBJECTS.map((field) => args[field]).find((value) => typeof value === 'string')
}

/** Call that an earlier process has not answered. */
interface EarlierCall {
  /** Time for which its turn has waited there, in ms. */
  readonly passedMs: number
  /** Resolves when it can be served; it may be withdrawn by then. */
  readonly ready?: Promise<void>
}

export class HostCalls {
  readonly #core: Core
  readonly #replies: ReplyQueue
  readonly verbs = new Map<Verb, HostVerb>()

  constructor(core: Core, replies: ReplyQueue) {
    this.#core = core
    this.#replies = replies
  }

  register(verbs: Iterable<readonly [Verb, HostVerb]>): void {
    for (const [operation, verb] of verbs) this.verbs.set(operation, verb)
  }

  /** Replaces each verb of the table by what `around` makes of it. */
  wrap(around: (operation: Verb, verb: HostVerb) => HostVerb): void {
    for (const [operation, verb] of this.verbs) this.verbs.set(operation, around(operation, verb))
  }

  /** Serves a call. `earlier`: set if an earlier process was asked. */
  serve(agent: Agent, run: RunState, memory: Memory, at: number, earlier?: EarlierCall): void {
    const correlation = correlationOf(memory, at)
    const turn = turnOf(memory, at)
    const { content: operation, data } = readBody(memory, at)
    const args = (data === undefined ? {} : jsonIn(data)) as Arguments & Record<string, unknown>
    const withdrawn = new AbortController()
    const withdraw = () => withdrawn.abort(this.#core.interruption)
    const settle = (result: unknown, error: DramatisError | undefined) => {
      if (!agent.calls.delete(correlation)) return
      const fields = { kind: RESULT, sender: 0, recipient: agent.index, run: run.index, turn, correlation }
      const text = error ? JSON.stringify(errorData(error)) : result === undefined ? undefined : JSON.stringify(result)
      const frame = this.#core.frames.make({
        ...fields,
        flags: error ? FAILED : 0,
        ...(text !== undefined && { data: text }),
      })
      this.#core.journal.appendOwned(run, frame.memory, frame.bytes)
      this.#replies.reply(agent, frame)
    }
    agent.calls.set(correlation, {
      turn,
      since: this.#core.clock.now(),
      verb: operation,
      subject: operation === REMOTE && agent.settings.remote ? placeOf(agent.settings.remote) : subjectOf(args),
      withdraw,
      isOwnWork: OWN_WORK.has(operation),
      ofPerson: false,
      waitsFor: waitingOf(memory, at) & SIGNALLED ? undefined : waitsFor(operation, args),
      fail: (error) => {
        settle(undefined, error)
        withdraw()
      },
    })
    const callId = idOf(memory, at)
    const { ready, passedMs = 0 } = earlier ?? {}
    const say = (piece: string) => this.#say({ agent, turn, correlation, run }, piece)
    const caller = { agent, turn, correlation, run, callId, passedMs, isAgain: earlier !== undefined, say }
    const perform = () => this.#perform(operation, args, caller, withdrawn.signal)
    const performed = ready ? ready.then(() => (withdrawn.signal.aborted ? undefined : perform())) : perform()
    performed.then(
      (result) => settle(result, undefined),
      (error: unknown) =>
        settle(
          undefined,
          error instanceof DramatisError ? error : new AgentFailedError(`${operation}: ${describe(error)}`, {}, error),
        ),
    )
  }

  #say(
    { agent, run, turn, correlation }: Pick<HostCaller, 'agent' | 'run' | 'turn' | 'correlation'>,
    piece: string,
  ): void {
    if (!agent.calls.has(correlation)) return
    const fields = { kind: CHUNK, flags: STREAMS, recipient: agent.index, run: run.index, turn, correlation }
    const frame = this.#core.frames.make({ ...fields, sender: 0, content: piece })
    this.#core.journal.appendOwned(run, frame.memory, frame.bytes)
    this.#replies.reply(agent, frame)
  }

  async #perform(operation: string, args: unknown, caller: HostCaller, signal: AbortSignal): Promise<unknown> {
    const distrust = callRefusal(this.#core.logger, caller.agent, operation)
    if (distrust) throw distrust
    if (!isVerb(operation)) throw noSuchVerb(operation)
    const verb = this.verbs.get(operation)
    if (!verb) throw noSuchVerb(operation)
    return verb(args, caller, signal)
  }
}

const noSuchVerb = (operation: string) => new ConfigurationError(`${operation}: no such verb.`, { path: operation })

/**
 * Returns what the call waits for, if only the agents themselves can end that wait. The time limit of a sync point does
 * not excuse a cycle.
 */
function waitsFor(operation: string, { key, timeoutMs, point, to }: Arguments): OpenCall['waitsFor'] {
  if (operation === 'handoff' || operation === 'reassign') return { kind: 'handoff', name: to }
  if (operation === 'blackboard.waitFor' && timeoutMs === undefined) return { kind: 'blackboard', name: key }
  return operation === 'sync' || operation === 'synced' ? { kind: 'sync', name: point } : undefined
}

/** Arguments of a call that the wait-for graph reads. */
interface Arguments {
  key: string
  timeoutMs?: number
  point: string
  to: string
}

/*
 * Rule 14: an agent that watches another is notified once when that agent is gone permanently, also if it is gone
 * already. A watch is kept here, not in the watcher's thread, so it survives the watcher's restarts; it ends with its
 * run.
 */

export const watchVerbs = (core: Core, hostMessages: HostMessages): [Verb, HostVerb][] => [
  [
    'watch',
    (args, { agent, run }) =>
      watch(hostMessages, agent, run, core.directory.require((args as { agent: string }).agent, run)),
  ],
]

/** Starts a watch. However often the watcher asks, it is notified once of each end that it has watched for. */
export function watch(hostMessages: HostMessages, watcher: Agent, run: RunState, { index, name, gone }: Agent): void {
  const key = `${watcher.index} ${index}`
  const known = run.watches.get(key) ?? {
    watcher: watcher.index,
    index,
    agent: name,
    told: undefined,
    open: false,
  }
  run.watches.set(key, known)
  if (!gone) known.open = true
  else if (known.told !== gone) tell(hostMessages, run, known, gone)
}

/** Notes that a watcher was notified, in an earlier process, if that is what the host's report says. */
export function noteTold(run: RunState, memory: Memory, at: number): void {
  const { event, agent } = Object(jsonIn(readBody(memory, at).data)) as { event?: unknown; agent?: unknown }
  if (event !== 'terminated') return
  const watcher = recipientOf(memory, at)
  for (const known of run.watches.values()) if (known.watcher === watcher && known.agent === agent) known.open = false
}

function tellWatchers({ runs }: Core, hostMessages: HostMessages, { index, gone }: Agent): void {
  if (!gone) return
  for (const run of runs.values())
    for (const known of run.watches.values())
      if (known.index === index && known.open && !run.ending) tell(hostMessages, run, known, gone)
}

function tell(hostMessages: HostMessages, run: RunState, known: Watch, end: DramatisError): void {
  known.open = false
  known.told = end
  const { watcher, agent } = known
  const content = `Agent "${agent}" is gone for good: ${end.message}`
  hostMessages.report(run, watcher, content, { event: 'terminated', agent, reason: end.message })
}

export const watchers = (core: Core, hostMessages: HostMessages): Reader => ({
  kinds: ['agent.status'],
  next(batch) {
    for (const record of batch) {
      if (record.kind !== 'agent.status' || (record.status !== 'failed' && record.status !== 'stopped')) continue
      const agent = core.directory.agent(record.agent, core.runs.get(record.run))
      if (agent) tellWatchers(core, hostMessages, agent)
    }
  },
})

export const decisionVerbs = (core: Core): [Verb, HostVerb][] => [
  [
    'decide',
    (args, { run }) => {
      const { question, choice, reason } = args as { question: string; choice: string; reason: string }
      for (const [path, value] of Object.entries({ question, choice, reason }))
        if (typeof value !== 'string') throw refused(path, value, 'a string')
      core.journal.record(run, { kind: 'decision', question, choice, reason })
    },
  ],
]

export interface VerbWaiter extends Waiter {
  readonly run: RunState
  /** Id of the call, if the turn waits for one. */
  readonly callId?: string
  /** Id of the call in which a tool asks, if one does. */
  readonly ofTool?: string | undefined
  /** Time for which the turn has waited in earlier processes, in ms. */
  readonly passedMs?: number
}

export interface HostCaller extends VerbWaiter {
  /** Id of the call: the same, however often its answer is asked for. */
  readonly callId: string
  /** True if an earlier process was asked too. */
  readonly isAgain?: boolean
  /** Sends a piece of the answer ahead of it. A retried turn gets the pieces again. */
  say(piece: string): void
}

/** Serves one operation. `args` are unchecked JSON from a thread. */
export type HostVerb = (args: unknown, caller: HostCaller, signal: AbortSignal) => Promise<unknown> | unknown
