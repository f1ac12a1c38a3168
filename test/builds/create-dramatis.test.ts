/** `npm create dramatis` as a program: what it refuses, and what it makes. `npm run test:packed` uses what it has made. */
import { spawnSync } from 'node:child_process'
import { cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import t, { type Test } from 'tap'

const templates = ['hello', 'team', 'service', 'desk', 'nightly']
const source = resolve('packages/create-dramatis')

/** Runs it in an empty folder, without a terminal. */
function create(t: Test, ...args: string[]) {
  const folder = mkdtempSync(join(tmpdir(), 'create-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  mkdirSync(join(folder, 'full'))
  writeFileSync(join(folder, 'full/notes.txt'), '')
  writeFileSync(join(folder, 'file'), '')
  const options = { cwd: folder, encoding: 'utf8', input: '' } as const
  const { status, stdout, stderr } = spawnSync(process.execPath, [join(source, 'index.js'), ...args], options)
  return { folder, status, stdout, stderr }
}

t.test('what cannot be made is refused in a sentence, and nothing is written', async (t) => {
  const refused: [args: string[], says: RegExp][] = [
    [['full'], /full is not empty: it has notes\.txt/],
    [['file'], /file is a file/],
    [['My Team'], /"My Team" is no name for a package/],
    [['../..'], /is no name|is not empty/],
    [['dramatis'], /cannot install dramatis/],
    [['a', 'b'], /"b" is one too many/],
    [['a', '--template', 'support'], /no template "support". Templates: hello, team, service, desk, nightly/],
    [['a', '--template'], /'--template <value>' argument missing/],
    [['a', '--typescript'], /Unknown option '--typescript'. Options: --template, --js/],
  ]
  for (const [args, says] of refused) {
    const { folder, status, stdout, stderr } = create(t, ...args)
    t.match(stderr, says)
    t.equal(status, 2, args.join(' '))
    t.equal(stdout, '')
    t.same(readdirSync(folder).sort(), ['file', 'full'])
  }
})

t.test('without a terminal and without a word it makes hello, and says what is next', async (t) => {
  const { folder, status, stdout } = create(t, '--no-install')
  t.equal(status, 0)
  t.match(stdout, /hello is in my-team.*cd my-team\n {2}npm install\n {2}npm start\n/s)
  const { name, dependencies } = JSON.parse(readFileSync(join(folder, 'my-team/package.json'), 'utf8'))
  t.equal(name, 'my-team')
  t.same(dependencies, { dramatis: `^${JSON.parse(readFileSync('package.json', 'utf8')).version}` })
  t.ok(readdirSync(join(folder, 'my-team')).includes('.gitignore'))
})

t.test('JavaScript is the same text without a build, and no word of it is about TypeScript', async (t) => {
  for (const template of templates) {
    const { folder } = create(t, 'app', '--template', template, '--js', '--no-install')
    const files = readdirSync(join(folder, 'app'))
    t.same(
      files.filter((name) => /\.ts$|^tsconfig/.test(name)),
      [],
    )
    const { scripts } = JSON.parse(readFileSync(join(folder, 'app/package.json'), 'utf8'))
    for (const name of files.filter((each) => each === 'package.json' || each === 'Dockerfile' || each === 'README.md'))
      t.notMatch(readFileSync(join(folder, 'app', name), 'utf8'), /\bdist\/|\.ts\b|tsc\b/, `${template}/${name}`)
    // what a script runs is there
    for (const [file] of Object.values(scripts)
      .join(' ')
      .matchAll(/\b[\w.]+\.js\b/g))
      t.ok(file === 'test.js' || files.includes(file), `${template}: ${file}`)
  }
})

t.test('each template is strict TypeScript, with a suite and a page of its own', async (t) => {
  // inside the repository, so that `dramatis` is the package that the folder belongs to
  const folder = resolve('.cache', `templates-${process.pid}`)
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  for (const name of templates) {
    const files = readdirSync(join(source, 'templates', name))
    t.ok(files.includes('README.md') && files.some((file) => file.endsWith('.eval.ts')), name)
    cpSync(join(source, 'templates', name), join(folder, name), {
      recursive: true,
      filter: (path) => !/package\.json$|\.test\.ts$/.test(path), // vitest is not installed here
    })
  }
  const { compilerOptions } = JSON.parse(readFileSync(join(source, 'templates/shared/tsconfig.json'), 'utf8'))
  writeFileSync(join(folder, 'tsconfig.json'), JSON.stringify({ compilerOptions, include: ['*/*.ts'] }))
  const args = [resolve('node_modules/typescript/bin/tsc'), '-p', folder, '--noEmit']
  const { status, stdout } = spawnSync(process.execPath, args, { encoding: 'utf8' })
  t.equal(status, 0, stdout)
})

t.test(
  'it is of the version of dramatis, which its projects install, and both are published with provenance',
  async (t) => {
    const [own, dramatis] = [join(source, 'package.json'), 'package.json'].map((path) =>
      JSON.parse(readFileSync(path, 'utf8')),
    )
    t.equal(own.version, dramatis.version)
    t.equal(own.dependencies, undefined)
    t.match(readFileSync('CHANGELOG.md', 'utf8'), `\n## ${dramatis.version}\n`)
    for (const { publishConfig, license } of [own, dramatis])
      t.match({ publishConfig, license }, { publishConfig: { access: 'public', provenance: true }, license: 'MIT' })
  },
)
