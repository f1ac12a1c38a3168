/** The search for a deadlock, which is made whenever a turn begins to wait: among a few turns and among many. */
import { atMost, type Benchmark } from './benchmark.ts'
import { runProgram } from './child.ts'
import type { DeadlockCheck } from './programs/deadlock-check.ts'
import { median } from './statistics.ts'

const FEW = 32
const MANY = 2_048
const AMONG_FEW = 'us for a check, 32 turns'
const AMONG_MANY = 'ms for a check, 2,048 turns'
const ROUNDS = 5
const CHECKS_AMONG_FEW = 50_000
const CHECKS_AMONG_MANY = 2_000

export const b12: Benchmark<typeof AMONG_FEW | typeof AMONG_MANY> = {
  id: 'B12',
  question: 'deadlock check for each wait',
  must: { [AMONG_FEW]: atMost(50), [AMONG_MANY]: atMost(1) },
  goal: { [AMONG_FEW]: atMost(20), [AMONG_MANY]: atMost(0.25) },
  async run() {
    const few: DeadlockCheck[] = []
    const many: DeadlockCheck[] = []
    for (let round = 0; round < ROUNDS; round++) {
      few.push(await runProgram<DeadlockCheck>('deadlock-check', [FEW, CHECKS_AMONG_FEW]))
      many.push(await runProgram<DeadlockCheck>('deadlock-check', [MANY, CHECKS_AMONG_MANY]))
    }
    const toName = (checks: DeadlockCheck[]) => median(checks.map(({ msToName }) => msToName))
    return {
      ratios: {
        [AMONG_FEW]: few.map(({ msPerCheck }) => msPerCheck * 1_000),
        [AMONG_MANY]: many.map(({ msPerCheck }) => msPerCheck),
      },
      details: [
        { label: 'to find and name a cycle of 32', value: toName(few), unit: 'ms' },
        { label: 'to find and name a cycle of 2,048', value: toName(many), unit: 'ms' },
      ],
    }
  },
}
