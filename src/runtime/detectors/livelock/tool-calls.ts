/** Reads calls of tools from the frames of a run: the agent, the tool, the input, and the outcome. */
import { hashOf } from '../../../actors/definition/hash-of.ts'
import { errorOf, isFailure, jsonIn } from '../../../mailbox/codec.ts'
import {
  CALL,
  correlationOf,
  flagsOf,
  HAS_THREAD,
  isPolling,
  kindOf,
  RESULT,
  recipientOf,
  STEP_BEGAN,
  STEP_DONE,
  senderOf,
  stepOf,
  timeOf,
  turnOf,
} from '../../../mailbox/frame.ts'
import { readBody } from '../../../mailbox/frame-body.ts'
import type { Memory } from '../../../mailbox/memory.ts'
import { BoundedMap } from '../../log/bounded-map.ts'
import type { Moment } from './signs.ts'

/** Call that has ended. Its question and its answer are hashes; that of the question includes the agent. */
export interface ToolDone {
  readonly agent: number
  readonly tool: string
  readonly action: string
  readonly outcome: string
  readonly failed: boolean
  readonly polling: boolean
  readonly asked: Moment
}

type Asked = Omit<ToolDone, 'outcome' | 'failed'>

export class ToolNews {
  /** Calls that have no answer yet, by the correlation or the step of each. */
  readonly #asked: BoundedMap<string, Asked>

  constructor(mostOpen: number) {
    this.#asked = new BoundedMap(mostOpen)
  }

  /** Returns the call that a frame ends; undefined for other frames. `seq` is the place of the frame in the log. */
  of(memory: Memory, at: number, seq: number): ToolDone | undefined {
    switch (kindOf(memory, at)) {
      case CALL: {
        const { content, data } = readBody(memory, at)
        const call: { name?: unknown; input?: unknown; polling?: unknown } = Object(
          content === 'tool' ? jsonIn(data) : undefined,
        )
        if (typeof call.name !== 'string') return undefined
        const key = callKey(senderOf(memory, at), memory, at)
        this.#ask(key, call.name, JSON.stringify(call.input) ?? '', call.polling === true, memory, at, seq)
        return undefined
      }
      case RESULT:
        return this.#answered(callKey(recipientOf(memory, at), memory, at), memory, at)
      case STEP_BEGAN: {
        if ((flagsOf(memory, at) & HAS_THREAD) === 0) return undefined
        const { content, data = '' } = readBody(memory, at)
        this.#ask(stepKey(memory, at), content, data, isPolling(memory, at), memory, at, seq)
        return undefined
      }
      case STEP_DONE:
        return (flagsOf(memory, at) & HAS_THREAD) === 0 ? undefined : this.#answered(stepKey(memory, at), memory, at)
      default:
        return undefined
    }
  }

  #ask(key: string, tool: string, input: string, polling: boolean, memory: Memory, at: number, seq: number): void {
    const agent = senderOf(memory, at)
    const action = hashOf('tool', `${agent}`, tool, input)
    this.#asked.set(key, { agent, tool, action, polling, asked: { seq, at: timeOf(memory, at) } })
  }

  #answered(key: string, memory: Memory, at: number): ToolDone | undefined {
    const asked = this.#asked.get(key)
    this.#asked.delete(key)
    if (!asked) return undefined
    if (!isFailure(memory, at)) return { ...asked, failed: false, outcome: hashOf(readBody(memory, at).data ?? '') }
    const { code, message } = errorOf(memory, at)
    return { ...asked, failed: true, outcome: hashOf(code, message) }
  }
}

const callKey = (agent: number, memory: Memory, at: number) => `${agent} ${correlationOf(memory, at)}`
const stepKey = (memory: Memory, at: number) =>
  `${senderOf(memory, at)} ${turnOf(memory, at)} step ${stepOf(memory, at)}`
