/** `npm run examples`: each with its name, what it shows and its output. */
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import t from 'tap'
import { start } from './start.ts'

const run = (...names: string[]) => start('.', names)

t.test('the examples that are named are run, and what they print is shown', async (t) => {
  const { status, stdout, stderr } = run('writing-pipeline', 'agent-workbench')
  t.equal(status, 0, stderr)
  t.match(stdout, /^=+ writing-pipeline: .+\n\n# Docker Compose$/m)
  t.match(stdout, /^=+ agent-workbench: .+\n\n+# Each task goes/m)
  t.match(stdout, '2 of 2 examples did what they are for')
})

t.test('the exit code is 1 if one fails, and for an example that there is not', async (t) => {
  const failing = start('.', ['writing-pipeline', 'agent-workbench'], { TMPDIR: t.testdirName })
  t.equal(failing.status, 1, 'there is no such folder, so one cannot make its own in it')
  t.match(failing.stdout, /^writing-pipeline failed: exit code 1$/m)
  t.match(failing.stdout, '1 of 2 examples did what they are for')
  const missing = run('city-desc')
  t.equal(missing.status, 1)
  t.match(missing.stderr, /There is no example city-desc\. There are agent-workbench, /)
})

t.test('each example that has a program of its own is in the list, has a README, and a command', async (t) => {
  const listed = run('none')
    .stderr.match(/There are (.*)\./)?.[1]
    ?.split(', ')
  const folders = readdirSync('examples').filter((name) => existsSync(`examples/${name}/main.ts`))
  t.same(listed?.toSorted(), folders.toSorted())
  const { scripts } = JSON.parse(readFileSync('package.json', 'utf8')) as { scripts: Record<string, string> }
  const main = readFileSync('README.md', 'utf8')
  for (const folder of folders) {
    t.ok(existsSync(`examples/${folder}/README.md`), folder)
    t.match(Object.values(scripts).join('\n'), `dist/examples/${folder}/main.js`)
    t.match(main, `(examples/${folder}/README.md)`)
  }
})

t.test('a script that is asked something else says what it answers', async (t) => {
  const { status, stdout, stderr } = start('writing-pipeline', ['Explain', 'git'])
  t.equal(status, 0)
  t.match(stderr, 'It is asked instead: Create a guide explaining how to use Docker Compose')
  t.match(stdout, '# Docker Compose')
})
