/** Keeps another agent's mailbox full until its run ends. */
import { defineAgent } from 'dramatis'
import { CONTENT, payload } from '../workload.ts'

export default defineAgent({
  async receive(message, context) {
    for (let i = 0; !context.signal.aborted; i++) {
      await context.send(message.content, CONTENT, { structuredData: payload(i) })
    }
  },
})
