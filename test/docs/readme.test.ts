/** The programs of the README run and print what it says, and so does the first run that it shows. */
import { spawnSync } from 'node:child_process'
import t from 'tap'
import { blocksOf, read } from './page.ts'
import { runPage } from './run-page.ts'

runPage(t, 'README.md')

t.test('the first run prints what it shows', async (t) => {
  const shown = blocksOf(read('README.md')).find(({ text }) => text.includes('## What happened on the way'))?.text ?? ''
  const example = ['dist/examples/data-desk/main.js']
  const { status, stdout, stderr } = spawnSync(process.execPath, example, { encoding: 'utf8' })
  t.equal(status, 0, stderr)
  const printed = withoutTimes(stdout)
  const lines = withoutTimes(shown).split('\n')
  for (const line of lines.flatMap((whole) => whole.split('[...]'))) t.ok(printed.includes(line.trim()), line)
  t.ok(lines.length > 10)
})

/** Durations differ from run to run, and the widths of a table with them. */
function withoutTimes(text: string): string {
  return text
    .replaceAll(/\d+ ms/g, 'N ms')
    .replaceAll(/ +/g, ' ')
    .replaceAll(/-{3,}/g, '---')
}
