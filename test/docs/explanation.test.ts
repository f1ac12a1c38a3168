/** The programs of README, tutorials, explanation and reference run and print what their pages say. */

import { spawnSync } from 'node:child_process'
import t from 'tap'
import { pagesBelow, read } from './page.ts'
import { runPage } from './run-page.ts'

// The programs of docs/explanation run and print what their pages say.

for (const path of pagesBelow('docs/explanation')) runPage(t, path)

// The programs of docs/tutorials run and print what their pages say.

for (const path of pagesBelow('docs/tutorials')) runPage(t, path)

// The programs of docs/reference run and print what their pages say.

for (const path of pagesBelow('docs/reference')) runPage(t, path)

// The programs of the README run and print what it says, and so does the first run in its picture.

runPage(t, 'README.md')

t.test('the first run prints what its picture shows', async (t) => {
  const shown = [...read('docs/first-run.svg').matchAll(/<text[^>]*>(.*)<\/text>/g)].map(([, line]) => line!)
  const example = ['dist/examples/data-desk/main.js']
  const { status, stdout, stderr } = spawnSync(process.execPath, example, { encoding: 'utf8' })
  t.equal(status, 0, stderr)
  const printed = withoutTimes(stdout)
  const lines = shown.filter((line) => !line.startsWith('$ '))
  t.ok(lines.length > 10)
  for (const line of lines) t.ok(printed.includes(withoutTimes(line).trim()), line)
})

/** Durations differ from run to run, and the widths of a table with them. */
function withoutTimes(text: string): string {
  return text
    .replaceAll(/\d+ ms/g, 'N ms')
    .replaceAll(/ +/g, ' ')
    .replaceAll(/-{3,}/g, '---')
}

t.test('it is short', async (t) => {
  t.ok(read('README.md').split('\n').length <= 250)
})
