/** Sums up one document. Each has a prompt of its own: a conversation would have all that were read before it. */
import { defineAgent } from 'dramatis'

export default defineAgent({
  async receive({ content }, context) {
    const { text } = await context.complete({ prompt: `Sum up this document in one sentence.\n\n${content}` })
    return text
  },
})
