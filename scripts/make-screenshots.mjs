/**
 * Writes the pictures of the dashboard into docs/dashboard/, from the examples, and that of the support desk, in Chromium:
 *
 *   npm run screenshots
 */
import { spawn } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { createServer } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { chromium } from 'playwright-core'
import planted from '../dist/examples/planted-deadlock/team.js'
import desk from '../dist/examples/served-desk/team.js'
import { createTeam } from '../dist/src/index.js'
import { httpApi } from '../dist/src/service/api/index.js'
import { root } from './files.mjs'

const folder = join(root, 'docs/dashboard')
const silent = { debug() {}, info() {}, warn() {}, error() {} }
const teams = {
  desk: createTeam({ ...desk, logger: silent }),
  buyers: createTeam({ ...planted, logger: silent }),
}
const api = httpApi({
  teams,
  authorize: () => ({ id: 'me', may: ['run', 'watch', 'operate'] }),
  logger: silent,
  dashboard: true,
})
const server = createServer(api.node)
await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve))
const url = `http://127.0.0.1:${server.address().port}/`
const places = ['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome']
const executablePath = process.env.CHROMIUM ?? places.find((place) => existsSync(place))
const browser = await chromium.launch({ executablePath, args: ['--no-sandbox'] })

try {
  mkdirSync(folder, { recursive: true })
  const first = await begin('Furnish my office.')
  await answered(first)
  const second = await begin('A lamp for the reading room.')
  await asked(second)
  const third = teams.desk.launch('What do we still need?', { threadId: 'office' })
  await asked(third)
  await third.answer(third.questions[0].questionId, 'yes')
  await third.result
  await deadlocked()
  await shot('tasks', `tasks?task=${second.id}`, { waits: 'Approval of buyer' })
  await shot('run', `run?task=${first.id}`, { waits: 'State of the agents' })
  await shot('cost', 'cost', { waits: 'By agent' })
  await shot('board', `board?task=${first.id}&key=offer.lamp`, { waits: 'Versions of an entry' })
  await shot('chat', 'chat?thread=office', { waits: 'Answer' })
  await shot('team', 'team?team=buyers', { waits: 'Deadlock', dark: true })
  await shot('trouble', 'trouble?team=buyers', { waits: 'Victim' })
  await supportDesk()
} finally {
  await browser.close()
  await api.close({ teams: true })
  server.closeAllConnections()
  server.close()
}

async function begin(query) {
  return teams.desk.launch(query)
}

async function asked(run) {
  while (run.questions.length === 0) await new Promise((resolve) => setTimeout(resolve, 20))
}

async function answered(run) {
  await asked(run)
  await run.answer(run.questions[0].questionId, 'yes')
  await run.result
}

/** Buys until both buyers wait for each other, which they do in some of their orders. */
async function deadlocked() {
  for (;;) {
    const run = teams.buyers.launch('Dinner for forty')
    await run.result
    for await (const event of run.events({ types: ['deadlock'], follow: false })) if (event.victim) return
  }
}

async function shot(name, place, { waits, dark = false }) {
  const page = await browser.newPage({
    viewport: { width: 1120, height: 640 },
    colorScheme: dark ? 'dark' : 'light',
    reducedMotion: 'reduce',
  })
  await page.goto(`${url}#/${place}`)
  await page.locator(`[aria-label="${waits}"], :text("${waits}")`).first().waitFor()
  await page.waitForTimeout(400) // what was asked for last is drawn
  await page.screenshot({ path: join(folder, `${name}.png`) })
  await page.close()
}

/** The chat of a customer whose refund waits for a colleague. */
async function supportDesk() {
  const data = mkdtempSync(join(tmpdir(), 'support-desk-'))
  const env = { ...process.env, OPENAI_API_KEY: '', OPENAI_BASE_URL: '', SUPPORT_DESK: data, PORT: '0' }
  const service = spawn(process.execPath, [join(root, 'dist/examples/support-desk/serve.js')], { env })
  const page = await browser.newPage({ viewport: { width: 1120, height: 660 }, reducedMotion: 'reduce' })
  for await (const line of createInterface(service.stdout)) {
    if (!line.startsWith('ann: ')) continue
    await page.goto(line.slice('ann: '.length))
    break
  }
  await page.getByRole('link', { name: 'Chat' }).click()
  await page.getByRole('textbox').fill('Please refund my order A-7.')
  await page.keyboard.press('Enter')
  await page.getByText('finance may.').waitFor()
  await page.waitForTimeout(400)
  await page.screenshot({ path: join(root, 'examples/support-desk/chat.png') })
  await page.close()
  service.kill('SIGKILL')
  rmSync(data, { recursive: true })
}
