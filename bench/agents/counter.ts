/** Counts what nobody waits for; asked, tells the count and starts again at 0. */
import { type AgentMessage, defineAgent } from 'dramatis'
import type { Payload } from '../workload.ts'

// plain variables: the question is what routing costs, not what immer costs
let count = 0
let sum = 0

/** With `data.reads` each payload is read, which makes the runtime parse it. */
export default defineAgent<Payload, { count: number; sum: number }, object, object, { reads?: boolean } | undefined>({
  receive(message: AgentMessage<Payload>, context) {
    if (!message.requiresResponse) {
      count++
      if (context.data?.reads) sum += message.structuredData.a
      return
    }
    const structuredData = { count, sum }
    count = 0
    sum = 0
    return { structuredData }
  },
})
