/** Does a thing outside of the team before and after it has asked another agent, or people, and hands the rest on. */
import { appendFileSync } from 'node:fs'
import { defineAgent } from 'dramatis'

export default defineAgent({
  async receive({ content }, context) {
    const { effects } = context.data as { effects: string }
    const done = (what: string) => appendFileSync(effects, `${what} ${content}\n`)
    if (context.role.name === 'closer') {
      await context.step('thank', () => done('thanked'))
      return `${content}: h1,h2,h3`
    }
    await context.step('book', () => done('booked'))
    const heard: string[] = []
    for (const part of ['1', '2']) heard.push((await context.request('helper', part)).content)
    heard.push((await context.request('helper', '3', { key: content })).content) // in another shard, and process
    await context.sleep(100 + 300 * (await context.step('wait', () => Math.random())))
    if (content.endsWith('asks')) {
      await context.tool('pay', { order: content })
      return context.handoff('closer', content)
    }
    await context.step('thank', () => done('thanked'))
    return `${content}: ${heard.join(',')}`
  },
})
