import { defineAgent } from 'dramatis'

/** Runs on a thread of its own. What it returns is its answer. */
export default defineAgent({
  receive(message) {
    return `Hello, ${message.content}!`
  },
})
