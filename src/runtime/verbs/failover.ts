/** Asks the models of a list (`models.<name>.anyOf`) in their order, until one has an answer. */

import type { Scheduler } from '../../shared/clock.ts'
import { type DramatisError, ModelError } from '../../shared/errors.ts'
import type { RunState } from '../host/run.ts'
import type { Unrecorded } from '../log/records.ts'
import { type ModelList, markedAnswer, messagesFor, type SwitchReason } from '../providers/failover.ts'
import { failingOf } from '../providers/model-errors.ts'
import type { ResolvedModel } from '../providers/provider.ts'
import type { GatewayLayer, MadeCall, MakeCall, PendingCall } from './gateway.ts'

interface Needs {
  readonly clock: Scheduler
  readonly record: (run: RunState, record: Unrecorded) => void
}

type Asked = Pick<PendingCall, 'caller' | 'call' | 'signal'>

interface OfList extends Needs {
  readonly list: ModelList<ResolvedModel>
  readonly make: MakeCall
}

/** Returns the layer of the gateway that asks the models of a list. Each goes through the layers within. */
export const failoverLayer =
  (needs: Needs): GatewayLayer =>
  (pending, make) =>
    pending.list ? askedOfList(pending, { ...needs, list: pending.list, make }) : make(pending)

/** Pause before another model speaks to who has read words of the one before, as between two attempts. */
const PASSED_ON_MS = 250

/** Fails of models, each once, in the order in which they were asked. */
type Tried = Map<string, { readonly reason: string; readonly words: string }>

/**
 * Asks the models of the list. Each is left as soon as a pause would be longer than the patience of the list; behind
 * the last the first has all the time that a model alone has.
 */
async function askedOfList(asked: Asked, { list, make, record, clock }: OfList): Promise<MadeCall> {
  const { caller, call, signal } = asked
  const { run, agent } = caller
  const began = clock.monotonic()
  const leftMs = () => Math.max(1, agent.settings.modelTimeoutMs - (clock.monotonic() - began))
  const messageId = agent.messageIdOf(caller.turn) ?? ''
  const tried: Tried = new Map()
  const goTo = (from: number, to: number, reason: SwitchReason, heard = 0) => {
    const names = { entry: list.name, from: list.all[from]!.name, to: list.all[to]!.name }
    run.speaking.set(list.name, names.to)
    record(run, { kind: 'model.switched', agent: agent.name, messageId, ...names, reason, heard })
  }
  const ask = (at: number, isVoid: boolean, canAnother: boolean): Promise<MadeCall> => {
    const listed = list.all[at]!
    if (listed.model.client.rehearsal) run.rehearsed = true
    return make({
      ...listed.model,
      caller: isVoid ? { ...caller, isAgain: true, isRetried: true } : caller,
      call: { ...call, messages: messagesFor(call.messages, listed, at === 0) },
      signal,
      timeoutMs: leftMs(),
      ...(canAnother && { patienceMs: list.patienceMs }),
      ...(canAnother && list.silenceMs !== undefined && { silenceMs: list.silenceMs }),
      ...(at > 0 && { listed: listed.name }),
    })
  }
  const known = list.all.findIndex(({ name }) => name === run.speaking.get(list.name))
  const begin = known < 0 ? list.begin() : { at: known, isTrial: false, reason: undefined }
  if (begin.reason) goTo(0, begin.at, begin.reason)
  let { at } = begin
  let [isVoid, isLast] = [false, false]
  /** The first may answer if it is given more time. */
  let mayWait = at > 0
  try {
    for (;;) {
      const isEnd = at === list.all.length - 1
      const made = await ask(at, isVoid, !isLast && (!isEnd || mayWait))
      const { answer, error, heard } = made
      const { name } = list.all[at]!
      if (answer) {
        run.speaking.set(list.name, name)
        list.answered(at)
        return { ...made, answer: markedAnswer(answer, name) }
      }
      tried.set(name, { reason: error?.modelFailure?.reason ?? 'other', words: wordsOf(name, error) })
      if (at === 0) mayWait = mayComeBack(error)
      // Readers of the run are told which words do not count; others cannot take back what they have read.
      const isRead = call.watched?.answerOf !== 'run' && made.isRead === true
      const reason = signal.aborted || isRead ? undefined : list.reasonIn(error, heard !== undefined)
      const next = isLast ? undefined : !isEnd ? at + 1 : mayWait ? 0 : undefined
      if (reason === undefined || next === undefined)
        return tried.size === 1 ? made : { ...made, error: joined(error, list.name, tried) }
      list.switched(at, next, reason)
      goTo(at, next, reason, heard)
      isLast = isEnd
      isVoid ||= heard !== undefined
      // Words reach the readers of the answer later than those of the run: another model speaks behind both.
      if (call.stream && heard !== undefined) await clock.sleep(PASSED_ON_MS, signal)
      at = next
    }
  } finally {
    if (begin.isTrial) list.left()
  }
}

function mayComeBack(error: DramatisError | undefined): boolean {
  const { retryable, retryAfterMs } = failingOf(error)
  return retryable || retryAfterMs !== undefined || error?.modelFailure?.reason === 'timeout'
}

function wordsOf(name: string, error: DramatisError | undefined): string {
  const failure = error?.modelFailure
  if (!failure) return `${name} (${error?.code ?? 'no answer'})`
  const { reason, retryAfterMs } = failure
  const pause = retryAfterMs === undefined ? '' : `, asks for ${Math.ceil(retryAfterMs / 1_000)} s`
  return `${name} (${reason}${pause})`
}

function joined(error: DramatisError | undefined, list: string, tried: Tried) {
  if (!(error instanceof ModelError)) return error
  const words = Array.from(tried.values(), (each) => each.words).join(', ')
  const models = Array.from(tried, ([model, { reason }]) => ({ model, reason }))
  return new ModelError(`No model of "${list}" answered: ${words}. ${error.message}`, {
    ...error.details,
    tried: models,
  })
}
