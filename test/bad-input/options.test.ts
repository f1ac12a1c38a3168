/** Options, definitions, hooks and subscribers that cannot work or throw, and the errors that say so. */

import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { build } from 'esbuild'
import { map, merge, of, startWith } from 'rxjs'
import t from 'tap'
import * as dramatis from '../../src/index.ts'
import {
  ConfigurationError,
  createTeam,
  DramatisError,
  defineAgent,
  defineProtocol,
  defineTeam,
  defineTool,
  type ErrorCode,
  type Logger,
  MultiAgentPattern,
  type RuntimeEvent,
} from '../../src/index.ts'
import { errorData, errorFrom } from '../../src/shared/errors.ts'
import { testTeam } from '../../src/testing.ts'
import { pluck, where } from '../kit/lists.ts'
import { boom, refusalOf, revoked, stage, type Test, untyped } from './helpers.ts'

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

// The hooks around the turns of an agent: what they throw is said, and costs no more than it must.

function teamOf(t: Test, definition: object, role: object = {}) {
  const lines: { level: string; text: string; agent?: string; error?: string }[] = []
  const note = (level: string) => (fields: object, text: string) => void lines.push({ ...fields, level, text })
  const ann = Reflect.apply(defineAgent, undefined, [{ receive: () => 'hi', ...definition }])
  const team = testTeam(
    {
      agents: [{ name: 'ann', ...role }, { name: 'bob' }],
      orchestration: { strategy: 'sequential', agentOrder: ['ann'] },
      logger: { debug() {}, info: note('info'), warn: note('warn'), error: note('error') },
    },
    { modules: { ann, bob: defineAgent({ receive: () => 'bob', observe() {} }) } },
  )
  t.teardown(() => team.close())
  return { team, lines }
}

t.test('a start hook that throws, whatever it throws, fails the start of its agent after a second try', async (t) => {
  for (const [thrown, says] of [
    [new Error('no paper'), /Error: no paper$/],
    ['no paper', /: no paper$/],
    [undefined, /: undefined$/],
    [Symbol('s'), /: Symbol\(s\)$/],
  ] as const) {
    let tries = 0
    const { team } = teamOf(t, {
      start() {
        tries += 1
        throw thrown
      },
    })
    const error = await refusalOf(team.start())
    t.match(error, { code: 'START_FAILED', details: { agent: 'ann' } })
    t.match(error.message, says)
    t.equal(tries, 2)
    const result = await team.execute('hi')
    t.match(result, { success: false, error: { code: 'AGENT_TERMINATED' } })
    t.equal(await team.getAgent('bob')?.run('hi'), 'bob', 'the others do their work')
  }
})

t.test('a start hook has no verbs that need a run, and what it logs is logged', async (t) => {
  let verbs: string[] = []
  const { team, lines } = teamOf(t, {
    start(context: { log: { warn(fields: object, text: string): void } }) {
      verbs = Object.keys(context).sort()
      context.log.warn({ a: 1 }, 'ann starts')
    },
  })
  t.ok((await team.execute('hi')).success)
  t.same(verbs, ['data', 'log', 'role', 'setState', 'signal', 'state'])
  t.match(lines, [{ level: 'warn', agent: 'ann', a: 1, text: 'ann starts' }])
})

t.test('a start hook that puts what is no JSON into the state is a ConfigurationError', async (t) => {
  const { team } = teamOf(t, {
    start(context: { setState(recipe: (draft: Record<string, unknown>) => void): void }) {
      context.setState((draft) => {
        draft.when = new Date(0)
      })
    },
  })
  t.match(await refusalOf(team.execute('hi')), { code: 'CONFIGURATION', message: /^state\.when is a Date/ })
})

t.test('a stop hook that throws is reported and does not hold up close()', async (t) => {
  for (const stop of [
    () => {
      throw new Error('stuck')
    },
    () => Promise.reject('stuck'),
  ]) {
    const { team, lines } = teamOf(t, { stop })
    await team.execute('hi')
    await team.close()
    t.match(lines, [{ level: 'error', agent: 'ann', error: /stuck$/, text: 'the stop hook of the agent threw' }])
    t.equal(team.getAgentStatus('ann'), 'stopped')
  }
})

