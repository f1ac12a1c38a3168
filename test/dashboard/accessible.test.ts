/** The dashboard for all: axe-core finds nothing in any view, in any colours. */
import axe from 'axe-core'
import type { Page } from 'playwright-core'
import t from 'tap'
import { inBrowser, open } from './browser.ts'
import { served } from './served.ts'

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
