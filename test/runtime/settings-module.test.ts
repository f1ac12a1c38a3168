import t from 'tap'
import type { AgentRole } from '../../src/index.ts'
import { settingsFrom } from '../../src/runtime/settings/settings.ts'
import { agents, detailsOf, errorFor, module, role } from './settings-helpers.ts'

t.test('a module is a file: URL, an absolute path or a package', async (t) => {
  for (const [given, expected] of [
    [new URL('file:///a/b.js?v=1'), 'file:///a/b.js?v=1'],
    ['file:///a/b.js', 'file:///a/b.js'],
    ['/a/b c.js', 'file:///a/b%20c.js'],
    ['C:\\a\\b.js', 'file:///C:/a/b.js'],
    ['c:/a/b.js', 'file:///c:/a/b.js'],
    ['\\\\server\\share\\b.js', 'file://server/share/b.js'],
    ['pkg', 'pkg'],
    ['@scope/pkg/sub/file.js', '@scope/pkg/sub/file.js'],
  ] as const) {
    t.equal(settingsFrom({ agents: [{ name: 'ann', module: given }] }).agents[0]?.module, expected)
  }
})

t.test('a relative module is refused: relative to what?', async (t) => {
  t.match(errorFor(role({ module: './b.js' })), {
    message: /^agents\[0\]\.module: got "\.\/b\.js"; .*Write new URL\("\.\/b\.js", import\.meta\.url\)\.$/,
  })
  for (const module of ['..', '../b.js', '.\\b.js']) t.match(errorFor(role({ module })).message, /Relative to what/)
})

t.test('a module that comes from no file is refused, without its content', async (t) => {
  for (const [module, got] of [
    ['data:text/javascript,hidden', '"data:..."'],
    [new URL('data:text/javascript,hidden'), '"data:..."'],
    ['https://user:hidden@host/a.js?key=hidden', '"https://host/a.js"'],
    ['http://', '"http://"'],
    ['node:fs', '"node:fs"'],
    ['fs', '"fs"'],
    ['#internal', '"#internal"'],
    ['~/a.js', '"~/a.js"'],
    ['C:a.js', '"C:a.js"'],
    ['', '""'],
    [5, '5'],
    [{}, 'an object'],
  ] as const) {
    t.equal(detailsOf(role({ module })), `agents[0].module: ${got}`)
  }
})

t.test('a role without a module is refused where the team has no model, in production', async (t) => {
  const { NODE_ENV } = process.env
  process.env.NODE_ENV = 'production' // else the rehearsal model plays it
  t.teardown(() => {
    if (NODE_ENV === undefined) delete process.env.NODE_ENV
    else process.env.NODE_ENV = NODE_ENV
  })
  const error = errorFor({ agents: [...agents, { name: 'bob', systemPrompt: 'Argue.' }] })
  t.equal(error.details.path, 'agents[1].module')
  t.match(error.message, /needs a model: give the team one/)
})

t.test(
  'a role that a model plays interleaves runs, runs what comes back within, and has the verbs of its rights',
  async (t) => {
    const models = { default: { complete: async function* () {} } }
    const roles = [
      { name: 'plain' },
      { name: 'lead', canDelegateTo: ['plain'], escalateTo: 'plain', concurrency: 2, reentrancy: 'none' as const },
      { name: 'alone', canDelegateTo: [], delegationAllowed: false, tools: ['agent_status'] },
    ]
    t.match(settingsFrom({ agents: roles, models }).agents, [
      { playedByModel: true, module: null, concurrency: 32, reentrancy: 'chain', verbs: [] },
      { concurrency: 2, reentrancy: 'none', verbs: ['request', 'delegate', 'handoff', 'escalate', 'refuse'] },
      { verbs: ['agent_status'] },
    ])
    const shared = settingsFrom({ agents: [{ name: 'plain', trust: 'privileged' }], models, enableBlackboard: true })
    t.same(shared.agents[0]?.verbs, ['publish', 'read_blackboard', 'spawn', 'refuse'])
    const error = errorFor({ agents: [{ name: 'plain', model: 'huge' }], models })
    t.match(error, {
      message: /no model of this team is named "huge"; there are default/,
      details: { path: 'agents[0].model' },
    })
  },
)

t.test('a model is offered the verbs that its role has a right to, and no others', async (t) => {
  const models = { default: { complete: async function* () {} } }
  const verbsOf = (role: Partial<AgentRole>, team: object = {}) =>
    settingsFrom({ agents: [{ name: 'ann', ...role }, { name: 'bob' }], models, ...team }).agents[0]?.verbs
  const delegation = ['request', 'delegate', 'handoff', 'refuse']
  const board = { enableBlackboard: true }
  t.same(verbsOf({}), [])
  t.same(verbsOf({ delegationAllowed: true }), delegation)
  t.same(verbsOf({ canDelegateTo: ['bob'] }), delegation)
  t.same(verbsOf({ canDelegateTo: ['bob'], delegationAllowed: false }), [])
  t.same(verbsOf({ escalateTo: 'bob' }), ['escalate', 'refuse'])
  t.same(verbsOf({}, board), ['publish', 'read_blackboard', 'refuse'])
  t.same(verbsOf({ trust: 'privileged' }), ['spawn', 'refuse'])
  t.same(verbsOf({ trust: 'untrusted', escalateTo: 'bob' }, { ...board, tools: ['ask_user'] }), [])
})

t.test('a role whose definition is given needs no module', async (t) => {
  const modules = new Set(['bob'])
  const [ann, bob] = settingsFrom({ agents: [...agents, { name: 'bob' }] }, { modules }).agents
  t.strictSame([ann?.module, bob?.module], [module, null])
  t.equal(errorFor({ agents: [{ name: 'bob', module: './b.js' }] }, modules).details.path, 'agents[0].module')
})
