/** Agents, tools and protocols in modules of every kind, and what resolvers find of the package. */

import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import t from 'tap'
import { createTeam, loadTeam } from '../../src/index.ts'
import { testTeam } from '../../src/testing.ts'
import { compiled, plays, run, stranger } from './stranger.ts'

// Agents, tools, protocols and teams that a compiler made CommonJS.

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

t.test('in one thread, a module may require what another one imports', async (t) => {
  const folder = stranger(t, {
    'soft.js': `import { defineTool } from 'dramatis'
      import { z } from 'zod'
      export const word = 'shared'
      export default defineTool({ name: 'soft', description: 'soft', input: z.object({}), run: () => word })`,
    'loud.cjs': `const { word } = require('./soft.js')
      const { defineTool } = require('dramatis')
      const { z } = require('zod')
      module.exports = defineTool({ name: 'loud', description: 'loud', input: z.object({}), run: () => word.toUpperCase() })`,
    'caller.js': `import { defineAgent } from 'dramatis'
      export default defineAgent({
        receive: async (_, context) => [await context.tool('soft', {}), await context.tool('loud', {})].join(' '),
      })`,
  })
  const at = (name: string) => pathToFileURL(join(folder, name))
  const agents = [
    {
      name: 'ann',
      module: at('caller.js'),
      tools: ['soft.js', 'loud.cjs'].map((name) => ({ module: at(name) })),
    },
  ]
  const options = { agents, orchestration: { strategy: 'sequential' } } as const
  for (const team of [createTeam(options), testTeam(options, {})]) {
    t.equal((await team.execute('go')).finalOutput, 'shared SHARED')
    await team.close()
  }
})

// Agents, tools and protocols that are named by the ending of their source, or by that of what a compiler makes of
// it.

const teamNaming = (ending: string) => `import { defineTeam } from 'dramatis'
  const at = (name: string) => new URL('./' + name + '${ending}', import.meta.url)
  export default defineTeam({
    agents: [{ name: 'greeter', module: at('greeter'), tools: [{ module: at('shout') }] }],
    orchestration: { strategy: 'custom', module: at('script') },
  })`

t.test('modules are found by the ending of their source, and by that of their output', async (t) => {
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
  compiled(folder, {
    module: 'nodenext',
    rootDir: join(folder, 'src'),
    outDir: join(folder, 'out'),
  })

  await t.test('after tsc, modules named ./x.ts are found as ./x.js', async (t) => {
    t.equal(run(join(folder, 'out/main.js')), 'Hello, WORLD!\nHello, WORLD!\n')
  })

  await t.test('before tsc, modules named ./x.js are found as ./x.ts', async (t) => {
    await plays(t, join(folder, 'src/by-output.ts'), 'Hello, WORLD!')
  })
})

// Agents, tools and protocols that are packages: found from the file that names them, wherever the process was
// started.

t.test('modules that are packages are found from the file that names them', async (t) => {
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

  await t.test('a team file brings its place along, played and rehearsed', async (t) => {
    await plays(t, join(folder, 'team.mjs'), 'Hello, WORLD!')
  })

  await t.test('a team of code looks from the file or the folder that it names', async (t) => {
    const agents = [{ name: 'ann', module: 'greeter', tools: [{ module: 'greeter/tool' }] }]
    const file = join(folder, 'there-is-no-such.js')
    for (const resolveFrom of [pathToFileURL(file), folder]) {
      const team = createTeam({ agents, orchestration: { strategy: 'sequential' }, resolveFrom })
      t.equal((await team.execute('world')).finalOutput, 'Hello, WORLD')
      await team.close()
    }
  })

  await t.test('an agents.yaml brings its file along', async (t) => {
    const team = createTeam(await loadTeam(join(folder, 'agents.yaml')))
    t.equal((await team.execute('world')).finalOutput, 'Hello, WORLD!')
    await team.close()
  })
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

// package.json: what older resolvers and `require` find is what `import` finds.

interface Manifest {
  main: string
  types: string
  typesVersions: { '*': Record<string, string[]> }
  exports: Record<string, string | { types: string; default: string }>
}

const { main, types, typesVersions, exports }: Manifest = JSON.parse(readFileSync('package.json', 'utf8'))
const subpaths = Object.entries(exports).flatMap(([path, entry]) =>
  typeof entry === 'string' ? [] : [{ path, entry }],
)

const TYPES_ALONE = ['dramatis/telemetry']

t.test('a compiler that does not read "exports" finds the types of each subpath', async (t) => {
  const found = Object.entries(typesVersions['*']).map(([name, files]) => [`./${name}`, files])
  t.strictSame(Object.fromEntries([['.', [types]], ...found]), Object.fromEntries(subpaths.map(typesOf)))
  t.equal(main, subpaths.find(({ path }) => path === '.')?.entry.default)
})

t.test('require says what to do where Node cannot require ES modules', async (t) => {
  const folder = stranger(t, { 'main.js': "require('dramatis')" }, 'commonjs')
  t.throws(() => run('--no-experimental-require-module', join(folder, 'main.js')), {
    message:
      /dramatis is an ES module.* Node can from 20\.19 and 22\.12 on\. Else write: const \{ createTeam \} = await import/,
  })
})

t.test('require gives each subpath, where Node can require ES modules', async (t) => {
  const names = subpaths.map(({ path }) => path.replace(/^\./, 'dramatis'))
  const folder = stranger(
    t,
    {
      'main.js': `for (const name of ${JSON.stringify(names)}) {
        const exported = Object.keys(require(name))
        if ((exported.length === 0) !== ${JSON.stringify(TYPES_ALONE)}.includes(name)) throw new Error(name)
      }
      const { createTeam } = require('dramatis')
      const team = createTeam({ agents: [{ name: 'ann', module: require.resolve('./ann.js') }], orchestration: { strategy: 'sequential' } })
      team.execute('go').then(({ finalOutput }) => (console.log(finalOutput), team.close()))`,
      'ann.js': `const { AgentFailedError, defineAgent } = require('dramatis')
      module.exports = defineAgent({ receive: () => 'done, ' + AgentFailedError.name })`,
    },
    'commonjs',
  )
  t.equal(run(join(folder, 'main.js')), 'done, AgentFailedError\n')
})

function typesOf({ path, entry }: (typeof subpaths)[number]): [string, string[]] {
  return [path, [entry.types]]
}
