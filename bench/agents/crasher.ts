/** Takes its thread down at the first attempt and answers at the second. */
import { defineAgent } from 'dramatis'

export default defineAgent({
  receive(_message, context) {
    if (context.attempt === 1) process.exit(1)
    return `attempt ${context.attempt}`
  },
})
