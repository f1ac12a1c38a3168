/**
 * Notes what each sender says, and dies of some of it: it takes its thread down at the first attempt of every n-th number.
 * Asked without a number it tells what it has noted.
 */
import { type AgentMessage, defineAgent } from 'dramatis'

export interface Numbered {
  number: number
}

/** By who said it: the last number, how many there were, and how many came after a higher one. */
export interface Noted {
  [sender: string]: { last: number; count: number; outOfOrder: number }
}

export default defineAgent<Numbered | undefined, Noted, { noted: Noted }, object, { every: number }>({
  initialState: () => ({ noted: {} }),
  receive({ sender, structuredData }: AgentMessage<Numbered | undefined>, context) {
    if (!structuredData) return { structuredData: context.state.noted }
    const { number } = structuredData
    if (number % context.data.every === 0 && context.attempt === 1) process.exit(1)
    context.setState(({ noted }) => {
      const own = noted[sender] ?? { last: -1, count: 0, outOfOrder: 0 }
      noted[sender] = {
        last: Math.max(own.last, number),
        count: own.count + 1,
        outOfOrder: own.outOfOrder + (number < own.last ? 1 : 0),
      }
    })
    return { structuredData: {} }
  },
})
