/**
 * What a log costs that has grown: to open it after the death of its process, to list its runs, and to play tasks of a
 * thread that grows. All are asked at 10, 100 and 1,000 MB of one log.
 */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { atMost, type Benchmark } from './benchmark.ts'
import { runProgram } from './child.ts'
import type { Grown, Threaded } from './programs/grown-log.ts'
import { median } from './statistics.ts'

const ROUNDS = 3
const SIZES = [10, 100, 1_000] as const
/** A process does not live long enough to write more. */
const STEP_MB = 100

const OPEN = 's to open 1,000 MB'
const BLOCKED = 'ms that the loop stands meanwhile'
const LIST = 'ms of processor for 12 runs of 1,000 MB'
const GROWTH = 'the same over that of 10 MB'
const THREAD = 'bytes that the 50th task of a thread logs, over the first'

export const b23: Benchmark<typeof OPEN | typeof BLOCKED | typeof LIST | typeof GROWTH | typeof THREAD> = {
  id: 'B23',
  question: 'a log that has grown: its opening after a kill, a list of its runs, and tasks of one thread',
  must: { [OPEN]: atMost(3), [BLOCKED]: atMost(200), [LIST]: atMost(5), [GROWTH]: atMost(3), [THREAD]: atMost(1.5) },
  goal: { [OPEN]: atMost(1), [BLOCKED]: atMost(50), [LIST]: atMost(1), [GROWTH]: atMost(1.5), [THREAD]: atMost(1.1) },
  async run() {
    const folder = await mkdtemp(join(tmpdir(), 'dramatis-bench-'))
    try {
      const bySize = new Map<number, Grown[]>()
      const threads: Threaded[] = []
      for (const size of SIZES) {
        bySize.set(size, await opened(folder, size))
        threads.push(await runProgram<Threaded>('grown-log', ['thread', size, folder]))
      }
      const [small, , large] = SIZES.map((size) => bySize.get(size)!)
      return {
        ratios: {
          [OPEN]: large!.map(({ openMs }) => openMs / 1_000),
          [BLOCKED]: large!.map(({ longestMs }) => longestMs),
          [LIST]: large!.map(({ listMs }) => listMs),
          [GROWTH]: large!.map(({ listMs }, round) => listMs / small![round]!.listMs),
          [THREAD]: threads.map(({ first, last }) => last / first),
        },
        details: [...bySize].flatMap(([size, rounds]) => [
          { label: `${size} MB: opening`, value: median(rounds.map(({ openMs }) => openMs)), unit: 'ms' as const },
          {
            label: `${size} MB: its processor time`,
            value: median(rounds.map(({ cpuMs }) => cpuMs)),
            unit: 'ms' as const,
          },
          {
            label: `${size} MB: a list of 12`,
            value: median(rounds.map(({ listMs }) => listMs)) * 1_000,
            unit: 'us' as const,
          },
          {
            label: `${size} MB: one of a caller`,
            value: median(rounds.map(({ ownMs }) => ownMs)) * 1_000,
            unit: 'us' as const,
          },
        ]),
        notes: ['MB here are 2^20 bytes; a run has some 90 KB, and none is forgotten'],
      }
    } finally {
      await rm(folder, { recursive: true, force: true })
    }
  },
}

/** Lets the log grow to that size, and opens it: a kill is a process that writes no end. */
async function opened(folder: string, size: number): Promise<Grown[]> {
  for (let mb = Math.min(size, STEP_MB); mb <= size; mb += STEP_MB) await runProgram('grown-log', ['grow', mb, folder])
  const rounds: Grown[] = []
  for (let round = 0; round < ROUNDS; round++) rounds.push(await runProgram<Grown>('grown-log', ['open', size, folder]))
  return rounds
}
