/**
 * Finds the nodes of a wait-for graph that nothing can free any more, and their cycles: rules 22, 23 and 25. Each wait
 * is for k of n, after E. Knapp, "Deadlock detection in distributed databases", ACM Computing Surveys 19(4), 1987.
 * Plain data in and out.
 */

/** Wait for k of n: free when `need` of the targets have ended. A target that is given twice counts twice. */
export interface Wait {
  readonly need: number
  /** Indices of nodes. A target that is not in the list never ends. */
  readonly targets: readonly number[]
}

/**
 * Turn, queued message, or agent. If many nodes wait for the same targets (whoever may write a key, say), one node that
 * stands for those targets keeps the graph small: the many wait for it, and it waits for the targets.
 */
export interface WaitNode {
  /** True if the node can run, or something outside of the team will end its wait. */
  readonly live: boolean
  /** Alternatives: any of them frees the node. A node without any is never freed: a wake-up was lost. */
  readonly waits: readonly Wait[]
}

export interface Deadlock {
  /** Each node waits for the next, and the last for the first, which is the lowest. Empty: a stall. */
  readonly cycle: number[]
  /** Nodes that wait for one of the cycle, directly or through others; the nearest first. */
  readonly tail: number[]
}

const NONE = -1

/**
 * Returns the nodes that nothing can free, in order. Node i is `nodes[i]`. Takes time in proportion to the number of
 * targets.
 */
export function stuckIn(nodes: readonly WaitNode[]): number[] {
  const free = new Uint8Array(nodes.length)
  let waitCount = 0
  let targetCount = 0
  for (let i = 0; i < nodes.length; i++) {
    const { live, waits } = nodes[i]!
    if (live) free[i] = 1
    else for (const { targets } of waits) targetCount += targets.length
    waitCount += waits.length
  }

  const owner = new Int32Array(waitCount)
  const left = new Float64Array(waitCount) // not integers, or a need of Infinity would become 0
  const lastWaiter = new Int32Array(nodes.length).fill(NONE) // a list for each target, linked backwards
  const waiter = new Int32Array(targetCount)
  const before = new Int32Array(targetCount)
  const freed = new Int32Array(nodes.length) // nodes whose waiters must be notified
  let freedCount = 0
  const release = (node: number) => {
    if (free[node]) return
    free[node] = 1
    freed[freedCount++] = node
  }

  let wait = 0
  let link = 0
  for (let i = 0; i < nodes.length; i++) {
    if (free[i]) continue
    for (const { need, targets } of nodes[i]!.waits) {
      let needed = need
      for (const target of targets) {
        if (free[target]) {
          needed -= 1
          continue
        }
        waiter[link] = wait
        before[link] = lastWaiter[target]!
        lastWaiter[target] = link++
      }
      owner[wait] = i
      left[wait++] = needed
      if (needed <= 0) release(i)
    }
  }

  for (let next = 0; next < freedCount; next++) {
    for (let at = lastWaiter[freed[next]!]!; at !== NONE; at = before[at]!) {
      const met = waiter[at]!
      left[met]! -= 1
      if (left[met]! <= 0) release(owner[met]!)
    }
  }

  const stuck: number[] = []
  for (let i = 0; i < nodes.length; i++) if (!free[i]) stuck.push(i)
  return stuck
}

const NOBODY: ReadonlySet<number> = new Set()

/**
 * Returns the deadlocks and the stall that the stuck nodes form; each stuck node is in one of them. Nodes that all wait
 * for each other, and for no other cycle, are a deadlock: it must be broken, and that may free the nodes that wait for
 * it. A deadlock is named by its shortest cycle; of several, by one with the lowest node. The shortest deadlock comes
 * first. A node that waits for two is in the tail of the nearer one. Nodes that wait for none are in the stall, which
 * comes last.
 *
 * `anybody`: nodes that stand for all who might do something. A node that waits for them waits for nobody that can be
 * named, so they are in no cycle. They are in the tail of a cycle if one of its members might do it.
 */
export function cyclesOf(
  nodes: readonly WaitNode[],
  stuck: readonly number[],
  anybody: ReadonlySet<number> = NOBODY,
): Deadlock[] {
  const all = targetsAmong(nodes, stuck)
  const targets = anybody.size === 0 ? all : all.map((each, node) => (anybody.has(node) ? [] : each))
  const waiters = reversed(targets)
  const deadlocks = knots(targets, stuck)
    .map((knot): Deadlock => ({ cycle: shortestCycle(knot, targets, waiters), tail: [] }))
    .sort((a, b) => a.cycle.length - b.cycle.length || a.cycle[0]! - b.cycle[0]!)

  const tailOf = new Map<number, number[]>()
  for (const { cycle, tail } of deadlocks) for (const node of cycle) tailOf.set(node, tail)
  addWaiters(tailOf, waiters)
  for (const node of anybody) {
    const tail = tailOf.get(all[node]?.find((target) => tailOf.has(target)) ?? NONE)
    if (!tail || tailOf.has(node)) continue
    tailOf.set(node, tail)
    tail.push(node)
    addWaiters(tailOf, waiters)
  }
  const idle = stuck.filter((node) => !tailOf.has(node) && targets[node]!.length === 0)
  if (idle.length === 0) return deadlocks
  for (const node of idle) tailOf.set(node, idle)
  addWaiters(tailOf, waiters)
  return [...deadlocks, { cycle: [], tail: idle }]
}

