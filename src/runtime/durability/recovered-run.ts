/** Run of an earlier process, as its entries tell. */

import { applyPatches, enablePatches, type Patch } from 'immer'
import type { PatchNotice } from '../../actors/definition/assignment.ts'
import type { Conversation } from '../../actors/model/conversation.ts'
import type { BlackboardEntry } from '../../blackboard/entry.ts'
import { isFailure, jsonIn } from '../../mailbox/codec.ts'
import { DeadLetterList } from '../../mailbox/dead-letters.ts'
import {
  attemptOf,
  BEGINS_AGAIN,
  correlationOf,
  END,
  flagsOf,
  kindOf,
  type Memory,
  PATCH,
  REQUEST,
  readBody,
  recipientOf,
  senderOf,
  turnOf,
} from '../../mailbox/frame.ts'
import { NO_TURN } from '../host/agent.ts'
import { ORCHESTRATOR_INDEX, USER_INDEX } from '../host/directory.ts'
import { Conversations } from '../host/parts.ts'
import { STEERED } from '../host/steering.ts'
import {
  concernsRuns,
  type HostRecord,
  isKept,
  type JoinedAgent,
  type LogEntry,
  type RecordOf,
  type Unrecorded,
} from '../log/records.ts'
import { framesIn } from '../log/run-log.ts'
import type { AnswerBefore } from '../runs/run-endings.ts'
import type { EndingState } from '../settings/team-shape.ts'
import { Payments } from '../verbs/budgets.ts'

export class RecoveredRun {
  readonly index: number
  readonly launched: RecordOf<'run.launched'>
  /** Entries that readers of a run get, in their order. */
  readonly entries: LogEntry[] = []
  /** Indices by name of the agents that it has, or had, for itself. */
  readonly agents = new Map<string, number>()
  /** Agents that were made in it and have not left it, by their index. */
  readonly joined = new Map<number, JoinedAgent>()
  /** Subscriptions that the host has made in the name of an agent. */
  readonly subscribed: RecordOf<'subscribed'>[] = []
  /** Set when it was begun: its target is asked, or was about to be. */
  started = false
  answer: { readonly memory: Memory; readonly at: number } | undefined
  /** Answer after which its speaker was asked again. */
  before: AnswerBefore | undefined
  finished: RecordOf<'run.finished'> | undefined
  aborted = false
  /** Bytes of the large parts that it refers to, as far as they were read. */
  stored: ReadonlyMap<string, Uint8Array> = new Map()

  constructor(launched: RecordOf<'run.launched'>) {
    this.index = launched.run
    this.launched = launched
  }

  /** Takes an entry of the team: a run keeps what happens to agents until its log has its end, as in memory. */
  meanwhile(entry: LogEntry): void {
    if (entry.kind === 'frames' || !concernsRuns(entry)) return
    if (!this.finished && !this.launched.own) this.entries.push(entry)
  }

  see(entry: LogEntry): void {
    if (entry.kind === 'frames') this.#findAnswer(entry)
    else if (entry.kind === 'name') this.agents.set(entry.name, entry.index)
    else if (entry.kind === 'subscribed') this.subscribed.push(entry)
    else if (entry.kind === 'agent.joined') this.joined.set(entry.index, entry)
    else if (entry.kind === 'agent.left') this.joined.delete(entry.index)
    else if (entry.kind === 'run.started') this.started = true
    else if (entry.kind === 'run.aborted') this.aborted = true
    else if (entry.kind === 'run.finished') this.finished = entry
    if (!isKept(entry)) this.entries.push(entry)
  }

  #findAnswer(block: LogEntry): void {
    for (const [memory, at] of framesIn([block])) {
      if (isAskedAgain(memory, at)) {
        this.before = this.answer && { ...this.answer, calls: new Set(this.entries.flatMap(callOfWords)) }
        this.answer = undefined
      }
      const isAnswer = kindOf(memory, at) === END && recipientOf(memory, at) === USER_INDEX
      if (isAnswer && correlationOf(memory, at) > 0) this.answer ??= { memory, at }
    }
  }
}

