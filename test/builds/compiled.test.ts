/** Agents, tools and protocols that are named by the ending of their source, or by that of what a compiler makes of it. */
import { join } from 'node:path'
import t from 'tap'
import { compiled, plays, run, stranger } from './stranger.ts'

const teamNaming = (ending: string) => `import { defineTeam } from 'dramatis'
  const at = (name: string) => new URL('./' + name + '${ending}', import.meta.url)
  export default defineTeam({
    agents: [{ name: 'greeter', module: at('greeter'), tools: [{ module: at('shout') }] }],
    orchestration: { strategy: 'custom', module: at('script') },
  })`

const folder = stranger(t, {
  src: {
    'greeter.ts': `import { defineAgent } from 'dramatis'
      export default defineAgent({
        receive: async ({ content: text }, context) => 'Hello, ' + (await context.tool('shout', { text })),
      })`,
    'shout.ts': `import { defineTool } from 'dramatis'
      import { z } from 'zod'
      export default defineTool({
        name: 'shout', description: 'loud', input: z.object({ text: z.string() }), run: ({ text }) => text.toUpperCase(),
      })`,
    'script.ts': `import { defineProtocol } from 'dramatis'
      export default defineProtocol({
        name: 'script', run: async (orchestrator, query) => (await orchestrator.request('greeter', query)).content + '!',
      })`,
    'by-source.ts': teamNaming('.ts'),
    'by-output.ts': teamNaming('.js'),
    'main.ts': `import { createTeam } from 'dramatis'
      import byOutput from './by-output.js'
      import bySource from './by-source.js'
      for (const options of [bySource, byOutput]) {
        const team = createTeam(options)
        console.log((await team.execute('World')).finalOutput)
        await team.close()
      }`,
  },
})
compiled(folder, { module: 'nodenext', rootDir: join(folder, 'src'), outDir: join(folder, 'out') })

t.test('after tsc, modules named ./x.ts are found as ./x.js', async (t) => {
  t.equal(run(join(folder, 'out/main.js')), 'Hello, WORLD!\nHello, WORLD!\n')
})

t.test('before tsc, modules named ./x.js are found as ./x.ts', async (t) => {
  await plays(t, join(folder, 'src/by-output.ts'), 'Hello, WORLD!')
})
