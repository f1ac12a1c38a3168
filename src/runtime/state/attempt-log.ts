/**
 * Reads the attempts of one turn from the log of its run. The next attempt uses them, and so does an agent that takes
 * the turn over or helps with it.
 */
import { describeStep, hasEffect, isAnswer, isStep } from '../../actors/turn/replay.ts'
import {
  CALL,
  CHUNK,
  correlationOf,
  END,
  FAILED,
  flagsOf,
  kindOf,
  lengthOf,
  REQUEST,
  recipientOf,
  SEND,
  STEP_BEGAN,
  STEP_DONE,
  STREAM_READ,
  STREAMS,
  senderOf,
  stepOf,
  turnOf,
} from '../../mailbox/frame.ts'
import { readBody } from '../../mailbox/frame-body.ts'
import type { Envelope } from '../../mailbox/mailbox.ts'
import type { Memory } from '../../mailbox/memory.ts'
import { framesOf } from '../log/run-log.ts'
import type { Cell } from './cell.ts'
import type { RunState } from './run-state.ts'

/**
 * Limit on the steps in words, because they travel with a message. Of a longer turn the last steps are kept: the end
 * counts.
 */
const MOST_STEPS = 100

/** Calls that start a turn, give its work away or ask what to do with it. They are not part of the work. */
const ABOUT_IT = /^(handoff|managers$|reassign$|model\.turn$|guard$)/

interface LoggedFrame {
  memory: Memory
  at: number
  bytes: number
}

/** Returns the frames that the next attempt is given: what the turn has done, and the answers that it got. */
export function loggedFrames(cell: Cell, envelope: Envelope<RunState>): LoggedFrame[] {
  const frames: LoggedFrame[] = []
  const sends = new Set<number>()
  const requests = new Set<number>()
  for (const entry of envelope.run.log.entries()) {
    if (entry.kind !== 'frames') continue
    const { memory } = entry
    for (let at = entry.from; at < entry.to; at += lengthOf(memory, at)) {
      const kind = kindOf(memory, at)
      const correlation = correlationOf(memory, at)
      const byIt = senderOf(memory, at) === cell.index && turnOf(memory, at) === envelope.turn
      const forIt = recipientOf(memory, at) === cell.index && (sends.has(correlation) || requests.has(correlation))
      const ended = kind === END && byIt
      const mine =
        (isAnswer(kind) && !ended) || isPiece(cell, memory, at)
          ? forIt
          : byIt && (isStep(kind) || ended || kind === STREAM_READ)
      if (!mine) continue
      if (kind === SEND) sends.add(correlation)
      if (kind === REQUEST || kind === CALL) requests.add(correlation)
      if (ended) requests.clear() // an attempt that ends withdraws its requests: a later answer is for nobody
      frames.push({ memory, at, bytes: lengthOf(memory, at) })
    }
  }
  return frames
}

/** Checks for a piece of an answer that another agent streams to this agent. */
const isPiece = (cell: Cell, memory: Memory, at: number) =>
  kindOf(memory, at) === CHUNK && (flagsOf(memory, at) & STREAMS) !== 0 && senderOf(memory, at) !== cell.index

/** Finds a step that ran in the dead thread itself, had begun, is not logged as finished, and may not run twice. */
export function unknownStep(
  cell: Cell,
  envelope: Envelope<RunState>,
): { kind: 'step' | 'tool'; name: string } | undefined {
  const begun = new Map<number, { kind: 'step' | 'tool'; name: string }>()
  for (const { memory, at } of loggedFrames(cell, envelope)) {
    const kind = kindOf(memory, at)
    if (kind === STEP_BEGAN && flagsOf(memory, at) & FAILED) {
      const { content: name, threadId } = readBody(memory, at)
      begun.set(stepOf(memory, at), { kind: threadId === undefined ? 'step' : 'tool', name })
    }
    if (kind === STEP_DONE) begun.delete(stepOf(memory, at))
  }
  return begun.values().next().value
}

/** Checks whether a part of the model's answer was read already. A repeated model call would begin another answer. */
export function isReadAlready(cell: Cell, envelope: Envelope<RunState>): boolean {
  if (!cell.settings.playedByModel) return false
  return loggedFrames(cell, envelope).some(
    ({ memory, at }) => kindOf(memory, at) === CHUNK && senderOf(memory, at) === cell.index,
  )
}

/** Returns the steps that the turn has made so far, in words. `nameOf` names an agent by its index. */
export function stepsOf(agent: Cell, { run, turn }: Envelope<RunState>, nameOf: (index: number) => string): string[] {
  const steps: string[] = []
  for (const [memory, at] of framesOf(run.log))
    if (senderOf(memory, at) === agent.index && turnOf(memory, at) === turn && isDone(memory, at))
      steps.push(describeStep({ memory, at, kind: kindOf(memory, at) }, nameOf))
  const before = steps.length - MOST_STEPS
  return before > 0 ? [`${before} steps before`, ...steps.slice(before)] : steps
}

const isDone = (memory: Memory, at: number) =>
  hasEffect(kindOf(memory, at)) && !(kindOf(memory, at) === CALL && ABOUT_IT.test(readBody(memory, at).content))
