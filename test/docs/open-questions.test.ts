/** The commands of docs/project/open-questions.md run, and print what it shows. Requirement P31. */
import { spawnSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import t from 'tap'
import { blocksOf } from './page.ts'

const page = readFileSync('docs/project/open-questions.md', 'utf8') // tests are started in the project's folder
const blocks = blocksOf(page)
const cli = JSON.stringify(resolve('dist/src/service/cli.js'))
// A benchmark's figures differ from run to run: its own tests are in test/bench/.
const shown = blocks.flatMap(({ language, text }, at) =>
  language === 'sh' && !text.includes(' bench ') ? [{ command: text.trim(), printed: blocks[at + 1] }] : [],
)

t.test('each answer names tests, and they are there', async (t) => {
  const named = page.match(/^Tests: .+$/gm) ?? []
  t.equal(named.length, 6)
  for (const line of named) {
    const files = [...line.matchAll(/`([^`]+)`/g)].map(([, name]) => `test/${name}.test.ts`)
    t.ok(files.length > 0, line)
    for (const file of files) t.ok(existsSync(file), file)
  }
})

t.test('each command stands before what it prints', async (t) => {
  t.ok(shown.length >= 5)
  for (const { command, printed } of shown) {
    t.match(command, /^npm run -s dramatis -- run examples\//)
    t.equal(printed?.language, 'text', command)
  }
})

for (const { command, printed } of shown)
  t.test(command, async (t) => {
    const line = command.replace('npm run -s dramatis --', `"$NODE" ${cli}`).replace('| node ', '| "$NODE" ')
    const env = { ...process.env, NODE: process.execPath, NO_COLOR: '1', FORCE_COLOR: '0' }
    const { status, stdout, stderr } = spawnSync(line, { encoding: 'utf8', shell: true, env })
    t.equal(status, 0, stderr)
    t.equal(stdout, printed?.text)
  })
