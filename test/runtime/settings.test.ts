/** Options of a team and of its roles: what is taken, and what is refused before any thread starts. */
import { availableParallelism } from 'node:os'
import t from 'tap'
import type { AgentRole } from '../../src/index.ts'
import { openTelemetry } from '../../src/opentelemetry.ts'
import { defaultLogger } from '../../src/runtime/logging/logger.ts'
import { DELEGATION_BOUND } from '../../src/runtime/settings/agent-settings.ts'
import { settingsFrom, type TeamOptions } from '../../src/runtime/settings/settings.ts'
import { modelNamesShape, modelsShape } from '../../src/runtime/settings/team-shape.ts'
import { fateOf, missingAt, resultOf } from '../../src/runtime/verbs/sync-points.ts'
import type { Check } from '../../src/shared/checks.ts'
import { type Scheduler, systemClock } from '../../src/shared/clock.ts'
import { ConfigurationError } from '../../src/shared/errors.ts'
import { silent } from '../kit/team.ts'
import { adder } from '../toolbox/tools.ts'
import { agents, detailsOf, errorFor, loose, module, role } from './settings-helpers.ts'

const quiet = { debug() {}, info() {}, warn() {}, error() {} }

const slowMs = { turn: 30_000, step: 30_000, tool: 30_000, model: 120_000, queued: 30_000 }

const supervision = {
  strategy: 'one_for_one',
  restart: 'permanent',
  maxRestarts: 3,
  withinMs: 60_000,
  backoff: { baseMs: 200, capMs: 10_000 },
  poisonAttempts: 3,
  onHandlerError: 'fail',
  watchdogMs: 5_000,
  coolDownMs: 60_000,
  stopGraceMs: 5_000,
  slowMs,
}

const toolThreads = { threads: Math.max(2, availableParallelism()), queue: 256 }
const noTools = { inline: [], modules: [], isolated: [], names: [], skills: [] }

t.test('a team of one role gets every default', async (t) => {
  const { newcomer: _, redactor: __, secrets: ____, models: ___, limits: _____, ...settings } = settingsFrom({ agents })
  t.strictSame(settings, {
    agents: [
      {
        name: 'ann',
        role: agents[0],
        info: { name: 'ann' },
        module,
        playedByModel: false,
        isolation: 'thread',
        verbs: [],
        loops: { maxRepeats: 8, ends: true },
        contextStrategy: undefined,
        keys: undefined,
        env: [],
        maxHeapMb: null,
        maxExternalMb: null,
        turnTimeoutMs: 300_000,
        messagesPerTurn: Number.POSITIVE_INFINITY,
        concurrency: 1,
        instances: 1,
        reentrancy: 'none',
        mailbox: { capacity: 1_024, bytes: 1_048_576, maxMessageBytes: 16_777_216, overflow: 'block' },
        responseTimeoutMs: 60_000,
        modelTimeoutMs: 300_000,
        answerWithinMs: false,
        queueTimeoutMs: false,
        retries: 0,
        turnRetries: 0,
        supervision,
        tools: noTools,
        guards: { input: [], output: [], tool: [] },
      },
    ],
    resolveFrom: process.cwd(),
    tools: noTools,
    syncPoints: [],
    deadlock: 'break',
    confirmMs: 250,
    supervision,
    retries: 0,
    modelTimeoutMs: 300_000,
    answerWithinMs: false,
    taskRouting: 'capability_match',
    maxHandoffs: 10,
    inCluster: false,
    delegation: DELEGATION_BOUND,
    maxConcurrentAgents: 32,
    maxConcurrentRuns: 100,
    maxStoredBytes: 2 ** 30,
    maxQueuedRuns: 1_000,
    maxSpawnedAgents: 64,
    globalTimeoutMs: 600_000,
    threads: { max: Number.POSITIVE_INFINITY, idleMs: false, warmSpares: 1, tools: toolThreads },
    livelock: {
      maxStalledRounds: 24,
      maxRepeats: 24,
      maxMessagesWithoutProgress: 100,
      ends: 'models',
      ofCode: false,
    },
    loops: { maxRepeats: 8, ends: true },
    blackboard: 'on_use',
    registry: undefined,
    durableLog: undefined,
    conversations: undefined,
    guards: { input: [], output: [], tool: [] },
    realTools: false,
    budget: {},
    prices: undefined,
    tenants: {},
    logger: defaultLogger,
    telemetry: undefined,
    clock: systemClock,
  })
})

