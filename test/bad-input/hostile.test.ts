/**
 * Random calls by callers, frames of a hostile thread, and threads that write over what they share: the host goes on.
 *
 * A failure names its seed; `HOSTILE_SEED=7 node dist/test/bad-input/hostile.test.js` plays that one alone.
 */
import '../../src/mailbox/parse-message.ts'
import t from 'tap'
import {
  type AgentRole,
  createTeam,
  DramatisError,
  defineAgent,
  RequestTimeoutError,
  type RuntimeEvent,
} from '../../src/index.ts'
import { CALL, END, type FrameFields, LOG, REQUEST, SEND } from '../../src/mailbox/frame.ts'
import type { MessageType } from '../../src/mailbox/message.ts'
import { HOST_ASLEEP, HOST_CALLED, PERMITS_WANTED } from '../../src/mailbox/team-memory.ts'
import { Dice } from '../dice.ts'
import { howMany } from '../how-many.ts'
import { imbalances, leftovers } from '../kit/accounts.ts'
import { where } from '../kit/lists.ts'
import { ask, given, type openTeam, outcomeOf } from '../kit/team.ts'
import { type Test, untyped } from './helpers.ts'
import { hostileTeam, type RawTurn } from './raw-thread.ts'
import { playSeeds } from './seeds.ts'

const CALLS = 100
const SEEDS = howMany(5, 500)
const LIMIT = 4_096
const only = process.env.HOSTILE_SEED
const seeds = only ? [Number(only)] : Array.from({ length: SEEDS }, (_, n) => n + 1)

const gotcha = () => {
  throw new Error('gotcha')
}
const cycle: Record<string, unknown> = {}
cycle.self = cycle
let deep: unknown = 1
for (let level = 0; level < 100_000; level++) deep = [deep]
const traps = { get: gotcha, has: gotcha, ownKeys: gotcha, getPrototypeOf: gotcha, getOwnPropertyDescriptor: gotcha }

/** Whatever a field can be given. */
const VALUES: readonly (() => unknown)[] = [
  () => undefined,
  () => null,
  () => Number.NaN,
  () => Number.POSITIVE_INFINITY,
  () => -0,
  () => 1.5,
  () => 2 ** 31,
  () => -(2 ** 31),
  () => 1n,
  () => Symbol('s'),
  () => gotcha,
  () => true,
  () => '',
  () => '\u0000',
  () => '\ud800',
  () => 'x'.repeat(LIMIT),
  () => 'x'.repeat(1_000_000),
  () => '$orchestrator',
  () => '$user',
  () => '$runtime',
  () => '__proto__',
  () => 'constructor',
  () => 'ann',
  () => ['ann', 'bob'],
  () => ['ann', 5],
  () => [],
  () => Array.from({ length: 1_000 }, () => 'nobody'),
  () => new Array(4_294_967_295),
  () => Object.assign(new Array(3), { 1: 'ann' }),
  () => ({}),
  () => ({ a: { b: [1, 'x', null] } }),
  () => JSON.parse('{"__proto__":{"polluted":1},"constructor":1}'),
  () => Object.create(null),
  () => cycle,
  () => deep,
  () => new Date(Number.NaN),
  () => new Map([[1, 1]]),
  () => new Uint8Array(8),
  () => new Proxy({}, traps),
  () => new Proxy([], traps),
  () => new Proxy({}, { ownKeys: () => ['a'], getOwnPropertyDescriptor: gotcha }),
  () => ({ get a() { return gotcha() } }), // biome-ignore format: one line each
  () => ({ toJSON: gotcha }),
  () => Object.defineProperty({}, 'toJSON', { value: gotcha }),
  () => Object.defineProperty({ a: 1 }, 'toJSON', { value: () => undefined }),
  () => Object.defineProperty({ a: 1 }, 'toJSON', { value: () => 5 }),
  () => Object.defineProperty([1], 'toJSON', { value: gotcha }),
  () => changing(),
  () => Promise.reject(new Error('nobody awaits this')).catch(() => {}),
]

/** Something else each time that it is looked at. */
function changing(): object {
  let looks = 0
  return { get a() { return [1, 'x', 1n, gotcha][looks++ % 4] } } // biome-ignore format: as above
}

