/** The dashboard with a past, and with a service that has much to do. */
import t from 'tap'
import { defineAgent } from '../../src/index.ts'
import { bearerToken } from '../../src/service/api/index.ts'
import { DigestFold } from '../../src/service/digest/digest-fold.ts'
import { momentOf } from '../../src/service/digest/moment.ts'
import { storyOf } from '../../src/service/pictures/run-story.ts'
import type { TestTeam } from '../../src/testing.ts'
import { Dice } from '../dice.ts'
import { howMany } from '../how-many.ts'
import { all } from '../team/stage.ts'
import { inBrowser, open } from './browser.ts'
import { handy, served } from './served.ts'

// The dashboard goes back in time as the fold does, and over a cut connection and another process without a wrong
// state.

/** Asks two others again and again, each of which takes its time. */
const lead = defineAgent({
  async receive(_message, context) {
    for (let round = 0; round < 20; round++) {
      await context.sleep(context.random() * 40)
      await Promise.all(['left', 'right'].map((name) => context.request(name, `round ${round}`)))
    }
    return 'done'
  },
})
const slow = defineAgent({
  async receive({ content }, context) {
    await context.sleep(context.random() * 100)
    return content
  },
})
const agents = { lead, left: slow, right: slow }
const options = { orchestration: { strategy: 'sequential' as const, agentOrder: ['lead'] } }

async function foldOf(team: TestTeam, runId: string): Promise<DigestFold> {
  const fold = new DigestFold()
  for (const line of await all(team.digestOf(runId))) fold.read(JSON.parse(JSON.stringify(line)))
  return fold
}

t.test('at random times the page shows what the fold says in Node', inBrowser, async (t) => {
  const { url, team } = await served(t, { agents, options })
  const run = team.launch('go')
  await team.clock.advance(60_000)
  await run.result
  const fold = await foldOf(team, run.id)
  const { scale, times } = storyOf(fold, 0)
  const { page, complaints } = await open(t, `${url}#/run?task=${run.id}`)
  const table = page.getByRole('table', { name: 'Agents at that time' })
  await table.getByRole('row', { name: /lead/ }).waitFor()
  const rows = page.getByRole('table', { name: 'Messages and events' })
  t.equal(Number(await rows.getAttribute('aria-rowcount')), times.length + 1)
  const dice = new Dice(7)
  const looks = howMany(20, 100)
  let worked = 0
  for (let look = 0; look < looks; look++) {
    const value = dice.upTo(100_000)
    const moment = momentOf(fold, scale.timeAt(value / 100_000))
    const expected = moment.agents
      .filter(({ name }) => !name.startsWith('$'))
      .map(({ name, inMailbox, turns }) => {
        const waits = moment.waits.some(({ agent }) => agent === name)
        return [name, waits ? '◐ waits' : turns.length > 0 ? '● works' : '○ idle', String(inMailbox)]
      })
    worked += expected.filter(([, state]) => state !== '○ idle').length
    await page.getByRole('slider', { name: 'Time' }).fill(String(value))
    const shown = await table
      .locator('.vscroll .vrow')
      .evaluateAll((all) => all.map((row) => [...row.children].slice(0, 3).map((cell) => cell.textContent)))
    t.same(shown, expected, `at ${value}`)
  }
  t.ok(worked > 0.8 * looks)
  await page.keyboard.press('Escape')
  await page.getByLabel('To the begin').click()
  await page.keyboard.press(']')
  const next = times.find((time) => time > times[0]!)
  await page.getByText(`${times.filter((time) => time <= next!).length} of ${times.length}`).waitFor()
  t.same(complaints, [])
})

t.test('a connection that is cut in mid-run: nothing is missed, nothing comes twice', inBrowser, async (t) => {
  const { url, team, cut } = await served(t, { agents, options })
  const { page } = await open(t, `${url}#/run`)
  await page.getByText('live').waitFor()
  const run = team.launch('go')
  for (let step = 0; step < 12; step++) {
    await team.clock.advance(100)
    if (step % 4 === 3) {
      cut()
      await page.locator('.connection.live').waitFor()
    }
  }
  await team.clock.advance(60_000)
  await run.result
  const { times } = storyOf(await foldOf(team, run.id), 0)
  await page.locator('.run-head .mark.finished').waitFor()
  await page.locator(`[role=table][aria-label="Messages and events"][aria-rowcount="${times.length + 1}"]`).waitFor()
  await page.keyboard.press('1')
  const done = page.getByRole('row', { name: /done go/ })
  await done.first().waitFor()
  t.equal(await done.count(), 1)
})

t.test(
  'another process at the same place: a banner says so, and nothing of the old one is left',
  inBrowser,
  async (t) => {
    const first = await served(t)
    await first.team.execute('before')
    const { page } = await open(t, first.url)
    await page.getByRole('row', { name: /before/ }).waitFor()
    await first.stop()
    await page.getByText('The service does not answer').waitFor()
    t.equal(await page.getByRole('row', { name: /before/ }).count(), 1, 'it shows how things were')
    const second = await served(t, { port: Number(new URL(first.url).port) })
    await second.team.execute('after')
    await page.getByText('The service was restarted').waitFor()
    await page.getByRole('row', { name: /after/ }).waitFor()
    t.equal(await page.getByRole('row', { name: /before/ }).count(), 0)
  },
)

// The dashboard with a service that has much to do: lists longer than a page, answers slower than changes.

const silent = { debug() {}, info() {}, warn() {}, error() {} }

const failing = defineAgent({
  receive({ content }) {
    throw new Error(`no ink for ${content}`)
  },
})