t.test('every option of the team arrives', async (t) => {
  const clock: Scheduler = { ...systemClock }
  const telemetry = openTelemetry()
  const {
    agents: _agents,
    newcomer: _,
    redactor: __,
    secrets: ____,
    models: ___,
    limits: _____,
    ...rest
  } = settingsFrom({
    agents,
    communication: { retries: 3, modelTimeoutMs: 4, answerWithinMs: false },
    taskRouting: 'round_robin',
    maxConcurrentAgents: 1,
    maxConcurrentRuns: 2,
    maxStoredBytes: 5,
    maxQueuedRuns: 0,
    maxSpawnedAgents: 0,
    globalTimeoutMs: 3,
    threads: { warmSpares: 0, tools: 3, toolQueue: 0 },
    enableBlackboard: { scope: 'team' },
    rehearsal: { realTools: true },
    supervision: { livelock: { maxStalledRounds: 1, maxRepeats: 2, maxMessagesWithoutProgress: 30 } },
    resolveFrom: '/a/folder/team.js',
    stateManagement: {
      path: '/a/folder/log',
      durability: 'commit',
      syncMs: 5,
      waitForLogMs: 6,
      resume: 'manual',
      onMismatch: 'continue',
      keep: { runs: 7, days: 0.5, bytes: 2 ** 40 },
      archive: '/a/folder/archive',
    },
    logger: quiet,
    telemetry,
    clock,
  })
  t.strictSame(rest, {
    resolveFrom: '/a/folder',
    tools: noTools,
    syncPoints: [],
    deadlock: 'break',
    confirmMs: 250,
    supervision,
    retries: 3,
    modelTimeoutMs: 4,
    answerWithinMs: false,
    taskRouting: 'round_robin',
    maxHandoffs: 10,
    inCluster: false,
    delegation: DELEGATION_BOUND,
    maxConcurrentAgents: 1,
    maxConcurrentRuns: 2,
    maxStoredBytes: 5,
    maxQueuedRuns: 0,
    maxSpawnedAgents: 0,
    globalTimeoutMs: 3,
    threads: { max: Number.POSITIVE_INFINITY, idleMs: false, warmSpares: 0, tools: { threads: 3, queue: 0 } },
    livelock: { maxStalledRounds: 1, maxRepeats: 2, maxMessagesWithoutProgress: 30, ends: 'models', ofCode: true },
    loops: { maxRepeats: 2, ends: true },
    blackboard: 'team',
    registry: undefined,
    conversations: undefined,
    guards: { input: [], output: [], tool: [] },
    durableLog: {
      path: '/a/folder/log',
      store: undefined,
      commits: true,
      syncMs: 5,
      waitForLogMs: 6,
      resumes: 'manual',
      onMismatch: 'continue',
      keep: { runs: 7, days: 0.5, bytes: 2 ** 40 },
      archive: '/a/folder/archive',
    },
    realTools: true,
    budget: {},
    prices: undefined,
    tenants: {},
    logger: quiet,
    telemetry,
    clock,
  })
})

t.test('communication and supervision of the team hold for its roles', async (t) => {
  const [ann] = settingsFrom({
    agents,
    communication: {
      mailboxCapacity: 1,
      mailboxBytes: 2,
      maxMessageBytes: 3,
      overflow: 'reject',
      responseTimeoutMs: 4,
      modelTimeoutMs: 6,
      answerWithinMs: 7,
      queueTimeoutMs: 5,
    },
    supervision: {
      strategy: 'rest_for_one',
      maxRestarts: Number.POSITIVE_INFINITY,
      withinMs: 6,
      backoff: { baseMs: 0, capMs: 0 },
      poisonAttempts: 7,
      onHandlerError: 'retry',
      watchdogMs: false,
      coolDownMs: 0,
      stopGraceMs: 0,
    },
  }).agents
  t.strictSame(ann?.mailbox, { capacity: 1, bytes: 2, maxMessageBytes: 3, overflow: 'reject' })
  t.strictSame([ann?.responseTimeoutMs, ann?.queueTimeoutMs], [4, 5])
  t.strictSame([ann?.modelTimeoutMs, ann?.answerWithinMs], [6, 7])
  t.strictSame(ann?.supervision, {
    strategy: 'rest_for_one',
    restart: 'permanent',
    maxRestarts: Number.POSITIVE_INFINITY,
    withinMs: 6,
    backoff: { baseMs: 0, capMs: 0 },
    poisonAttempts: 7,
    onHandlerError: 'retry',
    watchdogMs: false,
    coolDownMs: 0,
    stopGraceMs: 0,
    slowMs,
  })
})

