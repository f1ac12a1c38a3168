/**
 * Processor time of the search for a deadlock, made each time when a turn begins to wait. Nine turns in ten wait, for
 * one, for any or all of some, for a quorum, or for several at once, and none of them for ever. Then what it takes to
 * name the cycle if all are in one.
 *
 *   deadlock-check.js <turns> <checks>
 */

import { cyclesOf, stuckIn, type Wait, type WaitNode } from '../../src/runtime/observers/cycles.ts'
import { seededRandom } from '../../src/shared/random.ts'

export interface DeadlockCheck {
  msPerCheck: number
  /** To find all turns stuck, and name the cycle that they all are in. */
  msToName: number
}

const WIDTH = 3 // of requestAll and the like
const [turns = 0, checks = 0] = process.argv.slice(2).map(Number)
const random = seededRandom([turns, 12])
const live = { live: true, waits: [] } satisfies WaitNode

/** A turn waits for later ones alone, so that all come to their end. */
function waiting(turn: number): WaitNode {
  const later = () => turn + 1 + Math.floor(random() * (turns - turn - 1))
  const wait = (need: number, of: number): Wait => ({ need, targets: Array.from({ length: of }, later) })
  const kinds = [
    [wait(1, 1)],
    [wait(1, WIDTH)],
    [wait(WIDTH, WIDTH)],
    [wait(WIDTH - 1, WIDTH)],
    [wait(1, 1), wait(WIDTH, WIDTH)],
  ]
  return { live: false, waits: kinds[Math.floor(random() * kinds.length)]! }
}

const nodes = Array.from({ length: turns }, (_, turn) => (turn < turns * 0.9 ? waiting(turn) : live))
const ring = nodes.map((_, turn): WaitNode => ({ live: false, waits: [{ need: 1, targets: [(turn + 1) % turns] }] }))
const parking = nodes.map((node, turn) => (node.live ? node : waiting(turn)))

/** Each check comes after another turn has begun to wait. */
function check(time: number) {
  const turn = time % turns
  nodes[turn] = parking[turn]!
  const stuck = stuckIn(nodes)
  if (stuck.length > 0) throw new Error(`${stuck.length} turns are said to be stuck, and none is`)
}

function name() {
  const [deadlock] = cyclesOf(ring, stuckIn(ring))
  if (deadlock?.cycle.length !== turns) throw new Error('the cycle has not all the turns that are in it')
}

/** Processor time for one of them, with what the collector does beside it; once before that for the compiler. */
function msFor(action: (time: number) => void, count: number): number {
  for (let i = 0; i < count; i++) action(i)
  const before = process.cpuUsage()
  for (let i = 0; i < count; i++) action(i)
  const { user, system } = process.cpuUsage(before)
  return (user + system) / 1_000 / count
}

const measured: DeadlockCheck = { msPerCheck: msFor(check, checks), msToName: msFor(name, checks / 10) }
console.log(JSON.stringify(measured))
