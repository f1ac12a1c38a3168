/** How long a team takes to start, and what it takes when it does nothing, against as many threads that have no agent. */
import { atMost, type Benchmark } from './benchmark.ts'
import { runProgram } from './child.ts'
import type { Start } from './programs/start.ts'
import { median } from './statistics.ts'

const TIME = 'start of 200 over 200 raw threads'
const WORK = 'processor time of that'
const MEMORY = 'memory of 200 over 200 raw threads'
const IDLE = 'share of a core, 200 idle agents'
const ROUNDS = 3
const SIZES = [10, 50, 200] as const
const IDLE_MS = 10_000

export const b18: Benchmark<typeof TIME | typeof WORK | typeof MEMORY | typeof IDLE> = {
  id: 'B18',
  question: 'start of a team, and what it takes when it is idle',
  must: { [TIME]: atMost(2), [WORK]: atMost(2), [MEMORY]: atMost(1.4), [IDLE]: atMost(0.01) },
  goal: { [TIME]: atMost(1.3), [WORK]: atMost(1.3), [MEMORY]: atMost(1.1), [IDLE]: atMost(0.003) },
  async run() {
    const raw: Start[] = []
    const teams = new Map<number, Start[]>(SIZES.map((agents) => [agents, []]))
    for (let round = 0; round < ROUNDS; round++) {
      raw.push(await runProgram<Start>('start', ['threads', 200, 0]))
      for (const [agents, starts] of teams)
        starts.push(await runProgram<Start>('start', ['agents', agents, agents === 200 ? IDLE_MS : 0]))
    }
    const largest = teams.get(200)!
    const middle = (starts: readonly Start[], of: 'startMs' | 'addedMb') => median(starts.map((start) => start[of]))
    return {
      ratios: {
        [TIME]: largest.map(({ startMs }, round) => startMs / raw[round]!.startMs),
        [WORK]: largest.map(({ cpuMs }, round) => cpuMs / raw[round]!.cpuMs),
        [MEMORY]: largest.map(({ addedMb }, round) => addedMb / raw[round]!.addedMb),
        [IDLE]: largest.map(({ idleShare }) => idleShare),
      },
      details: [
        ...[...teams].flatMap(([agents, starts]) => [
          { label: `${agents} agents, start`, value: middle(starts, 'startMs'), unit: 'ms' as const },
          { label: `${agents} agents, resident memory added`, value: middle(starts, 'addedMb'), unit: 'MB' as const },
        ]),
        {
          label: '200 agents, resident memory added, idle',
          value: median(largest.map(({ idleMb }) => idleMb)),
          unit: 'MB',
        },
        { label: '200 raw threads, start', value: middle(raw, 'startMs'), unit: 'ms' },
        { label: '200 raw threads, resident memory added', value: middle(raw, 'addedMb'), unit: 'MB' },
      ],
      notes: ['MB here are 2^20 bytes'],
    }
  },
}