t.test("a role's own communication and supervision go before the team's, field by field", async (t) => {
  const own = {
    name: 'ann',
    module,
    communication: {
      mailboxCapacity: 1,
      mailboxBytes: 2,
      maxMessageBytes: 3,
      overflow: 'block',
      responseTimeoutMs: 4,
      answerWithinMs: false,
      queueTimeoutMs: false,
    },
    supervision: {
      restart: 'transient',
      maxRestarts: 0,
      withinMs: 6,
      backoff: { baseMs: 3, capMs: 4 },
      poisonAttempts: 7,
      onHandlerError: 'restart',
      watchdogMs: false,
      stopGraceMs: 0,
    },
  } as const
  const [ann, bob] = settingsFrom({
    agents: [own, { name: 'bob', module }],
    communication: {
      mailboxCapacity: 10,
      mailboxBytes: 20,
      maxMessageBytes: 30,
      overflow: 'reject',
      responseTimeoutMs: 40,
      modelTimeoutMs: 60,
      answerWithinMs: 70,
      queueTimeoutMs: 50,
    },
    supervision: { maxRestarts: 9, backoff: { baseMs: 1 }, stopGraceMs: 99, coolDownMs: 8 },
  }).agents
  t.strictSame(ann?.mailbox, { capacity: 1, bytes: 2, maxMessageBytes: 3, overflow: 'block' })
  t.strictSame([ann?.responseTimeoutMs, ann?.queueTimeoutMs], [4, false])
  t.strictSame([ann?.modelTimeoutMs, ann?.answerWithinMs], [60, false])
  t.strictSame(ann?.supervision, {
    strategy: 'one_for_one',
    restart: 'transient',
    maxRestarts: 0,
    withinMs: 6,
    backoff: { baseMs: 3, capMs: 4 },
    poisonAttempts: 7,
    onHandlerError: 'restart',
    watchdogMs: false,
    coolDownMs: 8,
    stopGraceMs: 0,
    slowMs,
  })
  t.strictSame(bob?.supervision.backoff, { baseMs: 1, capMs: 10_000 })
  t.equal(bob?.supervision.maxRestarts, 9)
  t.equal(bob?.mailbox.capacity, 10)
})

t.test('an option that is undefined counts as absent', async (t) => {
  const options = role({ env: undefined, communication: { mailboxCapacity: undefined } })
  const [ann] = settingsFrom(loose({ ...options, communication: { mailboxCapacity: 7 }, logger: undefined })).agents
  t.equal(ann?.mailbox.capacity, 7)
})

t.test('the limits and the environment of a role arrive', async (t) => {
  const env = ['API_KEY']
  const [ann] = settingsFrom(loose(role({ limits: { maxHeapMb: 64, turnTimeoutMs: false }, env }))).agents
  t.strictSame([ann?.maxHeapMb, ann?.turnTimeoutMs, ann?.env], [64, false, ['API_KEY']])
  t.not(ann?.env, env)
})

t.test('enableBlackboard: true is one for each run', async (t) => {
  t.equal(settingsFrom({ agents, enableBlackboard: true }).blackboard, 'run')
  t.equal(settingsFrom({ agents, enableBlackboard: false }).blackboard, false)
  t.equal(detailsOf({ enableBlackboard: { scope: 'world' } }), 'enableBlackboard.scope: "world"')
  t.equal(detailsOf({ enableBlackboard: {} }), 'enableBlackboard.scope: nothing')
  t.equal(detailsOf({ enableBlackboard: 'run' }), 'enableBlackboard: "run"')
})

t.test('what a thread sees of a role is a frozen copy of its data, whatever the weight', async (t) => {
  const data = { list: [{ deep: 1 }], absent: undefined }
  const fields = {
    description: 'd',
    systemPrompt: 's',
    capabilities: ['search', { name: 'sum', confidence: 1, inputTypes: ['text'] }],
    model: 'm',
    temperature: 0,
    maxTokens: 2,
    maxOutputTokens: 1,
    maxRounds: 3,
    delegationAllowed: false,
    canDelegateTo: ['ann'],
    canBeDelegatedTo: true,
    escalateTo: 'ann',
    sharedWith: ['ann'],
    priority: -1,
    weight: Number.NaN,
    trust: 'internal',
  }
  const others = { env: ['A'], limits: {}, supervision: {}, communication: {}, tools: [] }
  const [ann] = settingsFrom(loose(role({ ...fields, ...others, data }))).agents
  t.strictSame(ann?.info, { name: 'ann', ...fields, data: { list: [{ deep: 1 }] } })
  data.list[0]!.deep = 2
  t.strictSame(ann?.info.data, { list: [{ deep: 1 }] })
  t.ok(Object.isFrozen(ann?.info) && Object.isFrozen(ann?.info.capabilities?.[1]))
})

t.test('weight is a number from 0 or null, and nothing else', async (t) => {
  for (const weight of [2, 0, null, Number.NaN, Number.POSITIVE_INFINITY]) {
    const [ann] = settingsFrom({ agents: [{ name: 'ann', module, weight }] }).agents
    t.ok(Object.is(ann?.info.weight, weight), String(weight))
  }
  t.equal(detailsOf(role({ weight: '2' })), 'agents[0].weight: "2"')
  t.equal(detailsOf(role({ weight: -1 })), 'agents[0].weight: -1')
})

