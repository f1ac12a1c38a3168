/** What holds for every page, and for the tables of trust. */
import { spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { blocksOf, brokenLinks, pagesBelow, read } from './page.ts'

// What holds for every page: its links lead somewhere, its programs are strict TypeScript, its commands exist.

const docs = pagesBelow('docs')
const taught = ['README.md', 'site/index.md', ...docs.filter((path) => !path.startsWith('docs/project/'))]
const all = ['README.md', 'CHANGELOG.md', 'CONTRIBUTING.md', ...docs, ...pagesBelow('examples'), 'bench/README.md']

t.test('each link leads to a file, and to a heading of it', async (t) => {
  t.ok(docs.length > 3)
  for (const path of all) t.same(brokenLinks(path), [], path)
})

t.test('a link to a file or a heading that is not there is found', async (t) => {
  const text = '# A page\n\n[a](none.md) [b](#a-page) [c](#none) [d](README.md#none) [e](https://example.org)\n'
  t.same(brokenLinks('README.md', text), ['none.md', '#none', 'README.md#none'])
})

t.test('the index of docs/ has every page', async (t) => {
  const index = read('docs/README.md')
  for (const path of docs) if (path !== 'docs/README.md') t.ok(index.includes(`](${path.slice('docs/'.length)})`), path)
})

t.test('the changelog has each entry once', async (t) => {
  const entries = read('CHANGELOG.md').split(/^- /m).slice(1)
  const beginnings = entries.map((entry) =>
    entry
      .replace(/^Fix: /, '')
      .replace(/\s+/g, ' ')
      .slice(0, 50)
      .toLowerCase(),
  )
  t.ok(beginnings.length > 20)
  t.same(
    beginnings.filter((beginning, at) => beginnings.indexOf(beginning) !== at),
    [],
  )
})

t.test('each program that closes a server also bounds the time which its clients take', async (t) => {
  const closing = taught.flatMap((path) =>
    blocksOf(read(path)).filter(({ text }) => /^ *(?:await )?(?:server|app)\.close\(\)/m.test(text)),
  )
  t.ok(closing.length >= 6)
  for (const { text } of closing) t.match(text, /\.closeAllConnections\(\)/)
})

t.test('each program, as it stands, is strict TypeScript', async (t) => {
  // Inside the repository, so that `dramatis` is the package that the folder belongs to.
  const folder = resolve('.cache', `typed-${process.pid}`)
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  const files = taught.flatMap((path) =>
    blocksOf(read(path)).flatMap(({ language, file, text }) =>
      (language === 'js' || language === 'ts') && file
        ? [{ name: join(path.replaceAll('/', '-'), file.replace(/\.js$/, '.ts')), text }]
        : [],
    ),
  )
  t.ok(files.length > 20)
  for (const { name, text } of files) {
    mkdirSync(join(folder, name, '..'), { recursive: true })
    writeFileSync(join(folder, name), text)
  }
  const compilerOptions = { module: 'nodenext', target: 'es2022', strict: true, types: ['node'], skipLibCheck: true }
  const config = { compilerOptions, files: files.map(({ name }) => name) }
  writeFileSync(join(folder, 'tsconfig.json'), JSON.stringify(config))
  const args = [resolve('node_modules/typescript/bin/tsc'), '-p', folder, '--noEmit']
  const { status, stdout } = spawnSync(process.execPath, args, { encoding: 'utf8' })
  t.equal(status, 0, stdout)
})

t.test('each npm script that a page names is there', async (t) => {
  const { scripts } = JSON.parse(read('package.json')) as { scripts: Record<string, string> }
  for (const path of all)
    for (const [command, name] of read(path).matchAll(/\bnpm (?:run (?:-s )?)?([\w:-]+)/g))
      if (command.startsWith('npm run') || ['start', 'test'].includes(name!))
        t.ok(scripts[name!], `${path}: ${command}`)
})

// Each row of docs/explanation/trust.md names the tests that show it, and their files are there.

const page = readFileSync('docs/explanation/trust.md', 'utf8') // tests are started in the project's folder

/** Files that a row names in its last cell. */
const testsIn = (row: string) =>
  [
    ...row
      .split('|')
      .at(-2)!
      .matchAll(/`([^`]+)`/g),
  ].map(([, name]) => `test/${name}.test.ts`)

/** Of the tables by actor, without their heads. */
function rows(): string[] {
  const [, ...sections] = page.split(/^## /m)
  return sections.flatMap((section) =>
    section.split('\n').filter((line) => line.startsWith('|') && !/^\| (threat|-)/.test(line)),
  )
}

t.test('each row says what is done, and which tests show it', async (t) => {
  t.ok(rows().length > 40)
  t.same(
    rows().filter((row) => row.split('|').length !== 6 || testsIn(row).length === 0),
    [],
  )
})

t.test('each test is there', async (t) => {
  const missing = rows()
    .flatMap(testsIn)
    .filter((file) => !existsSync(file))
  t.same(missing, [])
})

// What docs/explanation/trust.md says that code in a thread can reach, and what Node's permission model takes away
// of that.

const program = fileURLToPath(new URL('../fixtures/trust/doors-team.js', import.meta.url))
const root = fileURLToPath(new URL('../../../', import.meta.url))
const { allowedNodeEnvironmentFlags: flags } = process
const permission = flags.has('--permission') ? '--permission' : '--experimental-permission'
const skip = process.platform === 'linux' ? false : 'its ways are those of Linux'

/** What an agent found: `open`, `closed`, or the code of an error. */
function found(...args: string[]): Record<string, string> {
  const env = { ...process.env, TRUST_TEST_WORD: 'word-of-the-process', NODE_OPTIONS: '' }
  const { stdout, stderr } = spawnSync(process.execPath, [...args, program], { cwd: root, env, encoding: 'utf8' })
  if (stdout === '') throw new Error(stderr)
  return JSON.parse(stdout) as Record<string, string>
}

t.test('an agent of code reaches all that its process reaches, by ways around its thread', { skip }, async (t) => {
  t.same(found(), {
    'own environment': 'closed',
    environ: 'open',
    report: 'closed',
    memory: 'open',
    'main thread': 'open',
    program: 'open',
    network: 'open',
  })
})

t.test('the permission model closes files, memory, the main thread and programs to it', { skip }, async (t) => {
  const bounded = found(permission, '--allow-worker', `--allow-fs-read=${join(root, '*')}`)
  const denied = 'ERR_ACCESS_DENIED'
  t.match(bounded, {
    'own environment': 'closed',
    environ: denied,
    memory: denied,
    'main thread': denied,
    program: denied,
  })
  if (!flags.has('--allow-net')) t.equal(bounded.network, 'open', 'of this Node it leaves the network open')
})
