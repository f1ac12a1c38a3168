/** The verbs that the host itself serves: the blackboard, subscriptions, sync points, decisions. Each is a logged step of its caller. */
import { ACKNOWLEDGE, isVerb, type Verb } from '../../actors/definition/trust.ts'
import type { EscalationView } from '../../actors/turn/escalate.ts'
import { Board } from '../../blackboard/board.ts'
import type { Blackboard, BlackboardEntry, WriteOptions } from '../../blackboard/entry.ts'
import { hostBlackboard } from '../../blackboard/facade.ts'
import { AgentFailedError, ConfigurationError, DramatisError, describe, errorData } from '../../errors.ts'
import { jsonIn } from '../../mailbox/codec.ts'
import {
  ASKS,
  CHUNK,
  correlationOf,
  FAILED,
  MANY,
  RESULT,
  SEND,
  SIGNALLED,
  STREAMS,
  TO_ALL,
  turnOf,
  waitingOf,
} from '../../mailbox/frame.ts'
import { readBody } from '../../mailbox/frame-body.ts'
import { copyId } from '../../mailbox/frame-id.ts'
import type { Memory } from '../../mailbox/memory.ts'
import { jsonIssue } from '../../mailbox/message.ts'
import { managersOf } from '../admission/managers.ts'
import { callRefusal } from '../admission/trust.ts'
import { refused } from '../checks/refused.ts'
import type { BlackboardScope } from '../settings/settings.ts'
import type { Cell, OpenCall } from '../state/cell.ts'
import type { Core, Serving } from '../state/core.ts'
import type { RunState } from '../state/run-state.ts'
import { stepsOf } from '../state/turn-steps.ts'
import { Handoffs } from '../tasks/handoffs.ts'
import { Reassignments } from '../tasks/reassignments.ts'
import { HostTools, type ToolCall, type ToolWaiter } from '../tools/host-tools.ts'
import { watch } from './death-watch.ts'
import { OWN_WORK } from './own-work.ts'
import { askPerson } from './questions.ts'
import type { Waiter } from './sync-rules.ts'

/** A turn that waits for a verb. */
export interface HostCaller extends Waiter {
  readonly run: RunState
  /** A piece of the answer, before the answer: a turn that is tried again gets it again. */
  say(piece: string): void
}

/** A verb that is served elsewhere. `args` are JSON from a thread. */
export type HostVerb = (args: unknown, caller: HostCaller, signal: AbortSignal) => Promise<unknown>

export class HostCalls implements Serving {
  readonly #core: Core
  /** Verbs that others serve, by the operation. */
  readonly verbs = new Map<Verb, HostVerb>()
  boardScope: BlackboardScope = false
  waitTimeoutMs = 600_000
  /** Makes an agent of the role that another one gives; its name. */
  spawn: (run: RunState, role: object) => Promise<string> = () =>
    Promise.reject(new ConfigurationError('spawn: there is no team to make agents for.', { path: 'spawn' }))
  /** Whether somebody can have a handle of that run. */
  mayBeAnswered: (run: RunState) => boolean = () => true
  /** Makes one of the type that another one defines, and keeps the type; its name. */
  define: (by: Cell, run: RunState, type: object) => Promise<string> = () =>
    Promise.reject(new ConfigurationError('define: there is no team to define agents for.', { path: 'define' }))
  readonly #handoffs: Handoffs
  readonly #reassignments: Reassignments
  readonly tools: HostTools
  #teamBoard: Board | undefined

