/** The dashboard goes back in time as the fold does, and over a cut connection and another process without a wrong state. */
import t from 'tap'
import { defineAgent } from '../../src/index.ts'
import { DigestFold } from '../../src/service/digest/digest-fold.ts'
import { momentOf } from '../../src/service/digest/moment.ts'
import { storyOf } from '../../src/service/pictures/run-story.ts'
import type { TestTeam } from '../../src/testing.ts'
import { Dice } from '../dice.ts'
import { all } from '../team/stage.ts'
import { inBrowser, open } from './browser.ts'
import { served } from './served.ts'

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
  let worked = 0
  for (let look = 0; look < 50; look++) {
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
  t.ok(worked > 40)
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
