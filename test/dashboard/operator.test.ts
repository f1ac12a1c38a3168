/** What the operator reads is true, leads on, and can be read by all. */

import axe from 'axe-core'
import type { Page } from 'playwright-core'
import t from 'tap'
import { defineAgent } from '../../src/index.ts'
import { howMany } from '../how-many.ts'
import { FakeModel } from '../models/fake-model.ts'
import { inBrowser, open } from './browser.ts'
import { type Served, served } from './served.ts'

// What the operator reads on the dashboard is true, whole, and leads on: tiles, cards, lists, keys.

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

// The dashboard for all: axe-core finds nothing in any view, in any colours.

/** Returns what is wider than its place and cannot be moved sideways by itself: it is cut, or moves all of the page. */
const cutParts = (page: Page): Promise<string[]> =>
  page.evaluate(`[...document.querySelectorAll('html, body, header, main, .pane, .row, .list, [role=row]')]
    .filter(({ scrollWidth, clientWidth }) => scrollWidth > clientWidth + 1)
    .map(({ tagName, className, scrollWidth, clientWidth }) =>
      tagName + '.' + className + ': ' + scrollWidth + ' in ' + clientWidth + ' px')`)

/** Returns the rules that a page breaks, each with the first element that does. */
async function brokenRules(page: Page): Promise<string[]> {
  return page.evaluate(async () => {
    const { axe } = globalThis as unknown as {
      axe: { run(): Promise<{ violations: { id: string; nodes: { html: string; failureSummary: string }[] }[] }> }
    }
    const { violations } = await axe.run()
    return violations.map(({ id, nodes }) => `${id}: ${nodes[0]?.html} ${nodes[0]?.failureSummary}`)
  })
}

const VIEWS = { 1: 'tasks', 2: 'team', 3: 'run', 4: 'cost', 5: 'trouble', 6: 'board', 7: 'chat' }
const LOOKS = [
  { colorScheme: 'light', forcedColors: 'none' },
  { colorScheme: 'dark', forcedColors: 'none' },
  { colorScheme: 'light', forcedColors: 'active' },
] as const

t.test('axe-core finds nothing in any view: light, dark, and with forced colours', inBrowser, async (t) => {
  const { url, team } = await served(t)
  await team.execute('one', { threadId: 'talk' })
  team.launch('pay')
  const { page } = await open(t, url)
  await page.evaluate(axe.source)
  for (const [at, [key, view]] of Object.entries(VIEWS).entries()) {
    await page.keyboard.press(key)
    await page.locator(`main.view-${view}`).waitFor()
    // `npm test` looks at each view in one of them, `npm run test:deep` in all
    for (const look of LOOKS.filter((_, of) => (of + at) % howMany(LOOKS.length, 1) === 0)) {
      await page.emulateMedia(look)
      t.same(await brokenRules(page), [], `view ${view}, ${JSON.stringify(look)}`)
    }
  }
})

t.test('at the width of a telephone nothing is cut, and conversations can be chosen', inBrowser, async (t) => {
  const { url, team } = await served(t)
  await team.execute('one', { threadId: 'talk' })
  await team.execute('Say something that is longer than a line of a telephone, please')
  const { page } = await open(t, url, { width: 390, height: 800 })
  await page.evaluate(axe.source)
  for (const [key, view] of Object.entries(VIEWS)) {
    await page.keyboard.press(key)
    await page.locator(`main.view-${view}`).waitFor()
    t.same(await cutParts(page), [], `view ${view}`)
    if (view === 'team') t.same(await brokenRules(page), [], 'what scrolls there can have the focus')
  }
  await page.getByRole('button', { name: 'New conversation' }).waitFor()
  await page.getByRole('navigation', { name: 'Conversations' }).getByText('one').click()
  await page.getByText('heard: one').waitFor()
  await page.keyboard.press('2')
  const last = page.getByRole('columnheader', { name: 'last error' })
  await last.scrollIntoViewIfNeeded()
  const { x, width } = (await last.boundingBox())!
  t.ok(x > 0 && x + width <= 390, 'the last column can be moved into sight')
})
