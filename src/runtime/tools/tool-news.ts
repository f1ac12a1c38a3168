/** What the frames of a run say of the results of tools: each with its question, so that "ok" for the next item is news. */
import { isFailure, jsonIn } from '../../mailbox/codec.ts'
import {
  CALL,
  correlationOf,
  flagsOf,
  HAS_THREAD,
  kindOf,
  RESULT,
  recipientOf,
  STEP_BEGAN,
  STEP_DONE,
  senderOf,
  stepOf,
  turnOf,
} from '../../mailbox/frame.ts'
import { readBody } from '../../mailbox/frame-body.ts'
import type { Memory } from '../../mailbox/memory.ts'
import { BoundedMap } from '../bounded-map.ts'
import { hashOf } from '../news.ts'

export class ToolNews {
  /** What is asked of tools and has no answer yet, in short, by the wait or the step that it is. */
  readonly #asked: BoundedMap<string, string>

  constructor(mostOpen: number) {
    this.#asked = new BoundedMap(mostOpen)
  }

  /** Who asked a tool for what, and what it gave; undefined for a frame that ends no call of a tool, or one that failed. */
  of(memory: Memory, at: number): readonly string[] | undefined {
    switch (kindOf(memory, at)) {
      case CALL: {
        const { content, data } = readBody(memory, at)
        const { name, input } = Object(content === 'tool' ? jsonIn(data) : undefined) as {
          name?: string
          input?: unknown
        }
        if (name) this.#asked.set(callKey(senderOf(memory, at), memory, at), hashOf(name, JSON.stringify(input) ?? ''))
        return undefined
      }
      case RESULT:
        return this.#answered(callKey(recipientOf(memory, at), memory, at), recipientOf(memory, at), memory, at)
      case STEP_BEGAN: {
        if ((flagsOf(memory, at) & HAS_THREAD) === 0) return undefined
        const { content, data } = readBody(memory, at)
        this.#asked.set(stepKey(memory, at), hashOf(content, data ?? ''))
        return undefined
      }
      case STEP_DONE:
        if ((flagsOf(memory, at) & HAS_THREAD) === 0) return undefined
        return this.#answered(stepKey(memory, at), senderOf(memory, at), memory, at)
      default:
        return undefined
    }
  }

  #answered(key: string, agent: number, memory: Memory, at: number): readonly string[] | undefined {
    const asked = this.#asked.get(key)
    this.#asked.delete(key)
    if (asked === undefined || isFailure(memory, at)) return undefined
    return ['tool', `${agent}`, asked, readBody(memory, at).data ?? '']
  }
}

const callKey = (agent: number, memory: Memory, at: number) => `${agent} ${correlationOf(memory, at)}`
const stepKey = (memory: Memory, at: number) =>
  `${senderOf(memory, at)} ${turnOf(memory, at)} step ${stepOf(memory, at)}`
