/** Answers at once, with as much as it was asked. What wants no answer is gone with its turn. */
import { defineAgent } from 'dramatis'
import { CONTENT, payload } from '../workload.ts'

let answered = 0

export default defineAgent({
  receive(message) {
    if (message.requiresResponse) return { content: CONTENT, structuredData: payload(answered++) }
  },
})
