/** An agent with code: it has a thread of its own, and may block or crash without harm to the service. */
import { defineAgent } from 'dramatis'

export default defineAgent({
  receive({ content }) {
    const words = content.split(/\s+/).filter((word) => word !== '').length
    return { content: `${words} words: ${content}`, structuredData: { words } }
  },
})
