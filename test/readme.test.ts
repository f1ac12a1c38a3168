/** The programs of the README run and print what it says. */
import { spawnSync } from 'node:child_process'
import { mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import t from 'tap'
import { blocks, readme } from './readme.ts'

// Inside the repository, so that `dramatis` is the package that the folder belongs to.
const folder = resolve('.cache', `readme-${process.pid}`)
const programs = blocks.filter(({ language }) => language === 'js' || language === 'ts')

mkdirSync(folder, { recursive: true })
t.teardown(() => rmSync(folder, { recursive: true, force: true }))
for (const { file, text } of programs) if (file) writeFileSync(join(folder, file), text)

t.test('each program has a name of its own', async (t) => {
  t.ok(programs.length > 0)
  t.equal(new Set(programs.map(({ file }) => file)).size, programs.length)
  t.ok(programs.every(({ file, language }) => file?.endsWith(`.${language}`)))
})

for (const [at, { language, text }] of blocks.entries()) {
  const command = text.trim()
  if (language !== 'sh' || !/^(node|npx dramatis) /.test(command)) continue
  t.test(command, async (t) => {
    const cli = JSON.stringify(resolve('dist/src/service/cli.js'))
    const line = command.replace(/^(node|npx dramatis) /, (name) => (name === 'node ' ? '"$NODE" ' : `"$NODE" ${cli} `))
    const env = { ...process.env, NODE: process.execPath }
    const { status, stdout, stderr } = spawnSync(line, { cwd: folder, encoding: 'utf8', shell: true, env })
    t.equal(status, 0, stderr)
    const printed = blocks[at + 1]
    if (printed?.language === 'text' && follows(command, printed.text)) t.equal(stdout, printed.text)
  })
}

t.test('each program, as it stands, is strict TypeScript', async (t) => {
  const typed = join(folder, 'typed')
  mkdirSync(typed)
  const files = programs.flatMap(({ file, text }) => (file ? [{ name: file.replace(/\.js$/, '.ts'), text }] : []))
  for (const { name, text } of files) writeFileSync(join(typed, name), text)
  const compilerOptions = { module: 'nodenext', target: 'es2022', strict: true, types: ['node'], skipLibCheck: true }
  const config = { compilerOptions, files: files.map(({ name }) => name) }
  writeFileSync(join(typed, 'tsconfig.json'), JSON.stringify(config))
  const args = [resolve('node_modules/typescript/bin/tsc'), '-p', typed, '--noEmit']
  const { status, stdout } = spawnSync(process.execPath, args, { encoding: 'utf8' })
  t.equal(status, 0, stdout)
})

t.test('the first run prints what it shows', async (t) => {
  const shown = blocks.find(({ text }) => text.includes('## What happened on the way'))?.text ?? ''
  const example = ['dist/examples/data-desk/main.js']
  const { status, stdout, stderr } = spawnSync(process.execPath, example, { encoding: 'utf8' })
  t.equal(status, 0, stderr)
  const printed = withoutTimes(stdout)
  const lines = withoutTimes(shown).split('\n')
  for (const line of lines.flatMap((whole) => whole.split('[...]'))) t.ok(printed.includes(line.trim()), line)
  t.ok(lines.length > 10)
})

/** Whether nothing but white space stands between a command and its output. */
function follows(command: string, output: string): boolean {
  return readme.includes(`${command}\n\`\`\`\n\n\`\`\`text\n${output}`)
}

/** Durations differ from run to run, and the widths of a table with them. */
function withoutTimes(text: string): string {
  return text
    .replaceAll(/\d+ ms/g, 'N ms')
    .replaceAll(/ +/g, ' ')
    .replaceAll(/-{3,}/g, '---')
}
