/** Looks for days that stand out, and says how sure it is of each. */
import { defineAgent } from 'dramatis'
import { METHOD, rainClaims, spellClaims, temperatureClaims } from '../lib/anomalies.ts'
import { WeatherSchema } from '../lib/dataset.ts'

export default defineAgent({
  async receive(_message, context) {
    const dataset = await context.blackboard.waitFor('dataset', { timeoutMs: 10_000 })
    const weather = WeatherSchema.parse(dataset.value)
    const claims = [...temperatureClaims(weather), ...rainClaims(weather), ...spellClaims(weather)]
    for (const { key, finding, confidence } of claims) {
      await context.publish(key, finding, 'finding', { confidence, references: [dataset.key] })
    }
    await context.publish('method.anomaly', { statement: METHOD }, 'method')
    return `Published ${claims.length} findings.`
  },
})
