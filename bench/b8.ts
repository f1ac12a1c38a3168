/** A pipeline of steps that do nothing, beside the same in two frameworks that run all agents in one thread. */
import { atMost, type Benchmark, type Detail } from './benchmark.ts'
import { runChild, runProgram } from './child.ts'
import { comparison } from './comparisons.ts'
import { floorDetails } from './floors.ts'
import type { ManyCosts } from './many.ts'
import type { Pipeline } from './programs/pipeline.ts'
import { median } from './statistics.ts'

const PEERS = [
  { figure: 'a step over LangGraph.js', label: 'LangGraph.js', program: 'pipeline-langgraph' },
  { figure: 'a step over the OpenAI Agents SDK', label: 'OpenAI Agents SDK', program: 'pipeline-agents-sdk' },
] as const
const SHARED = 'a step on a shared thread over the OpenAI Agents SDK'
type Figure = (typeof PEERS)[number]['figure'] | typeof SHARED

const ROUNDS = 5
/** Steps of a run, runs that count, runs before them. */
const PLAN = [10, 200, 50] as const

export const b8: Benchmark<Figure> = {
  id: 'B8',
  question: 'an empty step of a pipeline',
  must: {
    'a step over LangGraph.js': atMost(0.6),
    'a step over the OpenAI Agents SDK': atMost(1.3),
    [SHARED]: atMost(1),
  },
  goal: {
    'a step over LangGraph.js': atMost(0.4),
    'a step over the OpenAI Agents SDK': atMost(0.9),
    [SHARED]: atMost(0.6),
  },
  async run() {
    const ours: Pipeline[] = []
    const played: Pipeline[] = []
    const shared: Pipeline[] = []
    const floors: ManyCosts[] = []
    const theirs = PEERS.map((): number[] => [])
    const notes: string[] = []
    for (let round = 0; round < ROUNDS; round++) {
      ours.push(await runProgram<Pipeline>('pipeline', PLAN))
      played.push(await runProgram<Pipeline>('pipeline', [...PLAN, 'model']))
      shared.push(await runProgram<Pipeline>('pipeline', [...PLAN, 'shared']))
      floors.push(await runProgram<ManyCosts>('wake-ups', ['ring', PLAN[0], PLAN[0] * PLAN[1]]))
      for (const [at, { label, program }] of PEERS.entries()) {
        try {
          theirs[at]?.push(await usPerStep(program))
        } catch (error) {
          const why = error instanceof Error ? error.message : String(error)
          if (round === 0) notes.push(`${label} not measured: ${why}`)
        }
      }
    }
    const over = (at: number, pipelines: readonly Pipeline[]) =>
      (theirs[at] ?? []).map((us, round) => (pipelines[round]?.usPerStep ?? Number.NaN) / us)
    const ratios = [...PEERS.map(({ figure }, at) => [figure, over(at, ours)]), [SHARED, over(1, shared)]]
    return {
      ratios: Object.fromEntries(ratios) as Record<Figure, number[]>,
      details: [
        ...details('dramatis', ours),
        ...floorDetails(
          'two wake-ups alone',
          'us',
          ours.map(({ usPerStep }) => usPerStep),
          floors.map(({ cold }) => cold.us),
        ),
        ...details('dramatis, played by a model', played),
        ...details('dramatis, played by a model on a shared thread', shared),
        ...PEERS.flatMap(({ label }, at) => {
          const values = theirs[at] ?? []
          return values.length > 0 ? [{ label, value: median(values), unit: 'us' as const }] : []
        }),
      ],
      notes,
    }
  },
}

function details(label: string, pipelines: readonly Pipeline[]): Detail[] {
  return [
    { label, value: median(pipelines.map(({ usPerStep }) => usPerStep)), unit: 'us' },
    { label: `${label}, processor time`, value: median(pipelines.map(({ cpuUsPerStep }) => cpuUsPerStep)), unit: 'us' },
  ]
}

async function usPerStep(program: string): Promise<number> {
  const { stdout } = await runChild(await comparison(program), PLAN.map(String))
  const { usPerStep }: Pick<Pipeline, 'usPerStep'> = JSON.parse(stdout)
  return usPerStep
}
