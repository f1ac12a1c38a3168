/** Asks another agent by each of the keys of its message, one after the other, and says how long each answer took. */
import { defineAgent } from 'dramatis'

export default defineAgent({
  async receive({ content }, context) {
    const us: number[] = []
    for (const key of JSON.parse(content) as string[]) {
      const since = performance.now()
      await context.request('echo', 'go', { key })
      us.push((performance.now() - since) * 1_000)
    }
    return JSON.stringify(us)
  },
})