const FIELDS = ['type', 'sender', 'recipient', 'content', 'structuredData', 'priority', 'requiresResponse']
const MORE = [
  'responseTimeoutMs',
  'threadId',
  'metadata',
  'runId',
  'correlationId',
  'id',
  'sentAt',
  'nonsense',
  '__proto__',
]
const OPTIONS = [
  'signal',
  'timeoutMs',
  'priority',
  'runId',
  'threadId',
  'metadata',
  'models',
  'budget',
  'output',
  'nope',
]
const TYPES = ['request', 'response', 'broadcast', 'publish', 'subscribe', 'delegate', 'report']

/** An object with some of these fields, as hostile as it gets. */
function objectOf(dice: Dice, base: object, fields: readonly string[]): unknown {
  if (dice.chance(0.05)) return dice.pick(VALUES)()
  const made: object = { ...base }
  for (let n = dice.upTo(3); n >= 0; n--) {
    const field = dice.pick(fields)
    const value = dice.pick(VALUES)()
    if (dice.chance(0.1)) Object.defineProperty(made, field, { get: gotcha, enumerable: true, configurable: true })
    else Object.defineProperty(made, field, { value, enumerable: true, configurable: true })
  }
  return dice.chance(0.02) ? new Proxy(made, traps) : made
}

function messageOf(dice: Dice): unknown {
  const type = dice.chance(0.4) ? { type: dice.pick(TYPES) } : {}
  const requires = dice.chance(0.3) ? { requiresResponse: true } : {}
  const content = dice.chance(0.3) ? 'x'.repeat(LIMIT - 80 + dice.upTo(24)) : 'hi'
  return objectOf(dice, { recipient: dice.pick(['ann', 'bob']), content, ...type, ...requires }, [...FIELDS, ...MORE])
}

/** Whom it names, as far as that can be read. */
function namesIn(message: unknown): string[] {
  try {
    const { recipient } = message as { recipient: unknown }
    const names = Array.isArray(recipient) ? recipient.slice(0, 64) : [recipient]
    return names.filter((name): name is string => name === 'ann' || name === 'bob')
  } catch {
    return []
  }
}

function teamOf(test: Parameters<typeof openTeam>[0]) {
  const answers = ({ content }: { content: string }) => `heard ${content.length}`
  const agent = defineAgent({ receive: answers, observe() {} })
  return given(test, { communication: { maxMessageBytes: LIMIT }, enableBlackboard: true }).team({
    ann: agent,
    bob: agent,
  })
}

async function wrongs(test: Parameters<typeof openTeam>[0], seed: number): Promise<string[]> {
  const dice = new Dice(seed)
  const team = teamOf(test)
  const hostile = untyped(team)
  const { host, clock } = team
  await team.start()
  const found: string[] = []
  for (let n = 0; n < CALLS; n++) {
    const message = messageOf(dice)
    const value = dice.pick(VALUES)()
    const names = namesIn(message)
    const letters = host.journal.deadLetters.total
    const [what, call] = dice.pick<[string, () => unknown]>([
      ['sendMessage', () => hostile.sendMessage(message)],
      ['sendMessage', () => hostile.sendMessage(message)],
      ['sendMessage', () => hostile.sendMessage(message)],
      ['receiveMessage', () => untyped(team.getAgent('ann')!).receiveMessage(message)],
      ['execute', () => hostile.execute(dice.chance(0.8) ? 'hi' : value, objectOf(dice, {}, OPTIONS))],
      ['run', () => untyped(team.getAgent('bob')!).run('hi', objectOf(dice, {}, OPTIONS))],
      ['broadcast', () => hostile.broadcast(value, dice.chance(0.5) ? 'ann' : dice.pick(VALUES)())],
      ['replay', () => untyped(team.deadLetters).replay(dice.chance(0.5) ? letterOf(dice) : value)],
      ['discard', () => untyped(team.deadLetters).discard(value)],
      ['looks', () => [hostile.getRun(value), hostile.getAgent(value), hostile.getAgentStatus(value)]],
      ['getMessageHistory', () => hostile.getMessageHistory(value)],
      ['getTaskStatus', () => hostile.getTaskStatus(value)],
      ['getBlackboard', () => hostile.getBlackboard(value)],
      ['removeAgent', () => hostile.removeAgent(value === 'ann' ? 'nobody' : value)],
      ['restartAgent', () => hostile.restartAgent(value)],
    ])
    const outcome = outcomeOf((async () => call())())
    for (let turn = 0; turn < 100 && !outcome.settled; turn++) await clock.advance(0)
    if (!outcome.settled) await clock.runToIdle()
    const { error } = outcome
    const says = `call ${n}, ${what}`
    if (!outcome.settled) found.push(`${says}: it never settles`)
    if (error !== undefined && !(error instanceof DramatisError)) found.push(`${says}: ${String(error)}`)
    if (error instanceof DramatisError && (error.message.length < 20 || error.message.length > 20_000))
      found.push(`${says}: says ${error.message.length} letters`)
    const isMessage = what === 'sendMessage' || what === 'receiveMessage'
    const isRefused = error !== undefined && !(error instanceof RequestTimeoutError) // that one was taken, and had no time
    if (
      isRefused &&
      isMessage &&
      (names.length > 0 || what === 'receiveMessage') &&
      host.journal.deadLetters.total === letters
    )
      found.push(`${says}: no dead letter after ${error.message}`)
  }
  for (const letter of team.deadLetters.list()) JSON.stringify(letter)
  JSON.stringify(team.getMessageHistory())
  const answer = outcomeOf(ask(team, 'ann'))
  await clock.runToIdle()
  if (answer.value !== 'heard 2') found.push(`ann says ${answer.value ?? answer.error}`)
  if (Object.hasOwn(Object.prototype, 'polluted')) found.push('Object.prototype is polluted')
  found.push(...imbalances(host), ...leftovers(host))
  await team.close()
  return found

  function letterOf(dice: Dice): unknown {
    const letters = team.deadLetters.list()
    return letters.length > 0 ? dice.pick(letters).id : 'none'
  }
}

