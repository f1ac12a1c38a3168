/** Table of the verbs that the host serves. Each call is a logged step of its caller. */

import type { Logger } from '../../actors/definition/logger.ts'
import { OWN_WORK } from '../../actors/definition/own-work.ts'
import { isVerb, type Verb } from '../../actors/definition/trust.ts'
import type { Scheduler } from '../../clock.ts'
import { AgentFailedError, ConfigurationError, DramatisError, describe, errorData } from '../../errors.ts'
import { jsonIn } from '../../mailbox/codec.ts'
import { CHUNK, correlationOf, FAILED, RESULT, SIGNALLED, STREAMS, turnOf, waitingOf } from '../../mailbox/frame.ts'
import { readBody } from '../../mailbox/frame-body.ts'
import { idOf } from '../../mailbox/frame-id.ts'
import type { Memory } from '../../mailbox/memory.ts'
import { callRefusal } from '../admission/trust.ts'
import type { ReplyLane } from '../dispatch/reply-lane.ts'
import type { HostFrames } from '../log/host-frames.ts'
import { subjectOf } from '../state/call-subject.ts'
import type { Cell, OpenCall } from '../state/cell.ts'
import type { Journal } from '../state/journal.ts'
import type { RunState } from '../state/run-state.ts'
import type { HostCaller, HostVerb } from './host-verb.ts'

interface Needs {
  readonly clock: Scheduler
  readonly frames: HostFrames
  readonly journal: Journal
  readonly logger: Logger
  readonly replies: ReplyLane
}

/** Call that an earlier process has not answered. */
interface EarlierCall {
  /** Time for which its turn has waited there, in ms. */
  readonly passedMs: number
  /** Resolves when it can be served; it may be withdrawn by then. */
  readonly ready?: Promise<void>
}

export class HostCalls {
  readonly #needs: Needs
  /** Verbs by operation. */
  readonly verbs = new Map<Verb, HostVerb>()

  constructor(needs: Needs) {
    this.#needs = needs
  }

  /** Adds verbs to the table. */
  register(verbs: Iterable<readonly [Verb, HostVerb]>): void {
    for (const [operation, verb] of verbs) this.verbs.set(operation, verb)
  }

  /** Replaces each verb of the table by what `around` makes of it. */
  wrap(around: (operation: Verb, verb: HostVerb) => HostVerb): void {
    for (const [operation, verb] of this.verbs) this.verbs.set(operation, around(operation, verb))
  }

  /** Serves a call. `earlier`: set if an earlier process was asked. */
  serve(cell: Cell, run: RunState, memory: Memory, at: number, earlier?: EarlierCall): void {
    const correlation = correlationOf(memory, at)
    const turn = turnOf(memory, at)
    const { content: operation, data } = readBody(memory, at)
    const args = (data === undefined ? {} : jsonIn(data)) as Arguments & Record<string, unknown>
    const withdrawn = new AbortController()
    const settle = (result: unknown, error: DramatisError | undefined) => {
      if (!cell.calls.delete(correlation)) return
      const fields = { kind: RESULT, sender: 0, recipient: cell.index, run: run.index, turn, correlation }
      const text = error ? JSON.stringify(errorData(error)) : result === undefined ? undefined : JSON.stringify(result)
      const frame = this.#needs.frames.make({
        ...fields,
        flags: error ? FAILED : 0,
        ...(text !== undefined && { data: text }),
      })
      this.#needs.journal.appendOwned(run, frame.memory, frame.bytes)
      this.#needs.replies.reply(cell, frame)
    }
    cell.calls.set(correlation, {
      turn,
      since: this.#needs.clock.now(),
      verb: operation,
      subject: subjectOf(args),
      withdrawn,
      isOwnWork: OWN_WORK.has(operation),
      ofPerson: false,
      waitsFor: waitingOf(memory, at) & SIGNALLED ? undefined : waitsFor(operation, args),
      fail: (error) => {
        settle(undefined, error)
        withdrawn.abort()
      },
    })
    const callId = idOf(memory, at)
    const { ready, passedMs = 0 } = earlier ?? {}
    const say = (piece: string) => this.#say({ cell, turn, correlation, run }, piece)
    const caller = { cell, turn, correlation, run, callId, passedMs, isAgain: earlier !== undefined, say }
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
    { cell, run, turn, correlation }: Pick<HostCaller, 'cell' | 'run' | 'turn' | 'correlation'>,
    piece: string,
  ): void {
    if (!cell.calls.has(correlation)) return
    const fields = { kind: CHUNK, flags: STREAMS, recipient: cell.index, run: run.index, turn, correlation }
    const frame = this.#needs.frames.make({ ...fields, sender: 0, content: piece })
    this.#needs.journal.appendOwned(run, frame.memory, frame.bytes)
    this.#needs.replies.reply(cell, frame)
  }

  async #perform(operation: string, args: unknown, caller: HostCaller, signal: AbortSignal): Promise<unknown> {
    const distrust = callRefusal(this.#needs.logger, caller.cell, operation)
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
