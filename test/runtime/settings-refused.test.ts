import t from 'tap'
import { settingsFrom } from '../../src/runtime/settings/settings.ts'
import { detailsOf, errorFor, loose, role } from './settings-helpers.ts'

t.test('the message says where, what came, what is accepted; the details say it as fields', async (t) => {
  const error = errorFor({ maxConcurrentAgents: 1.5 })
  t.equal(error.code, 'CONFIGURATION')
  t.equal(error.message, 'maxConcurrentAgents: got 1.5; accepted: an integer from 1 to 2,147,483,647.')
  const accepted = 'an integer from 1 to 2,147,483,647'
  t.strictSame(error.details, { path: 'maxConcurrentAgents', got: '1.5', accepted })
})

t.test('options that are no object are refused', async (t) => {
  for (const [options, got] of [
    [undefined, 'nothing'],
    [null, 'null'],
    ['team', '"team"'],
    [[], 'an empty list'],
  ] as const) {
    t.throws(() => Reflect.apply(settingsFrom, undefined, [options]), {
      message: `options: got ${got}; accepted: an object.`,
    })
  }
})

t.test('a team has a list of at least one role', async (t) => {
  t.equal(detailsOf({ agents: undefined }), 'agents: nothing')
  t.equal(detailsOf({ agents: [] }), 'agents: an empty list')
  t.equal(detailsOf({ agents: { ann: {} } }), 'agents: an object')
  t.equal(detailsOf({ agents: ['ann'] }), 'agents[0]: "ann"')
})

t.test('a budget that limits nothing is refused', async (t) => {
  const accepted = 'an object with tokens or perAgentTokens'
  for (const [budget, path] of [
    [{ perRun: {} }, 'budget.perRun'],
    [{ perTeam: { windowMs: 1_000 } }, 'budget.perTeam'],
    [{ perRun: { tokens: 5 }, perTeam: { tokens: undefined, windowMs: 1_000 } }, 'budget.perTeam'],
  ] as const)
    t.match(errorFor({ budget }), { details: { path, got: 'no limit', accepted } })
  t.equal(
    errorFor({ budget: {} }).message,
    'budget: got no limit; accepted: an object with perRun or perTeam. Or leave it out.',
  )
  t.ok(settingsFrom(loose({ budget: { perTeam: { perAgentTokens: 5, windowMs: 1_000 } } })))
})

t.test('an unknown option is refused at every level, with the name that was meant', async (t) => {
  for (const [options, path, meant] of [
    [{ globalTimeout: 5 }, 'globalTimeout', 'globalTimeoutMs'],
    [{ orchestation: {} }, 'orchestation', 'orchestration'],
    [{ threads: { warm_spares: 1 } }, 'threads.warm_spares', 'warmSpares'],
    [{ communication: { retires: 1 } }, 'communication.retires', 'retries'],
    [{ supervision: { maxRestart: 1 } }, 'supervision.maxRestart', 'maxRestarts'],
    [{ supervision: { backoff: { bseMs: 1 } } }, 'supervision.backoff.bseMs', 'baseMs'],
    [{ supervision: { livelock: { maxRepeat: 1 } } }, 'supervision.livelock.maxRepeat', 'maxRepeats'],
    [{ enableBlackboard: { scop: 'run' } }, 'enableBlackboard.scop', 'scope'],
    [{ agents: [{ nmae: 'ann' }] }, 'agents[0].nmae', 'name'],
    [role({ system_prompt: '' }), 'agents[0].system_prompt', 'systemPrompt'],
    [role({ limits: { maxHeapMB: 1, maxHeap: 1 } }), 'agents[0].limits.maxHeapMB', 'maxHeapMb'],
    [role({ supervision: { restarts: 1 } }), 'agents[0].supervision.restarts', 'restart'],
    [role({ communication: { overflows: 1 } }), 'agents[0].communication.overflows', 'overflow'],
    [role({ capabilities: [{ nam: 'x' }] }), 'agents[0].capabilities[0].nam', 'name'],
  ] as const) {
    const error = errorFor(options)
    t.equal(error.details.path, path)
    t.match(error.message, `did you mean "${meant}"?`)
  }
})

