/** Asks another agent so often, or says what its thread has entered since it said so last, or answers. */
import { type AgentMessage, defineAgent } from 'dramatis'
import { countEntered, type Entered } from '../entered.ts'
import { CONTENT } from '../workload.ts'

export type Order = { ask: number; of: string } | 'take' | null

const take = countEntered()

export default defineAgent<Order, Entered[] | undefined>({
  async receive({ structuredData: order }: AgentMessage<Order>, context) {
    if (order === 'take') return { structuredData: take() }
    if (order === null) return { content: CONTENT }
    for (let i = 0; i < order.ask; i++) await context.request(order.of, CONTENT)
  },
})
