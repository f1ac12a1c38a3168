/** The dashboard with a service that has much to do: lists longer than a page, answers slower than changes. */
import t from 'tap'
import { defineAgent } from '../../src/index.ts'
import { bearerToken } from '../../src/service/api/index.ts'
import { inBrowser, open } from './browser.ts'
import { handy, served } from './served.ts'

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