function targetsAmong(nodes: readonly WaitNode[], stuck: readonly number[]): number[][] {
  const isStuck = new Uint8Array(nodes.length)
  for (const node of stuck) isStuck[node] = 1
  return nodes.map(({ waits }, i) =>
    isStuck[i] ? waits.flatMap(({ targets }) => targets.filter((target) => isStuck[target])) : [],
  )
}

function reversed(targets: readonly number[][]): number[][] {
  const waiters = targets.map((): number[] => [])
  for (const [node, its] of targets.entries()) for (const target of its) waiters[target]!.push(node)
  return waiters
}

/** Puts the waiters of each node into the same tail as that node, breadth first: the map grows while it is iterated. */
function addWaiters(tailOf: Map<number, number[]>, waiters: readonly number[][]): void {
  for (const [node, tail] of tailOf) {
    for (const waiter of waiters[node]!) {
      if (tailOf.has(waiter)) continue
      tailOf.set(waiter, tail)
      tail.push(waiter)
    }
  }
}

/**
 * Finds the groups whose nodes wait for each other and for no other such group: strongly connected components, after R.
 * Tarjan, "Depth-first search and linear graph algorithms", 1972. A component is found after all those that it leads
 * to.
 */
function knots(targets: readonly number[][], stuck: readonly number[]): number[][] {
  const found: number[][] = []
  const leadsToKnot = new Uint8Array(targets.length)
  const order = new Int32Array(targets.length) // place in the order of discovery; 0 before
  const lowest = new Int32Array(targets.length) // the earliest discovered node that is reached from it and still open
  const next = new Int32Array(targets.length) // index of the next target to look at
  const isOpen = new Uint8Array(targets.length)
  const open: number[] = []
  let discovered = 0
  for (const start of stuck) {
    const path = order[start] ? [] : [start]
    while (path.length > 0) {
      const node = path.at(-1)!
      if (!order[node]) {
        discovered += 1
        order[node] = discovered
        lowest[node] = discovered
        isOpen[node] = 1
        open.push(node)
      }
      const target = targets[node]![next[node]!++]
      if (target !== undefined) {
        if (!order[target]) path.push(target)
        else if (isOpen[target]) lowest[node] = Math.min(lowest[node]!, order[target])
        continue
      }
      path.pop()
      const from = path.at(-1)
      if (from !== undefined) lowest[from] = Math.min(lowest[from]!, lowest[node]!)
      if (lowest[node] === order[node]) close(open.splice(open.lastIndexOf(node)))
    }
  }
  return found

  function close(group: number[]) {
    const [first] = group
    const isCycle = group.length > 1 || targets[first!]!.includes(first!)
    const waitsForKnot = group.some((node) => targets[node]!.some((target) => leadsToKnot[target]))
    if (isCycle && !waitsForKnot) found.push(group)
    for (const node of group) {
      isOpen[node] = 0
      leadsToKnot[node] = isCycle || waitsForKnot ? 1 : 0
    }
  }
}

/**
 * Finds a shortest cycle of the group. Searches from each node, the lowest first, and then without that node. A later
 * cycle is kept only if it is shorter.
 */
function shortestCycle(knot: number[], targets: readonly number[][], waiters: readonly number[][]): number[] {
  const inside = new Uint8Array(targets.length)
  for (const node of knot) inside[node] = 1
  const isInside = (node: number) => inside[node] === 1
  let shortest: number[] = []
  for (const start of knot.sort((a, b) => a - b)) {
    if (!isInside(start)) continue
    shortest = cycleFrom(start, targets, isInside, shortest.length || knot.length + 1) ?? shortest
    remove(start)
  }
  return shortest

  /**
   * Removes a node, and all nodes that are in no cycle without it: otherwise a long cycle would be searched once for
   * each of its nodes.
   */
  function remove(start: number) {
    inside[start] = 0
    const gone = [start]
    for (const node of gone) {
      for (const other of [...targets[node]!, ...waiters[node]!]) {
        if (!isInside(other) || (targets[other]!.some(isInside) && waiters[other]!.some(isInside))) continue
        inside[other] = 0
        gone.push(other)
      }
    }
  }
}

function cycleFrom(
  start: number,
  targets: readonly number[][],
  isInside: (node: number) => boolean,
  limit: number,
): number[] | undefined {
  const reachedFrom = new Map<number, number>()
  let layer = [start]
  for (let length = 1; length < limit && layer.length > 0; length++) {
    const further: number[] = []
    for (const node of layer) {
      for (const target of targets[node]!) {
        if (target === start) return pathTo(node)
        if (!isInside(target) || reachedFrom.has(target)) continue
        reachedFrom.set(target, node)
        further.push(target)
      }
    }
    layer = further
  }
  return undefined

  function pathTo(end: number): number[] {
    const path = [end]
    for (let node = end; node !== start; path.push(node)) node = reachedFrom.get(node)!
    return path.reverse()
  }
}
