/** Asks whether the weather was changing. Half-way through its first attempt it ends its own thread. */
import { defineAgent } from 'dramatis'
import { WeatherSchema } from '../lib/dataset.ts'
import { method, tallyMonths, trendClaims, yearTable } from '../lib/trends.ts'

export default defineAgent({
  async receive(_message, context) {
    const dataset = await context.blackboard.waitFor('dataset', { timeoutMs: 10_000 })
    const weather = WeatherSchema.parse(dataset.value)
    const references = [dataset.key]
    const tally = await context.step('tally the months', () => tallyMonths(weather), { idempotent: true })
    await context.publish('years', yearTable(weather, tally), 'table', { references })

    // The thread is gone at once; the code above has had its effects and must not have them twice.
    if (context.attempt === 1) process.exit(1)

    const claims = trendClaims(tally)
    for (const { key, finding, confidence } of claims) {
      await context.publish(key, finding, 'finding', { confidence, references })
    }
    await context.publish('method.trend', { statement: method(tally.years.length) }, 'method')
    return `Published ${claims.length} findings.`
  },
})