t.test('of many dead letters all are counted, and the newest are shown', inBrowser, async (t) => {
  const { url, team } = await served(t, { agents: { printer: failing }, options: { logger: silent } })
  const send = async (first: number, last: number) => {
    for (let page = first; page <= last; page++)
      await team.sendMessage({ recipient: 'printer', content: `page ${page}` })
    while (team.deadLetters.list().length < last) await team.clock.advance(1_000)
  }
  for (let page = 1; page < 1_000; page += 100) await send(page, page + 99)
  await send(1_001, 1_001)
  const { page, complaints } = await open(t, `${url}#/trouble`)
  const letters = page.getByRole('region', { name: 'Dead letters' })
  await letters.getByRole('heading', { name: 'Dead letters 1,001' }).waitFor()
  await letters.getByText('no ink for page 1001').waitFor()
  await letters.getByText('and 901 older ones').waitFor()
  await page.getByRole('list', { name: 'What went wrong' }).getByText('1,001 dead letters').waitFor()
  await send(1_002, 1_002)
  await letters.getByText('no ink for page 1002').waitFor()
  t.same(complaints, [])
})

const patient = defineAgent({
  async receive({ content }, context) {
    await context.sleep(3_600_000)
    return content
  },
})

t.test('older tasks stay in the list when a new one begins', inBrowser, async (t) => {
  const { url, team } = await served(t, { agents: { worker: patient }, options: { maxConcurrentRuns: 200 } })
  for (let n = 1; n <= 130; n++) team.launch(`task ${n}`)
  const { page, complaints } = await open(t, url)
  const link = (name: string) => page.getByRole('link', { name, exact: true })
  await link('task 31').waitFor()
  t.equal(await link('task 1').count(), 0)
  await page.getByRole('button', { name: 'Older tasks' }).click()
  await link('task 1').waitFor()
  team.launch('one more')
  await link('one more').waitFor()
  t.equal(await link('task 2').count(), 1)
  t.same(complaints, [])
})

/** Number of answers that another change comes before. */
const MANY = 20

t.test('an agent that changes faster than the service answers has its details shown', inBrowser, async (t) => {
  const { url, team } = await served(t, { agents: { worker: handy } })
  const { page, complaints } = await open(t, `${url}#/team`)
  let asked = 0
  let done = 0
  await page.route('**/api/agents/worker?*', async (route) => {
    if (asked++ < MANY) await seenTurn() // it has another turn before the answer is there
    await route.continue()
  })
  const turns = page
    .getByRole('row', { name: /^worker/ })
    .getByRole('cell')
    .nth(5)
  let seen = Promise.resolve()
  const seenTurn = () => {
    seen = seen.then(async () => {
      await team.execute('again')
      done += 1
      await turns.getByText(String(done), { exact: true }).waitFor()
    })
    return seen
  }
  await page
    .getByRole('row', { name: /^worker/ })
    .getByRole('link')
    .click()
  await page.getByText('an agent of code').waitFor()
  t.ok(asked < MANY, 'it did not wait until all was quiet')
  await page.unrouteAll({ behavior: 'wait' }) // an answer still held back waits for the page, which must stay open until then
  t.same(complaints, [])
})

t.test(
  'a question is answered while more tasks of its chat are open than a browser has connections',
  inBrowser,
  async (t) => {
    const { url } = await served(t)
    const { page, complaints } = await open(t, `${url}#/chat?thread=talk`)
    for (let n = 1; n <= 9; n++) {
      await fetch(`${url}api/tasks`, {
        method: 'POST',
        headers: { 'content-type': 'application/json', prefer: 'respond-async' },
        body: JSON.stringify({ query: 'ask', threadId: 'talk' }),
      })
      await page
        .locator('.mine')
        .nth(n - 1)
        .waitFor()
    }
    await page.getByRole('button', { name: 'blue' }).first().click()
    await page.getByText('you said blue').waitFor()
    t.same(complaints, [])
  },
)

t.test('a token that no header can have is an unknown one', inBrowser, async (t) => {
  const authorize = bearerToken('a-token-of-more-than-sixteen-characters', { id: 'ann', may: ['run', 'watch'] })
  const { url } = await served(t, { api: { authorize } })
  for (const token of ['%zz', encodeURIComponent('ключ')]) {
    const { page, complaints } = await open(t, `${url}#token=${token}`)
    await page.getByRole('heading', { name: 'Who are you?' }).waitFor()
    t.same(complaints, [])
  }
})

t.test('a view that was chosen stays chosen when something else changes in the same moment', inBrowser, async (t) => {
  const { url } = await served(t)
  const { page, complaints } = await open(t, url)
  await page.getByLabel('Find in tasks').waitFor()
  await page.evaluate(`
    dispatchEvent(new KeyboardEvent('keydown', { key: '2' }))
    const find = document.getElementById('filter')
    find.value = 'x'
    find.dispatchEvent(new InputEvent('input'))
  `)
  await page.locator('main.view-team').waitFor()
  t.match(page.url(), /#\/team/)
  t.same(complaints, [])
})

t.test('a task that may not be stopped says why', inBrowser, async (t) => {
  const { url, team } = await served(t, {
    agents: { worker: patient },
    api: { authorize: () => ({ id: 'ann', may: ['watch'] }) },
  })
  const { id } = team.launch('go')
  const { page, complaints } = await open(t, `${url}#/tasks?task=${id}`)
  await page.getByRole('button', { name: 'Stop' }).click()
  await page
    .getByRole('alert')
    .getByText(/operate|run/)
    .waitFor()
  t.equal(await page.getByRole('button', { name: 'Stop' }).isEnabled(), true)
  t.same(complaints, [])
})
