/** A headless Chromium for a file of tests, and pages of the dashboard in it. */
import { existsSync } from 'node:fs'
import { type Browser, type BrowserContext, chromium, type Page } from 'playwright-core'
import t, { type Test } from 'tap'

/** The first one has no window to draw, which is more than half of the work. */
const PLACES = [
  '/usr/bin/chromium-headless-shell',
  '/usr/bin/chromium',
  '/usr/bin/chromium-browser',
  '/usr/bin/google-chrome',
]
const program = process.env.CHROMIUM ?? PLACES.find((place) => existsSync(place))

/** Options of tests that need a browser: skipped where there is none, which CI does not take (CHROMIUM_IS_NEEDED). */
export const inBrowser = program
  ? {}
  : { skip: 'there is no Chromium here: install it, or name its program in the variable CHROMIUM' }

if (!program && process.env.CHROMIUM_IS_NEEDED) t.fail('there is no Chromium, and CHROMIUM_IS_NEEDED is set')

let browser: Promise<Browser> | undefined

export interface Opened {
  page: Page
  context: BrowserContext
  /** Errors of the page, dialogs, and what its policy has kept from happening. */
  complaints: string[]
}

interface Look {
  width?: number
  height?: number
  colorScheme?: 'light' | 'dark'
  forcedColors?: 'active' | 'none'
}

/** Opens the page; all that goes wrong in it is collected, and is to be nothing. */
export async function open(t: Test, url: string, look: Look = {}): Promise<Opened> {
  browser ??= chromium.launch({ executablePath: program!, args: ['--no-sandbox', '--disable-gpu'] })
  const { width = 1280, height = 800, ...rest } = look
  const context = await (await browser).newContext({ viewport: { width, height }, reducedMotion: 'reduce', ...rest })
  t.teardown(() => context.close())
  const page = await context.newPage()
  const complaints: string[] = []
  page.setDefaultTimeout(20_000)
  page.on('pageerror', ({ message }) => complaints.push(message))
  page.on('dialog', (dialog) => {
    complaints.push(`dialog: ${dialog.message()}`)
    void dialog.dismiss()
  })
  page.on('console', (message) => {
    if (/Content Security Policy|TrustedHTML|TrustedScript/.test(message.text())) complaints.push(message.text())
  })
  await page.goto(url)
  return { page, context, complaints }
}

t.teardown(async () => (await browser)?.close())
