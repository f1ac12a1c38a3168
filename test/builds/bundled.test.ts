/** A service that a bundler has made one file of, the package with it. */
import { copyFileSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { build } from 'esbuild'
import t from 'tap'
import { run, stranger } from './stranger.ts'

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
