/** Kills agents' threads from the host: at points of a message's way that the host can see, and at random ones. */
import { CHUNK, END, kindOf, lengthOf, PATCH, REQUEST, SEND, STEP_BEGAN, senderOf } from '../../src/mailbox/frame.ts'
import type { LogEntry } from '../../src/runtime/log/records.ts'
import type { ChaosTeam } from '../fixtures/chaos-team.ts'

interface Kill {
  agent: string
  /** What has just come out of an outbox when the thread is killed; undefined: anything. */
  upon: { kind: number; from: string } | undefined
}

const KILLS: Kill[] = [
  { agent: 'worker-a', upon: { kind: REQUEST, from: 'worker-a' } }, // its request is under way
  { agent: 'oracle-a', upon: { kind: REQUEST, from: 'worker-a' } }, // is about to be asked
  { agent: 'worker-b', upon: { kind: SEND, from: 'worker-b' } }, // its effect is logged
  { agent: 'worker-a', upon: { kind: PATCH, from: 'worker-a' } }, // its commit is half written, or whole
  { agent: 'worker-b', upon: { kind: END, from: 'worker-b' } },
  { agent: 'source-a', upon: { kind: SEND, from: 'source-a' } },
  { agent: 'worker-b', upon: { kind: END, from: 'oracle-b' } }, // is about to be answered
  { agent: 'sink', upon: { kind: SEND, from: 'worker-a' } },
  { agent: 'worker-a', upon: { kind: STEP_BEGAN, from: 'worker-a' } },
  { agent: 'oracle-b', upon: { kind: CHUNK, from: 'oracle-b' } }, // streams
  { agent: 'worker-a', upon: { kind: CHUNK, from: 'oracle-a' } }, // reads
  { agent: 'worker-b', upon: undefined },
  { agent: 'sink', upon: undefined },
  { agent: 'source-b', upon: undefined },
  { agent: 'listener-b', upon: undefined },
]

export interface KillOptions {
  times: number
  /** How many turns of the sink they are spread over. */
  over: number
  random: () => number
}

/** How many there were by now. */
export interface Killed {
  times: number
}

export function killFromOutside(team: ChaosTeam, { times, over, random }: KillOptions): Killed {
  const killed = { times: 0 }
  let under = 0
  team.onRecord((entry) => {
    const next = killed.times + under
    if (next >= times || team.handled('sink') < ((next + 0.5) / times) * over * 0.9) return
    const { agent, upon } = KILLS[next % KILLS.length]!
    if (upon && !contains(entry, upon, team)) return
    under += 1
    later(Math.floor(random() * 8), () => {
      under -= 1
      if (team.terminate(agent)) killed.times += 1
    })
  })
  return killed
}

function contains(entry: LogEntry, { kind, from }: { kind: number; from: string }, team: ChaosTeam): boolean {
  if (entry.kind !== 'frames') return false
  const { memory } = entry
  for (let at = entry.from; at < entry.to; at += lengthOf(memory, at)) {
    if (kindOf(memory, at) === kind && team.nameOf(senderOf(memory, at)) === from) return true
  }
  return false
}

/** After so many turns of the event loop; 0: at once. */
function later(turns: number, task: () => void): void {
  if (turns === 0) task()
  else setImmediate(() => later(turns - 1, task))
}
