/** Answers at once, with as much as it was asked. */
import { defineAgent } from 'dramatis'
import { CONTENT, payload } from '../workload.ts'

let answered = 0

export default defineAgent({
  receive: () => ({ content: CONTENT, structuredData: payload(answered++) }),
})
