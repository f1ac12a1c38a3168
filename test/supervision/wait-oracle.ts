/**
 * What a wait-for graph says, found the slow way: by trying every order in which its nodes could end, and by the distances
 * between all of them. It has nothing in common with the detector but the types.
 */
import type { Deadlock, Wait, WaitNode } from '../../src/runtime/observers/cycles.ts'
import type { Dice } from '../dice.ts'

/** Up to `most` nodes of all kinds; from graphs in which nearly all can run to graphs in which few can. */
export function randomGraph(dice: Dice, most: number): WaitNode[] {
  const count = 1 + dice.upTo(most)
  const liveOdds = dice.pick([0, 0.05, 0.3])
  const lossOdds = dice.pick([0, 0, 0.1]) // of a node without waits, and of a wait that needs nobody, or more than there are
  const widest = dice.pick([1, 1, 2, 4])
  const farthest = dice.pick([1, 2, count]) // near ones make several small groups
  const waitOf = (node: number): Wait => {
    const near = () => (node + dice.upTo(2 * farthest + 1) - farthest + 2 * count) % count
    const targets = Array.from({ length: 1 + dice.upTo(widest) }, near)
    const need = dice.pick([1, targets.length, 1 + dice.upTo(targets.length)])
    const odd = dice.pick([0, targets.length + 1])
    return { need: dice.chance(lossOdds) ? odd : need, targets }
  }
  return Array.from({ length: count }, (_, node) => {
    const waits = dice.chance(lossOdds) ? 0 : dice.pick([1, 1, 1, 2, 3])
    return { live: dice.chance(liveOdds), waits: Array.from({ length: waits }, () => waitOf(node)) }
  })
}

/** Who ends in no order at all. A set of those that have ended is the bits of a number. */
export function neverEnding(nodes: readonly WaitNode[]): number[] {
  const seen = new Set([0])
  let everEnded = 0
  for (const ended of seen) {
    everEnded |= ended
    for (const [i, { live, waits }] of nodes.entries()) {
      const met = ({ need, targets }: Wait) => targets.filter((target) => ended & (1 << target)).length >= need
      if (live || waits.some(met)) seen.add(ended | (1 << i))
    }
  }
  return [...nodes.keys()].filter((i) => !(everEnded & (1 << i)))
}

/** What the deadlocks of a graph must be like, with the cycles that they name taken as given. */
export function wrongWith(
  nodes: readonly WaitNode[],
  stuck: readonly number[],
  deadlocks: readonly Deadlock[],
): string[] {
  const wrong: string[] = []
  const waitsFor = (from: number, to: number) => nodes[from]!.waits.some(({ targets }) => targets.includes(to))
  const steps = distances(stuck, waitsFor)
  const reaches = (from: number, to: number) => steps(from, to) < Number.POSITIVE_INFINITY

  const inCycle = stuck.filter((node) => reaches(node, node))
  const rooted = inCycle.filter((node) => inCycle.every((other) => !reaches(node, other) || reaches(other, node)))
  const knots = new Map<number, number[]>() // by their lowest
  for (const node of rooted) {
    const lowest = rooted.find((other) => reaches(node, other) && reaches(other, node))!
    knots.set(lowest, [...(knots.get(lowest) ?? []), node])
  }
  const named = deadlocks.filter(({ cycle }) => cycle.length > 0)
  if (named.length !== knots.size) wrong.push(`${named.length} cycles for ${knots.size} groups`)
  for (const { cycle } of named) {
    const knot = [...knots.values()].find((members) => members.includes(cycle[0]!))
    if (!knot || !cycle.every((node) => knot.includes(node))) wrong.push(`${cycle} is not of one group`)
    const apart = cycle.filter((node, i) => !waitsFor(node, cycle[(i + 1) % cycle.length]!))
    if (apart.length > 0) wrong.push(`in ${cycle}, ${apart} do not wait for the next`)
    if (new Set(cycle).size !== cycle.length) wrong.push(`${cycle} has a node twice`)
    const least = Math.min(...(knot ?? []).map((node) => steps(node, node)))
    const first = knot?.find((node) => steps(node, node) === least)
    if (cycle.length !== least || cycle[0] !== first)
      wrong.push(`${cycle}, but ${least} from ${first} on is shorter or lower`)
  }
  const order = named.map(({ cycle }) => cycle.length * nodes.length + cycle[0]!)
  if (order.some((place, i) => i > 0 && place < order[i - 1]!)) wrong.push('the shortest deadlock is not the first')

  const away = (node: number, { cycle }: Deadlock) => Math.min(...cycle.map((member) => steps(node, member)))
  for (const { cycle, tail } of named) {
    const expected = stuck.filter((node) => {
      if (named.some((one) => one.cycle.includes(node))) return false
      const nearest = Math.min(...named.map((one) => away(node, one)))
      return nearest < Number.POSITIVE_INFINITY && cycle === named.find((one) => away(node, one) === nearest)!.cycle
    })
    if (!sameMembers(tail, expected)) wrong.push(`the tail of ${cycle} is ${tail}, and not ${expected}`)
    const far = tail.map((node) => Math.min(...cycle.map((member) => steps(node, member))))
    if (!rises(far)) wrong.push(`the tail ${tail} of ${cycle} has the nearest not first`)
  }

  const stalled = stuck.filter((node) => !inCycle.some((other) => reaches(node, other)))
  const stalls = deadlocks.filter(({ cycle }) => cycle.length === 0).map(({ tail }) => tail)
  if (stalls.length > 1 || (stalls.length === 1 && deadlocks.at(-1)!.cycle.length > 0))
    wrong.push('there is more than one stall, or it is not the last')
  if (!sameMembers(stalls.flat(), stalled)) wrong.push(`the stall is ${stalls}, and not ${stalled}`)
  const ends = stalled.filter((node) => !stalled.some((other) => waitsFor(node, other)))
  if (!rises(stalls.flat().map((node) => Math.min(...ends.map((end) => (node === end ? 0 : steps(node, end)))))))
    wrong.push(`the stall ${stalls} has not first what the others wait for`)
  return wrong
}

/** Waits from one to another; from a node to itself those of its shortest cycle. After Floyd and Warshall. */
function distances(stuck: readonly number[], waitsFor: (from: number, to: number) => boolean) {
  const width = Math.max(0, ...stuck) + 1
  const far = new Float64Array(width * width).fill(Number.POSITIVE_INFINITY)
  for (const from of stuck) for (const to of stuck) if (waitsFor(from, to)) far[from * width + to] = 1
  for (const over of stuck)
    for (const from of stuck)
      for (const to of stuck) {
        const detour = far[from * width + over]! + far[over * width + to]!
        if (detour < far[from * width + to]!) far[from * width + to] = detour
      }
  return (from: number, to: number) => far[from * width + to]!
}

const rises = (list: readonly number[]) => list.every((value, i) => i === 0 || value >= list[i - 1]!)

const sameMembers = (one: readonly number[], other: readonly number[]) =>
  one.length === other.length && one.every((node) => other.includes(node))
