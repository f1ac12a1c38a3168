/** Blackboards of the team, of each run, or of a run whose agents use one; and the verbs that reach them. */

import type { Verb } from '../../actors/definition/role.ts'
import { policyOf } from '../../actors/definition/role-config.ts'
import { Board } from '../../blackboard/board.ts'
import {
  type Blackboard,
  type BlackboardEntry,
  checkCallback,
  type QueryFilter,
  type WriteOptions,
} from '../../blackboard/entry.ts'
import { hostBlackboard } from '../../blackboard/views.ts'
import { ASKS, copyId, type FrameFields, LOG_ONLY, MANY, SEND, TO_ALL } from '../../mailbox/frame.ts'
import { jsonIssue } from '../../mailbox/message.ts'
import { ConfigurationError, describe } from '../../shared/errors.ts'
import type { Admission } from '../host/admission.ts'
import type { Agent } from '../host/agent.ts'
import type { Core } from '../host/core.ts'
import type { RunState } from '../host/run.ts'
import type { Unrecorded } from '../log/records.ts'
import type { Redactor } from '../logging/redactor.ts'
import type { BlackboardScope } from '../settings/settings.ts'
import type { HostVerb } from './calls.ts'

export interface BoardSettings {
  readonly scope: BlackboardScope
  /** Default time limit of `waitFor`, in ms, if its caller gives none. */
  readonly waitTimeoutMs: number
}

export class Boards {
  readonly #core: Core
  readonly #admission: Admission
  readonly #settings: BoardSettings
  /** Runs whose history has the message of an entry. */
  readonly #inHistory = new WeakMap<BlackboardEntry, Set<RunState>>()
  #teamBoard: Board | undefined
  /** Number of entries of the team's board that the log has. */
  #logged = 0

  constructor(core: Core, admission: Admission, settings: BoardSettings) {
    this.#core = core
    this.#admission = admission
    this.#settings = settings
  }

  get verbs(): [Verb, HostVerb][] {
    const on = (use: (board: Blackboard, args: Arguments, signal: AbortSignal) => unknown): HostVerb => {
      return (args, { agent, run }, signal) => use(this.view(run, agent.name), args as Arguments, signal)
    }
    return [
      ['blackboard.write', (args, { agent, run }) => this.publish(agent, run, args as Arguments)],
      ['blackboard.read', on((board, { key }) => board.read(key))],
      ['blackboard.query', on((board, args) => board.query(args))],
      ['blackboard.history', on((board, { key }) => board.getHistory(key))],
      [
        'blackboard.waitFor',
        (args, { agent, run, passedMs }, signal) =>
          this.#waitFor(this.view(run, agent.name), args as Arguments, signal, passedMs),
      ],
      ['subscribe', (args, { agent, run }) => this.subscribe(agent, run, (args as Arguments).pattern)],
    ]
  }

