/** The dashboard shows what went wrong and what hangs: deadlocks, crashes, dead letters, long waits. */
import { readFileSync } from 'node:fs'
import axe from 'axe-core'
import t from 'tap'
import { defineAgent, type RuntimeEvent } from '../../src/index.ts'
import { FakeModel } from '../models/fake-model.ts'
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
  await card.filter({ hasText: `Victim: ${victim}` }).waitFor()
  t.equal(await card.count(), 1, 'what was found and what was done about it is one')
  const words = (await card.textContent())!
  for (const [at, name] of cycle.entries()) t.match(words, `${name} waits for ${cycle[(at + 1) % cycle.length]}`)
  await page.locator('.node.victim').waitFor()
  t.equal(await page.locator('.edge.ring').count(), 3)
  t.equal(await page.locator('.node.in-ring').count(), 3)
  t.match(await page.locator('.node.victim').textContent(), victim!)
  await card.getByRole('button', { name: 'Copy as rehearsal' }).click()
  await card.getByText('npx dramatis rehearse <team file> "orders"').waitFor()
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
  await crash.filter({ hasText: 'attempt 2 ended well' }).waitFor()
  t.match(await crash.textContent(), /worker[\s\S]*The test ended the life[\s\S]*Back after[\s\S]*attempt 2 ended well/)
  t.equal(await page.getByRole('list', { name: 'What went wrong' }).getByText('1').count(), 1)
  await crash.getByRole('link', { name: 'See it in its run' }).click()
  await page.getByRole('row', { name: /✕ agent\.crashed worker/ }).waitFor()
  await page.getByLabel('To the begin').click()
  await page.keyboard.press('/')
  await page.keyboard.type('CRASHED')
  const found = page.getByLabel('Found')
  await found.getByText('0 of 2').waitFor()
  await page.evaluate('document.activeElement.blur()')
  await page.keyboard.press('n')
  await page.keyboard.press('n')
  await found.getByText('2 of 2').waitFor()
  await page.locator('.vrow.selected', { hasText: 'agent.crashed' }).waitFor()
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
  const alarms = page.getByRole('navigation', { name: 'Views' }).locator('.alarms')
  await alarms.waitFor({ state: 'detached' })
  t.same(team.deadLetters.list(), [])
})

t.test('Cost has budgets as they are used, and how much of an answer was repeated', inBrowser, async (t) => {
  const calls = defineAgent({
    async receive(_message, context) {
      await context.complete({ prompt: 'How is it?', maxOutputTokens: 300 })
      return 'It rains. Take a coat.'
    },
  })
  const { url, team } = await served(t, {
    agents: { first: calls, second: calls },
    options: {
      budget: {
        perTeam: { tokens: 1_000, windowMs: 600_000 },
        perTenant: { each: { money: 1 }, period: 'day' },
      },
      prices: { currency: 'EUR', models: { default: { input: 0, output: 1_000 } } },
      orchestration: { strategy: 'sequential', agentOrder: ['first', 'second'] },
    },
    model: new FakeModel(() => [
      { text: 'wet' },
      { usage: { inputTokens: 290, outputTokens: 95, totalTokens: 385, calls: 1 } },
    ]),
  })
  const run = team.launch('go', { tenant: 'acme' })
  await run.result
  const { page, complaints } = await open(t, `${url}#/cost?task=${run.id}`)
  const rows = page.getByRole('region', { name: 'Budgets' })
  const budget = rows.getByRole('row', { name: /budget\.perTeam\.tokens/ })
  await budget.filter({ hasText: '80 %' }).waitFor()
  t.match(await budget.textContent(), /within 10 min.*the team.*800.*1,000.*80 %/)
  const ofTenant = rows.getByRole('row', { name: /budget\.perTenant\.each\.money/ })
  t.match(await ofTenant.textContent(), /acme 0\.20* EUR.*1\.0* EUR.*20 %.*free again at/)
  const sentences = page.getByRole('region', { name: 'Sentences of the answer' })
  await sentences.getByText('2, of which 100 % were said by more than one').waitFor()
  t.same((await sentences.getByRole('row').allTextContents()).slice(1), ['first200 %400', 'second02100 %400'])
  await page.keyboard.press('5')
  await page.getByRole('list', { name: 'What went wrong' }).getByText('80 % of a budget').waitFor()
  t.same(complaints, [])
})

