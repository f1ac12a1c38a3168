/** Does a thing outside of the team before and after it has asked another agent. */
import { appendFileSync } from 'node:fs'
import { defineAgent } from 'dramatis'

export default defineAgent({
  async receive({ content }, context) {
    const { effects } = context.data as { effects: string }
    const done = (what: string) => appendFileSync(effects, `${what} ${content}\n`)
    await context.step('book', () => done('booked'))
    const heard: string[] = []
    for (const part of ['1', '2']) heard.push((await context.request('helper', part)).content)
    heard.push((await context.request('helper', '3', { key: content })).content) // in another shard, and process
    await context.sleep(100 + 300 * (await context.step('wait', () => Math.random())))
    await context.step('thank', () => done('thanked'))
    return `${content}: ${heard.join(',')}`
  },
})