/** Checks for the message by which the speaker of a run is asked again: the answer before it does not count. */
const isAskedAgain = (memory: Memory, at: number): boolean =>
  kindOf(memory, at) === REQUEST &&
  senderOf(memory, at) === USER_INDEX &&
  Object(jsonIn(readBody(memory, at).metadata))[STEERED] !== undefined

const callOfWords = (entry: LogEntry): string[] =>
  entry.kind === 'steer.read' && entry.callId !== undefined ? [entry.callId] : []

enablePatches()

/** Checks for an agent that shares the conversation of a run's thread with others. */
type Shares = (agent: number) => boolean

/** Fold of what agents have: their states, those that they have for runs, and their conversations. */
export class RecoveredStates {
  readonly ofAgents = new Map<number, object>()
  /** Conversations across runs. What looks like one is taken for one: who puts them in place knows the agents. */
  readonly conversations = new Conversations()
  readonly #patches = new Map<string, { attempt: number; notices: PatchNotice[] }>()
  readonly #ofRuns = new Map<number, Map<number, object>>()

  ofRun(run: number): ReadonlyMap<number, object> {
    return this.#ofRuns.get(run) ?? new Map()
  }

  /**
   * Takes a PATCH, which counts with the END of its attempt, or an END. An attempt that has died between the two has
   * left nothing: the next one writes all its PATCHes anew. A PATCH of no turn is the host's, and counts at once.
   */
  frame(memory: Memory, at: number, run: number, threadId: string | undefined, shares?: Shares): void {
    const kind = kindOf(memory, at)
    if (kind !== PATCH && kind !== END) return
    const agent = senderOf(memory, at)
    const key = `${agent} ${turnOf(memory, at)}`
    const attempt = attemptOf(memory, at)
    const left = this.#patches.get(key)
    if (kind === PATCH) {
      const notices = left?.attempt === attempt ? left.notices : []
      const notice = Object(jsonIn(readBody(memory, at).data)) as PatchNotice
      if (turnOf(memory, at) === NO_TURN) return this.#left(agent, run, threadId, notice, shares)
      this.#patches.set(key, { attempt, notices: [...notices, notice] })
      return
    }
    this.#patches.delete(key)
    if (!left || isFailure(memory, at) || (flagsOf(memory, at) & BEGINS_AGAIN) !== 0) return
    // Every PATCH of a log that an earlier version has written says that it is of the first attempt.
    if (left.attempt !== attempt && left.attempt !== 1) return
    for (const notice of left.notices) this.#left(agent, run, threadId, notice, shares)
  }

