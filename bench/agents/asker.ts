/** Asks another agent again and again, and tells how long the answers took. */
import { type AgentMessage, defineAgent } from 'dramatis'
import { measureRoundTrips, type RoundTripPlan, type RoundTrips } from '../round-trips.ts'
import { CONTENT, payload } from '../workload.ts'

export interface Questions extends RoundTripPlan {
  to: string
  priority: number
}

export default defineAgent<Questions, RoundTrips>({
  async receive(message: AgentMessage<Questions>, context) {
    const { to, priority, ...plan } = message.structuredData
    const request = (i: number) => context.request(to, CONTENT, { structuredData: payload(i), priority })
    return { structuredData: await measureRoundTrips(request, plan) }
  },
})