t.test(`${seeds.length * CALLS} calls of a hostile caller`, (t) => playSeeds(t, seeds, wrongs))

// Thousands of frames that a hostile thread writes: random, spoilt, of other agents and of nobody, in an outbox whose
// counters lie. The host goes on, the others answer, and every message that is one is heard or is a dead letter.

const FRAMES = 150
const STRINGS = 1 | 2 | 4 | 8

const KINDS = [
  0, 1, 1, 1, 2, 2, 2, 3, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 20, 21, 22, 23, 24, 25, 26, 27, 28, 31, 33,
  34, 37, 38, 38, 255,
]
const FRAME_TYPES: MessageType[] = ['request', 'response', 'broadcast', 'publish', 'subscribe', 'delegate', 'report']
const NUMBERS = [
  0,
  1,
  2,
  3,
  4,
  5,
  6,
  7,
  8,
  63,
  64,
  65,
  4096,
  65_535,
  65_536,
  2 ** 30,
  2 ** 31 - 1,
  -1,
  -2,
  -8,
  -64,
  -(2 ** 31),
]
const TEXTS = [
  undefined,
  '',
  '{',
  'null',
  '5',
  '[]',
  '{"a":1}',
  '{"limit":1,"agents":["ann","bob","eve"]}',
  '"\ud800"',
  '{"__proto__":{"x":1}}',
  '\u0000',
  '{"code":"__proto__"}',
]
const WORDS = [
  'blackboard.write',
  'blackboard.waitFor',
  'subscribe',
  'watch',
  'spawn',
  'decide',
  '\u0000',
  '',
  'é',
  '漢字',
  '**',
  'maxParallelToolCalls',
]

const wordOf = (dice: Dice) => (dice.chance(0.5) ? dice.pick(NUMBERS) : dice.int32())

type Stage = ReturnType<typeof hostileTeam>

/** A frame that is well-formed, but says what its thread has no business to say; often what it may say. */
function fieldsOf(dice: Dice, n: number, { run, turn, correlation }: RawTurn, stage: Stage): Partial<FrameFields> {
  const text = dice.chance(0.3) ? dice.pick(WORDS) : `m${n}`
  return {
    kind: dice.pick(KINDS),
    flags: dice.chance(0.7) ? dice.pick([0, 32, 16, 64]) : dice.upTo(256),
    type: dice.chance(0.6) ? 'request' : dice.pick(FRAME_TYPES),
    recipient: dice.chance(0.7) ? stage.index(dice.pick(['ann', 'bob'])) : dice.upTo(70_000) & 0xffff,
    run: dice.chance(0.8) ? run : wordOf(dice),
    turn: dice.chance(0.8) ? turn : wordOf(dice),
    correlation: dice.chance(0.5) ? n + 1 : dice.chance(0.3) ? correlation : wordOf(dice),
    step: wordOf(dice),
    attempt: dice.upTo(300),
    content: dice.chance(0.02) ? `${text} `.repeat(60_000) : text,
    data: dice.pick(TEXTS),
    metadata: dice.pick(TEXTS),
    threadId: dice.pick(TEXTS),
    name: dice.chance(0.1) ? dice.pick(['ann', 'nobody', '$orchestrator', '__proto__', '']) : undefined,
    limit: wordOf(dice),
    priority: wordOf(dice),
    ...(dice.chance(0.1) && { sender: dice.upTo(8) }),
  }
}