t.test('an unknown option that resembles none is refused with the known ones', async (t) => {
  t.match(errorFor({ threads: { colour: 'red' } }), {
    message:
      'threads.colour: there is no such option; remove it. Accepted: max, idleMs, warmSpares, tools, toolQueue, isolation.',
  })
  t.equal(detailsOf(role({ supervision: { coolDownMs: 5 } })).split(':')[0], 'agents[0].supervision.coolDownMs')
})

t.test('a number out of its range is refused', async (t) => {
  const counts = ['maxConcurrentAgents', 'maxConcurrentRuns']
  for (const name of counts)
    for (const wrong of [0, -1, 1.5, Number.NaN, '5', 2 ** 31]) t.ok(errorFor({ [name]: wrong }))
  for (const wrong of [-1, 0.5, '5', null]) t.ok(errorFor({ maxQueuedRuns: wrong }))
  for (const wrong of [0, -1, Number.NaN, Number.POSITIVE_INFINITY, '5', true])
    t.ok(errorFor({ globalTimeoutMs: wrong }))
  for (const wrong of [-1, 0.5, '1']) t.ok(errorFor({ threads: { warmSpares: wrong } }))
})

t.test('a limit of communication out of its range is refused, of the team and of a role', async (t) => {
  for (const [name, ...wrong] of [
    ['mailboxCapacity', 0, 1.5, Number.POSITIVE_INFINITY],
    ['mailboxBytes', 0, -1, 1.5],
    ['maxMessageBytes', 0, -1, 1.5],
    ['responseTimeoutMs', 0, -1, false],
    ['modelTimeoutMs', 0, -1, false],
    ['answerWithinMs', 0, -1, true],
    ['queueTimeoutMs', 0, true, '5'],
    ['overflow', 'drop', null],
    ['retries', -1],
  ]) {
    for (const value of wrong) {
      const communication = { [String(name)]: value }
      t.match(errorFor({ communication }).message, `communication.${name}: got `)
      t.match(errorFor(role({ communication })).message, `agents[0].communication.${name}: got `)
    }
  }
})

t.test('a limit of supervision out of its range is refused, of the team and of a role', async (t) => {
  for (const [name, ...wrong] of [
    ['maxRestarts', -1, 1.5, Number.NaN, '3'],
    ['withinMs', 0, -1],
    ['backoff', 5, null],
    ['poisonAttempts', 0, 1.5],
    ['onHandlerError', 'ignore'],
    ['watchdogMs', 0, true],
    ['stopGraceMs', -1],
  ]) {
    for (const value of wrong) {
      const supervision = { [String(name)]: value }
      t.equal(errorFor({ supervision }).details.path, `supervision.${name}`)
      t.equal(errorFor(role({ supervision })).details.path, `agents[0].supervision.${name}`)
    }
  }
  t.equal(detailsOf({ supervision: { coolDownMs: -1 } }), 'supervision.coolDownMs: -1')
  t.equal(detailsOf({ supervision: { livelock: { maxRepeats: 1 } } }), 'supervision.livelock.maxRepeats: 1')
  t.equal(detailsOf({ supervision: { livelock: { maxStalledRounds: 0 } } }), 'supervision.livelock.maxStalledRounds: 0')
  t.equal(detailsOf({ supervision: { backoff: { baseMs: -1 } } }), 'supervision.backoff.baseMs: -1')
  t.equal(detailsOf({ supervision: { backoff: { capMs: '1' } } }), 'supervision.backoff.capMs: "1"')
})

t.test('a field of a role with a wrong type is refused', async (t) => {
  for (const [name, wrong] of Object.entries({
    description: 5,
    systemPrompt: null,
    model: '',
    temperature: 3,
    maxTokens: 0,
    maxOutputTokens: 0.5,
    maxRounds: '12',
    delegationAllowed: 'yes',
    canDelegateTo: 'ann',
    canBeDelegatedTo: 1,
    escalateTo: null,
    sharedWith: 'ann',
    priority: Number.NaN,
    trust: 'full',
    capabilities: 'search',
    env: { KEY: 'x' },
    instances: 0,
    concurrency: 0,
    reentrancy: 'all',
    isolation: 'process',
    limits: null,
    tools: {},
    contextStrategy: 'append',
  })) {
    t.match(errorFor(role({ [name]: wrong })).message, `agents[0].${name}: got `)
  }
  t.equal(detailsOf(role({ limits: { maxHeapMb: 4 } })), 'agents[0].limits.maxHeapMb: 4')
  t.equal(detailsOf(role({ limits: { turnTimeoutMs: 0 } })), 'agents[0].limits.turnTimeoutMs: 0')
})

