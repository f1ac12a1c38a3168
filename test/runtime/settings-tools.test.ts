/** `tools` of a team and of a role: what is taken, and what is refused before any thread starts. */
import t from 'tap'
import { settingsFrom } from '../../src/runtime/settings/settings.ts'
import { silent } from '../supervision/teams.ts'
import { adder } from '../toolbox/tools.ts'
import { errorFor, loose, role } from './settings-helpers.ts'

const { tool } = adder('search')
const isolated = { module: 'a-package', isolate: true, env: ['KEY'], limits: { maxHeapMb: 64 } }

t.test('each kind of tool goes where it runs', async (t) => {
  const { agents, tools } = settingsFrom(
    loose({ tools: [tool], ...role({ tools: [tool, { module: 'a-package', export: 'x' }, isolated, 'delegate'] }) }),
  )
  t.match(agents[0]!.tools, {
    inline: [{ option: 'tools[0]', tool }],
    modules: [{ option: 'agents[0].tools[1]', module: 'a-package', export: 'x' }],
    isolated: [{ option: 'agents[0].tools[2]', module: 'a-package', export: 'default', env: ['KEY'], maxHeapMb: 64 }],
    names: [{ option: 'agents[0].tools[3]', name: 'delegate' }],
  })
  t.equal(agents[0]!.tools.inline.length, 1, 'one that is given to the team and to the role is one')
  t.match(tools.inline, [{ tool }])
})

t.test('what is no tool is refused with its path', async (t) => {
  const wrong: [unknown, string][] = [
    [5, 'agents[0].tools[0]'],
    ['', 'agents[0].tools[0]'],
    [{ name: 'x', description: 'y', run: () => 1 }, 'agents[0].tools[0]'],
    [{}, 'agents[0].tools[0].module'],
    [{ module: './relative.js' }, 'agents[0].tools[0].module'],
    [{ module: 'a-package', export: '' }, 'agents[0].tools[0].export'],
    [{ module: 'a-package', isolated: true }, 'agents[0].tools[0].isolated'],
    [{ module: 'a-package', isolate: 'yes' }, 'agents[0].tools[0].isolate'],
    [{ module: 'a-package', env: ['KEY'] }, 'agents[0].tools[0].env'],
    [{ module: 'a-package', limits: {} }, 'agents[0].tools[0].limits'],
    [{ ...isolated, env: ['KEY=secret'] }, 'agents[0].tools[0].env[0]'],
    [{ ...isolated, limits: { maxHeapMb: 1 } }, 'agents[0].tools[0].limits.maxHeapMb'],
  ]
  for (const [reference, path] of wrong) {
    const error = errorFor(role({ tools: [reference] }))
    t.equal(error.details.path, path)
    t.notMatch(error.message, 'secret')
  }
  t.equal(errorFor({ tools: 'search' }).details.path, 'tools')
  t.equal(errorFor({ tools: [5] }).details.path, 'tools[0]')
})

t.test('tools as other libraries have them are refused with the way to write them here', async (t) => {
  const execute = () => 1
  const advice = /Write a tool of another library as defineTool\(\{ name, description, input, run \}\): .*execute\.$/
  class Inherits {
    readonly name = 'x'
    invoke = execute
  }
  const theirs = [
    { description: 'y', inputSchema: {}, execute },
    { description: 'y', parameters: {}, execute },
    { type: 'function', name: 'x', description: 'y', parameters: {}, strict: true, invoke: execute },
    { type: 'function', function: { name: 'x', description: 'y', parameters: {} } },
    { name: 'x', description: 'y', schema: {}, func: execute },
    new Inherits(),
  ]
  for (const each of theirs)
    t.match(errorFor(role({ tools: [each] })), { details: { path: 'agents[0].tools[0]' }, message: advice })
  const byName = { weather: theirs[0] }
  t.match(errorFor(role({ tools: byName })), { details: { path: 'agents[0].tools' }, message: advice })
  t.match(errorFor({ tools: byName }), { details: { path: 'tools' }, message: advice })
})

t.test('two tools of one name, and a tool with the name of a verb, are refused', async (t) => {
  t.equal(
    errorFor({ tools: [tool], ...role({ tools: [adder('search').tool] }) }).message,
    'agents[0].tools[0]: a tool named "search" cannot be told apart: the tool at tools[0] has it. Rename it.',
  )
  t.match(errorFor({ tools: [adder('delegate').tool] }).message, /^tools\[0\]: .* a verb of the runtime has it/)
})

