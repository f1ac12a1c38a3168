/** The dashboard names what hangs, with its age, and does not say meanwhile that nobody is stuck. */
import t from 'tap'
import { defineAgent } from '../../src/index.ts'
import { inBrowser, open } from './browser.ts'
import { served } from './served.ts'

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