t.test(
  'Trouble has event loops without time; a run is copied as a rehearsal and saved as a page',
  inBrowser,
  async (t) => {
    const { url, team } = await served(t, { api: { teamFiles: { desk: './desk.ts' } } })
    await team.execute('go')
    const { page, context, complaints } = await open(t, `${url}#/trouble`)
    let seconds = 0
    await page.route('**/metrics', (route) => {
      seconds += 3
      const loop = (kind: string, value: number) =>
        `dramatis_agent_event_loop_${kind}_seconds_total{team="desk",agent="worker"} ${value}\n`
      return route.fulfill({ contentType: 'text/plain', body: loop('active', seconds) + loop('idle', 7) })
    })
    const slow = page.getByRole('article', { name: 'slow event loop' })
    await slow.filter({ hasText: 'busy, now' }).waitFor()
    t.match(await slow.textContent(), /worker100 % busy, now/)
    await context.grantPermissions(['clipboard-read', 'clipboard-write'])
    await page.keyboard.press('3')
    await page.getByRole('button', { name: 'Copy as rehearsal' }).click()
    await page.getByText('Copied. It plays the query').waitFor()
    t.equal(await page.evaluate('navigator.clipboard.readText()'), 'npx dramatis rehearse ./desk.ts "go"')
    const [saved] = await Promise.all([
      page.waitForEvent('download'),
      page.getByRole('button', { name: 'Page' }).click(),
    ])
    const file = await saved.path()
    t.match(readFileSync(file, 'utf8'), /^<!doctype html>[\s\S]*<pre>heard: go<\/pre>/)
    await page.route('**/saved', (route) => route.fulfill({ path: file, contentType: 'text/html' }))
    await page.goto(`${url}saved`)
    await page.getByRole('heading', { name: 'Answer' }).waitFor()
    await page.evaluate(axe.source)
    t.same(await page.evaluate('axe.run().then(({ violations }) => violations.map(({ id }) => id))'), [])
    t.same(complaints, [])
  },
)

// The dashboard names what hangs, with its age, and does not say meanwhile that nobody is stuck.

const hangs = defineAgent({
  receive: ({ content }, context) =>
    content === 'own'
      ? new Promise<string>(() => {})
      : context.step('fetch prices', () => new Promise<string>(() => {})),
})

for (const [query, words] of [
  ['prices', 'step "fetch prices" for'],
  ['own', 'its own code, in no step and no call for'],
] as const)
  t.test(`a turn that hangs is amber: ${query}`, inBrowser, async (t) => {
    const options = { communication: { responseTimeoutMs: 600_000 }, maxConcurrentRuns: 1 }
    const { url, team } = await served(t, { agents: { writer: hangs, idler: hangs }, options })
    const run = team.launch(query)
    await team.clock.advance(5_000)
    const { page, complaints } = await open(t, `${url}#/team`)
    await page.getByText('Nobody is stuck.').waitFor()
    const queued = team.launch('later')
    await team.clock.advance(40_000)
    await page.reload()
    const card = page.getByRole('article', { name: 'slow' }).filter({ hasText: words })
    await card.waitFor()
    t.match(await card.textContent(), /writer.*its turn began .* ago.*slow after 30 s/)
    t.equal(await page.getByText('Nobody is stuck').count(), 0)
    await page.locator('.node.slow', { hasText: 'writer' }).waitFor()
    await page.goto(`${url}#/team?agent=writer`)
    const detail = page.getByRole('region', { name: 'Agent' })
    await detail.getByText('in a turn that began').waitFor()
    t.match(await detail.textContent(), words.replace(/ for$/, ''))
    await page.goto(`${url}#/trouble`)
    await card.waitFor()
    const queue = page.getByRole('article', { name: 'slow' }).filter({ hasText: 'maxConcurrentRuns' })
    t.match(await queue.textContent(), `1 of 1 runs: ${words.replace(/ for$/, '')}`)
    t.match(await page.getByRole('list', { name: 'What went wrong' }).textContent(), /2\s*slow/)
    t.equal(await page.getByText('Nothing has gone wrong').count(), 0)
    for (const each of [run, queued]) void each.cancel('enough')
    await team.clock.advance(10_000)
    await card.waitFor({ state: 'detached' })
    t.same(complaints, [])
  })