t.test('the options may carry the orchestration, which is not looked into', async (t) => {
  t.equal(settingsFrom(loose({ orchestration: 5 })).agents.length, 1)
})

t.test('a clock of the user gets the timers that the runtime needs', async (t) => {
  const { now, monotonic, random, sleep } = systemClock
  t.type(settingsFrom({ agents, clock: { now, monotonic, random, sleep } }).clock.timer, 'function')
})

t.test('a bound of livelock detection that is not given has its default; nothing is for models alone', async (t) => {
  const bounds = (livelock: unknown) => settingsFrom(loose({ supervision: { livelock } })).livelock
  const all = { maxStalledRounds: 24, maxRepeats: 24, maxMessagesWithoutProgress: 100, ends: 'models', ofCode: true }
  t.strictSame(bounds({}), all)
  t.strictSame(bounds({ maxRepeats: 9 }), { ...all, maxRepeats: 9 })
  t.strictSame(bounds({ onFound: 'end' }), { ...all, ends: 'all' })
  t.strictSame(bounds({ onFound: 'report' }), { ...all, ends: 'none' })
  t.strictSame([bounds(false), bounds(undefined)], [false, { ...all, ofCode: false }])
})

t.test('what models do is watched unless the team says otherwise, with bounds of its own', async (t) => {
  const loops = (livelock: unknown) => settingsFrom(loose({ supervision: { livelock } })).agents[0]?.loops
  t.strictSame(loops(undefined), { maxRepeats: 8, ends: true })
  t.strictSame(loops({ maxRepeats: 5, onFound: 'report' }), { maxRepeats: 5, ends: false })
  t.strictSame(loops({ onFound: 'end' }), { maxRepeats: 8, ends: true })
  t.equal(loops(false), false)
})

t.test('the keys in the environment are known to what takes them out', async (t) => {
  const { redactor } = settingsFrom({ agents }, { env: { SEARCH_KEY: 'abcdefg1', HOME: '/home/abcdefg2' } })
  t.equal(redactor.text('abcdefg1 /home/abcdefg2'), '[redacted] /home/abcdefg2')
})

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

