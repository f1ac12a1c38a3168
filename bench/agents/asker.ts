/** Asks another agent again and again, and tells how long the answers took. */
import { type AgentMessage, defineAgent } from 'dramatis'
import { measureRoundTrips, type RoundTrips } from '../round-trips.ts'
import { CONTENT, payload } from '../workload.ts'

export interface Questions {
  to: string
  count: number
  inFlight: number
}

export default defineAgent<Questions, RoundTrips>({
  async receive(message: AgentMessage<Questions>, context) {
    const { to, count, inFlight } = message.structuredData
    const request = (i: number) => context.request(to, CONTENT, { structuredData: payload(i) })
    return { structuredData: await measureRoundTrips(request, count, inFlight) }
  },
})
