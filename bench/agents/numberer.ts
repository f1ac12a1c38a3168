/** Sends numbered messages to another agent, each awaited. */
import { type AgentMessage, defineAgent } from 'dramatis'

export default defineAgent<{ to: string; count: number }>({
  async receive({ structuredData: { to, count } }: AgentMessage<{ to: string; count: number }>, context) {
    for (let number = 1; number <= count; number++) await context.send(to, 'note', { structuredData: { number } })
    return `sent ${count}`
  },
})
