/** What turns of an earlier process have left of their states. */
import t from 'tap'
import {
  allocate,
  BLANK,
  END,
  FAILED,
  type FrameFields,
  frameBytes,
  PATCH,
  writeFrame,
} from '../../src/mailbox/frame.ts'
import { RecoveredStates } from '../../src/runtime/durability/recovered-run.ts'

const AGENT = 3
const RUN = 1

/** A fold that has seen these frames, all of one turn. */
function foldOf(...frames: Partial<FrameFields>[]): RecoveredStates {
  const states = new RecoveredStates()
  for (const each of frames) {
    const fields = { ...BLANK, sender: AGENT, run: RUN, turn: 7, ...each }
    const memory = allocate(frameBytes(fields))
    writeFrame(memory, 0, fields, 0)
    states.frame(memory, 0, RUN, undefined)
  }
  return states
}

const patch = (attempt: number, scope: 'agent' | 'run', value: string): Partial<FrameFields> => ({
  kind: PATCH,
  attempt,
  data: JSON.stringify({ scope, base: {}, patches: [{ op: 'add', path: ['seen'], value }] }),
})
const end = (attempt: number, flags = 0): Partial<FrameFields> => ({ kind: END, attempt, flags })

t.test('what a turn leaves counts once it has ended', async (t) => {
  const states = foldOf(patch(1, 'agent', 'a'), patch(1, 'run', 'r'), end(1))
  t.same(states.ofAgents.get(AGENT), { seen: 'a' })
  t.same(states.ofRun(RUN).get(AGENT), { seen: 'r' })
  t.notOk(foldOf(patch(1, 'agent', 'a')).ofAgents.has(AGENT), 'a turn without an end has left nothing')
  t.notOk(foldOf(patch(1, 'agent', 'a'), end(1, FAILED)).ofAgents.has(AGENT), 'nor has one that failed')
})

t.test('an attempt that died between what it left and its end has left nothing', async (t) => {
  const list = (attempt: number): Partial<FrameFields> => ({
    kind: PATCH,
    attempt,
    data: JSON.stringify({
      scope: 'run',
      base: { notes: [] },
      patches: [{ op: 'add', path: ['notes', 0], value: 'n' }],
    }),
  })
  const twice = foldOf(list(1), list(2), end(2))
  t.same(twice.ofRun(RUN).get(AGENT), { notes: ['n'] }, 'the next attempt leaves it once')
  t.same(foldOf(list(1), list(2), list(3), end(3)).ofRun(RUN).get(AGENT), { notes: ['n'] })
  t.notOk(foldOf(patch(2, 'agent', 'a'), end(3)).ofAgents.has(AGENT), 'the next attempt leaves nothing')
})

t.test('a log of an earlier version, in which all that a turn left is of the first attempt, is read', async (t) => {
  t.same(foldOf(patch(1, 'agent', 'a'), end(2)).ofAgents.get(AGENT), { seen: 'a' })
})
