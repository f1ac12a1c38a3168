/** B15 and B16: what many agents cost, against as many workers whose host posts on what they post. */
import { atMost, type Benchmark, type Detail } from './benchmark.ts'
import { runProgram } from './child.ts'
import { overFloor } from './floors.ts'
import type { Cost, ManyCosts } from './many.ts'
import { median } from './statistics.ts'

const ROUNDS = 5

interface Question {
  id: string
  question: string
  /** What is counted. */
  unit: 'hop' | 'message'
  /** For the programs. */
  args: readonly [kind: 'ring' | 'big', size: number, much: number]
  /** Times the relay's processor time. */
  must: number
}

export const b15 = manyAgents({
  id: 'B15',
  question: 'ring of 100 agents, one token',
  unit: 'hop',
  args: ['ring', 100, 10_000],
  must: 4,
})

export const b16 = manyAgents({
  id: 'B16',
  question: '32 agents, all ask all',
  unit: 'message',
  args: ['big', 32, 4],
  must: 3.5,
})

function manyAgents({ id, question, unit, args, must }: Question): Benchmark {
  const figure = `processor time of a ${unit} over the relay`
  return {
    id,
    question,
    must: { [figure]: atMost(must) },
    goal: { [figure]: atMost(2.5) },
    async run() {
      const relay: ManyCosts[] = []
      const dramatis: ManyCosts[] = []
      const floors: ManyCosts[] = []
      for (let round = 0; round < ROUNDS; round++) {
        relay.push(await runProgram<ManyCosts>('relay-many', args))
        dramatis.push(await runProgram<ManyCosts>('many', args))
        floors.push(await runProgram<ManyCosts>('wake-ups', args))
      }
      const cpuUs = (rounds: readonly ManyCosts[]) => rounds.map(({ cold }) => cold.cpuUs)
      return {
        ratios: { [figure]: dramatis.map(({ cold }, round) => cold.cpuUs / relay[round]!.cold.cpuUs) },
        details: [
          ...details('relay of posted objects', unit, relay),
          ...details('dramatis', unit, dramatis),
          ...details('wake-ups alone', unit, floors),
          overFloor('wake-ups alone, processor time', cpuUs(dramatis), cpuUs(floors)),
        ],
      }
    },
  }
}

function details(who: string, unit: string, costs: readonly ManyCosts[]): Detail[] {
  const middle = (of: (costs: ManyCosts) => Cost, name: keyof Cost) => median(costs.map((each) => of(each)[name]))
  return [
    { label: `${who}, a ${unit}`, value: middle(({ cold }) => cold, 'us'), unit: 'us' },
    { label: `${who}, processor time`, value: middle(({ cold }) => cold, 'cpuUs'), unit: 'us' },
    { label: `${who}, a ${unit}, as many later`, value: middle(({ warm }) => warm, 'us'), unit: 'us' },
    { label: `${who}, processor time, as many later`, value: middle(({ warm }) => warm, 'cpuUs'), unit: 'us' },
  ]
}
