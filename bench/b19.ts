/** What model agents take that share a thread, against a thread each. */
import { atMost, type Benchmark } from './benchmark.ts'
import { runProgram } from './child.ts'
import type { ModelRoles } from './programs/model-roles.ts'
import { median } from './statistics.ts'

const MEMORY = 'MB for 200 agents that have answered'
const TIME = 'start of 200 over 200 with a thread each'
const ROUNDS = 3
const AGENTS = 200

export const b19: Benchmark<typeof MEMORY | typeof TIME> = {
  id: 'B19',
  question: '200 model agents on a shared thread',
  must: { [MEMORY]: atMost(150), [TIME]: atMost(0.2) },
  goal: { [MEMORY]: atMost(100), [TIME]: atMost(0.05) },
  async run() {
    const shared: ModelRoles[] = []
    const own: ModelRoles[] = []
    for (let round = 0; round < ROUNDS; round++) {
      shared.push(await runProgram<ModelRoles>('model-roles', ['shared', AGENTS, 1]))
      own.push(await runProgram<ModelRoles>('model-roles', ['thread', AGENTS, 1]))
    }
    const long = await runProgram<ModelRoles>('model-roles', ['shared', AGENTS, 20])
    const few = await runProgram<ModelRoles>('model-roles', ['shared', 1, 1])
    const middle = (of: readonly ModelRoles[], name: keyof ModelRoles) => median(of.map((each) => each[name]))
    return {
      ratios: {
        [MEMORY]: shared.map(({ answeredMb }) => answeredMb),
        [TIME]: shared.map(({ startMs }, round) => startMs / own[round]!.startMs),
      },
      details: [
        { label: 'the runtime alone, imported', value: middle(shared, 'importedMb'), unit: 'MB' },
        { label: 'one agent that has answered', value: few.answeredMb, unit: 'MB' },
        { label: 'shared, started', value: middle(shared, 'startedMb'), unit: 'MB' },
        { label: 'shared, after 20 rounds, with their log', value: long.answeredMb, unit: 'MB' },
        { label: 'a thread each, when they have answered', value: middle(own, 'answeredMb'), unit: 'MB' },
        { label: 'shared, start', value: middle(shared, 'startMs'), unit: 'ms' },
        { label: 'a thread each, start', value: middle(own, 'startMs'), unit: 'ms' },
        { label: 'shared, all answer', value: middle(shared, 'roundMs'), unit: 'ms' },
        { label: 'a thread each, all answer', value: middle(own, 'roundMs'), unit: 'ms' },
      ],
      notes: ['MB here are 2^20 bytes, of the whole process beyond what it took before it imported anything'],
    }
  },
}
