/**
 * Rules 22, 23 and 25, without a team: who is stuck, who waits for whom in a cycle, and who waits on it. At random against
 * an oracle; a failure names its seed: SEED=7 node dist/test/supervision/wait-graph.test.js
 */
import t from 'tap'
import { cyclesOf, stuckIn, type WaitNode } from '../../src/runtime/observers/cycles.ts'
import { Dice } from '../dice.ts'
import { howMany } from '../how-many.ts'
import { neverEnding, randomGraph, wrongWith } from './wait-oracle.ts'

const count = howMany(5_000, 100_000)
const seeds = process.env.SEED ? [Number(process.env.SEED)] : Array.from({ length: count }, (_, i) => i + 1)

const live: WaitNode = { live: true, waits: [] }
const forgotten: WaitNode = { live: false, waits: [] }
/** Waits for all of them. */
const forAll = (...targets: number[]): WaitNode => quorum(targets.length, ...targets)
const forAny = (...targets: number[]): WaitNode => quorum(1, ...targets)
const quorum = (need: number, ...targets: number[]): WaitNode => ({ live: false, waits: [{ need, targets }] })
/** Any of the waits frees it. */
const either = (...nodes: WaitNode[]): WaitNode => ({ live: false, waits: nodes.flatMap(({ waits }) => waits) })

const ring = (length: number) => Array.from({ length }, (_, i) => forAll((i + 1) % length))

t.test('two who wait for each other are stuck, and so is who waits for one of them', async (t) => {
  t.same(stuckIn([forAll(1), forAll(0), forAll(1), live]), [0, 1, 2])
})

t.test('who waits for a turn that can run is not stuck, through any number of others', async (t) => {
  t.same(stuckIn([forAll(1), forAll(2), forAll(3), live]), [])
  t.same(stuckIn([live, forAll(0), forAll(1), forAll(2)]), [])
})

t.test('who waits for all is stuck by one, who waits for any is freed by one', async (t) => {
  const deadlock = [forAll(1), forAll(0), live]
  t.same(stuckIn([...deadlock, forAll(0, 2)]), [0, 1, 3])
  t.same(stuckIn([...deadlock, forAny(0, 2)]), [0, 1])
})

t.test('a quorum is freed by as many as it needs, and not by fewer', async (t) => {
  const nodes = [forAll(0), live, live, forAll(1)]
  t.same(stuckIn([...nodes, quorum(3, 0, 1, 2, 3)]), [0])
  t.same(stuckIn([...nodes, quorum(4, 0, 1, 2, 3)]), [0, 4])
})

t.test('several waits of one turn are alternatives, and each is counted for itself', async (t) => {
  const nodes = [forAll(0), live, live]
  t.same(stuckIn([...nodes, either(forAll(0), forAll(1, 2))]), [0])
  t.same(stuckIn([...nodes, either(forAll(0, 1), forAll(0, 2))]), [0, 3])
})

t.test('a target that is given twice counts twice, in what is needed and in what has ended', async (t) => {
  t.same(stuckIn([live, forAll(0, 0)]), [])
  t.same(stuckIn([live, quorum(3, 0, 0)]), [1])
  t.same(stuckIn([live, forAll(2), quorum(2, 0, 0, 1)]), [])
})

t.test('a wait that needs nobody is over at once', async (t) => {
  t.same(stuckIn([quorum(0), quorum(0, 0), forAll(0, 1)]), [])
})

t.test('a wait that needs more than there are is never over', async (t) => {
  t.same(stuckIn([live, quorum(2, 0), quorum(2, 3), forAll(0)]), [1, 2])
  t.same(stuckIn([live, quorum(Number.POSITIVE_INFINITY, 2), forAll(0)]), [1])
})

t.test('a target that is not in the graph never ends', async (t) => {
  t.same(stuckIn([forAll(7), forAny(7, 2), live]), [0])
  t.same(cyclesOf([forAll(7)], [0]), [{ cycle: [], tail: [0] }])
})

t.test('who neither can run nor waits for anything is stuck, and who waits for it', async (t) => {
  t.same(stuckIn([forgotten]), [0])
  t.same(stuckIn([forgotten, forAll(0), live]), [0, 1])
  t.same(stuckIn([]), [])
})

t.test('a live node is not stuck, whatever it waits for besides', async (t) => {
  t.same(stuckIn([{ live: true, waits: [{ need: 1, targets: [1] }] }, forAll(1)]), [1])
})

t.test('the cycle is in the order of who waits for whom, from its lowest on', async (t) => {
  t.same(cycleIn([forAll(3), forAll(0), forAll(1), forAll(2)]), { cycle: [0, 3, 2, 1], tail: [] })
  t.same(cycleIn([live, forAll(1)]), { cycle: [1], tail: [] })
})