/** What is wrong after that many frames of that seed. */
async function wrongFrames(test: Parameters<typeof hostileTeam>[0], seed: number): Promise<string[]> {
  const dice = new Dice(seed)
  const stage = hostileTeam(test)
  const { team, host } = stage
  await team.start()
  let at: RawTurn = await stage.turn()
  const sent: { content: string; to: number }[] = []
  const found: string[] = []
  for (let n = 0; n < FRAMES; n++) {
    const { thread } = stage
    const fields = fieldsOf(dice, n, at, stage)
    const frame = thread.frame(fields)
    const spoilt = dice.chance(0.25)
    // The length stays in half of them: else the first of them is the last that is read.
    for (let words = spoilt ? 1 + dice.upTo(4) : 0; words > 0; words--) {
      const first = dice.chance(0.9) ? 1 : 0
      frame.memory.i32[first + dice.upTo(Math.min(frame.memory.i32.length, 24) - first)] = wordOf(dice)
    }
    const { kind, recipient = 0, flags = 0, limit = -1 } = fields
    // One whose flags name strings that are not there leaves a letter without its content; a request can be over by its
    // deadline before it is heard, and then its sender knows.
    const isMessage = (flags & STRINGS) === 0 && (kind === SEND || (kind === REQUEST && limit < 0))
    const epoch = stage.mallory.epoch
    const incarnation = stage.incarnation
    const whole = thread.write(frame)
    if (dice.chance(0.03)) {
      thread.outbox.advance(dice.chance(0.5) ? 8 * dice.upTo(100_000) : wordOf(dice))
      thread.publish()
    }
    await team.clock.advance(0)
    if (isMessage && whole && !spoilt && epoch === stage.mallory.epoch && !incarnation?.broken)
      sent.push({ content: fields.content!, to: recipient })
    if (stage.incarnation?.broken || stage.thread !== thread || dice.chance(0.05)) at = (await next(stage)) ?? at
    const options = team.waits().flatMap(({ kind, for: what }) => (kind === 'limit' ? what : []))
    if (options.some((option) => !/^(maxParallelToolCalls$|concurrency of ")/.test(option)))
      found.push(`a limit ${options.join()}`)
    if (n % 30 === 29) found.push(...(await stage.ailments()))
  }
  found.push(...(await stage.ailments()))
  // Each message that is one: heard, or a dead letter of its recipient.
  const letters = team.deadLetters.list()
  const known = new Set([
    ...stage.heard.map(({ content, recipient }) => `${recipient} ${content}`),
    ...letters.map(({ message }) => `${message.recipient} ${message.content}`),
  ])
  for (const { content, to } of sent) {
    const name = host.directory.byIndex[to]?.name
    if (name !== 'ann' && name !== 'bob') continue
    const kept = content.slice(0, 1_024) // all that is kept of what is refused
    if (![`${name} ${content}`, `${name} ${kept}`, `null ${content}`].some((which) => known.has(which)))
      found.push(`"${kept.slice(0, 20)}" to ${name} is lost`)
  }
  found.push(...(await stage.leftovers()))
  await team.close()
  return found
}

/** Another turn of mallory's: of a new life, or beside the one it has. */
async function next(stage: Stage): Promise<RawTurn | undefined> {
  await stage.team.clock.advance(0)
  const again = stage.thread.turns().at(-1)
  if (again) return again
  return stage.turn().catch(() => undefined)
}
t.test(`${seeds.length * FRAMES} frames of a hostile thread`, (t) => playSeeds(t, seeds, wrongFrames))

// Agents on threads of their own that post to the host what they like, and write over the memory that they share
// with it.

const SCRIBBLES = howMany(2, 100)

function threads(t: Test, role: Partial<AgentRole> = {}) {
  const lines: { agent?: string; text: string }[] = []
  const note = (fields: object, text: string) => void lines.push({ ...fields, text })
  const silent = () => {}
  const team = createTeam({
    agents: [
      { name: 'mallory', module: new URL('../fixtures/bad-input/hostile.js', import.meta.url), ...role },
      { name: 'bob', module: new URL('../fixtures/bad-input/agent.js', import.meta.url) },
    ],
    orchestration: { strategy: 'sequential', agentOrder: ['mallory'] },
    threads: { warmSpares: 1 },
    supervision: { backoff: { baseMs: 0, capMs: 0 }, maxRestarts: 1_000 },
    logger: { debug: silent, info: silent, warn: note, error: note },
  })
  t.teardown(() => team.close())
  const ask = async (recipient: string, content: string) =>
    (await team.sendMessage({ recipient, content, requiresResponse: true }))?.content
  return { team, lines, ask }
}

t.test('a thousand things that it posts to its ports reach nobody, and cost nothing', async (t) => {
  const { team, lines, ask } = threads(t)
  t.equal(await ask('mallory', 'post'), 'posted')
  t.equal(await ask('mallory', 'how are you?'), 'well')
  t.match(await ask('bob', 'hi'), /^hi/)
  t.equal(team.health().agents.mallory?.restarts, 0)
  const said = lines.filter(({ text }) => text.includes('parent port'))
  t.ok(said.length > 0 && said.length < 20, `${said.length} lines about 500 posts`)
  await team.close()
})

t.test(
  'one that posts without end is ended after some 2,000 posts, and its message is not tried for ever',
  async (t) => {
    const { team, ask } = threads(t)
    await t.rejects(ask('mallory', 'flood'), { code: 'AGENT_CRASHED', message: /more than 2000 messages/ })
    t.match(await ask('bob', 'hi'), /^hi/)
    t.equal(await ask('mallory', 'how are you?'), 'well')
    await team.close()
  },
)

t.test('nonsense all over the memory of its life costs that life at most', async (t) => {
  const { team, ask } = threads(t, {
    limits: { turnTimeoutMs: 10_000 },
    supervision: { stopGraceMs: 50, watchdogMs: 1_000 },
  })
  for (let seed = 1; seed <= SCRIBBLES; seed++) {
    await ask('mallory', `scribble ${seed}`).catch(() => {})
    t.match(await ask('bob', 'hi'), /^hi/, `seed ${seed}`)
  }
  t.equal(await ask('mallory', 'how are you?'), 'well')
  await team.close()
})

// An agent that writes over the few words that all threads of its team share: room in mailboxes, the host's bell,
// permits.

function hostileWordsThreads(t: Test, supervision: object = {}) {
  const lines: { agent?: string; text: string }[] = []
  const note = (fields: object, text: string) => void lines.push({ ...fields, text })
  const silent = () => {}
  const honest = new URL('../fixtures/bad-input/agent.js', import.meta.url)
  const team = createTeam({
    agents: [
      { name: 'mallory', trust: 'untrusted', module: new URL('../fixtures/bad-input/hostile.js', import.meta.url) },
      { name: 'ann', module: honest },
      { name: 'bob', module: honest },
    ],
    orchestration: {
      strategy: 'custom',
      run: async (script, query) => {
        const answers = await script.requestAll(['ann', 'bob'], query)
        return answers.map((answer) => (answer.ok ? answer.message.content : answer.error.code)).join(' and ')
      },
    },
    maxConcurrentAgents: 1,
    threads: { warmSpares: 0 },
    supervision,
    communication: { responseTimeoutMs: 15_000 },
    logger: { debug: silent, info: silent, warn: note, error: note },
  })
  t.teardown(() => team.close())
  const ask = async (recipient: string, content: string) =>
    (await team.sendMessage({ recipient, content, requiresResponse: true }))?.content
  return { team, lines, ask }
}

for (const value of [0, -5])
  t.test(`a team whose shared words all say ${value} goes on, and says so`, async (t) => {
    const { team, lines, ask } = hostileWordsThreads(t)
    await ask('mallory', 'how are you?') // so that it has seen the memory
    await ask('mallory', `fill ${value}`).catch(() => {})
    for (let n = 0; n < 3; n++) t.match(await ask('bob', 'hi'), /^hi/)
    t.match((await team.execute('go')).finalOutput, /^go.* and go/)
    t.ok(lines.some(({ text }) => /all threads of the team share/.test(text)))
    t.ok(team.health().sharedMemoryRepairs > 0)
  })

t.test('a team whose shared words promise more room than there is goes on', async (t) => {
  const { team, ask } = hostileWordsThreads(t)
  await ask('mallory', 'how are you?')
  t.equal(await ask('mallory', `fill ${2 ** 31 - 1}`), 'filled')
  for (let n = 0; n < 3; n++) t.match(await ask('bob', 'hi'), /^hi/)
  t.match((await team.execute('go')).finalOutput, /^go.* and go/)
})

t.test(
  'a thread that silences all bells of its team and takes away its marks, all the time, delays it at most',
  async (t) => {
    const { team, ask } = hostileWordsThreads(t, { watchdogMs: 2_000 })
    await ask('mallory', 'how are you?')
    for (const word of [HOST_ASLEEP, HOST_CALLED, PERMITS_WANTED])
      t.equal(await ask('mallory', `keep ${word}=0`), 'kept')
    t.equal(await ask('mallory', 'unmark'), 'unmarked')
    for (let n = 0; n < 3; n++) t.match(await ask('bob', 'hi'), /^hi/)
    t.match((await team.execute('go')).finalOutput, /^go.* and go/)
  },
)

// JSON of a thread that is made to end or to hold the host: nested brackets, or large where a line of a log is due.

const brackets = `${'['.repeat(20_000)}${']'.repeat(20_000)}`
const deepObject = `${'{"a":'.repeat(20_000)}1${'}'.repeat(20_000)}`

t.test(
  'JSON that is nested 20,000 levels brackets hurts neither host nor who reads the events and the result',
  async (t) => {
    for (const data of [brackets, deepObject]) {
      const stage = hostileTeam(t)
      const events: RuntimeEvent[] = []
      stage.team.events.subscribe((event) => void events.push(event))
      await stage.team.start()
      const { run, turn, result } = await stage.turn()
      const fields = { run, turn, data, metadata: data }
      stage.thread.send({ kind: SEND, recipient: stage.index('ann'), content: 'psst', ...fields })
      stage.thread.send({
        kind: REQUEST,
        type: 'request',
        recipient: stage.index('bob'),
        correlation: 5,
        content: 'well?',
        ...fields,
      })
      stage.thread.send({ kind: CALL, correlation: 6, content: 'blackboard.write', run, turn, data })
      stage.thread.send({ kind: CALL, correlation: 7, content: 'tool', run, turn, data })
      stage.thread.send({ kind: LOG, limit: 1, content: 'a line', run, turn, data })
      stage.thread.send({ kind: END, type: 'response', content: 'done', ...fields })
      t.same(await stage.ailments(), [])
      t.match(result.value, { finalOutput: 'done' })
      t.ok(JSON.stringify(result.value).length > 0)
      t.ok(JSON.stringify(events).length > 0)
      t.match(where(stage.heard, 'content', 'psst'), [{ structuredData: null, metadata: {} }])
    }
  },
)

t.test('fields of a log are a plain object and no other JSON, and so are too large ones left out', async (t) => {
  const stage = hostileTeam(t)
  await stage.team.start()
  const { run, turn } = await stage.turn()
  const line = (content: string, data: string) => stage.thread.send({ kind: LOG, limit: 2, content, run, turn, data })
  line('a text', JSON.stringify('x'.repeat(100)))
  line('a list', '[1,2,3]')
  line('an object', '{"a":1}')
  line('a large one', JSON.stringify({ a: 'x'.repeat(100_000) }))
  line('y'.repeat(100_000), '{}')
  await stage.team.clock.advance(0)
  const said = stage.lines.filter((fields) => 'agent' in fields && fields.agent === 'mallory')
  t.strictSame(
    said.map((fields) => Object.keys(fields).sort()),
    [
      ['agent', 'level', 'runId', 'text'],
      ['agent', 'level', 'runId', 'text'],
      ['a', 'agent', 'level', 'runId', 'text'],
      ['agent', 'leftOut', 'level', 'runId', 'text'],
      ['agent', 'level', 'runId', 'text'],
    ],
  )
  t.match(said[4], { text: /^y{65536} \[34464 more\]$/ })
})
