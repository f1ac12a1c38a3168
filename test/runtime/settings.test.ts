import { availableParallelism } from 'node:os'
import t from 'tap'
import { openTelemetry } from '../../src/opentelemetry.ts'
import { defaultLogger } from '../../src/runtime/logging/logger.ts'
import { DELEGATION_BOUND } from '../../src/runtime/settings/agent-settings.ts'
import { settingsFrom } from '../../src/runtime/settings/settings.ts'
import { type Scheduler, systemClock } from '../../src/shared/clock.ts'
import { agents, detailsOf, loose, module, role } from './settings-helpers.ts'

const silent = { debug() {}, info() {}, warn() {}, error() {} }

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
    logger: silent,
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
    logger: silent,
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