t.test('the tail has who waits on the cycle, the nearest first', async (t) => {
  const nodes = [forAll(1), forAll(2), forAll(3), forAll(4), forAll(3), forAny(1, 2)]
  t.same(cycleIn(nodes), { cycle: [3, 4], tail: [2, 1, 5, 0] })
})

t.test('of several cycles the shortest is named, and of these the one with the lowest node', async (t) => {
  t.same(cycleIn([forAll(1), forAll(2), forAll(0, 3), forAll(2)]), { cycle: [2, 3], tail: [1, 0] })
  t.same(cycleIn([forAll(2), forAll(3), forAll(0, 3), forAll(2, 1)]), { cycle: [0, 2], tail: [3, 1] })
})

t.test('a cycle that only waits for another is in its tail, since it may be free when that one is', async (t) => {
  const nodes = [forAny(1, 2), forAll(0), forAll(3), forAll(4), forAll(2)]
  t.same(cyclesIn(nodes), [{ cycle: [2, 3, 4], tail: [0, 1] }])
})

t.test('deadlocks that have nothing to do with each other are each reported, with their own tails', async (t) => {
  const nodes = [...ring(3), forAll(4), forAll(3), forAll(0), forAll(4), forAll(5)]
  t.same(cyclesIn(nodes), [
    { cycle: [3, 4], tail: [6] },
    { cycle: [0, 1, 2], tail: [5, 7] },
  ])
})

t.test('who waits on two cycles is in the tail of the nearer one', async (t) => {
  const nodes = [forAll(1), forAll(0), forAll(3), forAll(2), forAll(0), forAll(4, 2)]
  t.same(cyclesIn(nodes), [
    { cycle: [0, 1], tail: [4] },
    { cycle: [2, 3], tail: [5] },
  ])
})

t.test('a lost wake-up is a stall without a cycle, also beside a deadlock', async (t) => {
  t.same(cycleIn([forAll(1), forgotten]), { cycle: [], tail: [1, 0] })
  t.same(cyclesIn([forAll(1), forgotten, forAll(2, 1), forAll(0, 2)]), [
    { cycle: [2], tail: [3] },
    { cycle: [], tail: [1, 0] },
  ])
})

t.test('where nobody is stuck there is no cycle', async (t) => {
  t.same(cyclesIn([live, forAll(0)]), [])
})

t.test('a wait for somebody who is not stuck is no part of a cycle', async (t) => {
  const nodes = [forAll(1, 2), forAll(3), { live: true, waits: [{ need: 1, targets: [0] }] }, forAll(0)]
  t.same(cycleIn(nodes), { cycle: [0, 1, 3], tail: [] })
})

t.test('the stuck may be given in any order', async (t) => {
  t.same(cyclesOf([...ring(3), forAll(4), forAll(3)], [4, 2, 3, 1, 0])[0], { cycle: [3, 4], tail: [] })
})

t.test('a cycle of thousands is found as well', async (t) => {
  const length = 5_000
  const nodes = [...ring(length), ...Array.from({ length }, (_, i) => forAll(length + i - 1))]
  const { cycle, tail } = cycleIn(nodes)!
  t.same([cycle.length, tail.length, tail[0], tail.at(-1)], [length, length, length, 2 * length - 1])
})

t.test(`the detector agrees with an oracle on ${seeds.length} graphs of up to 12 nodes`, async (t) => {
  const seen = { stuck: 0, free: 0, cycles: 0, several: 0, tails: 0, stalls: 0 }
  for (const seed of seeds) {
    const nodes = randomGraph(new Dice(seed), 12)
    const stuck = stuckIn(nodes)
    const expected = neverEnding(nodes)
    const deadlocks = cyclesOf(nodes, expected)
    const wrong = wrongWith(nodes, expected, deadlocks)
    if (`${stuck}` !== `${expected}`) wrong.push(`stuck are ${stuck}, and not ${expected}`)
    if (wrong.length > 0)
      return t.fail(
        `seed ${seed}: ${wrong.join('; ')}. Again: SEED=${seed} node dist/test/supervision/wait-graph.test.js`,
      )
    seen.stuck += stuck.length
    seen.free += nodes.filter((node, i) => !node.live && !stuck.includes(i)).length
    const cycles = deadlocks.filter(({ cycle }) => cycle.length > 1)
    seen.cycles += cycles.length
    if (cycles.length > 1) seen.several += 1
    if (cycles.some(({ tail }) => tail.length > 1)) seen.tails += 1
    if (deadlocks.some(({ cycle }) => cycle.length === 0)) seen.stalls += 1
  }
  if (seeds.length === 1) return t.pass('this seed was played')
  t.ok(
    Object.values(seen).every((times) => times > seeds.length / 200),
    `all kinds of graphs were among them: ${JSON.stringify(seen)}`,
  )
})

function cyclesIn(nodes: readonly WaitNode[]) {
  return cyclesOf(nodes, stuckIn(nodes))
}

function cycleIn(nodes: readonly WaitNode[]) {
  return cyclesOf(nodes, stuckIn(nodes))[0]
}