t.test('how much an agent does at a time is a whole number with a bound', async (t) => {
  for (const option of ['instances', 'concurrency'])
    for (const wrong of [0, -1, 1.5, Number.NaN, '2', null, 257, Number.POSITIVE_INFINITY])
      t.match(errorFor(role({ [option]: wrong })), {
        message: new RegExp(`^agents\\[0\\]\\.${option}: got .*; accepted: an integer from 1 to 256\\.`),
        details: { path: `agents[0].${option}`, accepted: 'an integer from 1 to 256' },
      })
})

t.test('a capability is a string or a Capability', async (t) => {
  t.equal(detailsOf(role({ capabilities: ['ok', 5] })), 'agents[0].capabilities[1]: 5')
  t.equal(detailsOf(role({ capabilities: [''] })), 'agents[0].capabilities[0]: ""')
  t.equal(detailsOf(role({ capabilities: [{}] })), 'agents[0].capabilities[0].name: nothing')
  const fields = { description: 5, inputTypes: 'text', outputTypes: 'text', estimatedTokens: -1, confidence: 1.1 }
  for (const [name, wrong] of Object.entries(fields)) {
    const { path } = errorFor(role({ capabilities: [{ name: 'x', [name]: wrong }] })).details
    t.equal(path, `agents[0].capabilities[0].${name}`)
  }
})

t.test('data that is no JSON value is named with its path', async (t) => {
  t.match(errorFor(role({ data: { list: [{ when: new Date(0) }] } })), {
    message: "agents[0].data.list[0].when: got a Date; accepted: a JSON value. Only JSON reaches an agent's thread.",
  })
  t.equal(detailsOf(role({ data: () => {} })), 'agents[0].data: function')
})

t.test('an entry of env is a name, and a value behind it never shows', async (t) => {
  t.equal(detailsOf(role({ env: [5] })), 'agents[0].env[0]: 5')
  const error = errorFor(role({ env: ['API_KEY=hidden'] }))
  t.equal(error.details.path, 'agents[0].env[0]')
  t.notMatch(error.message, /hidden/)
})

t.test('what is inside of an object never shows', async (t) => {
  t.notMatch(errorFor({ models: { main: { model: 5, apiKey: 'hidden' } } }).message, /hidden/)
  t.equal(detailsOf({ maxConcurrentAgents: { apiKey: 'hidden' } }), 'maxConcurrentAgents: an object')
})

t.test('a logger and a clock need their four methods', async (t) => {
  t.match(errorFor({ logger: { info() {}, debug() {} } }), {
    message:
      'logger: got an object without warn, error; accepted: an object with the methods debug, info, warn, error.',
  })
  t.equal(detailsOf({ logger: () => {} }), 'logger: a function')
  t.equal(detailsOf({ clock: Date }), 'clock: a function')
  const registry = { read() {}, check() {}, save() {}, rehearsed() {} }
  t.equal(detailsOf({ registry: { ...registry, save: 5 } }), 'registry: an object without save')
  t.equal(detailsOf({ registry }), 'registry.loaded: nothing')
  t.equal(detailsOf({ clock: { now() {}, monotonic() {}, random() {} } }), 'clock: an object without sleep')
})

t.test('the words that other libraries have for an option lead to it', async (t) => {
  t.match(
    errorFor(role({ instructions: 'Be brief.' })).message,
    /^agents\[0\]\.instructions: .*; did you mean "systemPrompt"\?/,
  )
  t.match(errorFor(role({ handoffs: ['bob'] })).message, /^agents\[0\]\.handoffs: .*; did you mean "canDelegateTo"\?/)
  t.match(errorFor({ workers: [] }).message, /^workers: .*; did you mean "agents"\?/)
})
