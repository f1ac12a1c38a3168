/** Writes the report from what it finds on the blackboard, and from nothing else. */
import { defineAgent } from 'dramatis'
import { writeReport } from '../lib/report.ts'

export default defineAgent({
  async receive(_message, context) {
    return writeReport('Seattle weather: what stood out, and was it changing?', await context.blackboard.query())
  },
})
