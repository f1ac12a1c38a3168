/** The dashboard shows what went wrong: a deadlock with its victim, a crash with its story, a dead letter that is sent again. */
import t from 'tap'
import { defineAgent, type RuntimeEvent } from '../../src/index.ts'
import { all } from '../team/stage.ts'
import { inBrowser, open } from './browser.ts'
import { served } from './served.ts'

/** Asks the next one for a quote before it answers an order, and answers one message at a time. */
const asks = (next: string) =>
  defineAgent({
    async receive({ content }, context) {
      if (content === 'quote') return '1'
      await context.sleep(1)
      return (await context.request(next, 'quote')).content
    },
  })

t.test('a deadlock is drawn as a ring with its victim, and told in words', inBrowser, async (t) => {
  const agents = { buyer: asks('seller'), seller: asks('bank'), bank: asks('buyer') }
  const { url, team } = await served(t, {
    agents,
    options: {
      orchestration: {
        strategy: 'custom',
        async run(orchestrator) {
          const orders = Object.keys(agents).map((name) => orchestrator.request(name, 'order').catch(() => undefined))
          await Promise.all(orders)
          return 'done'
        },
      },
    },
  })
  const run = team.launch('orders')
  await team.clock.advance(20_000)
  await run.result
  const deadlocks = (await all(run.events({ types: ['deadlock'] }))) as Extract<RuntimeEvent, { type: 'deadlock' }>[]
  const { victim, cycle } = deadlocks.at(-1)!
  t.equal(cycle.length, 3)
  t.ok(victim)
  const { page, complaints } = await open(t, `${url}#/team`)
  const card = page.getByRole('region', { name: 'Deadlock' })
  await card.waitFor()
  t.equal(await card.count(), 1, 'what was found and what was done about it is one')
  const words = (await card.textContent())!
  for (const [at, name] of cycle.entries()) t.match(words, `${name} waits for ${cycle[(at + 1) % cycle.length]}`)
  t.match(words, `Victim: ${victim}`)
  await page.locator('.node.victim').waitFor()
  t.equal(await page.locator('.edge.ring').count(), 3)
  t.equal(await page.locator('.node.in-ring').count(), 3)
  t.match(await page.locator('.node.victim').textContent(), victim!)
  await card.getByRole('link', { name: 'See it in its run' }).click()
  const moment = page.getByRole('table', { name: 'Agents at that time' })
  await moment.getByRole('row', { name: /buyer ◐ waits/ }).waitFor()
  t.same(complaints, [])
})

t.test('a crash has its story: the cause, the restart, the message that came again', inBrowser, async (t) => {
  const sleeper = defineAgent({
    async receive({ content }, context) {
      await context.sleep(50)
      return `heard: ${content}, attempt ${context.attempt}`
    },
  })
  const { url, team } = await served(t, { agents: { worker: sleeper } })
  const run = team.launch('go')
  await team.clock.advance(10)
  team.crash('worker')
  await team.clock.advance(60_000)
  t.equal((await run.result).finalOutput, 'heard: go, attempt 2')
  const { page } = await open(t, `${url}#/trouble`)
  const crash = page.getByRole('article', { name: 'crash' })
  await crash.waitFor()
  t.match(await crash.textContent(), /worker[\s\S]*The test ended the life[\s\S]*Back after[\s\S]*attempt 2 ended well/)
  t.equal(await page.getByRole('list', { name: 'What went wrong' }).getByText('1').count(), 1)
  await crash.getByRole('link', { name: 'See it in its run' }).click()
  await page.getByRole('row', { name: /✕ agent\.crashed worker/ }).waitFor()
})

t.test('a dead letter is sent again and arrives; another is discarded', inBrowser, async (t) => {
  const heard: string[] = []
  let isBroken = true
  const printer = defineAgent({
    receive({ content }) {
      if (isBroken) throw new Error('no ink')
      heard.push(content)
      return 'printed'
    },
  })
  const { url, team } = await served(t, { agents: { printer } })
  for (const content of ['first', 'second']) await team.sendMessage({ recipient: 'printer', content })
  while (team.deadLetters.list().length < 2) await team.clock.advance(1_000)
  isBroken = false
  const { page } = await open(t, `${url}#/trouble`)
  const letters = page.getByRole('article', { name: 'Dead letter' })
  await letters.nth(1).waitFor()
  await letters.filter({ hasText: 'first' }).getByRole('button', { name: 'Replay' }).click()
  await page.getByText('printer has accepted the message').waitFor()
  while (heard.length === 0) await team.clock.advance(1)
  t.same(heard, ['first'])
  await letters.filter({ hasText: 'second' }).getByRole('button', { name: 'Discard' }).click()
  await page.getByText('Every message has found its agent.').waitFor()
  t.same(team.deadLetters.list(), [])
})
