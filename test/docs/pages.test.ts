/** What holds for every page: its links lead somewhere, its programs are strict TypeScript, its commands exist. */
import { spawnSync } from 'node:child_process'
import { mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import t from 'tap'
import { blocksOf, brokenLinks, pagesBelow, read } from './page.ts'

const docs = pagesBelow('docs')
const taught = ['README.md', ...docs.filter((path) => !path.startsWith('docs/project/'))]
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
