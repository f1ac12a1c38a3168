/** Heap of a thread whose role has no `limits.maxHeapMb`: Node's own limit, but never more than half of the memory. */
import { totalmem } from 'node:os'
import { getHeapStatistics } from 'node:v8'
import type { ResourceLimits } from 'node:worker_threads'

const MIB = 2 ** 20
/** A thread cannot boot with less. */
const LEAST_MB = 8

/** Half of the memory that this process may use, in MiB: of its control group (a container), or of the machine. */
export function halfOfMemoryMb(): number {
  const constrained = process.constrainedMemory() || Number.POSITIVE_INFINITY // 0: not known
  return Math.max(LEAST_MB, Math.floor(Math.min(constrained, totalmem()) / 2 / MIB))
}

/** Returns the option of a thread with that limit; null: the default. */
export function heapLimit(maxHeapMb: number | null): { resourceLimits?: ResourceLimits } {
  const half = halfOfMemoryMb()
  const isNodesEnough = getHeapStatistics().heap_size_limit / MIB <= half
  const mb = maxHeapMb ?? (isNodesEnough ? undefined : half)
  return mb === undefined ? {} : { resourceLimits: { maxOldGenerationSizeMb: mb } }
}