t.test('a stop hook that never settles has its grace and no more', async (t) => {
  const { team } = teamOf(t, { stop: () => new Promise(() => {}) }, { supervision: { stopGraceMs: 20 } })
  await team.execute('hi')
  await team.close()
  t.equal(team.getAgentStatus('ann'), 'stopped')
})

t.test('an observer that throws makes its message a dead letter, and the others hear it all the same', async (t) => {
  const { team } = teamOf(t, {
    observe() {
      throw new Error('no ears')
    },
  })
  await team.broadcast('listen', '$user')
  await team.clock.advance(0)
  t.match(team.deadLetters.list(), [
    {
      reason: 'failed',
      message: { type: 'broadcast', content: 'listen' },
      errors: [
        { code: 'AGENT_FAILED', message: /^Agent "ann" failed in its turn for a broadcast from "\$user": .*ears/ },
      ],
    },
  ])
  t.equal((await team.execute('hi')).finalOutput, 'hi')
})

t.test('a log line can be anything, a text alone too', async (t) => {
  const cycle: Record<string, unknown> = {}
  cycle.itself = cycle
  const { team, lines } = teamOf(t, {
    receive(_message: unknown, { log }: { log: { info(...given: unknown[]): void } }) {
      log.info('only a text')
      log.info({ n: 1n, f: () => 1, error: new Error('why') }, 'odd fields')
      log.info(cycle, 'a cycle')
      log.info(undefined, 'no fields')
      log.info(null, 5)
      return 'hi'
    },
  })
  t.equal((await team.execute('hi')).finalOutput, 'hi')
  t.match(pluck(lines, 'text'), ['only a text', 'odd fields', 'a cycle', 'no fields', '5'])
  t.match(lines[1], { n: '1', error: { name: 'Error', message: 'why' } })
})

t.test('a send whose signal is aborted already is not sent', async (t) => {
  const { team, refusal, isWell } = stage(t)
  const signal = AbortSignal.abort(new Error('changed my mind'))
  for (const act of [
    (context: { send: Function }) => context.send('bob', 'hi', { signal }),
    (context: { request: Function }) => context.request('bob', 'hi', { signal }),
  ])
    t.match(await refusal(act as never), { code: 'CANCELLED', details: { agent: 'bob' } })
  t.same(where(team.getMessageHistory(), 'recipient', 'bob'), [])
  t.ok(await isWell())
})

t.test('a pause of nothing ends without time passing', async (t) => {
  const { play } = stage(t)
  t.equal(
    await play(async (context) => {
      await context.sleep(0)
      return 'awake'
    }),
    'awake',
  )
})

// Subscribers that throw: they are reported and left out, everybody else goes on.

function teamWithLog(t: Test, options: { logger?: Logger } = {}) {
  const lines: { error?: string; text: string }[] = []
  const note = (fields: object, text: string) => void lines.push({ ...fields, text })
  const silent = () => {}
  const ann = defineAgent({
    async receive({ content }, context) {
      context.log.info({ content }, 'ann is at work')
      await context.publish('said', content, 'fact')
      return content
    },
  })
  const team = testTeam(
    {
      agents: [{ name: 'ann' }],
      orchestration: { strategy: 'sequential' },
      enableBlackboard: { scope: 'team' },
      logger: { debug: silent, info: silent, warn: note, error: note },
      ...options,
    },
    { modules: { ann } },
  )
  t.teardown(() => team.close())
  return { team, lines }
}

/** Fails the test if anything ends the process meanwhile. */
async function harmless(
  t: Test & { same(a: unknown, b: unknown): unknown },
  doing: () => Promise<void>,
): Promise<void> {
  const fatal: unknown[] = []
  const note = (error: unknown) => fatal.push(error)
  process.on('uncaughtException', note).on('unhandledRejection', note)
  t.teardown(() => process.off('uncaughtException', note).off('unhandledRejection', note))
  await doing()
  await new Promise((resolve) => setTimeout(resolve)) // RxJS reports on an empty stack
  t.same(fatal, [])
}

