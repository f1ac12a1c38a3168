/** Agents, tools and protocols that are packages: found from the file that names them, wherever the process was started. */
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import t from 'tap'
import { createTeam, loadTeam } from '../../src/index.ts'
import { plays, run, stranger } from './stranger.ts'

const folder = stranger(t, {
  node_modules: {
    greeter: {
      'package.json':
        '{ "type": "module", "exports": { ".": "./agent.js", "./tool": "./tool.js", "./script": "./script.js" } }',
      'agent.js': `import { defineAgent } from 'dramatis'
        export default defineAgent({
          receive: async ({ content: text }, context) => 'Hello, ' + (await context.tool('shout', { text })),
        })`,
      'tool.js': `import { defineTool } from 'dramatis'
        import { z } from 'zod'
        export default defineTool({
          name: 'shout', description: 'loud', input: z.object({ text: z.string() }), run: ({ text }) => text.toUpperCase(),
        })`,
      'script.js': `import { defineProtocol } from 'dramatis'
        export default defineProtocol({
          name: 'script', run: async (orchestrator, query) => (await orchestrator.request('ann', query)).content + '!',
        })`,
    },
  },
  'agents.yaml': `agents:
  ann: { module: greeter, tools: [{ module: greeter/tool, isolate: true }] }
orchestration: { strategy: custom, module: greeter/script }
`,
  'team.mjs': `export default {
    agents: [{ name: 'ann', module: 'greeter', tools: [{ module: 'greeter/tool' }] }],
    orchestration: { strategy: 'custom', module: 'greeter/script' },
  }`,
})

t.test('a team file brings its place along, played and rehearsed', async (t) => {
  await plays(t, join(folder, 'team.mjs'), 'Hello, WORLD!')
})

t.test('a team of code looks from the file or the folder that it names', async (t) => {
  const agents = [{ name: 'ann', module: 'greeter', tools: [{ module: 'greeter/tool' }] }]
  const file = join(folder, 'there-is-no-such.js')
  for (const resolveFrom of [pathToFileURL(file), folder]) {
    const team = createTeam({ agents, orchestration: { strategy: 'sequential' }, resolveFrom })
    t.equal((await team.execute('world')).finalOutput, 'Hello, WORLD')
    await team.close()
  }
})

t.test('an agents.yaml brings its file along', async (t) => {
  const team = createTeam(await loadTeam(join(folder, 'agents.yaml')))
  t.equal((await team.execute('world')).finalOutput, 'Hello, WORLD!')
  await team.close()
})

t.test(
  'without a file it is the one that makes the team, or has defined it, wherever the process was started',
  async (t) => {
    const greeter = (answer: string) => ({
      greeter: {
        'package.json': '{ "type": "module", "exports": "./agent.js" }',
        'agent.js': `import { defineAgent } from 'dramatis'
        export default defineAgent({ receive: () => '${answer}' })`,
      },
    })
    const options = "{ agents: [{ name: 'ann', module: 'greeter' }], orchestration: { strategy: 'sequential' } }"
    const folder = stranger(t, {
      'main.js': `import { createTeam } from 'dramatis'
      import team from './team/team.js'
      for (const made of [${options}].map(createTeam).concat(createTeam({ ...team, maxConcurrentAgents: 2 }))) {
        console.log((await made.execute('world')).finalOutput)
        await made.close()
      }`,
      team: {
        'team.js': `import { defineTeam } from 'dramatis'
        export default defineTeam(${options})`,
        node_modules: greeter('from the folder of the team'),
      },
      node_modules: greeter('from that of the program'),
    })
    t.equal(run(join(folder, 'main.js')), 'from that of the program\nfrom the folder of the team\n')
  },
)

t.test('an error about a package says how to name another file', async (t) => {
  const team = createTeam({ agents: [{ name: 'ann', module: 'greeter' }], orchestration: { strategy: 'sequential' } })
  await t.rejects(team.start(), {
    code: 'CONFIGURATION',
    message: `no node_modules from ${import.meta.dirname} upwards`,
  })
  await t.rejects(team.start(), { message: /name the file to look from: resolveFrom/ })
  await team.close()
})

t.test('what is no file is refused', async (t) => {
  for (const resolveFrom of ['greeter', './team.js', 'https://example.com/?key=hidden', 5]) {
    const options = { agents: [{ name: 'ann' }], orchestration: { strategy: 'sequential' } as const, resolveFrom }
    t.throws(() => createTeam(options as Parameters<typeof createTeam>[0]), {
      code: 'CONFIGURATION',
      message: /^resolveFrom: got (?!.*hidden).*; accepted: a file: URL or an absolute path/,
    })
  }
})
