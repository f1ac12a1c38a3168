/** A fresh process, from its start to the answer of one agent without a model. */
import { atMost, type Benchmark } from './benchmark.ts'
import { type ChildResult, runChild } from './child.ts'
import { comparison } from './comparisons.ts'
import { floorDetails } from './floors.ts'
import { installed } from './installed.ts'
import { median } from './statistics.ts'

const FIGURE = 'start to answer over LangGraph.js'
const ROUNDS = 7
const ANSWER = 'You said: hello\n'

export const b9: Benchmark<typeof FIGURE> = {
  id: 'B9',
  question: 'start to first answer of one agent',
  must: { [FIGURE]: atMost(0.6) },
  goal: { [FIGURE]: atMost(0.3) },
  async run() {
    let peer: URL
    try {
      peer = await comparison('first-answer')
    } catch (error) {
      const why = error instanceof Error ? error.message : String(error)
      return { ratios: { [FIGURE]: [] }, details: [], notes: [`not measured: ${why}`] }
    }
    const program = 'programs/first-answer.js'
    const own = new URL(program, installed([program, 'agents/greeter.js']))
    const langGraph: ChildResult[] = []
    const dramatis: ChildResult[] = []
    const floors: ChildResult[] = []
    for (let round = -1; round < ROUNDS; round++) {
      const theirs = await answered(peer)
      const ours = await answered(own)
      const bare = await answered(new URL('./programs/bare-start.js', import.meta.url))
      if (round < 0) continue // it filled the file cache for both
      langGraph.push(theirs)
      dramatis.push(ours)
      floors.push(bare)
    }
    return {
      ratios: { [FIGURE]: dramatis.map((ours, round) => ours.firstOutputMs / langGraph[round]!.firstOutputMs) },
      details: [
        { label: 'LangGraph.js, to the answer', value: median(langGraph.map((run) => run.firstOutputMs)), unit: 'ms' },
        { label: 'dramatis, to the answer', value: median(dramatis.map((run) => run.firstOutputMs)), unit: 'ms' },
        { label: 'LangGraph.js, to the exit', value: median(langGraph.map((run) => run.totalMs)), unit: 'ms' },
        { label: 'dramatis, to the exit', value: median(dramatis.map((run) => run.totalMs)), unit: 'ms' },
        ...floorDetails(
          'one bare worker, to its post',
          'ms',
          dramatis.map((run) => run.firstOutputMs),
          floors.map((run) => run.firstOutputMs),
        ),
      ],
    }
  },
}

/** The time of the first output is that of the answer only if nothing else was printed. */
async function answered(program: URL): Promise<ChildResult> {
  const result = await runChild(program)
  if (result.stdout !== ANSWER) throw new Error(`${program.pathname} should print ${ANSWER}, printed ${result.stdout}`)
  return result
}
