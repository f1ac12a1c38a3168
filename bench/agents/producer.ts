/** Sends messages to another agent as fast as it may. */
import { type AgentMessage, defineAgent } from 'dramatis'
import { payload } from '../workload.ts'

export interface Order {
  to: string
  count: number
  /** Characters of each content. */
  size: number
  /** 1: awaits each send before the next. */
  inFlight: number
}

export default defineAgent<Order>({
  async receive(message: AgentMessage<Order>, context) {
    const { to, count, size, inFlight } = message.structuredData
    const content = 'x'.repeat(size)
    let next = 0
    const lane = async () => {
      while (next < count) await context.send(to, content, { structuredData: payload(next++) })
    }
    await Promise.all(Array.from({ length: inFlight }, lane))
    return `sent ${count}`
  },
})
