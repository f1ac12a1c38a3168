/** A page with `useChat` of React, in a Chromium: send, open again while it is written, approve, stop. */
import assert from 'node:assert/strict'
import { existsSync } from 'node:fs'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { build } from 'esbuild'
import { chromium } from 'playwright-core'
import { listen, opening } from './shop.mjs'

const PLACES = [
  '/usr/bin/chromium-headless-shell',
  '/usr/bin/chromium',
  '/usr/bin/chromium-browser',
  '/usr/bin/google-chrome',
]
const executablePath = process.env.CHROMIUM ?? PLACES.find((place) => existsSync(place))

test('a page in a browser', { skip: executablePath ? false : 'there is no Chromium here' }, async (t) => {
  const { outputFiles } = await build({
    entryPoints: [fileURLToPath(new URL('page.jsx', import.meta.url))],
    define: { 'process.env.NODE_ENV': '"production"' },
    bundle: true,
    format: 'esm',
    write: false,
    logLevel: 'error',
  })
  const gates = { two: opening(), never: opening() }
  const html = '<!doctype html><html lang="en"><body><script type="module" src="/page.js"></script></body></html>'
  const files = { '/': html, '/page.js': outputFiles[0].text }
  const { url, team, done, close } = await listen({ pause: (word) => gates[word]?.promise, files })
  const browser = await chromium.launch({ executablePath, args: ['--no-sandbox', '--disable-gpu'] })
  t.after(() => Promise.all([browser.close(), close()]))
  const page = await browser.newPage()
  const complaints = []
  page.on('pageerror', ({ message }) => complaints.push(message))
  const says = (text) => page.locator('article.assistant').last().getByText(text, { exact: true }).waitFor()
  const status = (text) => page.locator('output').getByText(text, { exact: true }).waitFor()
  const send = async (text) => {
    await page.locator('input').fill(text)
    await page.getByRole('button', { name: 'send' }).click()
  }
  await page.goto(url)
  await send('say one two')
  await says('one')
  await page.reload()
  await says('one')
  await status('streaming')
  gates.two.resolve()
  await says('one two')
  await status('ready')
  assert.equal(await page.locator('article').count(), 2)

  await send('use buy lamp')
  await says('buy approval-requestedyesno')
  await page.reload()
  await page.getByRole('button', { name: 'yes' }).click()
  await says('result: {"done":"lamp"}')
  await says('buy output-available')
  assert.deepEqual(done, ['buy lamp'])

  await send('say word never')
  await says('word')
  await page.getByRole('button', { name: 'stop' }).click()
  await status('ready')
  const [run, ...earlier] = await team.listRuns()
  assert.deepEqual([run.status, earlier.length, complaints], ['aborted', 2, []])
})
