import { defineAgent } from 'dramatis'

/** Ends its thread on the first attempt when told to, and answers on the next. */
export default defineAgent({
  initialState: { seen: 0 },
  async receive(message, context) {
    context.setState((draft) => {
      draft.seen += 1
    })
    if (context.attempt === 1 && message.content === 'crash once') process.exit(1)
    const { seen } = context.state
    await context.publish(`finding.${context.role.name}`, { seen }, 'fact', { confidence: 0.9 })
    return { content: `seen ${seen}`, structuredData: { seen } }
  },
})
