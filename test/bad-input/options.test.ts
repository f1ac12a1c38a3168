/** Options and definitions that cannot work: refused by path, before any thread starts. */
import t from 'tap'
import {
  ConfigurationError,
  createTeam,
  defineAgent,
  defineProtocol,
  defineTeam,
  defineTool,
  MultiAgentPattern,
} from '../../src/index.ts'
import { boom, revoked, stage } from './helpers.ts'

// Options that cannot work: refused by the constructor, before any thread starts, with path, what came and what is
// accepted.

const module = new URL('file:///nowhere/agent.js')
const ann = { name: 'ann', module }
const team = { agents: [ann], orchestration: { strategy: 'sequential' } }
const role = (fields: object) => ({ ...team, agents: [{ ...ann, ...fields }] })
const play = (orchestration: unknown) => ({ ...team, agents: [ann, { name: 'bob', module }], orchestration })
const cycle: Record<string, unknown> = {}
cycle.again = { cycle }

const hostile = (name: string, fields: object = {}) =>
  Object.defineProperty({ ...fields }, name, { get: boom, enumerable: true })
const unseen = 'what throws when it is looked at'
const thrown = 'what throws when it is read (Error: boom)'

/** The error for options as plain JavaScript may have them. */
function refusal(options: unknown): ConfigurationError {
  try {
    Reflect.apply(createTeam, undefined, [options])
  } catch (error) {
    if (error instanceof ConfigurationError) return error
    throw error
  }
  throw new Error('these options were accepted')
}

