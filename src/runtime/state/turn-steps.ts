/** What a turn has done so far, in words: for who is to go on with it, or to help. */
import { describeStep, hasEffect } from '../../actors/turn/replay.ts'
import { CALL, kindOf, senderOf, turnOf } from '../../mailbox/frame.ts'
import { readBody } from '../../mailbox/frame-body.ts'
import type { Envelope } from '../../mailbox/mailbox.ts'
import type { Memory } from '../../mailbox/memory.ts'
import { framesOf } from '../log/run-log.ts'
import type { Cell } from './cell.ts'
import type { Core } from './core.ts'
import type { RunState } from './run-state.ts'

/** It travels with a message: of a turn that has done more it is the end that counts. */
const MOST_STEPS = 100

/** How the turn begins, gives its work away, or asks what to do with it, is none of that work. */
const ABOUT_IT = /^(handoff|managers$|reassign$|model\.turn$)/

export function stepsOf(core: Core, agent: Cell, { run, turn }: Envelope<RunState>): string[] {
  const steps: string[] = []
  for (const [memory, at] of framesOf(run.log))
    if (senderOf(memory, at) === agent.index && turnOf(memory, at) === turn && isDone(memory, at))
      steps.push(describeStep({ memory, at, kind: kindOf(memory, at) }, (index) => core.name(index)))
  const before = steps.length - MOST_STEPS
  return before > 0 ? [`${before} steps before`, ...steps.slice(before)] : steps
}

const isDone = (memory: Memory, at: number) =>
  hasEffect(kindOf(memory, at)) && !(kindOf(memory, at) === CALL && ABOUT_IT.test(readBody(memory, at).content))