  /** Applies what a turn has left. As in the process that logged it, what does not fit changes nothing. */
  #left(agent: number, run: number, threadId: string | undefined, notice: PatchNotice, shares?: Shares): void {
    const patches = notice.patches as Patch[]
    if (notice.scope === 'agent') {
      const after = patched(this.ofAgents.get(agent) ?? {}, patches)
      if (after) this.ofAgents.set(agent, after)
      return
    }
    const states = this.#ofRuns.get(run) ?? new Map<number, object>()
    const before = Object(notice.base ?? states.get(agent))
    const after = patched(before, patches)
    if (!after) return
    this.#ofRuns.set(run, states.set(agent, after))
    if (threadId !== undefined && isConversation(before) && isConversation(after))
      this.conversations.add(shares?.(agent) ? ORCHESTRATOR_INDEX : agent, threadId, before, after)
  }

  /** Forgets what an agent has that has left: the next one in its place begins without it. */
  forgetAgent(agent: number): void {
    this.ofAgents.delete(agent)
    this.conversations.forget(agent)
    for (const states of this.#ofRuns.values()) states.delete(agent)
    for (const key of this.#patches.keys()) if (key.startsWith(`${agent} `)) this.#patches.delete(key)
  }

  forget(run: number): void {
    this.#ofRuns.delete(run)
  }
}

function patched(before: object, patches: Patch[]): object | undefined {
  try {
    return applyPatches(before, patches)
  } catch {
    return undefined
  }
}

function isConversation(state: object): state is Conversation {
  const turns: unknown = Reflect.get(state, 'turns')
  return Array.isArray(turns) && turns.every((turn) => Array.isArray(Object(turn).messages))
}

export class RecoveredTeam {
  readonly states = new RecoveredStates()
  /** Dead letters that nobody has sent again or discarded. */
  readonly letters = new DeadLetterList()
  /** Model calls that the window of the team counts. */
  readonly payments: Payments
  /** Agents that were made while the team ran, by their index: those that stay until they are removed. */
  readonly joined = new Map<number, JoinedAgent>()
  readonly #shared = new Map<string, RecordOf<'shared'>>()
  /** Debts to receivers outside, by key. */
  readonly outbox = new Map<string, RecordOf<'outbox'>>()
  readonly #board = new Map<number, BlackboardEntry>()

  /** `windowMs`: time for which the team counts what model calls have cost. */
  constructor(windowMs: number) {
    this.payments = new Payments(windowMs)
  }

  get shared(): Iterable<RecordOf<'shared'>> {
    return this.#shared.values()
  }

  /** Entries of the team's blackboard, in the order in which they were written. */
  get board(): Iterable<BlackboardEntry> {
    return [...this.#board].sort(([one], [other]) => one - other).map(([, entry]) => entry)
  }

  forgetAgent(index: number): void {
    this.states.forgetAgent(index)
    this.joined.delete(index)
    for (const [key, { owner }] of this.#shared) if (owner === index) this.#shared.delete(key)
  }

  /** Forgets what ends with a session that was closed in order and has left no open run. */
  endSession(ends: readonly EndingState[]): void {
    if (ends.includes('private')) this.states.ofAgents.clear()
    if (ends.includes('board')) this.#board.clear()
    if (!ends.includes('shared')) return
    for (const [key, { scope }] of this.#shared) if (scope !== 'persistent') this.#shared.delete(key)
  }

  see(record: HostRecord): void {
    this.payments.see(record)
    switch (record.kind) {
      case 'state':
        this.states.ofAgents.set(record.index, Object(record.value))
        return
      case 'thread':
        return this.states.conversations.owners.set(record)
      case 'conversation':
        this.states.conversations.keep(record.index, record.threadId, record.conversation)
        return
      case 'shared':
        this.#shared.set(JSON.stringify([record.scope, record.owner, record.key]), record)
        return
      case 'outbox':
        if (record.value === undefined) this.outbox.delete(record.key)
        else this.outbox.set(record.key, record)
        return
      case 'message.dead':
      case 'letter':
        this.letters.delete(record.letter.id)
        this.letters.add(record.letter, record.bytes)
        return
      case 'letter.gone':
        this.letters.delete(record.id)
        return
      case 'agent.joined':
        if (record.run === 0) this.joined.set(record.index, record)
        return
      case 'blackboard':
        if (record.run === 0) this.#board.set(record.nth ?? this.#board.size, record.entry)
    }
  }

  /** Yields what agents have and share. `isThere`: checks for an agent that still is in its place. */
  *facts(isThere: (index: number) => boolean): Generator<Unrecorded> {
    const { ofAgents, conversations } = this.states
    for (const { index, name, role, by } of this.joined.values()) yield { kind: 'agent.joined', index, name, role, by }
    for (const [index, value] of ofAgents) if (isThere(index)) yield { kind: 'state', index, value }
    for (const fact of conversations.owners.all()) yield { kind: 'thread', ...fact }
    for (const { agent: index, threadId, conversation } of conversations.all())
      if (isThere(index)) yield { kind: 'conversation', index, threadId, conversation }
    for (const { kind, scope, owner, key, version, value } of this.shared)
      if (owner === undefined) yield { kind, scope, key, version, value }
      else if (isThere(owner)) yield { kind, scope, owner, key, version, value }
    for (const { kind, key, value } of this.outbox.values()) yield { kind, key, value }
    let nth = 0
    for (const entry of this.board) yield { kind: 'blackboard', entry, nth: nth++ }
  }
}
