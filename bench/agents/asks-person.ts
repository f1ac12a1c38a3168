/** Asks a person, and answers with the answer. */
import { defineAgent } from 'dramatis'

export default defineAgent({
  receive: (message, context) => context.ask(`${message.content}?`),
})
