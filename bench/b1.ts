/** Routing: an agent awaits each `context.send` to another, against workers that post objects through their host. */
import { atLeast, type Benchmark } from './benchmark.ts'
import { runProgram } from './child.ts'
import { floorDetails } from './floors.ts'
import { median } from './statistics.ts'
import { SIZE } from './workload.ts'

const FIGURE = 'rate over the relay'
const ROUNDS = 5
const MESSAGES = 400_000

export const b1: Benchmark<typeof FIGURE> = {
  id: 'B1',
  question: 'routed one-way, 200 characters',
  must: { [FIGURE]: atLeast(2.3) },
  goal: { [FIGURE]: atLeast(3) },
  async run() {
    const relay: number[] = []
    const awaited: number[] = []
    const pipelined: number[] = []
    const reading: number[] = []
    const floors: number[] = []
    for (let round = 0; round < ROUNDS; round++) {
      relay.push(await runProgram<number>('relay', ['one-way', MESSAGES, SIZE]))
      awaited.push(await runProgram<number>('one-way', [MESSAGES, SIZE, 1]))
      pipelined.push(await runProgram<number>('one-way', [MESSAGES, SIZE, 64]))
      reading.push(await runProgram<number>('one-way', [MESSAGES, SIZE, 1, 'reads']))
      floors.push(await runProgram<number>('copies', ['one-way', MESSAGES, SIZE]))
    }
    return {
      ratios: { [FIGURE]: awaited.map((rate, round) => rate / relay[round]!) },
      details: [
        { label: 'relay of posted objects', value: median(relay), unit: 'messages/s' },
        { label: 'dramatis, each send awaited', value: median(awaited), unit: 'messages/s' },
        { label: 'dramatis, up to 64 sends under way', value: median(pipelined), unit: 'messages/s' },
        { label: 'dramatis, awaited, structuredData read', value: median(reading), unit: 'messages/s' },
        ...floorDetails('wake-ups and copies alone', 'messages/s', awaited, floors),
      ],
    }
  },
}