const refused: Record<string, [options: unknown, path: string, got: string, says?: RegExp][]> = {
  'no options': [
    [undefined, 'options', 'nothing'],
    [null, 'options', 'null'],
    ['team', 'options', '"team"'],
    [{}, 'agents', 'nothing'],
  ],
  'what throws when it is read': [
    [new Proxy({}, { ownKeys: boom }), 'options', thrown, /accepted: plain values/],
    [hostile('agents'), 'agents', thrown],
    [{ ...team, agents: new Proxy([ann], { get: boom }) }, 'agents', thrown],
    [{ ...team, agents: [hostile('name', ann)] }, 'agents[0].name', thrown],
    [{ ...team, agents: [hostile('module', { name: 'ann' })] }, 'agents[0].module', thrown],
    [role({ limits: hostile('maxHeapMb') }), 'agents[0].limits.maxHeapMb', thrown],
    [role({ communication: new Proxy({}, { ownKeys: boom }) }), 'agents[0].communication', thrown],
    [role({ data: hostile('deep') }), 'agents[0].data', thrown],
    [role({ env: new Proxy(['HOME'], { get: boom }) }), 'agents[0].env', thrown],
    [hostile('orchestration', { agents: [ann] }), 'orchestration', thrown],
    [play(hostile('strategy')), 'orchestration.strategy', thrown],
    [play(hostile('agentOrder', { strategy: 'sequential' })), 'orchestration.agentOrder', thrown],
    [hostile('clock', team), 'clock', thrown],
    [{ ...team, logger: hostile('info') }, 'logger', thrown],
    [{ ...team, tenants: { weights: hostile('acme') } }, 'tenants.weights', thrown],
  ],
  'a proxy that was revoked': [
    [
      revoked(),
      'options',
      "what throws when it is read (TypeError: Cannot perform 'get' on a proxy that has been revoked)",
    ],
    [{ ...team, agents: [revoked()] }, 'agents[0]', unseen, /accepted: an object/],
    [role({ limits: revoked() }), 'agents[0].limits', unseen],
    [role({ env: revoked([]) }), 'agents[0].env', unseen],
    [play(revoked()), 'orchestration', unseen],
    [{ ...team, models: revoked() }, 'models', unseen],
    [{ ...team, stateManagement: { store: revoked() } }, 'stateManagement.store', unseen],
  ],
  'no agents': [
    [{ ...team, agents: undefined }, 'agents', 'nothing', /a list of at least one role/],
    [{ ...team, agents: [] }, 'agents', 'an empty list'],
    [{ ...team, agents: ann }, 'agents', 'an object'],
    [{ ...team, agents: [null] }, 'agents[0]', 'null'],
    [{ ...team, agents: [ann, undefined] }, 'agents[1]', 'nothing'],
  ],
  'names that are no names': [
    [role({ name: '' }), 'agents[0].name', '""', /a letter, then letters, digits, '_' and '-', at most 64/],
    [role({ name: undefined }), 'agents[0].name', 'nothing'],
    [role({ name: 5 }), 'agents[0].name', '5'],
    [role({ name: '1st' }), 'agents[0].name', '"1st"'],
    [role({ name: 'ann smith' }), 'agents[0].name', '"ann smith"'],
    [role({ name: 'ann.smith' }), 'agents[0].name', '"ann.smith"'],
    [role({ name: ' ann' }), 'agents[0].name', '" ann"'],
    [role({ name: '__proto__' }), 'agents[0].name', '"__proto__"'],
    [role({ name: 'a'.repeat(65) }), 'agents[0].name', `"${'a'.repeat(57)}..."`],
    [role({ name: '$user' }), 'agents[0].name', '"$user"', /begin with '\$' are the runtime's own/],
  ],
  'a name twice': [
    [{ ...team, agents: [ann, { name: 'bob', module }, ann] }, 'agents[2].name', '"ann", which agents[0] has already'],
  ],
  'an agent that nobody defines': [
    [play({ strategy: 'sequential', agentOrder: ['ann', 'bbo'] }), 'orchestration.agentOrder[1]', '"bbo"', /"bob"\?/],
    [play({ strategy: 'sequential', agentOrder: ['x'] }), 'orchestration.agentOrder[0]', '"x"', /\(ann, bob\)/],
    [play({ strategy: 'parallel', agents: ['carl'] }), 'orchestration.agents[0]', '"carl"', /Define that agent/],
    [play({ strategy: 'parallel', aggregationStrategy: 'best', judge: 'x' }), 'orchestration.judge', '"x"'],
    [role({ escalateTo: 'boss' }), 'agents[0].escalateTo', '"boss"', /an agent of this team \(ann\)/],
    [role({ canDelegateTo: ['anne'] }), 'agents[0].canDelegateTo[0]', '"anne"', /Did you mean "ann"\?/],
    [role({ sharedWith: ['x'] }), 'agents[0].sharedWith[0]', '"x"'],
  ],
  'an unknown strategy': [
    [play({ strategy: 'sequental' }), 'orchestration.strategy', '"sequental"', /Did you mean "sequential"\?/],
    [play({ strategy: 'debtae' }), 'orchestration.strategy', '"debtae"', /Did you mean "debate"\?/],
    [
      play({ strategy: 'magic' }),
      'orchestration.strategy',
      '"magic"',
      /accepted: sequential, parallel, auction, blackboard, consensus, debate, hierarchical, collaborate, handoff, supervisor, custom/,
    ],
    [play({}), 'orchestration.strategy', 'nothing'],
    [play(undefined), 'orchestration', 'nothing', /an object with a strategy/],
    [play('sequential'), 'orchestration', '"sequential"'],
  ],
  'numbers out of range': [
    [{ ...team, maxConcurrentAgents: 0 }, 'maxConcurrentAgents', '0', /an integer from 1 to 2,147,483,647/],
    [{ ...team, maxConcurrentRuns: 1.5 }, 'maxConcurrentRuns', '1.5'],
    [{ ...team, maxQueuedRuns: -1 }, 'maxQueuedRuns', '-1'],
    [{ ...team, maxSpawnedAgents: 10_001 }, 'maxSpawnedAgents', '10001', /an integer from 0 to 10,000/],
    [{ ...team, globalTimeoutMs: Number.NaN }, 'globalTimeoutMs', 'NaN', /milliseconds above 0/],
    [{ ...team, globalTimeoutMs: 2 ** 31 }, 'globalTimeoutMs', '2147483648'],
    [{ ...team, communication: { maxMessageBytes: 0 } }, 'communication.maxMessageBytes', '0'],
    [{ ...team, supervision: { maxRestarts: -1 } }, 'supervision.maxRestarts', '-1'],
    [{ ...team, threads: { warmSpares: '1' } }, 'threads.warmSpares', '"1"'],
    [role({ temperature: 2.1 }), 'agents[0].temperature', '2.1', /from 0 to 2/],
    [role({ limits: { maxHeapMb: 4 } }), 'agents[0].limits.maxHeapMb', '4'],
    [role({ limits: { turnTimeoutMs: -1 } }), 'agents[0].limits.turnTimeoutMs', '-1'],
    [role({ weight: '1' }), 'agents[0].weight', '"1"', /a number from 0 \(NaN and Infinity too\) or null/],
    [role({ weight: -1 }), 'agents[0].weight', '-1', /a number from 0 \(NaN and Infinity too\) or null/],
    [role({ priority: Number.NaN }), 'agents[0].priority', 'NaN'],
  ],
  'data that is no JSON value': [
    [role({ data: { when: [new Date(0)] } }), 'agents[0].data.when[0]', 'a Date', /a JSON value/],
    [role({ data: () => 1 }), 'agents[0].data', 'function'],
    [role({ data: { n: Number.NaN } }), 'agents[0].data.n', 'NaN'],
    [role({ data: [1, 2n] }), 'agents[0].data[1]', 'bigint'],
    [role({ data: cycle }), 'agents[0].data.again.cycle', 'a cycle'],
    [role({ data: new Map() }), 'agents[0].data', 'a Map'],
  ],
  'a module that cannot be one': [
    [role({ module: './agent.js' }), 'agents[0].module', '"./agent.js"', /Relative to what\? Write new URL/],
    [role({ module: '../agent.js' }), 'agents[0].module', '"../agent.js"', /a file: URL, an absolute path, or a pack/],
    [role({ module: '' }), 'agents[0].module', '""'],
    [role({ module: 5 }), 'agents[0].module', '5'],
    [role({ module: 'node:fs' }), 'agents[0].module', '"node:fs"'],
    [role({ module: 'https://example.org/agent.js' }), 'agents[0].module', '"https://example.org/agent.js"'],
    [play({ strategy: 'custom', module: './script.js' }), 'orchestration.module', '"./script.js"', /Relative to what/],
  ],
}

for (const [what, cases] of Object.entries(refused)) {
  t.test(`${what}: refused with the option's path, what came and what is accepted`, async (t) => {
    for (const [options, path, got, says = /accepted: /] of cases) {
      const error = refusal(options)
      t.equal(error.code, 'CONFIGURATION')
      t.equal(error.details.path, path, error.message)
      t.equal(error.details.got, got, error.message)
      t.ok(error.message.startsWith(`${path}: got ${got}; accepted: ${error.details.accepted}`), error.message)
      t.match(error.message, says)
    }
  })
}

t.test('an option with a mistyped name is refused with the name that was meant', async (t) => {
  const error = refusal({ ...team, globalTimeoutsMs: 5 })
  t.equal(error.details.path, 'globalTimeoutsMs')
  t.match(error.message, 'did you mean "globalTimeoutMs"?')
})

t.test('the class refuses what the function refuses', async (t) => {
  t.throws(() => Reflect.construct(MultiAgentPattern, [{ agents: [] }]), { code: 'CONFIGURATION' })
  t.throws(() => Reflect.construct(MultiAgentPattern, []), { code: 'CONFIGURATION' })
})

t.test('a weight of null, NaN or Infinity is legal, and the majority decides', async (t) => {
  for (const weight of [null, Number.NaN, Number.POSITIVE_INFINITY, 2, 0])
    t.doesNotThrow(() => Reflect.apply(createTeam, undefined, [role({ weight })]))
})

t.test('names in any script, and those that objects have by themselves, are legal', async (t) => {
  for (const name of ['Ärztin', '批評家', 'a', 'a'.repeat(64), 'x-1_y', 'constructor', 'toString'])
    t.doesNotThrow(() => Reflect.apply(createTeam, undefined, [role({ name })]))
})

t.test('a refused team leaves nothing behind', async (t) => {
  const before = process.getActiveResourcesInfo().length
  for (const options of [role({ name: '' }), play({ strategy: 'magic' }), { ...team, agents: [] }]) refusal(options)
  t.equal(process.getActiveResourcesInfo().length, before)
})

// Options that ask for nothing, and a verb whose function stays in its thread.

t.test('an option that asks for nothing is fine', async (t) => {
  const { play } = stage(t)
  const asksNothing = { retries: 0, idempotent: false, polling: false }
  t.match(await play((context) => context.request('bob', 'hi', asksNothing)), { content: 'bob heard hi' })
})

t.test('blackboard.subscribe in a turn needs a pattern and a function', async (t) => {
  const { refusal } = stage(t)
  for (const [pattern, callback] of [
    ['k', undefined],
    ['k*', () => {}],
    ['', () => {}],
    [7, () => {}],
  ]) {
    const error = await refusal((context) => context.blackboard.subscribe(pattern as never, callback as never))
    t.equal(error.code, 'MESSAGE_REJECTED')
  }
})

// Definitions that throw when they are read: refused by path, and never with the engine's own error.

const tool = { name: 'add', description: 'Adds.', run: () => 1 }

for (const [call, define, cases] of [
  [
    'defineAgent',
    defineAgent,
    [
      [revoked(), 'definition'],
      [new Proxy({}, { get: boom, ownKeys: boom }), 'definition'],
      [{ receive: () => 'hi', input: revoked() }, 'input'],
    ],
  ],
  [
    'defineTool',
    defineTool,
    [
      [revoked(), 'tool'],
      [new Proxy({}, { get: boom }), 'name'],
      [{ ...tool, input: revoked() }, 'input'],
    ],
  ],
  [
    'defineProtocol',
    defineProtocol,
    [
      [revoked(), 'protocol'],
      [new Proxy({}, { get: boom }), 'protocol'],
    ],
  ],
  [
    'defineTeam',
    defineTeam,
    [
      [revoked(), 'options'],
      [new Proxy({}, { ownKeys: boom }), 'options'],
    ],
  ],
] as const)
  t.test(`${call} names the field that throws when it is read`, async (t) => {
    for (const [given, path] of cases) {
      const says = /throws when it is read \((TypeError|Error: boom)/
      t.throws(() => Reflect.apply(define, undefined, [given]), {
        code: 'CONFIGURATION',
        details: { path },
        message: says,
      })
      t.throws(() => Reflect.apply(define, undefined, [given]), ConfigurationError)
    }
  })
