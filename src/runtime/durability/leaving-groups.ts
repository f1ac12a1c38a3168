/** Order in which a log forgets runs, and how many at the same time. */
import type { LoggedRun } from './run-index.ts'

/** Runs that are archived at the same time: each waits for the disk many times, and for turns of others between. */
const GROUP_RUNS = 8
/** Bytes of runs that are archived at the same time, since they are in memory. A larger run is alone. */
const GROUP_BYTES = 8 * 2 ** 20

/** Yields the runs that are forgotten, in groups; `leaning`: runs by the one that they lean on. */
export const leavingGroups = (
  runs: readonly LoggedRun[],
  leaning: ReadonlyMap<number, readonly LoggedRun[]>,
): Generator<LoggedRun[]> => groupsOf(lastFirst(runs, leaning))

/** Yields the runs in their order, so many at a time as may be archived at once; none with one that leans on it. */
function* groupsOf(runs: Iterable<LoggedRun>): Generator<LoggedRun[]> {
  let [group, bytes]: [LoggedRun[], number] = [[], 0]
  for (const run of runs) {
    const size = run.bytes + run.partBytes
    const goesAfter = group.some(({ leansOn }) => leansOn === run.index)
    if (goesAfter || group.length === GROUP_RUNS || (group.length > 0 && bytes + size > GROUP_BYTES)) {
      yield group
      ;[group, bytes] = [[], 0]
    }
    group.push(run)
    bytes += size
  }
  if (group.length > 0) yield group
}

/**
 * Yields the runs in their order, but for those that others of them lean on: these come behind those, so that nothing
 * has to be written again of runs that are forgotten together.
 */
function* lastFirst(
  runs: readonly LoggedRun[],
  leaning: ReadonlyMap<number, readonly LoggedRun[]>,
): Generator<LoggedRun> {
  const left = new Map(runs.map((run) => [run.index, run]))
  const isLast = ({ index }: LoggedRun) => !leaning.get(index)?.some((other) => left.has(other.index))
  for (const run of runs)
    for (let next: LoggedRun | undefined = run; next && isLast(next); next = left.get(next.leansOn ?? 0)) {
      if (!left.delete(next.index)) break
      yield next
    }
}
