/** Has some waiting to do, as for a model or a service. */
import { defineAgent } from 'dramatis'
import { WAIT_MS } from '../workload.ts'

export default defineAgent({
  async receive(_message, context) {
    await context.sleep(WAIT_MS)
    return 'waited'
  },
})