t.test('a name that is no tool, no verb and no skill is refused at once where all names are known', async (t) => {
  const own = (...tools: unknown[]) => ({ tools: [tool], ...role({ tools }) })
  t.match(errorFor(own('serach')), {
    message:
      /^agents\[0\]\.tools\[0\]: this role has no tool and no verb "serach"\. Did you mean "search"\? .* There are: search, request, /,
    details: { path: 'agents[0].tools[0]', got: 'serach' },
  })
  for (const name of ['MathSkill', 'x', 'constructor', 'Search ', 'search_everything'])
    t.match(errorFor(own('search', name)), {
      message: 'belongs into `skills`',
      details: { path: 'agents[0].tools[1]', got: name },
    })
  t.ok(settingsFrom(loose(own('search', 'handoff'))))
  t.ok(settingsFrom(loose(role({ tools: [{ module: 'a-package' }, 'unknown'] }))), 'the thread knows')
  t.match(errorFor({ tools: ['unknown'] }), { details: { path: 'tools[0]' } })
})

t.test('a name that is that of a tool of another role, or nearly, is refused', async (t) => {
  const team = (...tools: unknown[]) => ({
    agents: [
      { name: 'ann', module: 'a-package', tools: [tool] },
      { name: 'bob', module: 'a-package', tools },
    ],
  })
  t.match(errorFor(team('refuse', 'serch')), {
    message:
      /^agents\[1\]\.tools\[1\]: .* "serch"\. Did you mean "search"\? "ann" has that tool: give this role the tool/,
    details: { path: 'agents[1].tools[1]', got: 'serch' },
  })
  t.match(errorFor(team('search')), { message: /"search"\. "ann" has that tool: give this role the tool itself/ })
  const { newcomer } = settingsFrom(loose({ ...team('refuse'), logger: silent }))
  const late = { name: 'cid', module: 'a-package', tools: ['research'] }
  t.throws(() => newcomer(late, 'role', ['ann', 'bob']), {
    code: 'CONFIGURATION',
    details: { path: 'role.tools[0]' },
  })
})

t.test('skills are names of their own, and may stand among the tools too', async (t) => {
  const [{ tools } = {}] = settingsFrom(
    loose({ tools: [tool], ...role({ tools: ['MathSkill', 'search'], skills: ['MathSkill', 'Latin'] }) }),
  ).agents
  t.match(tools, { skills: ['MathSkill', 'Latin'], names: [{ name: 'search' }] })
  t.match(errorFor(role({ skills: [' '] })), { details: { path: 'agents[0].skills[0]' } })
  t.match(errorFor(role({ verbs: 'some' })), { details: { path: 'agents[0].verbs' } })
})

t.test('a verb that the role has no right to, or nobody for, is refused', async (t) => {
  const missing: [fields: object, team: object, what: RegExp][] = [
    [{ tools: ['refuse', 'escalate'] }, {}, /nobody to ask: name its manager in escalateTo/],
    [{ tools: ['refuse', 'delegate'], delegationAllowed: false }, {}, /may not delegate \(delegationAllowed: false\)/],
    [{ tools: ['refuse', 'handoff'], delegationAllowed: false }, {}, /may not delegate \(delegationAllowed: false\)/],
    [{ tools: ['refuse', 'publish'] }, { enableBlackboard: false }, /no blackboard \(enableBlackboard: false\)/],
    [
      { tools: ['refuse', 'read_blackboard'] },
      { enableBlackboard: false },
      /no blackboard \(enableBlackboard: false\)/,
    ],
    [{ tools: ['refuse', 'subscribe'] }, { enableBlackboard: false }, /no blackboard \(enableBlackboard: false\)/],
    [{ tools: ['refuse', 'subscribe'], instances: 2 }, {}, /several instances, which keep no conversation/],
    [{ tools: ['refuse', 'sync'] }, {}, /No sync point requires it: name it in requiredAgents/],
    [{ tools: ['refuse', 'spawn'] }, {}, /trust: 'privileged' makes others/],
    [{ tools: ['refuse', 'define_agent'], trust: 'privileged' }, {}, /no registry/],
  ]
  for (const [fields, team, what] of missing)
    t.match(errorFor({ ...role(fields), ...team }), { message: what, details: { path: 'agents[0].tools[1]' } })
  const all = ['request', 'send', 'broadcast', 'delegate', 'handoff', 'escalate', 'finish', 'publish', 'subscribe']
  t.ok(settingsFrom(loose(role({ tools: all, escalateTo: 'ann' }))))
})
