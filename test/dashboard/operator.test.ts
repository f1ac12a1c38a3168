/** What the operator reads on the dashboard is true, whole, and leads on: tiles, cards, lists, keys. */
import type { Page } from 'playwright-core'
import t from 'tap'
import { defineAgent } from '../../src/index.ts'
import { FakeModel } from '../models/fake-model.ts'
import { inBrowser, open } from './browser.ts'
import { type Served, served } from './served.ts'

const patient = { communication: { responseTimeoutMs: 600_000 } }

/** Crashes the agent with the message that it works on, again and again, until that is a dead letter. */
async function poison({ team }: Served): Promise<void> {
  for (let deaths = 0; team.deadLetters.list().length === 0 && deaths < 5; deaths++) {
    await team.clock.advance(20)
    team.crash('worker')
    await team.clock.advance(5_000)
  }
}

const slowly = defineAgent({
  async receive({ content }, context) {
    if (content === 'poison') return new Promise<string>(() => {})
    await context.sleep(content === 'quick' ? 1 : 100)
    return 'done'
  },
})

const tile = (page: Page, title: string) =>
  page.getByRole('list', { name: 'What went wrong' }).getByRole('link', { name: title })

t.test('a crash card says of its message what became of it', inBrowser, async (t) => {
  const stage = await served(t, { agents: { worker: slowly }, options: patient })
  const { url, team } = stage
  const { page } = await open(t, `${url}#/trouble`)
  await page.getByText('● live').waitFor() // of a message that is no task, what came before is not told
  await team.sendMessage({ recipient: 'worker', content: 'poison' })
  await poison(stage)
  await page.getByRole('article', { name: 'Dead letter' }).waitFor()
  const cards = page.getByRole('article', { name: 'crash' })
  await cards.filter({ hasText: 'Its message is a dead letter: poison.' }).first().waitFor()
  t.notMatch((await cards.allTextContents()).join(), /No message was lost/)
  await page.reload()
  await page.getByRole('article', { name: 'Dead letter' }).waitFor()
  t.notMatch((await cards.allTextContents()).join(), /No message was lost/)
})

t.test('a count of Trouble stays when newer tasks come, and each tile leads to its list', inBrowser, async (t) => {
  const { url, team } = await served(t, { agents: { worker: slowly }, options: patient })
  const run = team.launch('first')
  await team.clock.advance(20)
  team.crash('worker')
  await team.clock.advance(60_000)
  await run.result
  const { page, complaints } = await open(t, `${url}#/trouble`)
  await tile(page, '1 crashes').waitFor()
  for (let n = 0; n < 13; n++) {
    const next = team.launch('quick')
    await team.clock.advance(1_000)
    await next.result
  }
  await page.keyboard.press('1')
  await page.getByRole('link', { name: 'quick' }).nth(12).waitFor()
  await page.keyboard.press('5')
  await tile(page, '1 crashes').click()
  await page.getByRole('article', { name: 'crash' }).waitFor()
  await tile(page, '0 stalls').click()
  await page.getByText('There is nothing of that kind here.').waitFor()
  await page.getByRole('link', { name: 'Show all' }).click()
  await page.getByRole('article', { name: 'crash' }).waitFor()
  await tile(page, 'failed tasks').click()
  await page.getByText('No task has that text.').waitFor()
  t.same(complaints, [])
})

t.test('a failed task has its error code in the list, and is found by it', inBrowser, async (t) => {
  const fails = defineAgent({
    receive() {
      throw new Error('no ink')
    },
  })
  const { url, team } = await served(t, { agents: { worker: fails } })
  await team.execute('write')
  const { page } = await open(t, `${url}#/trouble`)
  await tile(page, '1 failed tasks').click()
  await page.getByRole('row', { name: /failed.*write.*AGENT_FAILED/ }).waitFor()
  await page.getByLabel('Find in tasks').fill('agent_failed')
  await page.getByRole('row', { name: /AGENT_FAILED/ }).waitFor()
})

