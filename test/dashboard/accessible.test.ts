/** The dashboard for all: axe-core finds nothing in any view, in any colours. */
import axe from 'axe-core'
import type { Page } from 'playwright-core'
import t from 'tap'
import { inBrowser, open } from './browser.ts'
import { served } from './served.ts'

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
  for (const [key, view] of Object.entries(VIEWS)) {
    await page.keyboard.press(key)
    await page.locator(`main.view-${view}`).waitFor()
    for (const look of LOOKS) {
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