const bangs = (): never => {
  throw new Error('bangs')
}
const reported = [{ error: 'Error: bangs', text: 'a subscriber of team.events threw; its subscription is closed' }]

t.test('a subscriber of team.events that throws is reported once and closed; the others see everything', async (t) => {
  const { team, lines } = teamWithLog(t)
  const seen: string[] = []
  let calls = 0
  await harmless(t, async () => {
    const broken = team.events.subscribe(() => {
      calls += 1
      bangs()
    })
    team.events.subscribe(({ type }) => seen.push(type))
    t.equal((await team.execute('hi')).finalOutput, 'hi')
    t.ok(broken.closed)
  })
  t.equal(calls, 1)
  t.same(lines, reported)
  t.equal(seen[0], 'run.started')
  t.equal(seen.at(-1), 'run.finished')
})

t.test('an observer whose method throws, an async one, and one behind an operator: the same', async (t) => {
  for (const subscribe of [
    (events: Events) => events.subscribe({ next: bangs }),
    (events: Events) => events.subscribe(async () => bangs()),
    (events: Events) => events.pipe(map((event) => event.type)).subscribe(bangs),
    (events: Events) => events.pipe(map(bangs)).subscribe(),
    (events: Events) => events.pipe(map(bangs)).subscribe({ error: bangs }),
    (events: Events) => events.pipe(startWith(1)).subscribe(bangs),
  ]) {
    const { team, lines } = teamWithLog(t)
    await harmless(t, async () => {
      subscribe(team.events)
      t.equal((await team.execute('hi')).finalOutput, 'hi')
    })
    t.same(lines, reported, String(subscribe))
  }
})

t.test('an operator that throws is told to the error handler, if there is one', async (t) => {
  const { team, lines } = teamWithLog(t)
  const errors: unknown[] = []
  team.events.pipe(map(bangs)).subscribe({ error: (error) => errors.push(error) })
  await team.execute('hi')
  t.match(errors, [{ message: 'bangs' }])
  t.same(lines, [])
})

t.test('complete that throws harms nobody, also when the team is closed already', async (t) => {
  const { team, lines } = teamWithLog(t)
  await harmless(t, async () => {
    team.events.subscribe({ complete: bangs })
    await team.close()
    team.events.subscribe({ complete: bangs })
  })
  t.same(lines, [...reported, ...reported])
})

t.test('what is no observer hears nothing and harms nobody', async (t) => {
  const { team, lines } = teamWithLog(t)
  await harmless(t, async () => {
    for (const observer of [undefined, null, 5, {}]) untyped(team.events).subscribe(observer)
    merge(team.events, of(1)).subscribe()
    t.ok((await team.execute('hi')).success)
  })
  t.same(lines, [])
})

t.test('a subscriber of the blackboard that throws is reported; the others and the writer go on', async (t) => {
  const { team, lines } = teamWithLog(t)
  const seen: unknown[] = []
  await harmless(t, async () => {
    await team.execute('first')
    const board = team.getBlackboard()!
    await board.subscribe('said', bangs)
    await board.subscribe('said', async () => bangs())
    await board.subscribe('said', ({ value }) => seen.push(value))
    t.equal((await team.execute('second')).finalOutput, 'second')
  })
  t.same(seen, ['second'])
  t.match(lines, [
    { key: 'said', error: 'Error: bangs', text: 'a subscriber of the blackboard threw' },
    { key: 'said', error: 'Error: bangs' },
  ])
})

