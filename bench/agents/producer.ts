/** Sends messages to another agent as fast as it may. */
import { type AgentContext, type AgentMessage, defineAgent } from 'dramatis'
import { CONTENT, payload } from '../workload.ts'

export interface Order {
  to: string
  count: number
  /** 1: awaits each send before the next. */
  inFlight: number
}

export default defineAgent<Order>({
  async receive(message: AgentMessage<Order>, context) {
    const { to, count, inFlight } = message.structuredData
    if (inFlight === 1) {
      for (let i = 0; i < count; i++) await context.send(to, CONTENT, { structuredData: payload(i) })
    } else {
      await sendPipelined(context, to, count, inFlight)
    }
    return `sent ${count}`
  },
})

async function sendPipelined(context: Pick<AgentContext, 'send'>, to: string, count: number, inFlight: number) {
  let next = 0
  const lane = async () => {
    while (next < count) await context.send(to, CONTENT, { structuredData: payload(next++) })
  }
  await Promise.all(Array.from({ length: inFlight }, lane))
}
