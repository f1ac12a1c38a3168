/** Heap limits of threads: what a role says, else Node's own, else half of the memory of a small container. */
import { totalmem } from 'node:os'
import { getHeapStatistics } from 'node:v8'
import t from 'tap'
import { halfOfMemoryMb, heapLimit } from '../../src/runtime/threads/worker-thread.ts'

const MIB = 2 ** 20
const machineMb = Math.floor(totalmem() / 2 / MIB)
const nodesMb = getHeapStatistics().heap_size_limit / MIB
const LARGE_MB = 2 ** 24

const CASES: { mayUse: number; given: number | null; halfMb: number; limitMb: number | undefined }[] = [
  { mayUse: 512 * MIB, given: null, halfMb: 256, limitMb: 256 },
  { mayUse: 512 * MIB, given: 64, halfMb: 256, limitMb: 64 },
  { mayUse: 512 * MIB, given: 400, halfMb: 256, limitMb: 400 },
  { mayUse: 10 * MIB, given: null, halfMb: 8, limitMb: 8 },
  { mayUse: 0, given: null, halfMb: machineMb, limitMb: machineMb < nodesMb ? machineMb : undefined },
  { mayUse: LARGE_MB * MIB, given: null, halfMb: machineMb, limitMb: machineMb < nodesMb ? machineMb : undefined },
  { mayUse: 2 ** 64, given: 64, halfMb: machineMb, limitMb: 64 },
]

for (const { mayUse, given, halfMb, limitMb } of CASES)
  t.test(`a thread with the limit ${given} where the process may use ${mayUse} bytes`, async (t) => {
    const { constrainedMemory } = process
    t.teardown(() => {
      process.constrainedMemory = constrainedMemory
    })
    process.constrainedMemory = () => mayUse
    t.equal(halfOfMemoryMb(), halfMb)
    const { maxOldGenerationSizeMb, maxYoungGenerationSizeMb } = heapLimit(given).resourceLimits
    t.equal(maxOldGenerationSizeMb, limitMb)
    t.equal(maxYoungGenerationSizeMb, 32, 'V8 aborts the process where more than 16 MB come at once')
  })
