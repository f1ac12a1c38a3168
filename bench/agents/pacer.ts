/** Sends messages to another agent at a steady pace. */
import { type AgentMessage, defineAgent } from 'dramatis'
import { pace } from '../pacing.ts'
import { CONTENT, payload } from '../workload.ts'

export interface Pace {
  to: string
  perSecond: number
  forMs: number
}

export default defineAgent<Pace, { rate: number }>({
  async receive(message: AgentMessage<Pace>, context) {
    const { to, perSecond, forMs } = message.structuredData
    const send = (i: number) => context.send(to, CONTENT, { structuredData: payload(i) })
    return { structuredData: { rate: await pace(send, perSecond, forMs) } }
  },
})