t.test('a subscription without a pattern or a callback is refused', async (t) => {
  const { team } = teamWithLog(t)
  await team.execute('hi')
  const board = untyped(team.getBlackboard()!)
  for (const [args, path] of [
    [[5, () => {}], 'pattern'],
    [['', () => {}], 'pattern'],
    [['find*', () => {}], 'pattern'],
    [['said', 5], 'callback'],
    [['said'], 'callback'],
  ] as const)
    t.match(await refusalOf(() => board.subscribe(...args)), { code: 'MESSAGE_REJECTED', details: { path } })
  for (const [options, path] of [
    [{ timeoutMs: -1 }, 'timeoutMs'],
    [{ timeoutMs: Number.NaN }, 'timeoutMs'],
  ] as const)
    t.match(await refusalOf(() => board.waitFor('said', options)), { code: 'MESSAGE_REJECTED', details: { path } })
  t.match(await refusalOf(() => board.waitFor('never')), { code: 'RUN_ABORTED' }, 'its run is over')
})

t.test('a logger that throws stops nobody', async (t) => {
  const { team } = teamWithLog(t, { logger: { debug: bangs, info: bangs, warn: bangs, error: bangs } })
  await harmless(t, async () => {
    team.events.subscribe(bangs)
    t.equal((await team.execute('one')).finalOutput, 'one')
    t.equal((await team.execute('two')).finalOutput, 'two')
  })
})

t.test('a reader that leaves run.events() leaves the run alone', async (t) => {
  const { team } = teamWithLog(t)
  const run = team.launch('hi')
  for await (const event of run.events()) {
    t.equal(event.type, 'run.started')
    break
  }
  t.equal((await run.result).finalOutput, 'hi')
})

type Events = import('rxjs').Observable<RuntimeEvent>

// The errors themselves: one exported class for each code, the same class and fields on every side of a thread.

/** The compiler sees to it that no code is missing. */
const classes: Record<ErrorCode, string> = {
  CONFIGURATION: 'ConfigurationError',
  MESSAGE_REJECTED: 'MessageRejectedError',
  UNKNOWN_AGENT: 'UnknownAgentError',
  AGENT_TERMINATED: 'AgentTerminatedError',
  START_FAILED: 'StartFailedError',
  AGENT_FAILED: 'AgentFailedError',
  AGENT_CRASHED: 'AgentCrashedError',
  OUTCOME_UNKNOWN: 'OutcomeUnknownError',
  REQUEST_TIMEOUT: 'RequestTimeoutError',
  MAILBOX_FULL: 'MailboxFullError',
  DEADLOCK: 'DeadlockError',
  STALL: 'StallError',
  LIVELOCK: 'LivelockError',
  SYNC_POINT_TIMEOUT: 'SyncPointTimeoutError',
  BUDGET_EXCEEDED: 'BudgetExceededError',
  DELEGATION_REFUSED: 'DelegationRefusedError',
  DEPENDENCY_FAILED: 'DependencyFailedError',
  TASK_REFUSED: 'TaskRefusedError',
  TOOL_TIMEOUT: 'ToolTimeoutError',
  TOOL_INPUT: 'ToolInputError',
  TOOL_FAILED: 'ToolFailedError',
  MODEL: 'ModelError',
  CONSENSUS: 'ConsensusError',
  TURN_ENDED: 'TurnEndedError',
  TURN_TIMEOUT: 'TurnTimeoutError',
  MESSAGE_EXPIRED: 'MessageExpiredError',
  REPLY_INVALID: 'ReplyInvalidError',
  CHAIN_DEPTH: 'ChainDepthError',
  STEP_MISMATCH: 'StepMismatchError',
  CANCELLED: 'CancelledError',
  RUN_ABORTED: 'RunAbortedError',
  RUN_TIMEOUT: 'RunTimeoutError',
  LOG_CORRUPT: 'LogCorruptError',
  LOG_HELD: 'LogHeldError',
  LOG_LOST: 'LogLostError',
  LOG_VERSION: 'LogVersionError',
  CLUSTER_UNREACHABLE: 'ClusterUnreachableError',
  CLUSTER_SHARDS_DIFFER: 'ClusterShardsDifferError',
  CLUSTER_VERSION: 'ClusterVersionError',
  PAST_LOST: 'PastLostError',
  CONVERSATION_STORE: 'ConversationStoreError',
  PART_LOST: 'PartLostError',
  GUARDRAIL: 'GuardrailError',
  TEAM_OVERLOADED: 'TeamOverloadedError',
  TEAM_CLOSED: 'TeamClosedError',
  UNKNOWN_RUN: 'UnknownRunError',
  RUN_ENDED: 'RunEndedError',
  ANSWER_REFUSED: 'AnswerRefusedError',
  TAPE_MISS: 'TapeMissError',
}

