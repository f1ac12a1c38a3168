/**
 * A turn that one of the first threads of a process plays before it has an agent. V8 compiles a function when it is
 * first called, and later threads begin with what this one has compiled: so with what a turn needs.
 */
import type { Scheduler } from '../../clock.ts'
import { BLANK, type FrameFields, REQUEST, RUN } from '../../mailbox/frame.ts'
import { frameBytes, writeFrame } from '../../mailbox/frame-body.ts'
import { FIXED_NAMES, ORCHESTRATOR } from '../../mailbox/message.ts'
import type { Ring } from '../../mailbox/ring.ts'
import { TeamMemory } from '../../mailbox/room.ts'
import { Window } from '../../mailbox/window.ts'
import type { Assignment } from '../definition/assignment.ts'
import { type AgentDefinition, defineAgent } from '../definition/definition.ts'
import type { ThreadPort } from '../transport/link.ts'
import { Resident } from './resident.ts'

const [SENDER, PLAYER, PARTNER] = [FIXED_NAMES.indexOf(ORCHESTRATOR), FIXED_NAMES.length, FIXED_NAMES.length + 1]
const RUN_INDEX = 1
const TURN = 1
const MOST_BYTES = 1_024
/** Turns of the event loop within which the turn has ended. */
const LONGEST = 16

/** Sends what it gets to another agent, and answers it: what most agents do, on the way that all do. */
const player: AgentDefinition = defineAgent({
  async receive({ content, structuredData }, context) {
    await context.send('partner', content, { structuredData })
    return { content, structuredData }
  },
})

/** Plays the turn, from the load of its agent to the stop. Resolves to true if it has ended and written something. */
export async function playFirstTurn(clock: Scheduler): Promise<boolean> {
  const team = new TeamMemory(PARTNER + 1)
  team.open(PARTNER, 1, MOST_BYTES, MOST_BYTES)
  const window = Window.ofSeat()
  const now = clock.now()
  write(window.replies, now, { kind: RUN, content: 'run', data: '{"metadata":{}}' })
  const data = '{"of":"the first turn"}'
  write(window.plain, now, { kind: REQUEST, content: 'play', data, sender: SENDER, recipient: PLAYER, turn: TURN })
  let ring = () => {}
  const port: ThreadPort = {
    ring() {},
    onRing(listener) {
      ring = listener
    },
    scheduler: clock,
  }
  const resident = new Resident(port, async () => ({ default: player }))
  const started = await resident.start(assignmentOf(team, window))
  ring()
  const hasEnded = () => resident.isIdle && window.outbox.more()
  for (let left = LONGEST; left > 0 && !hasEnded(); left--) await new Promise<void>((resolve) => clock.defer(resolve))
  const hasPlayed = started.ok && hasEnded()
  if (hasPlayed) await resident.stop() // which would wait for its turn
  resident.leave()
  return hasPlayed
}

function assignmentOf(team: TeamMemory, window: Window): Assignment {
  return {
    role: { name: 'player' },
    option: 'agents[0]',
    code: { module: '', bundled: false, shown: 'player' },
    tools: { host: [], modules: [], names: [] },
    env: {},
    keys: [],
    index: PLAYER,
    epoch: 1,
    names: [...FIXED_NAMES, 'player', 'partner'].join('\n'),
    window: window.buffer,
    team: team.buffer,
    state: undefined,
    correlation: 0,
    seed: 1,
    maxMessageBytes: MOST_BYTES,
    maxExternalMb: null,
    isDurable: false,
    concurrency: 1,
    instances: 1,
    verbs: [],
    loops: false,
    messagesPerTurn: Number.POSITIVE_INFINITY,
    contextStrategy: undefined,
  }
}

function write(ring: Ring, now: number, fields: Partial<FrameFields>): void {
  const whole = { ...BLANK, run: RUN_INDEX, ...fields }
  const bytes = frameBytes(whole)
  writeFrame(ring.memory, ring.reserve(bytes), whole, now)
  ring.advance(bytes)
  ring.publish()
}
