/** Routing of long messages: as B1, with contents of 4 K and of 32 K characters. */
import { atLeast, type Benchmark, type Detail } from './benchmark.ts'
import { runProgram } from './child.ts'
import { floorDetails } from './floors.ts'
import { median } from './statistics.ts'

const FOUR = 'rate over the relay, 4 K'
const THIRTY_TWO = 'rate over the relay, 32 K'
const ROUNDS = 5

export const b2: Benchmark<typeof FOUR | typeof THIRTY_TWO> = {
  id: 'B2',
  question: 'routed one-way, 4 K and 32 K characters',
  must: { [FOUR]: atLeast(1.6), [THIRTY_TWO]: atLeast(1) },
  goal: { [FOUR]: atLeast(3), [THIRTY_TWO]: atLeast(2) },
  async run() {
    const four = await compare(4, 50_000)
    const thirtyTwo = await compare(32, 20_000)
    return {
      ratios: { [FOUR]: four.ratios, [THIRTY_TWO]: thirtyTwo.ratios },
      details: [...four.details, ...thirtyTwo.details],
    }
  },
}

async function compare(size: number, messages: number): Promise<{ ratios: number[]; details: Detail[] }> {
  const relay: number[] = []
  const dramatis: number[] = []
  const floors: number[] = []
  for (let round = 0; round < ROUNDS; round++) {
    relay.push(await runProgram<number>('relay', ['one-way', messages, size * 1_024]))
    dramatis.push(await runProgram<number>('one-way', [messages, size * 1_024, 1]))
    floors.push(await runProgram<number>('copies', ['one-way', messages, size * 1_024]))
  }
  return {
    ratios: dramatis.map((rate, round) => rate / relay[round]!),
    details: [
      { label: `relay of posted objects, ${size} K`, value: median(relay), unit: 'messages/s' },
      { label: `dramatis, each send awaited, ${size} K`, value: median(dramatis), unit: 'messages/s' },
      ...floorDetails(`wake-ups and copies alone, ${size} K`, 'messages/s', dramatis, floors),
    ],
  }
}
