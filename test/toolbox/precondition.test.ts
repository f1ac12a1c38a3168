/** A tool that cannot work where it is given says so before any model calls it. */
import t from 'tap'
import { z } from 'zod'
import { ConfigurationError, defineAgent, defineTool } from '../../src/index.ts'
import { testTeam } from '../../src/testing.ts'
import { needsPackages } from '../../src/tools/options.ts'
import { desk, recordModule } from './desk.ts'
import { refusal } from './tools.ts'

const orchestration = { strategy: 'sequential' } as const

function needing(precondition: () => void) {
  return defineTool({ name: 'draw', description: 'Draws.', input: z.object({}), precondition, run: () => 'drawn' })
}

t.test('a team is not created with a tool that cannot work', async (t) => {
  const modules = { ann: defineAgent({ receive: () => 'done' }) }
  const draw = needing(() => {
    throw new Error('no pencil')
  })
  const refusal = { code: 'CONFIGURATION', message: /the tool "draw" cannot work here: no pencil/ }
  t.throws(() => testTeam({ agents: [{ name: 'ann', tools: [draw] }], orchestration }, { modules }), {
    ...refusal,
    details: { path: 'agents[0].tools[0]', tool: 'draw' },
  })
  t.throws(() => testTeam({ agents: [{ name: 'ann' }], tools: [draw], orchestration }, { modules }), {
    ...refusal,
    details: { path: 'tools[0]' },
  })
})

t.test('a tool that can work is asked when the team is created', async (t) => {
  let asked = 0
  const draw = needing(() => void asked++)
  const modules = { ann: defineAgent({ receive: (_, context) => context.tool('draw', {}) as Promise<string> }) }
  const team = testTeam({ agents: [{ name: 'ann', tools: [draw] }], tools: [draw], orchestration }, { modules })
  t.teardown(() => team.close())
  t.ok(asked > 0)
  t.equal((await team.execute('go')).finalOutput, 'drawn')
})

for (const isolate of [false, true]) {
  t.test(`a tool of a module is asked in its thread, ${isolate ? 'its own' : "the agent's"}`, async (t) => {
    const { team } = desk(t, [{ module: recordModule, export: 'unusable', isolate }])
    t.match(await refusal(team.start()), {
      code: 'CONFIGURATION',
      message: /agents\[0\]\.tools\[0\]\.export: the tool "unusable" cannot work here: no paper/,
    })
  })
}

t.test('packages that are not installed are named, with the command that installs them', async (t) => {
  t.doesNotThrow(() => needsPackages('paint', ['tap', 'zod', '@standard-schema/spec']))
  t.throws(() => needsPackages('paint', ['zod', 'no-such-paint', '@no-such/brush']), {
    constructor: ConfigurationError,
    message:
      'paint needs no-such-paint, @no-such/brush, which are not installed: npm install no-such-paint @no-such/brush',
    details: { packages: ['no-such-paint', '@no-such/brush'] },
  })
})