t.test('what is no object is refused with the fields of the one that is wanted', async (t) => {
  const { message } = errorFor({ agents, budget: { perRun: 400 } })
  t.equal(message, 'budget.perRun: got 400; accepted: an object { tokens, perAgentTokens, money, perAgentMoney }.')
  t.match(errorFor({ agents, supervision: 'off' }).message, /^supervision: got "off"; accepted: an object \{ \w+, /)
})

t.test('a team has a list of at least one role', async (t) => {
  t.equal(detailsOf({ agents: undefined }), 'agents: nothing')
  t.equal(detailsOf({ agents: [] }), 'agents: an empty list')
  t.equal(detailsOf({ agents: { ann: {} } }), 'agents: an object')
  t.equal(detailsOf({ agents: ['ann'] }), 'agents[0]: "ann"')
})

t.test('a limit in money needs prices, one for each model that is named, and a time', async (t) => {
  const models = { default: { model: 'small', apiKey: 'key' }, big: { model: 'large', apiKey: 'key' } }
  const prices = { currency: 'EUR', models: { small: { input: 1, output: 2 } } }
  const budget = { perRun: { money: 5 } }
  const tenants = { each: { money: 5 } }
  for (const [options, path, message] of [
    [{ budget }, 'budget.perRun.money', /Give the team prices/],
    [
      { budget, models, prices },
      'models.big',
      /"large", which has no price; .* budget\.perRun\.money is a limit in money/,
    ],
    [{ budget: { perTenant: tenants } }, 'budget.perTenant.windowMs', /Say for which time/],
    [{ budget: { perTenant: { period: 'day' } } }, 'budget.perTenant', /each or of/],
    [
      { budget: { perTenant: { ...tenants, period: 'day', windowMs: 5_000 } } },
      'budget.perTenant',
      /one of windowMs and/,
    ],
    [{ budget: { perTenant: { ...tenants, period: 'year' } } }, 'budget.perTenant.period', /hour.*month/],
    [
      { budget: { perTeam: { money: 1, period: 'day', timeZone: 'Berlin' } } },
      'budget.perTeam.timeZone',
      /Europe\/Berlin/,
    ],
    [{ budget: { perRun: { money: 0 } } }, 'budget.perRun.money', /0\.000000001/],
    [{ prices: { currency: 'EUR', models: { small: { input: 1 } } } }, 'prices.models.small.output', /prices/],
    [{ prices: { currency: '', models: {} } }, 'prices.currency', /EUR/],
    [
      { prices: { currency: 'EUR', models: { small: { input: 4e-10, output: 1 } } } },
      'prices.models.small.input',
      /got 4e-10; accepted: a price of 0, or from 0\.000000001 to/,
    ],
    [{ tenants: { weights: { acme: 1e-7 } } }, 'tenants.weights.acme', /a weight from 0\.000001 to/],
  ] as const)
    t.match(errorFor(options), { details: { path }, message })
  const { default: only } = models
  t.ok(settingsFrom(loose({ budget, prices, models: { default: only } })))
  const role = { name: 'ann', model: 'large' }
  t.match(errorFor({ agents: [role], budget, prices, models: { default: only } }).details, { path: 'agents[0].model' })
})

t.test('a budget that limits nothing is refused', async (t) => {
  const accepted = 'an object with tokens or perAgentTokens'
  for (const [budget, path] of [
    [{ perRun: {} }, 'budget.perRun'],
    [{ perTeam: { windowMs: 1_000 } }, 'budget.perTeam'],
    [{ perRun: { tokens: 5 }, perTeam: { tokens: undefined, windowMs: 1_000 } }, 'budget.perTeam'],
  ] as const)
    t.match(errorFor({ budget }), { details: { path, got: 'no limit', accepted } })
  for (const limits of [{}, { of: {} }, { each: undefined, of: {} }])
    t.match(errorFor({ budget: { perTenant: { ...limits, period: 'day' } } }), {
      details: { path: 'budget.perTenant', got: 'no limit', accepted: 'an object with each or of' },
    })
  t.equal(
    errorFor({ budget: {} }).message,
    'budget: got no limit; accepted: an object with perRun or perTeam or perTenant. Or leave it out.',
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

// `tools` of a team and of a role: what is taken, and what is refused before any thread starts.

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

t.test("a role that a model plays interleaves runs, runs what comes back within, has its rights' verbs", async (t) => {
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
})

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

// Which roles may share a thread: by their own word, and by the team's.

const ofFirst = (role: Omit<AgentRole, 'name'>, team: Omit<TeamOptions, 'agents'> = {}) =>
  settingsFrom({ ...team, agents: [{ ...role, name: 'ann' }] }).agents[0]!.isolation

t.test('an agent has a thread for itself, unless its role or the team says otherwise', async (t) => {
  const threads = { isolation: 'shared' } as const
  t.equal(ofFirst({}), 'thread')
  t.equal(ofFirst({ isolation: 'shared' }), 'shared')
  t.equal(ofFirst({}, { threads }), 'shared')
  t.equal(ofFirst({ isolation: 'thread' }, { threads }), 'thread')
  t.equal(
    settingsFrom({ threads, agents: [{ name: 'ann' }] }).newcomer({ name: 'bob' }, 'role', []).isolation,
    'shared',
  )
})

const aPackage = 'a-package'
/** Roles whose thread cannot be shared, and why. */
const OWN: [reason: string, role: Omit<AgentRole, 'name'>, team?: Omit<TeamOptions, 'agents'>][] = [
  ['its code runs in it (agents[0].module)', { module: aPackage }],
  [
    'agents[0].tools[0] runs in it (give that isolate: true, or give the tool itself)',
    { tools: [{ module: aPackage, isolate: false }] },
  ],
  ['tools[0] runs in it (give that isolate: true, or give the tool itself)', {}, { tools: [{ module: aPackage }] }],
  ['its environment is that of one agent (agents[0].env)', { env: ['KEY'] }],
  ['its memory cannot be limited for one agent (agents[0].limits.maxHeapMb)', { limits: { maxHeapMb: 64 } }],
  ['its memory cannot be limited for one agent (agents[0].limits.maxExternalMb)', { limits: { maxExternalMb: 64 } }],
]

t.test('a role that has something in its thread is refused, with the reason', async (t) => {
  for (const [reason, role, team] of OWN) {
    const error = errorFor({ ...team, agents: [{ ...role, name: 'ann', isolation: 'shared' }] })
    t.equal(
      error.message,
      `agents[0].isolation: got "shared"; accepted: "thread", or a role whose thread runs no code of yours. Agent "ann" cannot share a thread: ${reason}.`,
    )
    t.match(error.details, { path: 'agents[0].isolation', got: '"shared"' })
  }
  const given = errorFor({ agents: [{ name: 'ann', isolation: 'shared' }] }, new Set(['ann']))
  t.match(given.message, /its code, given as a definition, runs in it/)
})

t.test("under the team's default it keeps a thread of its own", async (t) => {
  for (const [reason, role, team] of OWN)
    t.equal(ofFirst(role, { ...team, threads: { isolation: 'shared' } }), 'thread', reason)
})

t.test('tools in the host and isolated ones are no hindrance', async (t) => {
  t.equal(ofFirst({ isolation: 'shared', tools: ['delegate', { module: aPackage, isolate: true }] }), 'shared')
})

t.test('only the two words are accepted', async (t) => {
  t.equal(
    errorFor({ agents: [{ name: 'ann', isolation: 'process' }] }).message,
    'agents[0].isolation: got "process"; accepted: "thread", "shared".',
  )
  t.match(errorFor({ threads: { isolation: true } }), { details: { path: 'threads.isolation' } })
})

// `contextStrategy` of a role: each strategy with its own options.

const strategy = (contextStrategy: unknown) => role({ contextStrategy })

t.test('each strategy takes its options, and what is inherited', async (t) => {
  for (const contextStrategy of [
    { strategy: 'append_until_full' },
    { strategy: 'append_until_full', threshold: 1, keepRecent: 1, inherit: 'none' },
    { strategy: 'hierarchical', historyKeep: 12, inherit: 'summary' },
    { strategy: 'custom', inherit: 'full' },
  ])
    t.same(settingsFrom(loose(strategy(contextStrategy))).agents[0]?.contextStrategy, contextStrategy)
  t.equal(settingsFrom(loose({})).agents[0]?.contextStrategy, undefined)
})

t.test('what it is not is refused by its path', async (t) => {
  const at = 'agents[0].contextStrategy'
  for (const [given, details] of [
    ['append_until_full', `${at}: "append_until_full"`],
    [{}, `${at}.strategy: nothing`],
    [{ strategy: 'append' }, `${at}.strategy: "append"`],
    [{ strategy: 'append_until_full', threshold: 0 }, `${at}.threshold: 0`],
    [{ strategy: 'append_until_full', threshold: 1.1 }, `${at}.threshold: 1.1`],
    [{ strategy: 'append_until_full', threshold: '80%' }, `${at}.threshold: "80%"`],
    [{ strategy: 'append_until_full', keepRecent: 0 }, `${at}.keepRecent: 0`],
    [{ strategy: 'hierarchical', historyKeep: 1.5 }, `${at}.historyKeep: 1.5`],
    [{ strategy: 'custom', inherit: 'all' }, `${at}.inherit: "all"`],
    [{ strategy: 'hierarchical', keepRecent: 20 }, `${at}.keepRecent: an option that does not exist`],
    [{ strategy: 'append_until_full', historyKeep: 12 }, `${at}.historyKeep: an option that does not exist`],
    [{ strategy: 'custom', threshold: 0.5 }, `${at}.threshold: an option that does not exist`],
  ] as const)
    t.equal(detailsOf(strategy(given)), details)
  const hidden = Object.defineProperty({}, 'strategy', {
    enumerable: true,
    get() {
      throw new Error('no')
    },
  })
  t.match(errorFor(strategy(hidden)), { code: 'CONFIGURATION', details: { path: at } })
})

t.test('a model has no buildContext, so its role cannot have a strategy of its own', async (t) => {
  const client = { complete: () => {} }
  const options = { agents: [{ name: 'ann', contextStrategy: { strategy: 'custom' } }], models: { default: client } }
  t.match(errorFor(options), { details: { path: 'agents[0].contextStrategy.strategy' }, message: /buildContext/ })
})

t.test('an answer that fills the window leaves no room for the question', async (t) => {
  const { details, message } = errorFor(role({ maxTokens: 1_000, maxOutputTokens: 1_000 }))
  t.equal(details.path, 'agents[0].maxOutputTokens')
  t.match(message, /less than maxTokens \(1000\)/)
  t.doesNotThrow(() => settingsFrom(loose(role({ maxTokens: 1_000, maxOutputTokens: 999 }))))
})

t.test('what is changed in the options later changes nothing', async (t) => {
  const contextStrategy = { strategy: 'hierarchical', historyKeep: 3 }
  const settings = settingsFrom(loose(strategy(contextStrategy)))
  contextStrategy.historyKeep = 99
  t.match(settings.agents[0]?.contextStrategy, { historyKeep: 3 })
})

const both = ['ann', 'bob'].map((name) => ({ name, module }))
const noon = { name: 'noon', requiredAgents: ['ann', 'bob'], timeoutMs: 5_000 }

/** Options with one point that has these fields in place of the good ones. */
const point = (fields: object) => ({ agents: both, syncPoints: [{ ...noon, ...fields }] })

t.test('a sync point has its defaults, and keeps what was given', async (t) => {
  const whole = { ...noon, name: 'dusk', onTimeout: 'abort', dataExchange: false }
  t.strictSame(settingsFrom(loose({ agents: both, syncPoints: [noon, whole] })).syncPoints, [
    { ...noon, onTimeout: 'proceed', dataExchange: true },
    whole,
  ])
  t.strictSame(settingsFrom(loose({ agents: both })).syncPoints, [])
})

t.test('what was given can be changed afterwards without effect', async (t) => {
  const requiredAgents = ['ann']
  const { syncPoints } = settingsFrom(loose(point({ requiredAgents })))
  requiredAgents.push('bob')
  t.strictSame(syncPoints[0]?.requiredAgents, ['ann'])
})

t.test('each wrong value is refused with its path', async (t) => {
  const wrong: [given: object, details: string][] = [
    [{ agents: both, syncPoints: {} }, 'syncPoints: an object'],
    [{ agents: both, syncPoints: ['noon'] }, 'syncPoints[0]: "noon"'],
    [point({ name: undefined }), 'syncPoints[0].name: nothing'],
    [point({ name: '' }), 'syncPoints[0].name: ""'],
    [point({ requiredAgents: undefined }), 'syncPoints[0].requiredAgents: nothing'],
    [point({ requiredAgents: 'ann' }), 'syncPoints[0].requiredAgents: "ann"'],
    [point({ requiredAgents: [] }), 'syncPoints[0].requiredAgents: an empty list'],
    [point({ requiredAgents: ['ann', 5] }), 'syncPoints[0].requiredAgents[1]: 5'],
    [point({ timeoutMs: undefined }), 'syncPoints[0].timeoutMs: nothing'],
    [point({ timeoutMs: 0 }), 'syncPoints[0].timeoutMs: 0'],
    [point({ timeoutMs: Number.POSITIVE_INFINITY }), 'syncPoints[0].timeoutMs: Infinity'],
    [point({ timeoutMs: '5s' }), 'syncPoints[0].timeoutMs: "5s"'],
    [point({ onTimeout: 'wait' }), 'syncPoints[0].onTimeout: "wait"'],
    [point({ dataExchange: 'yes' }), 'syncPoints[0].dataExchange: "yes"'],
    [point({ required: ['ann'] }), 'syncPoints[0].required: an option that does not exist'],
  ]
  for (const [given, details] of wrong) t.equal(detailsOf(given), details)
})

t.test('names are once each, and an agent that nobody defines is named with the one that was meant', async (t) => {
  t.match(errorFor({ agents: both, syncPoints: [noon, { ...noon, name: 'dusk' }, noon] }), {
    message: 'syncPoints[2].name: got "noon", which syncPoints[0] has already; accepted: each name once.',
  })
  t.match(errorFor(point({ requiredAgents: ['ann', 'bob', 'ann'] })), {
    message: 'syncPoints[0].requiredAgents[2]: got "ann", which it requires already; accepted: each name once.',
  })
  t.match(errorFor(point({ requiredAgents: ['ann', 'bobb'] })), {
    message:
      'syncPoints[0].requiredAgents[1]: got "bobb"; accepted: an agent of this team (ann, bob). Did you mean "bob"?',
  })
  t.match(errorFor(point({ requiredAgents: ['$orchestrator'] })), {
    details: { path: 'syncPoints[0].requiredAgents[0]' },
  })
})

/** The path of what is refused, and what it got; undefined if nothing is. */
function refusal(check: Check, value: unknown): string | undefined {
  try {
    check(value, 'models')
    return undefined
  } catch (error) {
    if (!(error instanceof ConfigurationError)) throw error
    t.notMatch(JSON.stringify(error) + error.stack, /SECRET/)
    return `${error.details.path}: ${error.details.got}`
  }
}

t.test('clients, places where to reach one, and "rehearsal" are accepted', async (t) => {
  const client = { complete: async function* () {} }
  for (const models of [
    'rehearsal',
    { mine: client },
    { main: { model: 'small' } },
    { main: { model: 'small', baseURL: 'http://127.0.0.1:11434/v1' } },
    { main: { model: 'small', apiKeyEnv: 'MAIN_KEY', apiKey: undefined }, other: { model: 'large', apiKey: 'SECRET' } },
    { main: { model: 'small', apiKey: async () => 'SECRET' } },
  ])
    t.equal(refusal(modelsShape, models), undefined)
})

t.test('what is wrong is named by its path, and no secret is shown', async (t) => {
  const entry = (fields: object) => ({ main: { model: 'small', ...fields } })
  for (const [models, says] of [
    ['openai', 'models: "openai"'],
    [['small'], 'models: a list of 1'],
    [{}, 'models: an object without models'],
    [{ main: 'SECRET' }, 'models.main: another text'],
    [{ main: {} }, 'models.main.model: nothing'],
    [{ main: { model: '' } }, 'models.main.model: ""'],
    [{ main: { complete: 'SECRET' } }, 'models.main: an object without complete'],
    [entry({ apikey: 'SECRET' }), 'models.main.apikey: an option that does not exist'],
    [entry({ apiKey: '' }), 'models.main.apiKey: another text'],
    [entry({ apiKey: ['SECRET'] }), 'models.main.apiKey: a list of 1'],
    [entry({ apiKeyEnv: 'MAIN_KEY=SECRET' }), 'models.main.apiKeyEnv: a string that is no name'],
    [entry({ apiKeyEnv: 'MAIN_KEY', apiKey: 'SECRET' }), 'models.main: both apiKey and apiKeyEnv'],
    [entry({ baseURL: 'localhost/SECRET' }), 'models.main.baseURL: another text'],
    [entry({ baseURL: 'https://me:SECRET@host/v1' }), 'models.main.baseURL: another text'],
    [entry({ baseURL: 'https://host/v1?key=SECRET' }), 'models.main.baseURL: another text'],
    [entry({ baseURL: 'ftp://host/v1' }), 'models.main.baseURL: another text'],
  ] as const)
    t.equal(refusal(modelsShape, models), says)
})

t.test('a run names other models by texts', async (t) => {
  t.equal(refusal(modelNamesShape, { default: 'large' }), undefined)
  t.equal(refusal(modelNamesShape, { default: '' }), 'models.default: ""')
  t.equal(refusal(modelNamesShape, { default: 5 }), 'models.default: 5')
  t.equal(refusal(modelNamesShape, 'large'), 'models: "large"')
})

t.test('a name is missing, empty, outside the grammar, or too long', async (t) => {
  t.equal(detailsOf({ agents: [{}] }), 'agents[0].name: nothing')
  for (const name of ['', 'two words', '1st', 'a.b', 'x'.repeat(65)]) {
    t.match(errorFor({ agents: [{ name, module }] }), {
      message: /^agents\[0\]\.name: got .*a letter, then letters, digits, '_' and '-', at most 64/,
    })
  }
  t.equal(settingsFrom({ agents: [{ name: 'Zoë_1-名', module }] }).agents[0]?.name, 'Zoë_1-名')
})

t.test("a name that begins with '$' is the runtime's own", async (t) => {
  t.match(errorFor({ agents: [{ name: '$user', module }] }).message, /'\$' are the runtime's own/)
})

t.test('two agents cannot have one name', async (t) => {
  t.match(errorFor({ agents: [...agents, { name: 'bob', module }, ...agents] }), {
    message: 'agents[2].name: got "ann", which agents[0] has already; accepted: a name that no other agent has.',
  })
})

t.test('an agent that nobody defines is named, with the one that was meant', async (t) => {
  t.match(errorFor(role({ canDelegateTo: ['ann', 'anne'] })), {
    message: 'agents[0].canDelegateTo[1]: got "anne"; accepted: an agent of this team (ann). Did you mean "ann"?',
  })
  t.equal(detailsOf(role({ sharedWith: ['bob'] })), 'agents[0].sharedWith[0]: "bob"')
  t.equal(detailsOf(role({ escalateTo: 'bob' })), 'agents[0].escalateTo: "bob"')
})

const noonPoint = {
  name: 'noon',
  requiredAgents: ['ann', 'bob', 'cid'],
  timeoutMs: 1_000,
  onTimeout: 'proceed' as const,
  dataExchange: true,
}
const arrived = (...names: string[]) => new Map(names.map((name) => [name, { data: `of ${name}` }]))
const gone =
  (...names: string[]) =>
  (name: string) =>
    names.includes(name)

t.test('a generation is complete with the last arrival, lost as soon as one missing will never come', async (t) => {
  t.equal(fateOf(noonPoint, arrived('ann', 'bob'), gone()), 'open')
  t.equal(fateOf(noonPoint, arrived('cid', 'bob', 'ann'), gone()), 'complete')
  t.equal(fateOf(noonPoint, arrived('ann'), gone('cid')), 'lost')
  t.equal(fateOf(noonPoint, arrived('ann', 'bob', 'cid'), gone('cid')), 'complete', 'who has arrived is not missed')
})

t.test('where nobody has arrived it is lost when nobody can arrive', async (t) => {
  t.equal(fateOf(noonPoint, arrived(), gone('ann', 'bob')), 'open')
  t.equal(fateOf(noonPoint, arrived(), gone('ann', 'bob', 'cid')), 'lost')
})

t.test('its result does not depend on who was faster', async (t) => {
  const data = { ann: 'of ann', cid: 'of cid' }
  const result = { generation: 7, arrived: ['ann', 'cid'], missing: ['bob'], timedOut: true, data }
  for (const order of [arrived('ann', 'cid'), arrived('cid', 'ann')]) {
    t.strictSame(resultOf(noonPoint, 7, order), result)
    t.strictSame(missingAt(noonPoint, order), ['bob'])
  }
  t.strictSame(resultOf({ ...noonPoint, dataExchange: false }, 7, arrived('ann', 'cid')).data, {})
})