type AnyError = new (message: string, details?: Record<string, unknown>, cause?: unknown) => DramatisError
const values: [name: string, value: unknown][] = Object.entries(dramatis)
const isErrorClass = (value: unknown): value is AnyError =>
  typeof value === 'function' && value.prototype instanceof DramatisError
const exported = values.flatMap(([name, value]) => (isErrorClass(value) ? [{ name, Class: value }] : []))

t.test('there is one exported class for each code, and no other', async (t) => {
  const found = exported.map(({ name, Class }) => [new Class('m').code, name])
  t.same(found.sort(), Object.entries(classes).sort())
})

t.test('each has its name, its code, its details and its cause, and is an Error', async (t) => {
  const cause = new Error('why')
  for (const { name, Class } of exported) {
    const error = new Class('what happened', { agent: 'ann' }, cause)
    t.ok(error instanceof Error && error instanceof DramatisError && error instanceof Class)
    t.match(error, { name, message: 'what happened', details: { agent: 'ann' }, cause })
    t.match(error.stack, new RegExp(`^${name}: what happened`))
  }
})

t.test('toJSON has code, message and details; JSON never fails', async (t) => {
  const error = new dramatis.UnknownAgentError('Nobody is called so.', { agent: 'x', agents: ['ann'] })
  const data = { code: 'UNKNOWN_AGENT', message: 'Nobody is called so.', details: { agent: 'x', agents: ['ann'] } }
  t.same(error.toJSON(), data)
  t.same(JSON.parse(JSON.stringify({ error })), { error: data })
  const cycle: Record<string, unknown> = { n: 1n }
  cycle.itself = cycle
  t.same(new dramatis.AgentFailedError('odd', cycle).toJSON().details, { n: '1n', itself: '[object Object]' })
})

t.test('an error made again from its data is of its class, with the stack of its cause', async (t) => {
  const cause = new TypeError('no paper')
  for (const { name, Class } of exported) {
    const error = errorFrom(JSON.parse(JSON.stringify(errorData(new Class('m', { a: 1 }, cause)))))
    t.ok(error instanceof Class, name)
    t.match(error, { name, message: 'm', details: { a: 1 } })
    t.equal((error.cause as Error).stack, cause.stack)
  }
})

t.test('data with a code that nobody knows is an AgentFailedError that shows it', async (t) => {
  const error = errorFrom({ code: 'NO_SUCH' as ErrorCode, message: 'm', details: { a: 1 } })
  t.match(error, { code: 'AGENT_FAILED', message: 'm', details: { a: 1 } })
})

t.test('an error of another copy of the library is an instance of the same class, and of no other', async (t) => {
  const file = join(t.testdir(), 'another.mjs')
  await build({ entryPoints: ['src/shared/errors.ts'], outfile: file, bundle: true, format: 'esm', logLevel: 'silent' })
  const other: typeof dramatis = await import(pathToFileURL(file).href)
  const error = new other.ToolFailedError('broken', { tool: 'saw' })
  t.not(other.ToolFailedError, dramatis.ToolFailedError)
  t.ok(error instanceof dramatis.ToolFailedError && error instanceof DramatisError)
  t.notOk(error instanceof dramatis.ToolInputError)
  t.ok(new dramatis.ToolFailedError('broken') instanceof other.DramatisError)
  t.strictSame(errorFrom(errorData(error)).details, { tool: 'saw' })

  class Own extends dramatis.ToolFailedError {}
  t.ok(new Own('broken') instanceof Own && new Own('broken') instanceof other.ToolFailedError)
  t.notOk(error instanceof Own, 'a class of somebody else has its own instances alone')
  for (const stranger of [undefined, null, 'TOOL_FAILED', { code: 'TOOL_FAILED' }, Object.create(null)])
    t.notOk(stranger instanceof dramatis.ToolFailedError)
})
