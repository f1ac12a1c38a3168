/** What the log of a run has of the attempts of one turn: for the next attempt, and for who is to go on with the turn or to help. */
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

/** The steps in words travel with a message: of a turn that has done more it is the end that counts. */
const MOST_STEPS = 100

/** How the turn begins, gives its work away, or asks what to do with it, is none of that work. */
const ABOUT_IT = /^(handoff|managers$|reassign$|model\.turn$)/

interface LoggedFrame {
  memory: Memory
  at: number
  bytes: number
}

/** The frames that the next attempt is given: what the turn has done, and what it was answered. */
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
      if (ended) requests.clear() // an attempt that ends withdraws them: what comes later is for nobody
      frames.push({ memory, at, bytes: lengthOf(memory, at) })
    }
  }
  return frames
}

/** A piece of an answer that somebody else streams to this agent. */
const isPiece = (cell: Cell, memory: Memory, at: number) =>
  kindOf(memory, at) === CHUNK && (flagsOf(memory, at) & STREAMS) !== 0 && senderOf(memory, at) !== cell.index

/** A step that ran in the dead thread itself, had begun, is not logged as finished, and may not run twice. */
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

/** A model that is asked again begins another answer, and of this one somebody has read a part. */
export function isReadAlready(cell: Cell, envelope: Envelope<RunState>): boolean {
  if (!cell.settings.playedByModel) return false
  return loggedFrames(cell, envelope).some(
    ({ memory, at }) => kindOf(memory, at) === CHUNK && senderOf(memory, at) === cell.index,
  )
}

/** The steps that the turn has made so far, in words. `nameOf` names an agent by its index. */
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
