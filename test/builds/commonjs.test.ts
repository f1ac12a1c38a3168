/** Agents, tools, protocols and teams that a compiler made CommonJS. */
import { join } from 'node:path'
import t from 'tap'
import { compiled, plays, run, stranger } from './stranger.ts'

const sources = {
  'greeter.ts': `import { defineAgent } from 'dramatis'
    export default defineAgent({ receive: (message) => 'Hello, ' + message.content })`,
  'caller.ts': `import { defineAgent } from 'dramatis'
    export default defineAgent({
      receive: async ({ content: text }, context) =>
        [await context.tool('shout', { text }), await context.tool('whisper', { text })].join(' '),
    })`,
  'shout.ts': `import { defineTool } from 'dramatis'
    import { z } from 'zod'
    export default defineTool({
      name: 'shout', description: 'loud', input: z.object({ text: z.string() }), run: ({ text }) => text.toUpperCase(),
    })
    export const whisper = defineTool({
      name: 'whisper', description: 'soft', input: z.object({ text: z.string() }), run: ({ text }) => text.toLowerCase(),
    })`,
  'script.ts': `import { defineProtocol } from 'dramatis'
    export default defineProtocol({
      name: 'script', run: async (orchestrator, query) => (await orchestrator.request('greeter', query)).content + '!',
    })`,
  'team.ts': `import { defineTeam } from 'dramatis'
    import { join } from 'node:path'
    export default defineTeam({
      agents: [{ name: 'greeter', module: join(__dirname, 'greeter.js') }],
      orchestration: { strategy: 'custom', module: join(__dirname, 'script.js') },
    })`,
  'main.ts': `import { createTeam } from 'dramatis'
    import { join } from 'node:path'
    import team from './team'
    async function main() {
      const tools = [{ module: join(__dirname, 'shout.js') }, { module: join(__dirname, 'shout.js'), export: 'whisper', isolate: true }]
      const caller = { name: 'caller', module: join(__dirname, 'caller.js'), tools }
      for (const options of [team, { agents: [caller], orchestration: { strategy: 'sequential' as const } }]) {
        const made = createTeam(options)
        const result = await made.execute('World')
        console.log(result.success ? result.finalOutput : result.error.message)
        await made.close()
      }
    }
    void main()`,
}

const folder = stranger(t, sources, 'commonjs')
compiled(folder, { module: 'nodenext', verbatimModuleSyntax: false })

t.test('a service that is compiled to CommonJS runs its agents, tools and protocol', async (t) => {
  t.equal(run(join(folder, 'main.js')), 'Hello, World!\nWORLD world\n')
})

t.test('a team file that is compiled to CommonJS is played, and rehearsed', async (t) => {
  await plays(t, join(folder, 'team.js'), 'Hello, World!')
})

t.test('a team file that is CommonJS by hand is played, and rehearsed', async (t) => {
  const files = {
    'plain.js': "const { defineAgent } = require('dramatis'); module.exports = defineAgent({ receive: () => 'plain' })",
    'team.js': `module.exports = {
      agents: [{ name: 'ann', module: require.resolve('./plain.js') }], orchestration: { strategy: 'sequential' } }`,
  }
  await plays(t, join(stranger(t, files, 'commonjs'), 'team.js'), 'plain')
})
