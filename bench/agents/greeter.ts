/** The smallest agent. */
import { defineAgent } from 'dramatis'

export default defineAgent({
  receive: (message) => `You said: ${message.content}`,
})
