/** A service that a bundler has made one file of, with the package or with its agents beside it. */

import { spawnSync } from 'node:child_process'
import { copyFileSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
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