t.test('an approval has its words, its task and who may give it; one key does not give it', inBrowser, async (t) => {
  const { url, paid } = await served(t)
  const { page } = await open(t, `${url}#/tasks`)
  await page.getByLabel('Give the team a task').fill('pay the bill of ann')
  await page.keyboard.press('Enter')
  const card = page.getByRole('region', { name: 'Approval of worker' })
  await card.waitFor()
  const words = (await card.textContent())!
  t.match(words, /May agent "worker" call the tool "pay"/)
  t.match(words, 'pay the bill of ann')
  t.match(words, /wants to call pay/)
  await page.evaluate('document.activeElement.blur()')
  await page.keyboard.press('a')
  t.equal(await page.evaluate('document.activeElement.textContent'), 'Allowa')
  t.same(paid, [])
  await page.keyboard.press('d')
  t.equal(await page.evaluate('document.activeElement.textContent'), 'Denyd')
  await page.keyboard.press('a')
  await page.keyboard.press('Enter')
  await page.getByText('pay: paid').waitFor()
  t.equal(paid.length, 1)
})

t.test('the list of a run has the words of messages, and calls of tools and models', inBrowser, async (t) => {
  const thinks = defineAgent({
    receive: async ({ content }, context) => {
      await context.tool('pay', { to: 'ann', euros: 1 })
      return `${(await context.complete({ prompt: content })).text} about ${content}`
    },
  })
  const usage = { inputTokens: 70, outputTokens: 7, totalTokens: 77, calls: 1 }
  const { url, team } = await served(t, {
    agents: { worker: thinks },
    model: new FakeModel(() => [{ text: 'A poem' }, { usage }]),
  })
  const run = team.launch('rivers')
  while (run.questions.length === 0) await team.clock.advance(10)
  await run.answer(run.questions[0]!.questionId, 'yes')
  await team.clock.advance(1_000)
  await run.result
  const { page, complaints } = await open(t, `${url}#/run?task=${run.id}`)
  const rows = page.getByRole('table', { name: 'Messages and events' })
  await rows.getByRole('row', { name: /strategy → worker rivers/ }).waitFor()
  await rows.getByRole('row', { name: /worker → strategy A poem about rivers/ }).waitFor()
  await rows.getByRole('row', { name: /tool worker pay, / }).waitFor()
  await rows.getByRole('row', { name: /model worker default, .* tokens/ }).waitFor()
  t.notMatch(await rows.textContent(), /\d B\b/)
  t.same(complaints, [])
})

t.test('money stands beside tokens where prices are given', inBrowser, async (t) => {
  const usage = { inputTokens: 1_000_000, outputTokens: 0, totalTokens: 1_000_000, calls: 1 }
  const { url, team } = await served(t, {
    agents: {
      worker: defineAgent({ receive: async (_message, context) => (await context.complete({ prompt: 'x' })).text }),
    },
    model: new FakeModel(() => [{ text: 'done' }, { usage }]),
    api: { prices: { default: { input: 2, output: 10 } } },
  })
  for (const query of ['alpha', 'beta']) await team.execute(query)
  const { page } = await open(t, `${url}#/tasks`)
  await page.getByRole('row', { name: /alpha.*1,000,015 2\.0001/ }).waitFor()
  await page.keyboard.press('4')
  await page.getByRole('list', { name: 'Sums' }).getByText('4.0001').waitFor()
  await page.getByRole('row', { name: /beta.*2\.0001/ }).waitFor()
})

t.test(
  'at 400 px each message of a run and each agent of a team is in sight, whatever its strategy',
  inBrowser,
  async (t) => {
    const names = ['one', 'two', 'three', 'four', 'five']
    const { url, team } = await served(t, { agents: Object.fromEntries(names.map((name) => [name, slowly])) })
    const run = team.launch('quick')
    await team.clock.advance(1_000)
    await run.result
    const { page } = await open(t, `${url}#/team`, { width: 400, height: 800 })
    const isInSight = async (box: { x: number; width: number } | null) =>
      box !== null && box.x >= 0 && box.x + box.width <= 400
    for (const name of names) t.ok(await isInSight(await page.locator('.node', { hasText: name }).boundingBox()), name)
    await page.goto(`${url}#/run?task=${run.id}`)
    const cells = page.getByRole('table', { name: 'Messages and events' }).getByRole('cell')
    await cells
      .filter({ hasText: /^done$/ })
      .first()
      .waitFor()
    for (const cell of await cells.all()) t.ok(await isInSight(await cell.boundingBox()), (await cell.textContent())!)
  },
)