  constructor(core: Core) {
    this.#core = core
    this.#handoffs = new Handoffs(core)
    this.#reassignments = new Reassignments(core)
    this.tools = new HostTools(core, (waiter, question, signal) => this.#ask(waiter, question, signal))
  }

  serve(cell: Cell, run: RunState, memory: Memory, at: number): void {
    const correlation = correlationOf(memory, at)
    const turn = turnOf(memory, at)
    const { content: operation, data } = readBody(memory, at)
    const args = (data === undefined ? {} : jsonIn(data)) as Arguments
    const withdrawn = new AbortController()
    const settle = (result: unknown, error: DramatisError | undefined) => {
      if (!cell.calls.delete(correlation)) return
      const fields = { kind: RESULT, sender: 0, recipient: cell.index, run: run.index, turn, correlation }
      const text = error ? JSON.stringify(errorData(error)) : result === undefined ? undefined : JSON.stringify(result)
      const frame = this.#core.frames.make({
        ...fields,
        flags: error ? FAILED : 0,
        ...(text !== undefined && { data: text }),
      })
      this.#core.appendOwned(run, frame.memory, frame.bytes)
      this.#core.delivery.reply(cell, frame)
    }
    cell.calls.set(correlation, {
      turn,
      since: this.#core.clock.now(),
      withdrawn,
      isOwnWork: OWN_WORK.has(operation),
      waitsFor: waitingOf(memory, at) & SIGNALLED ? undefined : waitsFor(operation, args),
      fail: (error) => {
        settle(undefined, error)
        withdrawn.abort()
      },
    })
    const caller = { cell, turn, correlation, run, say: (piece: string) => this.#say(caller, piece) }
    this.#perform(operation, args, run, caller, withdrawn.signal).then(
      (result) => settle(result, undefined),
      (error: unknown) =>
        settle(
          undefined,
          error instanceof DramatisError ? error : new AgentFailedError(`${operation}: ${describe(error)}`, {}, error),
        ),
    )
  }

  #say({ cell, run, turn, correlation }: Omit<HostCaller, 'say'>, piece: string): void {
    if (!cell.calls.has(correlation)) return
    const fields = { kind: CHUNK, flags: STREAMS, recipient: cell.index, run: run.index, turn, correlation }
    const frame = this.#core.frames.make({ ...fields, sender: 0, content: piece })
    this.#core.appendOwned(run, frame.memory, frame.bytes)
    this.#core.delivery.reply(cell, frame)
  }

  /** The turn no longer waits for its verb. */
  cancel(cell: Cell, correlation: number): void {
    const call = cell.calls.get(correlation)
    cell.calls.delete(correlation)
    call?.withdrawn.abort()
  }

  async #perform(
    operation: string,
    args: Arguments,
    run: RunState,
    caller: HostCaller,
    signal: AbortSignal,
  ): Promise<unknown> {
    const { cell, turn } = caller
    const distrust = callRefusal(this.#core, cell, operation)
    if (distrust) throw distrust
    if (!isVerb(operation)) throw noSuchVerb(operation)
    const verb = this.verbs.get(operation)
    const serve = () => verb!(args, caller, signal)
    if (verb) return operation === 'model' ? this.#core.pauses.during(caller, serve) : serve()
    switch (operation) {
      case 'blackboard.write':
        return this.#writeAs(cell.name, run, args)
      case 'blackboard.read':
        return this.view(run, cell.name).read(args.key)
      case 'blackboard.query':
        return this.view(run, cell.name).query(args)
      case 'blackboard.history':
        return this.view(run, cell.name).getHistory(args.key)
      case 'blackboard.waitFor':
        return this.view(run, cell.name).waitFor(args.key, {
          signal,
          ...(args.timeoutMs !== undefined && { timeoutMs: args.timeoutMs }),
        })
      case 'subscribe':
        return this.subscribe(cell, run, args.pattern)
      case 'ask':
        return this.#ask(caller, args, signal)
      case 'watch':
        return watch(this.#core, cell, run, this.#agent(args.agent, run))
      case 'sync':
        return this.#core.syncPoints.arrive(run, args.point, caller, args.data, signal)
      case 'synced':
        return this.#core.syncPoints.watch(run, args.point, caller, signal)
      case 'tool':
        return this.tools.call(caller, args as Partial<ToolCall>, signal)
      case 'tool.simulated':
        return this.tools.isSimulated(run, args)
      case 'spawn':
        return this.spawn(run, args)
      case 'define':
        return this.define(cell, run, args)
      case 'managers':
        return this.#managers(cell, run, turn)
      case 'reassign':
        return this.#reassignments.reassign(cell, run, turn, args, signal)
      case 'handoff':
        return this.#handoffs.handOff(cell, run, turn, args, signal)
      case ACKNOWLEDGE:
        return this.#handoffs.acknowledged(cell, turn)
      case 'decide':
        this.#decide(run, args)
        return undefined
      default:
        throw noSuchVerb(operation)
    }
  }

  /** Whom the turn may ask what to do, and what it has done so far, for them to know. */
  #managers(cell: Cell, run: RunState, turn: number): EscalationView {
    const own = cell.holderOf(turn)?.mailbox.handed.get(turn)
    return { managers: managersOf(this.#core, cell, run), done: own ? stepsOf(this.#core, cell, own) : [] }
  }

  #ask(waiter: ToolWaiter, args: object, signal: AbortSignal): Promise<string> {
    const { cell, run } = waiter
    if (this.mayBeAnswered(run))
      return this.#core.pauses.during(waiter, () => askPerson(this.#core, cell, run, args, signal))
    const text = `ask: nobody can answer agent "${cell.name}" here: a message from outside of any run began this turn. Ask in a run, which has a handle with answer().`
    throw new ConfigurationError(text, { path: 'ask', agent: cell.name })
  }

  #decide(run: RunState, { question, choice, reason }: Arguments): void {
    for (const [path, value] of Object.entries({ question, choice, reason }))
      if (typeof value !== 'string') throw refused(path, value, 'a string')
    this.#core.record(run, { kind: 'decision', question, choice, reason })
  }

  #agent(name: string, run: RunState): Cell {
    const cell = this.#core.cell(name, run) ?? this.#core.newcomer(name)
    if (cell?.settings.counted) return cell
    throw this.#core.admission.unknown(name, run)
  }

  #writeAs(author: string, run: RunState, { key, value, entryType, options }: Arguments): Promise<BlackboardEntry> {
    return this.view(run, author).write(key, value, entryType, options)
  }

  /** The board of the run, if it has one by now. */
  board(run: RunState): Board | undefined {
    if (this.boardScope === 'team') {
      this.#teamBoard ??= this.#newBoard(undefined)
      run.board = this.#teamBoard
    }
    if (this.boardScope === 'run') run.board ??= this.#newBoard(run)
    return run.board
  }

  /** Other runs may write on its board, too. */
  sharesBoard(run: RunState): boolean {
    if (run.board === undefined || run.board !== this.#teamBoard) return false
    for (const other of this.#core.runs.values()) if (other !== run && other.board === run.board) return true
    return false
  }

  /** The board of the run, for somebody who uses it. */
  #boardInUse(run: RunState): Board {
    if (this.boardScope === 'on_use') run.board ??= this.#newBoard(run)
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
    board.subscribe('**', (entry) => this.#core.record(run, { kind: 'blackboard', entry }))
    return board
  }

  /** The board as somebody sees it. */
  view(run: RunState, author: string): Blackboard {
    return hostBlackboard(this.#boardInUse(run), {
      author,
      scheduler: this.#core.clock,
      check: jsonIssue,
      waitTimeoutMs: this.waitTimeoutMs,
      signal: run.boardOver.signal,
    })
  }

  /** From now on what matches is sent to that agent's `observe`, in order, over restarts; once, however often it asks. */
  subscribe(cell: Cell, run: RunState, pattern: string): void {
    const key = `${cell.index} ${pattern}`
    if (run.subscriptions.has(key)) return
    const stop = this.#boardInUse(run).subscribe(pattern, (entry) => {
      const drops = cell.settings.mailbox.overflow.startsWith('drop')
      const first = run.told?.entry === entry ? run.told.message : undefined
      const { memory, bytes } = this.#core.frames.make({
        kind: SEND,
        flags: TO_ALL | (first ? MANY : 0) | (drops ? ASKS : 0),
        type: 'publish',
        sender: this.#core.cell(entry.author, run)?.index ?? 0,
        recipient: cell.index,
        run: run.index,
        content: entry.key,
        data: JSON.stringify(entry),
      })
      if (first) copyId(first, 0, memory, 0)
      else run.told = { entry, message: memory }
      if (!drops) this.#core.team.force(cell.index, bytes)
      this.#core.appendOwned(run, memory, bytes)
      this.#core.admission.message(this.#core.cells[0]!, run, memory, 0, undefined)
    })
    run.subscriptions.set(key, stop)
  }
}

const noSuchVerb = (operation: string) => new ConfigurationError(`${operation}: no such verb.`, { path: operation })

/** What only the agents themselves can end. A sync point has a time limit, which does not excuse a cycle. */
function waitsFor(operation: string, { key, timeoutMs, point, to }: Arguments): OpenCall['waitsFor'] {
  if (operation === 'handoff' || operation === 'reassign') return { kind: 'handoff', name: to }
  if (operation === 'blackboard.waitFor' && timeoutMs === undefined) return { kind: 'blackboard', name: key }
  return operation === 'sync' || operation === 'synced' ? { kind: 'sync', name: point } : undefined
}

interface Arguments {
  agent: string
  key: string
  value: unknown
  entryType: string
  options?: WriteOptions
  pattern: string
  timeoutMs?: number
  point: string
  to: string
  data: unknown
  question: string
  choice: string
  reason: string
}
