/** The first messages of a process, before its code is compiled, against workers that post objects through their host. */
import { atLeast, type Benchmark } from './benchmark.ts'
import { runProgram } from './child.ts'
import { floorDetails } from './floors.ts'
import { median } from './statistics.ts'

const ROUNDS = 5
const SIZES = [
  { figure: 'rate over the relay, 200 characters', characters: 200, messages: 100_000 },
  { figure: 'rate over the relay, 4 K', characters: 4_096, messages: 50_000 },
  { figure: 'rate over the relay, 32 K', characters: 32_768, messages: 20_000 },
] as const
type Figure = (typeof SIZES)[number]['figure']

const least = (values: readonly number[]) =>
  Object.fromEntries(SIZES.map(({ figure }, i) => [figure, atLeast(values[i]!)])) as Benchmark<Figure>['must']

export const b17: Benchmark<Figure> = {
  id: 'B17',
  question: 'routed one-way, the first messages of a process',
  must: least([1, 1, 1]),
  goal: least([2, 1.6, 1]),
  async run() {
    const measured = []
    for (const { figure, characters, messages } of SIZES) {
      const relay: number[] = []
      const dramatis: number[] = []
      const floors: number[] = []
      for (let round = 0; round < ROUNDS; round++) {
        relay.push(await runProgram<number>('relay', ['cold', messages, characters]))
        dramatis.push(await runProgram<number>('one-way', [messages, characters, 1, 'cold']))
        floors.push(await runProgram<number>('copies', ['cold', messages, characters]))
      }
      measured.push({ figure, relay, dramatis, floors })
    }
    const ratios = measured.map(({ figure, relay, dramatis }) => [figure, dramatis.map((rate, i) => rate / relay[i]!)])
    return {
      ratios: Object.fromEntries(ratios) as Record<Figure, number[]>,
      details: measured.flatMap(({ figure, relay, dramatis, floors }) => {
        const size = figure.split(', ')[1]
        return [
          { label: `relay of posted objects, ${size}`, value: median(relay), unit: 'messages/s' as const },
          { label: `dramatis, each send awaited, ${size}`, value: median(dramatis), unit: 'messages/s' as const },
          ...floorDetails(`wake-ups and copies alone, ${size}`, 'messages/s', dramatis, floors),
        ]
      }),
    }
  },
}
