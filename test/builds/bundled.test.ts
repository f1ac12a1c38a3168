/** What npm create makes, and builds of teams: bundles and services of one file. */
import { spawnSync } from 'node:child_process'
import { copyFileSync, cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { type BuildOptions, build } from 'esbuild'
import t, { type Test } from 'tap'
import { dramatis } from '../../src/bundling/index.ts'
import { run, stranger } from './stranger.ts'

// A service that a bundler has made one file of, the package with it.

const sources = {
  'greeter.ts': `import { defineAgent } from 'dramatis'
    export default defineAgent({
      receive: async ({ content: text }, context) => 'Hello, ' + (await context.tool('shout', { text })),
    })`,
  'shout.js': `import { defineTool } from 'dramatis'
    import { z } from 'zod'
    export default defineTool({
      name: 'shout', description: 'loud', input: z.object({ text: z.string() }), run: ({ text }) => text.toUpperCase(),
    })`,
  'main.js': `import { createTeam, defineAgent } from 'dramatis'
    import { testTeam } from 'dramatis/testing'
    import { calculator } from 'dramatis/tools'
    const at = (name) => globalThis.folder + '/' + name
    const greeter = { name: 'greeter', module: at('greeter.ts'), tools: [{ module: at('shout.js'), isolate: true }, calculator] }
    async function main() {
      const team = createTeam({ agents: [greeter], orchestration: { strategy: 'sequential' } })
      const result = await team.execute('world')
      console.log(result.success ? result.finalOutput : result.error.message)
      await team.close()
      const modules = { greeter: defineAgent({ receive: () => 'Hello, test' }) }
      const tested = testTeam({ agents: [{ name: 'greeter' }], orchestration: { strategy: 'sequential' } }, { modules })
      console.log((await tested.execute('any')).finalOutput)
      await tested.close()
    }
    main().catch((error) => { console.log(error.code, error.message); process.exitCode = 3 })`,
}

for (const format of ['esm', 'cjs'] as const) {
  t.test(`a bundle (${format}) runs beside the installed package, and is refused elsewhere`, async (t) => {
    const folder = stranger(t, sources)
    const name = format === 'esm' ? 'service.mjs' : 'service.cjs'
    await build({
      entryPoints: [join(folder, 'main.js')],
      outfile: join(folder, name),
      absWorkingDir: folder,
      bundle: true,
      platform: 'node',
      format,
      logLevel: 'error',
      banner: { js: `globalThis.folder = ${JSON.stringify(folder)};` },
    })
    t.equal(run(join(folder, name)), 'Hello, WORLD\nHello, test\n')

    const elsewhere = mkdtempSync(join(tmpdir(), 'bundled-')) // not below this package
    t.teardown(() => rmSync(elsewhere, { recursive: true, force: true }))
    copyFileSync(join(folder, name), join(elsewhere, name))
    t.throws(() => run(join(elsewhere, name)), {
      message:
        /CONFIGURATION dramatis was bundled into .*service\.\wjs, and is not installed there: .*external: \['dramatis'\]/,
    })
  })
}

// A service that is one file, with its agents and what their threads run beside it: no package is installed there.

const singleFileSources = {
  'main.ts': `import { AgentFailedError, createTeam } from 'dramatis'
    import { httpApi } from 'dramatis/http'
    const team = createTeam({
      agents: [
        {
          name: 'greeter',
          module: new URL('./agents/greeter.ts', import.meta.url),
          tools: [{ module: new URL('./shout.ts', import.meta.url), isolate: true }],
        },
        { name: 'faulty', module: new URL('./agents/faulty.js', import.meta.url) },
      ],
      orchestration: { strategy: 'custom', module: new URL('./script.ts', import.meta.url) },
    })
    async function main() {
      const api = httpApi({ teams: { team }, authorize: () => ({ id: 'me', may: ['run'] }) })
      const headers = { 'content-type': 'application/json' }
      const asked = new Request('http://localhost/api/tasks', { method: 'POST', headers, body: '{"query":"world"}' })
      console.log((await (await api.fetch(asked)).json()).answer)
      await api.close()
      const { error } = await team.execute('fail')
      console.log(error instanceof AgentFailedError, error?.message.includes('no ink'))
      await team.close()
    }
    void main()`,
  agents: {
    'greeter.ts': `import { defineAgent } from 'dramatis'
      import { greeting } from '../greeting.ts'
      export default defineAgent({
        receive: async ({ content: text }, context) => greeting + (await context.tool('shout', { text })),
      })`,
    'faulty.ts': `import { defineAgent } from 'dramatis'
      export default defineAgent({ receive() { throw new Error('no ink') } })`,
  },
  'greeting.ts': "export const greeting: string = 'Hello, '",
  'shout.ts': `import { defineTool } from 'dramatis'
    import { z } from 'zod'
    export default defineTool({
      name: 'shout', description: 'loud', input: z.object({ text: z.string() }), run: ({ text }) => text.toUpperCase(),
    })`,
  'script.ts': `import { AgentFailedError, defineProtocol } from 'dramatis'
    export default defineProtocol({
      name: 'script',
      async run(orchestrator, query) {
        if (query !== 'fail') return (await orchestrator.request('greeter', query)).content + '!'
        const failure = await orchestrator.request('faulty', query).catch((error) => error)
        throw failure instanceof AgentFailedError ? failure : new Error('an error of another class')
      },
    })`,
}
const project = stranger(t, singleFileSources)
/** Node lets a process that has this flag write nothing, unless a folder is named. */
const permission = process.allowedNodeEnvironmentFlags.has('--permission')
  ? '--permission'
  : '--experimental-permission'

/** Bundles the service into a folder below no other package, as a build of a user does. */
async function bundled(t: Test, options: BuildOptions): Promise<string> {
  const out = mkdtempSync(join(tmpdir(), 'single-file-'))
  t.teardown(() => rmSync(out, { recursive: true, force: true }))
  const { warnings } = await build({
    entryPoints: [join(project, 'main.ts')],
    absWorkingDir: project,
    bundle: true,
    platform: 'node',
    logLevel: 'silent',
    plugins: [dramatis()],
    ...options,
    ...(options.outfile && { outfile: join(out, options.outfile) }),
    ...(options.outdir && { outdir: join(out, options.outdir) }),
  })
  t.same(warnings, [])
  return out
}

const runs = [
  { title: 'CommonJS, minified', options: { format: 'cjs', outfile: 'server.cjs', minify: true }, file: 'server.cjs' },
  {
    title: 'an ES module in a folder, with agents in another one',
    options: {
      format: 'esm',
      outdir: '.',
      entryNames: 'bin/[name]',
      assetNames: 'agents/[name]-[hash]',
      outExtension: { '.js': '.mjs' },
    },
    file: 'bin/main.mjs',
  },
  {
    title: 'an ES module, minified, which is a command',
    options: { format: 'esm', outfile: 'server.mjs', minify: true, banner: { js: '#!/usr/bin/env node' } },
    file: 'server.mjs',
  },
] as const

for (const { title, options, file } of runs)
  t.test(
    `a service is one file: ${title}; it runs where nothing is installed and nothing can be written`,
    async (t) => {
      const out = await bundled(t, options)
      const flags = [permission, '--allow-fs-read=*', '--allow-worker']
      const { stdout, stderr } = spawnSync(process.execPath, [...flags, join(out, file)], {
        cwd: '/',
        encoding: 'utf8',
      })
      t.equal(stdout, 'Hello, WORLD!\ntrue true\n', stderr)
    },
  )

t.test('a module that is not there is a warning, with its place', async (t) => {
  const folder = stranger(t, { 'main.js': "\nexport const at = [1, new URL('./none.ts', import.meta.url)]" })
  const { warnings } = await build({
    entryPoints: [join(folder, 'main.js')],
    outdir: folder,
    write: false,
    bundle: true,
    platform: 'node',
    format: 'esm',
    logLevel: 'silent',
    external: ['dramatis'],
    plugins: [dramatis()],
  })
  t.match(warnings, [
    { text: /^There is no file \.\/none\.ts, and none of none\.js, .* beside it/, location: { line: 2, column: 22 } },
  ])
})

t.test('what cannot run is refused before it is built', async (t) => {
  const entryPoints = [join(project, 'main.ts')]
  const fits: BuildOptions = {
    entryPoints,
    bundle: true,
    platform: 'node',
    format: 'esm',
    outdir: 'none',
    write: false,
  }
  const wrong: [BuildOptions, RegExp][] = [
    [{ bundle: false }, /bundle: got false; accepted: true/],
    [{ platform: 'browser' }, /platform: got "browser"; accepted: "node"/],
    [{ format: 'iife' }, /format: got "iife"; accepted: "esm", "cjs"/],
    [{ publicPath: '/static' }, /publicPath: got "\/static"; accepted: nothing/],
  ]
  for (const [options, message] of wrong)
    await t.rejects(build({ ...fits, logLevel: 'silent', plugins: [dramatis()], ...options }), { message })
})

t.test('modules that name each other by their URLs are refused with the circle', async (t) => {
  const naming = (name: string) => `export const other = new URL('./${name}.js', import.meta.url)`
  const folder = stranger(t, { 'main.js': naming('one'), 'one.js': naming('two'), 'two.js': naming('one') })
  const failing = build({
    entryPoints: [join(folder, 'main.js')],
    outdir: folder,
    write: false,
    bundle: true,
    platform: 'node',
    format: 'esm',
    logLevel: 'silent',
    plugins: [dramatis()],
  })
  await t.rejects(failing, { message: /one\.js, which names two\.js, which names one\.js by its URL/ })
})

// `npm create dramatis` as a program: what it refuses, and what it makes. `npm run test:packed` uses what it has
// made.

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
