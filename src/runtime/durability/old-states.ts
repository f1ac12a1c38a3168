/** Fold of the states that turns have left in an earlier process: of agents, of agents in runs, and conversations. */
import { applyPatches, enablePatches, type Patch } from 'immer'
import type { PatchNotice } from '../../actors/definition/assignment.ts'
import type { Conversation } from '../../actors/model/context/conversation.ts'
import { isFailure, jsonIn } from '../../mailbox/codec.ts'
import { attemptOf, BEGINS_AGAIN, flagsOf, kindOf, PATCH, senderOf, turnOf } from '../../mailbox/frame.ts'
import { readBody } from '../../mailbox/frame-body.ts'
import type { Memory } from '../../mailbox/memory.ts'
import type { EndingState } from '../settings/ending-state.ts'
import { NO_TURN } from '../state/cell.ts'
import { Conversations } from '../state/conversations.ts'

enablePatches()

export class OldStates {
  /** States of agents by their index. */
  readonly ofAgents = new Map<number, object>()
  /** Conversations across runs. What looks like one is taken for one: who puts them in place knows the agents. */
  readonly conversations = new Conversations()
  readonly #patches = new Map<string, { attempt: number; notices: PatchNotice[] }>()
  readonly #ofRuns = new Map<number, Map<number, object>>()

  /** States that agents have for a run, by their index. */
  ofRun(run: number): ReadonlyMap<number, object> {
    return this.#ofRuns.get(run) ?? new Map()
  }

  /**
   * Takes a PATCH, which counts with the END of its attempt, or an END. An attempt that has died between the two has
   * left nothing: the next one writes all its PATCHes anew. A PATCH of no turn is the host's, and counts at once.
   */
  frame(memory: Memory, at: number, run: number, threadId: string | undefined): void {
    const agent = senderOf(memory, at)
    const key = `${agent} ${turnOf(memory, at)}`
    const attempt = attemptOf(memory, at)
    const left = this.#patches.get(key)
    if (kindOf(memory, at) === PATCH) {
      const notices = left?.attempt === attempt ? left.notices : []
      const notice = Object(jsonIn(readBody(memory, at).data)) as PatchNotice
      if (turnOf(memory, at) === NO_TURN) return this.#left(agent, run, threadId, notice)
      this.#patches.set(key, { attempt, notices: [...notices, notice] })
      return
    }
    this.#patches.delete(key)
    if (!left || isFailure(memory, at) || (flagsOf(memory, at) & BEGINS_AGAIN) !== 0) return
    // Every PATCH of a log that an earlier version has written says that it is of the first attempt.
    if (left.attempt !== attempt && left.attempt !== 1) return
    for (const notice of left.notices) this.#left(agent, run, threadId, notice)
  }

  /** Applies what a turn has left. As in the process that logged it, what does not fit changes nothing. */
  #left(agent: number, run: number, threadId: string | undefined, notice: PatchNotice): void {
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
      this.conversations.add(agent, threadId, before, after)
  }

  /** Forgets what an agent has that has left: the next one in its place begins without it. */
  forgetAgent(agent: number): void {
    this.ofAgents.delete(agent)
    this.conversations.forget(agent)
    for (const states of this.#ofRuns.values()) states.delete(agent)
    for (const key of this.#patches.keys()) if (key.startsWith(`${agent} `)) this.#patches.delete(key)
  }

  /** Forgets the agents' own states if they end with a session. */
  endSession(ends: readonly EndingState[]): void {
    if (ends.includes('private')) this.ofAgents.clear()
  }

  /** Forgets what agents have for a run that is over. */
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
