/** Reads the readings and puts them on the blackboard, where the analysts wait for them. */
import { readFile } from 'node:fs/promises'
import { defineAgent } from 'dramatis'
import { z } from 'zod'
import { dateOf, parseWeather } from '../lib/dataset.ts'
import type { Fact } from '../lib/finding.ts'

export default defineAgent({
  data: z.object({ csv: z.string(), source: z.string() }),
  async receive(_message, context) {
    const { csv, source } = context.data
    // In a step, since a turn that is run again must see the data that it saw; and reading twice does no harm.
    const weather = await context.step('read the file', async () => parseWeather(await readFile(csv, 'utf8')), {
      idempotent: true,
    })
    await context.publish('dataset', weather, 'dataset')

    const days = weather.tempMax.length
    const span = `${weather.firstDay} to ${dateOf(weather, days - 1)}`
    const fact: Fact = { statement: `${days} days, ${span}, none missing. Source: ${source}.` }
    await context.publish('dataset_stats', fact, 'fact', { references: ['dataset'] })
    return `Published ${days} days.`
  },
})
