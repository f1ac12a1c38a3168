/** Runs the programs of a page, in a folder of their own, and compares what they print with what the page shows. */
import { spawnSync } from 'node:child_process'
import { mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import type { Test } from 'tap'
import { type Block, blocksOf, read } from './page.ts'

const PROGRAMS = ['js', 'ts', 'yaml']
const RUNS = /^(node|npx dramatis) /
const cli = JSON.stringify(resolve('dist/src/service/cli.js'))

export const isProgram = ({ language }: Block): boolean => PROGRAMS.includes(language)

const LIMIT_MS = 300_000 // tap's own is 30 s for a file, and each command starts a process

export function runPage(t: Test, path: string): void {
  t.setTimeout(LIMIT_MS)
  const blocks = blocksOf(read(path))
  const programs = blocks.filter(isProgram)
  // Inside the repository, so that `dramatis` is the package that the folder belongs to.
  const folder = resolve('.cache', `docs-${process.pid}`, path.replaceAll('/', '-'))
  mkdirSync(folder, { recursive: true })
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))

  t.test(`${path}: each program has a name of its own, and something of the page runs or imports it`, async (t) => {
    t.equal(new Set(programs.map(({ file }) => file)).size, programs.length)
    for (const { file, language, text } of programs) {
      t.ok(file?.endsWith(`.${language}`), `a name in the first line, not ${text.split('\n', 1)[0]}`)
      const isUsed = blocks.some((block) => block.file !== file && uses(block.text, file!))
      t.ok(isUsed, `nothing uses ${file}`)
    }
  })

  for (const block of blocks) {
    if (isProgram(block) && block.file) writeFileSync(join(folder, block.file), block.text)
    const command = block.text.trim()
    if (block.language !== 'sh' || !RUNS.test(command)) continue
    t.test(`${path}: ${command}`, async (t) => {
      const line = command.replace(RUNS, (name) => (name === 'node ' ? '"$NODE" ' : `"$NODE" ${cli} `))
      const env = { ...process.env, NODE: process.execPath, NO_COLOR: '1', FORCE_COLOR: '0' }
      const { status, stdout, stderr } = spawnSync(line, { cwd: folder, encoding: 'utf8', shell: true, env })
      t.equal(status, 0, stderr)
      if (block.output !== undefined) t.equal(stdout, block.output)
    })
  }
}

/** Whether a text names a file: as it is, under the ending of the compiled one, or as a class of an agents.yaml. */
function uses(text: string, file: string): boolean {
  const stem = file.replace(/\.\w+$/, '')
  const className = stem.replaceAll(/(?:^|-)(\w)/g, (_, letter: string) => letter.toUpperCase())
  return text.includes(file) || text.includes(`${stem}.js`) || text.includes(`class: ${className}`)
}
