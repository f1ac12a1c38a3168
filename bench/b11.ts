/**
 * What a log on the disk costs: B11 beside a log in memory, B11b where each answer waits for the disk, B11c when a new
 * process goes on with it. What one flush of the disk takes stands beside them.
 */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { atLeast, atMost, type Benchmark } from './benchmark.ts'
import { runProgram } from './child.ts'
import { flushUs } from './disk.ts'
import { floorDetails } from './floors.ts'
import type { Cost } from './many.ts'
import type { Committed } from './programs/committed.ts'
import type { Resumed } from './programs/old-log.ts'
import { median } from './statistics.ts'
import { SIZE } from './workload.ts'

const ROUNDS = 5
const LONG = 4_096
const MESSAGES = { [SIZE]: 200_000, [LONG]: 50_000 }

const RATE = 'rate over memory'
const WORK = 'processor time of memory over it'
const RATE_LONG = 'rate over memory, 4 K'
const WORK_LONG = 'processor time of memory over it, 4 K'

export const b11: Benchmark<typeof RATE | typeof WORK | typeof RATE_LONG | typeof WORK_LONG> = {
  id: 'B11',
  question: 'messages whose log is written to the disk behind them',
  must: { [RATE]: atLeast(0.6), [WORK]: atLeast(0.6), [RATE_LONG]: atLeast(0.6), [WORK_LONG]: atLeast(0.6) },
  goal: { [RATE]: atLeast(0.9), [WORK]: atLeast(0.9), [RATE_LONG]: atLeast(0.9), [WORK_LONG]: atLeast(0.9) },
  async run() {
    const short = await compared(SIZE)
    const long = await compared(LONG)
    const flush = await inFolder(flushUs)
    return {
      ratios: {
        [RATE]: short.map(([memory, disk]) => memory.us / disk.us),
        [WORK]: short.map(([memory, disk]) => memory.cpuUs / disk.cpuUs),
        [RATE_LONG]: long.map(([memory, disk]) => memory.us / disk.us),
        [WORK_LONG]: long.map(([memory, disk]) => memory.cpuUs / disk.cpuUs),
      },
      details: [
        ...detailsOf('200', short),
        ...detailsOf('4 K', long),
        { label: 'one flush of this disk', value: flush, unit: 'us' as const },
      ],
    }
  },
}

type Pair = readonly [memory: Cost, disk: Cost]

async function compared(size: keyof typeof MESSAGES): Promise<Pair[]> {
  const pairs: Pair[] = []
  for (let round = 0; round < ROUNDS; round++) {
    const memory = await runProgram<Cost>('logged', [MESSAGES[size]!, size])
    pairs.push([memory, await inFolder((folder) => runProgram<Cost>('logged', [MESSAGES[size]!, size, folder]))])
  }
  return pairs
}

const detailsOf = (size: string, pairs: readonly Pair[]) =>
  (['memory', 'disk'] as const).map((where, i) => ({
    label: `${size}, log in ${where === 'memory' ? 'memory' : 'files'}, processor time a message`,
    value: median(pairs.map((pair) => pair[i]!.cpuUs)),
    unit: 'us' as const,
  }))

const TRIP = 'p50 over one flush of the disk'

export const b11b: Benchmark<typeof TRIP> = {
  id: 'B11b',
  question: 'a message from outside and its answer, both on the disk before they count',
  must: { [TRIP]: atMost(2) },
  goal: { [TRIP]: atMost(1.3) },
  async run() {
    const rounds: Committed[] = []
    const floors: Committed[] = []
    for (let round = 0; round < ROUNDS; round++) {
      rounds.push(await inFolder((folder) => runProgram<Committed>('committed', [2_000, 500, folder])))
      floors.push(await inFolder((folder) => runProgram<Committed>('flushes', [2_000, 500, folder])))
    }
    const trips = (each: readonly Committed[]) => each.map(({ tripUs }) => tripUs)
    return {
      ratios: { [TRIP]: rounds.map(({ tripUs, flushUs: flush }) => tripUs / flush) },
      details: [
        { label: 'a message and its answer, p50', value: median(trips(rounds)), unit: 'us' },
        { label: 'one flush of this disk, p50', value: median(rounds.map((each) => each.flushUs)), unit: 'us' },
        ...floorDetails('two flushes and two wake-ups alone', 'us', trips(rounds), trips(floors)),
      ],
    }
  },
}

const HANDLED = 's to go on behind 1,000,000 messages'
const OPEN = 's to go on with 1,000 open runs'
const RESUMES = 3

export const b11c: Benchmark<typeof HANDLED | typeof OPEN> = {
  id: 'B11c',
  question: 'a process that goes on with the log of another',
  must: { [HANDLED]: atMost(10), [OPEN]: atMost(10) },
  goal: { [HANDLED]: atMost(2), [OPEN]: atMost(2) },
  async run() {
    const handled = await resumed('handled', 1_000_000, 0)
    const open = await resumed('open', 1_000, 1_000)
    const largest = (of: readonly Resumed[], key: 'mb' | 'peakMb') => Math.max(...of.map((each) => each[key]))
    return {
      ratios: { [HANDLED]: handled.map(({ ms }) => ms / 1_000), [OPEN]: open.map(({ ms }) => ms / 1_000) },
      details: [
        { label: '1,000,000 messages: the log', value: largest(handled, 'mb'), unit: 'MB' },
        { label: '1,000,000 messages: most resident memory', value: largest(handled, 'peakMb'), unit: 'MB' },
        { label: '1,000 open runs: the log', value: largest(open, 'mb'), unit: 'MB' },
        { label: '1,000 open runs: most resident memory', value: largest(open, 'peakMb'), unit: 'MB' },
        { label: 'one flush of this disk', value: await inFolder(flushUs), unit: 'us' },
      ],
      notes: ['MB here are 2^20 bytes'],
    }
  },
}

function resumed(what: 'handled' | 'open', much: number, questions: number): Promise<Resumed[]> {
  return inFolder(async (folder) => {
    await runProgram<Resumed>('old-log', [what, much, folder])
    const rounds: Resumed[] = []
    for (let round = 0; round < RESUMES; round++)
      rounds.push(await runProgram<Resumed>('old-log', ['resume', questions, folder]))
    return rounds
  })
}

async function inFolder<T>(use: (folder: string) => Promise<T>): Promise<T> {
  const folder = await mkdtemp(join(tmpdir(), 'dramatis-bench-'))
  try {
    return await use(folder)
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}