  /** `passedMs`: time for which the caller has waited in earlier processes. */
  #waitFor(board: Blackboard, { key, timeoutMs }: Arguments, signal: AbortSignal, passedMs = 0): Promise<unknown> {
    if (passedMs === 0) return board.waitFor(key, { signal, ...(timeoutMs !== undefined && { timeoutMs }) })
    const leftMs = Math.max(0, (timeoutMs ?? this.#settings.waitTimeoutMs) - passedMs)
    return board.waitFor(key, { signal, timeoutMs: leftMs })
  }

  board(run: RunState): Board | undefined {
    const { scope } = this.#settings
    if (scope === 'team') run.board = this.#ofTeam
    if (scope === 'run') run.board ??= this.#newBoard(run)
    return run.board
  }

  restore(run: RunState, entry: BlackboardEntry): void {
    this.#boardInUse(run).restore(entry)
  }

  /** Adds an entry to the board of the team, if it has one. */
  restoreOfTeam(entry: BlackboardEntry): void {
    if (this.#settings.scope !== 'team') return
    this.#ofTeam.restore(entry)
    this.#logged += 1
  }

  /** Yields the entries of the team's board, as the durable log has them. */
  *facts(): Iterable<Extract<Unrecorded, { kind: 'blackboard' }>> {
    let nth = 0
    for (const entry of this.#teamBoard?.written ?? []) yield { kind: 'blackboard', entry, nth: nth++ }
  }

  revisionFor({ board }: RunState): number | undefined {
    return board && board === this.#teamBoard ? board.revision : undefined
  }

  get #ofTeam(): Board {
    this.#teamBoard ??= this.#newBoard(undefined)
    return this.#teamBoard
  }

  /** Checks whether other runs may write on the board of this run too. */
  isShared(run: RunState): boolean {
    if (run.board === undefined || run.board !== this.#teamBoard) return false
    for (const other of this.#core.runs.values()) if (other !== run && other.board === run.board) return true
    return false
  }

  view(run: RunState, author: string): Blackboard {
    return this.#view(this.#boardInUse(run), author, run.ended)
  }

  /** Returns the board of the team in the same way; undefined if it has none that lasts beside its runs. */
  teamView(author: string): Blackboard | undefined {
    return this.#settings.scope === 'team' ? this.#view(this.#ofTeam, author) : undefined
  }

  #view(board: Board, author: string, signal?: AbortSignal): Blackboard {
    return hostBlackboard(board, {
      author,
      scheduler: this.#core.clock,
      check: jsonIssue,
      waitTimeoutMs: this.#settings.waitTimeoutMs,
      ...(signal && { signal }),
    })
  }

  /**
   * Sends each new entry that matches to the agent's `observe`, in order and across restarts; once, however often the
   * agent subscribes. The history has the subscription.
   */
  subscribe(agent: Agent, run: RunState, pattern: string): void {
    if (this.subscribeAgain(agent, run, pattern))
      this.#log(run, { type: 'subscribe', sender: agent.index, content: pattern })
  }

  /** The same for a subscription that the history has. Returns false if it stands already. */
  subscribeAgain(agent: Agent, run: RunState, pattern: string): boolean {
    const key = `${agent.index} ${pattern}`
    if (run.subscriptions.has(key)) return false
    const stop = this.#boardInUse(run).subscribe(pattern, (entry) => this.#publish(agent, run, entry))
    run.subscriptions.set(key, stop)
    return true
  }

  /** Writes an entry. The history has it as a message of type publish, also where nobody has subscribed to it. */
  async publish(
    agent: Agent,
    run: RunState,
    { key, value, entryType, options }: Publication,
  ): Promise<BlackboardEntry> {
    const entry = await this.view(run, agent.name).write(key, value, entryType, options)
    if (this.#inHistory.get(entry)?.has(run)) return entry // another write may have come meanwhile
    const message = { type: 'publish' as const, flags: TO_ALL, sender: agent.index, content: key }
    this.#log(run, { ...message, data: JSON.stringify(entry) })
    return entry
  }

  /** Writes a message into the log. Nothing is delivered. */
  #log(run: RunState, message: Pick<FrameFields, 'type' | 'sender' | 'content'> & Partial<FrameFields>): void {
    const { memory, bytes } = this.#core.frames.make({ kind: SEND, step: LOG_ONLY, run: run.index, ...message })
    this.#core.journal.appendOwned(run, memory, bytes)
  }

  #publish(agent: Agent, run: RunState, entry: BlackboardEntry): void {
    const before = run.told?.entry === entry ? run.told : undefined
    if (before?.agents.has(agent.index)) return // another pattern of the same agent fits, too
    const { waits, refuses } = policyOf(agent.settings.mailbox.overflow)
    const drops = !waits && !refuses
    const { memory, bytes } = this.#core.frames.make({
      kind: SEND,
      flags: TO_ALL | (before ? MANY : 0) | (drops ? ASKS : 0),
      type: 'publish',
      sender: this.#core.directory.agent(entry.author, run)?.index ?? 0,
      recipient: agent.index,
      run: run.index,
      content: entry.key,
      data: JSON.stringify(entry),
    })
    if (before) {
      copyId(before.message, 0, memory, 0)
      before.agents.add(agent.index)
    } else {
      run.told = { entry, message: memory, agents: new Set([agent.index]) }
      this.#inHistory.set(entry, (this.#inHistory.get(entry) ?? new Set()).add(run))
    }
    if (!drops) this.#core.team.force(agent.index, bytes)
    this.#core.journal.appendOwned(run, memory, bytes)
    this.#admission.message({ sender: this.#core.directory.byIndex[0]!, run, memory, at: 0 })
  }

  #boardInUse(run: RunState): Board {
    if (this.#settings.scope === 'on_use') run.board ??= this.#newBoard(run)
    const board = this.board(run)
    if (board) return board
    const text = 'This team has no blackboard. Set enableBlackboard: true, or leave it out.'
    throw new ConfigurationError(text, { path: 'enableBlackboard', got: false, accepted: true })
  }

  #newBoard(run: RunState | undefined): Board {
    const board = new Board({
      onCallbackError: (error, entry) =>
        this.#core.logger.error({ key: entry.key, error: describe(error) }, 'a subscriber of the blackboard threw'),
    })
    board.subscribe('**', (entry) => {
      const place = run ? {} : { nth: this.#logged++ }
      this.#core.journal.record(run, { kind: 'blackboard', entry, ...place })
    })
    return board
  }
}

type Publication = Pick<Arguments, 'key' | 'value' | 'entryType' | 'options'>

interface Arguments extends QueryFilter {
  key: string
  value: unknown
  entryType: string
  options?: WriteOptions
  pattern: string
  timeoutMs?: number
}

/*
 * Blackboard for callers outside of the team: its data is free of the team's keys, like all that leaves the team.
 * Agents read the original data.
 */

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
