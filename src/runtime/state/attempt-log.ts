/**
 * Reads the attempts of one turn from the log of its run. The next attempt uses them, and so does an agent that takes
 * the turn over or helps with it.
 */
import { describeStep, hasEffect } from '../../actors/turn/logged-step.ts'
import {
  CALL,
  CHUNK,
  FAILED,
  flagsOf,
  kindOf,
  STEP_BEGAN,
  STEP_DONE,
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
import { type LoggedFrame, TurnFrames } from './turn-frames.ts'

/**
 * Limit on the steps in words, because they travel with a message. Of a longer turn the last steps are kept: the end
 * counts.
 */
const MOST_STEPS = 100

/** Calls that start a turn, give its work away or ask what to do with it. They are not part of the work. */
const ABOUT_IT = /^(handoff|managers$|reassign$|model\.turn$|guard$)/

/** Returns the frames that the next attempt is given: what the turn has done, and the answers that it got. */
export function loggedFrames(cell: Cell, envelope: Envelope<RunState>): LoggedFrame[] {
  const { run, turn } = envelope
  const found = new TurnFrames(cell.index, turn, run.reread.get(envelope))
  for (const entry of run.log.entries(found.to)) found.see(entry)
  return found.frames
}

/** Checks whether the log in memory has given up entries from the time of that turn, and nobody has read them again. */
export function isForgotten(envelope: Envelope<RunState>): boolean {
  const { run, handedSeq } = envelope
  const { forgottenTo } = run.log
  return forgottenTo >= handedSeq && (run.reread.get(envelope)?.to ?? -1) < forgottenTo
}

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
