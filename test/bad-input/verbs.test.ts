/** Verbs with arguments that they cannot take, and verbs of a turn that has ended. */
import t from 'tap'
import { defineAgent, type OrchestratorContext } from '../../src/index.ts'
import { testTeam } from '../../src/testing.ts'
import { pluck, where } from '../kit/lists.ts'
import { type Act, boom, refusalOf, revoked, stage, type UntypedContext, untyped } from './helpers.ts'

// Each verb with arguments that it cannot take: refused by path, before anything is sent, and the turn goes on.

const SECRET = { prompt: 'the secret prompt' }
const cycle: Record<string, unknown> = {}
cycle.list = [cycle]
let deep: object = {}
for (let level = 0; level < 50_000; level++) deep = { deep }

/** Each of them is refused with MESSAGE_REJECTED; the details have the path, the message names it and what came. */
const refused: Record<string, [act: Act, path: string, says: RegExp][]> = {
  'a recipient': [
    [(context) => context.request(5, 'hi'), 'to', /^to is 5; the name of an agent is needed/],
    [(context) => context.request('', 'hi'), 'to', /^to is ""/],
    [(context) => context.request(undefined, 'hi'), 'to', /^to is nothing/],
    [(context) => context.request(null, 'hi'), 'to', /^to is null/],
    [(context) => context.request(SECRET, 'hi'), 'to', /^to is an object/],
    [(context) => context.send(5, 'hi'), 'to', /^to is 5/],
    [(context) => response(context.requestStream(5, 'hi')), 'to', /^to is 5/],
    [(context) => context.requestAll('bob', 'hi'), 'to', /^to is "bob"; a list of agents' names is needed/],
    [(context) => context.requestAll(undefined, 'hi'), 'to', /^to is nothing/],
    [(context) => context.requestAll(['bob', 5], 'hi'), 'to[1]', /^to\[1\] is 5/],
    [(context) => context.requestAny('bob', 'hi'), 'to', /^to is "bob"/],
    [(context) => context.requestAny([], 'hi'), 'to', /at least one agent/],
    [(context) => context.requestQuorum([], 1, 'hi'), 'to', /at least one agent/],
    [(context) => context.requestQuorum(['bob', 'bob'], 1, 'hi'), 'to', /it has "bob" twice/],
  ],
  content: [
    [(context) => context.request('bob', 5), 'content', /^content is 5; a string is needed\. .*structuredData/],
    [(context) => context.request('bob'), 'content', /^content is nothing/],
    [(context) => context.request('bob', SECRET), 'content', /^content is an object/],
    [(context) => context.send('bob', null), 'content', /^content is null/],
    [(context) => response(context.requestStream('bob', [])), 'content', /^content is an empty list/],
    [(context) => context.requestAll(['bob', 'bob'], 5), 'content', /^content is 5/],
    [(context) => context.requestAny(['bob', 'bob'], 5), 'content', /^content is 5/],
    [(context) => context.broadcast(5), 'content', /^content is 5/],
    [(context) => context.report(), 'content', /^content is nothing/],
  ],
  'structured data': [
    [data({ when: [new Date(0)] }), 'structuredData.when[0]', /^structuredData\.when\[0\] is a Date; a JSON value/],
    [data({ f: () => 1 }), 'structuredData.f', /is function/],
    [data(Number.NaN), 'structuredData', /^structuredData is NaN/],
    [data({ n: Number.POSITIVE_INFINITY }), 'structuredData.n', /is Infinity/],
    [data({ n: 1n }), 'structuredData.n', /is bigint/],
    [data(cycle), 'structuredData.list[0]', /is a cycle/],
    [data([1, undefined]), 'structuredData[1]', /is undefined/],
    [data(new Map()), 'structuredData', /is a Map/],
    [data(Symbol('s')), 'structuredData', /is symbol/],
    [(context) => context.send('bob', 'hi', { structuredData: { m: new Set() } }), 'structuredData.m', /is a Set/],
    [(context) => context.requestAll(['bob'], 'hi', { structuredData: 1n }), 'structuredData', /is bigint/],
  ],
  options: [
    [options(null), 'options', /^options is null; an object is needed/],
    [options(5), 'options', /^options is 5/],
    [options([]), 'options', /^options is an empty list/],
    [options({ timeout: 5 }), 'options.timeout', /^options\.timeout: there is no such option; there are .*timeoutMs/],
    [options({ timeoutMs: -1 }), 'timeoutMs', /^timeoutMs is -1; milliseconds are needed, 0 or more/],
    [options({ timeoutMs: Number.NaN }), 'timeoutMs', /^timeoutMs is NaN/],
    [options({ timeoutMs: '5' }), 'timeoutMs', /^timeoutMs is "5"/],
    [options({ priority: 1.5 }), 'priority', /^priority is 1\.5; an integer of 32 bits is needed/],
    [options({ priority: 2 ** 31 }), 'priority', /^priority is 2147483648/],
    [options({ threadId: 5 }), 'threadId', /^threadId is 5/],
    [options({ threadId: '' }), 'threadId', /^threadId is ""; a text that is not empty/],
    [options({ metadata: 5 }), 'metadata', /^metadata is 5/],
    [options({ metadata: { when: new Date(0) } }), 'metadata.when', /is a Date/],
    [options({ signal: {} }), 'signal', /^signal is an object; an AbortSignal is needed/],
    [(context) => context.requestAll(['bob'], 'hi', null), 'options', /^options is null/],
    [
      (context) => context.requestAll(['bob'], 'hi', { concurrency: 0 }),
      'concurrency',
      /^concurrency is 0; an integer/,
    ],
    [(context) => context.requestAll(['bob'], 'hi', { concurrency: 1.5 }), 'concurrency', /^concurrency is 1\.5/],
    [(context) => context.requestQuorum(['bob'], 0, 'hi'), 'count', /^count is 0; an integer from 1 to 1 is needed/],
    [(context) => context.requestQuorum(['bob'], 2, 'hi'), 'count', /^count is 2/],
    [(context) => context.requestQuorum(['bob'], 1.5, 'hi'), 'count', /^count is 1\.5/],
    [(context) => context.requestQuorum(['bob'], 'all', 'hi'), 'count', /^count is "all"/],
    [(context) => context.requestQuorum(['bob'], 'hi'), 'content', /^content is nothing/],
    [(context) => context.requestAny(['bob'], 'hi', { signal: 5 }), 'signal', /^signal is 5/],
    [(context) => context.send('bob', 'hi', { priority: 'high' }), 'priority', /^priority is "high"/],
    [(context) => context.broadcast('hi', { timeoutMs: 5 }), 'timeoutMs', /since nobody answers it/],
    [(context) => context.broadcast('hi', { to: 'bob' }), 'options.to', /no such option/],
    [(context) => context.report('hi', { when: new Date(0) }), 'structuredData.when', /is a Date/],
    [(context) => context.broadcast('hi', { structuredData: 1n }), 'structuredData', /is bigint/],
    [(context) => context.send('bob', 'hi', { timeoutMs: 5 }), 'timeoutMs', /a send has none, since nobody answers it/],
    [(context) => context.send('bob', 'hi', { retries: 1 }), 'retries', /a send has none, since nobody answers it/],
    [(context) => context.send('bob', 'hi', { idempotent: true }), 'idempotent', /a send has none/],
    [options({ retries: 127 }), 'retries', /^retries is 127; an integer from 0 to 126 is needed/],
    [options({ retries: -1 }), 'retries', /^retries is -1/],
    [options({ retries: 1.5 }), 'retries', /^retries is 1.5/],
    [options({ idempotent: 1 }), 'idempotent', /^idempotent is 1; true or false is needed/],
    [options({ polling: 'often' }), 'polling', /^polling is "often"; true or false is needed/],
  ],
  'a task': [
    [(context) => context.delegate(5, 'x'), 'to', /^to is 5; the name of an agent/],
    [(context) => context.delegate('bob'), 'task', /^task is nothing; an object is needed/],
    [(context) => context.delegate('bob', ['x']), 'task', /^task is a list of 1/],
    [(context) => context.delegate('bob', {}), 'task.description', /^task\.description is nothing; a string/],
    [(context) => context.delegate('bob', { description: 5 }), 'task.description', /is 5/],
    [(context) => context.delegate('bob', { description: 'x', deadlin: 5 }), 'task.deadlin', /no such field/],
    [(context) => context.delegate('bob', { description: 'x', deadline: '5' }), 'task.deadline', /epoch ms/],
    [(context) => context.delegate('bob', { description: 'x', deadline: Number.NaN }), 'task.deadline', /NaN/],
    [(context) => context.delegate('bob', { description: 'x', priority: 0.5 }), 'task.priority', /32 bits/],
    [(context) => context.delegate('bob', { description: 'x', dependencies: 'y' }), 'task.dependencies', /a list/],
    [(context) => context.delegate('bob', { description: 'x', dependencies: [5] }), 'task.dependencies[0]', /is 5/],
    [(context) => context.delegate('bob', { description: 'x', parentTask: 5 }), 'task.parentTask', /is 5/],
    [(context) => context.handoff('', 'x'), 'to', /^to is ""/],
    [(context) => context.handoff('bob', 5), 'task', /^task is 5/],
    [(context) => context.handoff('bob', { id: 'mine' }), 'task.description', /is nothing/],
    [(context) => context.handoff('bob', 'x', 5), 'summary', /^summary is 5/],
    [(context) => context.escalate(5), 'reason', /^reason is 5/],
    [(context) => context.escalate('x', 'y'), 'details', /^details is "y"/],
  ],
  'a proxy or a getter': [
    [(context) => context.request('bob', 'hi', revoked()), 'options', /^options is what throws when it is read \(Type/],
    [(context) => context.request('bob', 'hi', new Proxy({}, { get: boom })), 'options', /^options .*\(Error: boom\)/],
    [(context) => context.request('bob', 'hi', new Proxy({}, { ownKeys: boom })), 'options', /^options .*boom/],
    [options({ metadata: revoked() }), 'metadata', /^metadata is what throws/],
    [options({ metadata: new Proxy({}, { has: boom }) }), 'metadata', /^metadata is what throws/],
    [options({ parts: revoked() }), 'parts', /^parts is what throws/],
    [options({ structuredData: revoked() }), 'structuredData', /^structuredData is what throws/],
    [options(Object.defineProperty({}, 'priority', { get: boom, enumerable: true })), 'priority', /^priority .*boom/],
    [(context) => context.request(revoked(), 'hi'), 'to', /^to is what throws/],
    [(context) => context.send('bob', 'hi', revoked()), 'options', /^options is what throws/],
    [(context) => context.broadcast('hi', revoked()), 'options', /^options is what throws/],
    [(context) => response(context.requestStream('bob', 'hi', revoked())), 'options', /^options is what throws/],
    [(context) => context.requestAll(['bob'], 'hi', revoked()), 'options', /^options is what throws/],
    [(context) => context.requestAll(revoked(), 'hi'), 'to', /^to is what throws/],
    [(context) => context.requestAny(['bob'], 'hi', revoked()), 'options', /^options is what throws/],
    [(context) => context.requestQuorum(['bob'], 1, 'hi', revoked()), 'options', /^options is what throws/],
    [(context) => context.delegate('bob', revoked()), 'task', /^task is what throws/],
    [(context) => context.delegate('bob', new Proxy({}, { ownKeys: boom })), 'task', /^task is what throws/],
    [(context) => context.escalate('x', revoked()), 'details', /^details is what throws/],
    [(context) => context.step('count', () => 1, revoked()), 'options', /^options is what throws/],
    [(context) => context.blackboard.waitFor('k', revoked()), 'options', /^options is what throws/],
    [(context) => context.ask('why?', revoked()), 'options', /^options is what throws/],
    [(context) => context.complete(revoked()), 'request', /^request is what throws/],
    [(context) => context.delegate('bob', new Proxy({}, { get: boom })), 'task', /^task is what throws/],
    [(context) => context.spawn(new Proxy({}, { ownKeys: boom })), 'role', /^role is what throws/],
    [(context) => context.spawn(revoked()), 'role', /^role is what throws/],
  ],
  'a step': [
    [(context) => context.step(5, () => 1), 'name', /^name is 5/],
    [(context) => context.step('count'), 'run', /^run is nothing; a function is needed/],
    [(context) => context.step('count', () => 1, { idempotant: true }), 'options.idempotant', /no such option/],
    [(context) => context.step('count', () => 1, { idempotent: 'yes' }), 'idempotent', /true or false is needed/],
    [(context) => context.step('count', () => 1, null), 'options', /^options is null/],
    [(context) => context.step('count', () => new WeakMap()), 'step "count"', /^step "count" is a WeakMap/],
    [(context) => context.step('count', async () => ({ at: [() => 1] })), 'step "count".at[0]', /is function/],
  ],
  'time and pieces': [
    [(context) => context.sleep('x'), 'ms', /^ms is "x"; milliseconds/],
    [(context) => context.sleep(-1), 'ms', /^ms is -1/],
    [(context) => context.sleep(), 'ms', /^ms is nothing/],
    [(context) => context.emit(5), 'chunk', /^chunk is 5; a string is needed/],
    [(context) => context.emit(SECRET), 'chunk', /^chunk is an object/],
  ],
  'the blackboard': [
    [(context) => context.publish('', 1, 'fact'), 'key', /^The key .* a string of 1 to 256 characters, not ''/],
    [(context) => context.publish(5, 1, 'fact'), 'key', /not 5/],
    [(context) => context.publish('k'.repeat(257), 1, 'fact'), 'key', /1 to 256/],
    [(context) => context.publish('k', undefined, 'fact'), 'value', /"k" is no JSON value: value is undefined/],
    [(context) => context.publish('k', { m: new Map() }, 'fact'), 'blackboard.write.value.m', /is a Map/],
    [(context) => context.publish('k', 1), 'entryType', /^The entryType of "k"/],
    [(context) => context.publish('k', 1, 'fact', { confidence: 2 }), 'confidence', /a number from 0 to 1, not 2/],
    [(context) => context.publish('k', 1, 'fact', 5), 'options', /an object, not 5/],
    [(context) => context.publish('k', 1, 'fact', { confidense: 1 }), 'options.confidense', /no such field/],
    [(context) => context.publish('k', 1, 'fact', { references: ['a', 5] }), 'references[1]', /a key, not 5/],
    [(context) => context.blackboard.write(undefined, 1, 'fact'), 'key', /not undefined/],
    [(context) => context.blackboard.read(5), 'key', /not 5/],
    [(context) => context.blackboard.getHistory(5), 'key', /not 5/],
    [(context) => context.blackboard.query(5), 'filter', /an object, not 5/],
    [(context) => context.blackboard.query({ typ: 'fact' }), 'filter.typ', /no such field; there are entryType/],
    [(context) => context.blackboard.query({ author: 5 }), 'filter.author', /a string, not 5/],
    [(context) => context.blackboard.waitFor(5), 'key', /not 5/],
    [(context) => context.blackboard.waitFor('k', { timeoutMs: -1 }), 'timeoutMs', /^timeoutMs is -1/],
    [(context) => context.blackboard.waitFor('k', { timeoutMs: Number.NaN }), 'timeoutMs', /^timeoutMs is NaN/],
    [(context) => context.blackboard.waitFor('k', { timeout: 5 }), 'options.timeout', /no such option/],
    [(context) => context.blackboard.waitFor('k', null), 'options', /^options is null/],
    [(context) => context.blackboard.waitFor('k', { signal: 5 }), 'signal', /^signal is 5/],
    [(context) => context.subscribe(5), 'pattern', /^The pattern 5 is none/],
    [(context) => context.subscribe('a..b'), 'pattern', /^The pattern 'a\.\.b' is none/],
  ],
  state: [
    [(context) => context.setState(5), undefined as never, /^the recipe of state is 5; a function is needed/],
    [(context) => context.setState(() => 5), 'state', /^state is 5; an object is needed/],
    [(context) => context.setState(async () => {}), 'state', /^The recipe of state is asynchronous; await first/],
    [(context) => context.setState(put(new Map())), 'state.here', /^state\.here is a Map; a JSON value is needed/],
    [(context) => context.setState(put(undefined)), 'state.here', /is undefined/],
    [(context) => context.setState(put(() => 1)), 'state.here', /is function/],
    [(context) => context.setState(put({ at: [new Date(0)] })), 'state.here.at[0]', /is a Date/],
    [(context) => context.setState(put(cycle)), 'state.here.list[0]', /is a cycle/],
    [(context) => context.setRunState(put(Number.NaN)), 'runState.here', /^runState\.here is NaN/],
    [(context) => context.setRunState(5), undefined as never, /^the recipe of runState is 5/],
  ],
}

for (const [what, cases] of Object.entries(refused)) {
  t.test(`${what} of the wrong kind is refused by path, and the turn goes on`, async (t) => {
    const { team, refusal, isWell } = stage(t)
    for (const [act, path, says] of cases) {
      const error = await refusal(act)
      t.match(error.message, says)
      t.equal(error.code, 'MESSAGE_REJECTED', error.message)
      if (path !== undefined) t.equal(error.details.path, path, error.message)
      t.notMatch(error.message, SECRET.prompt)
    }
    t.same(where(team.getMessageHistory(), 'recipient', 'bob'), [])
    t.ok(team.deadLetters.list().every(({ reason }) => reason === 'rejected'))
    t.ok(await isWell())
  })
}

t.test('data nested more deeply than JSON can be written is refused, not a stack overflow', async (t) => {
  const { refusal, isWell } = stage(t)
  t.match(await refusal(data(deep)), { code: 'MESSAGE_REJECTED', message: /nested more than 1000 levels deep/ })
  t.match(await refusal((context) => context.step('deep', () => deep)), { code: 'MESSAGE_REJECTED' })
  t.ok(await isWell())
})

t.test('a draft that was refused leaves the state as it was', async (t) => {
  const { play } = stage(t)
  const states = await play((context) => {
    context.setState(put({ kept: true }))
    try {
      context.setState(put(new Map()))
    } catch {}
    return context.state
  })
  t.same(states, { here: { kept: true } })
})

t.test('state under a key that JavaScript uses itself is kept like any other', async (t) => {
  const { team, play } = stage(t)
  const count = (context: Parameters<Act>[0]) =>
    context.setState((draft: { words?: Record<string, { n: number }> }) => {
      draft.words ??= {}
      if (!Object.hasOwn(draft.words, 'constructor')) draft.words.constructor = { n: 0 } as never
      const word = draft.words.constructor as never as { n: number }
      word.n += 1
    })
  for (let i = 0; i < 3; i++) await play(count)
  team.crash('ann')
  t.same(await play((context) => context.state), { words: { constructor: { n: 3 } } })
})

t.test('a wait for an entry that nobody writes ends at its deadline, and says so', async (t) => {
  const { team, refusal } = stage(t)
  const waiting = refusal((context) => context.blackboard.waitFor('never', { timeoutMs: 30 }))
  await team.clock.advance(30)
  const error = await waiting
  t.equal(error.code, 'REQUEST_TIMEOUT')
  t.match(error.message, /Nobody wrote "never" .* within 30 ms\. Raise timeoutMs/)
})

t.test('without a blackboard its verbs say how to get one', async (t) => {
  const { refusal, isWell } = stage(t, { enableBlackboard: false })
  for (const act of [
    (context) => context.publish('k', 1, 'fact'),
    (context) => context.blackboard.read('k'),
    (context) => context.subscribe('k'),
  ] satisfies Act[]) {
    const error = await refusal(act)
    t.equal(error.code, 'CONFIGURATION')
    t.match(error.message, /no blackboard\. Set enableBlackboard: true/)
  }
  t.ok(await isWell())
})

t.test('a refusal with something else than a text still says what it was given', async (t) => {
  const { play } = stage(t)
  t.match(await play((context) => context.refuse({ why: 'busy' })), {
    code: 'TASK_REFUSED',
    message: 'Agent "ann" refused: {"why":"busy"}',
  })
})

function data(structuredData: unknown): Act {
  return (context) => context.request('bob', 'hi', { structuredData })
}

function options(given: unknown): Act {
  return (context) => context.request('bob', 'hi', given)
}

function put(value: unknown) {
  return (draft: { here?: unknown }) => {
    draft.here = value
  }
}

const response = (stream: unknown) => (stream as { response: Promise<unknown> }).response

// A context after its turn has ended: every verb says so, none does anything, and what nobody awaited harms nobody.

const asynchronous: Record<string, Act> = {
  request: (context) => context.request('bob', 'hi'),
  'requestStream, its response': (context) => streamOf(context).response,
  'requestStream, its pieces': (context) => streamOf(context)[Symbol.asyncIterator]().next(),
  requestAll: (context) => context.requestAll(['bob', 'bob'], 'hi'),
  requestAny: (context) => context.requestAny(['bob', 'bob'], 'hi'),
  requestQuorum: (context) => context.requestQuorum(['ann', 'bob'], 1, 'hi'),
  broadcast: (context) => context.broadcast('hi'),
  report: (context) => context.report('done'),
  watch: (context) => context.watch('bob'),
  send: (context) => context.send('bob', 'hi'),
  delegate: (context) => context.delegate('bob', 'work'),
  handoff: (context) => context.handoff('bob', 'work'),
  escalate: (context) => context.escalate('stuck'),
  publish: (context) => context.publish('k', 1, 'fact'),
  subscribe: (context) => context.subscribe('k'),
  sync: (context) => context.sync('noon'),
  defineAgent: (context) => context.defineAgent({ name: 'new' }),
  'blackboard.write': (context) => context.blackboard.write('k', 1, 'fact'),
  'blackboard.read': (context) => context.blackboard.read('k'),
  'blackboard.query': (context) => context.blackboard.query(),
  'blackboard.getHistory': (context) => context.blackboard.getHistory('k'),
  'blackboard.waitFor': (context) => context.blackboard.waitFor('k'),
  step: (context) => context.step('late', () => 1),
  sleep: (context) => context.sleep(1),
  complete: (context) => context.complete({ prompt: 'hi' }),
  think: (context) => context.think('hi'),
}

const synchronous: Record<string, Act> = {
  emit: (context) => context.emit('late'),
  now: (context) => context.now(),
  random: (context) => context.random(),
  uuid: (context) => context.uuid(),
  setState: (context) => context.setState(() => {}),
  setRunState: (context) => context.setRunState(() => {}),
  shared: (context) => context.shared('team_shared'),
}

/** The context of a turn of ann's that has ended. */
async function ended(play: (act: Act) => Promise<unknown>): Promise<UntypedContext> {
  let kept: UntypedContext | undefined
  await play((context) => {
    kept = context
  })
  if (!kept) throw new Error('there was no turn')
  return kept
}

t.test('every asynchronous verb rejects with TURN_ENDED and says what to do', async (t) => {
  const { team, play, isWell } = stage(t)
  const context = await ended(play)
  for (const [verb, act] of Object.entries(asynchronous)) {
    const error = await refusalOf(async () => act(context))
    t.equal(error.code, 'TURN_ENDED', verb)
    t.match(error.message, /The turn of agent "ann" has ended; .*Await what the handler starts before it returns/)
    t.equal(error.details.agent, 'ann')
  }
  t.same(where(team.getMessageHistory(), 'recipient', 'bob'), [])
  t.same(await team.getBlackboard()?.query(), [])
  t.ok(await isWell())
})

t.test('every synchronous verb throws TURN_ENDED', async (t) => {
  const { play, isWell } = stage(t)
  const context = await ended(play)
  for (const [verb, act] of Object.entries(synchronous))
    t.throws(() => act(context), { code: 'TURN_ENDED', details: { agent: 'ann' } }, verb)
  t.ok(await isWell())
})

t.test('no verb is forgotten here: each method of a context is in one list or has a reason not to be', async (t) => {
  const { play } = stage(t)
  const context = await ended(play)
  const methods = new Set<string>()
  for (let at = Object.getPrototypeOf(context); at !== Object.prototype; at = Object.getPrototypeOf(at))
    for (const name of Object.getOwnPropertyNames(at))
      if (typeof Object.getOwnPropertyDescriptor(at, name)?.value === 'function') methods.add(name)
  const own =
    'constructor acknowledge assertOpen abort breathe call close draftOf nextStep read refusal thinkAloud waitingFor'.split(
      ' ',
    ) // the runtime's
  const harmless = ['refuse'] // it only makes an error
  const elsewhere = 'ask spawn tool'.split(' ')
  const listed = [...Object.keys(asynchronous), ...Object.keys(synchronous)].map((verb) => verb.split(/[.,]/)[0])
  const known = new Set([...listed, ...own, ...harmless, ...elsewhere])
  t.same(
    [...methods].filter((name) => !known.has(name)),
    [],
  )
})

t.test('what a context knows can still be read, and its signal is aborted', async (t) => {
  const { play } = stage(t)
  const context = await ended(play)
  t.match(context, { role: { name: 'ann' }, attempt: 1 })
  t.same([context.state, context.runState], [{}, {}])
  t.equal(context.signal.aborted, true)
  t.match(context.signal.reason, { code: 'TURN_ENDED' })
})

t.test('a signal that was taken in a turn is aborted when that ends', async (t) => {
  const { play } = stage(t)
  let signal: AbortSignal | undefined
  await play((context) => {
    signal = context.signal
  })
  t.match(signal, { aborted: true, reason: { code: 'TURN_ENDED' } })
})

t.test('a verb that nobody awaits is given up with its turn, and costs nothing', async (t) => {
  const unhandled: unknown[] = []
  const note = (error: unknown) => unhandled.push(error)
  process.on('unhandledRejection', note)
  t.teardown(() => process.off('unhandledRejection', note))
  const { play, isWell } = stage(t)
  const { 'requestStream, its pieces': _reader, ...verbs } = asynchronous // whoever reads, waits
  await play((context) => {
    for (const act of Object.values(verbs)) void act(context)
    void context.step('fails', () => {
      throw new Error('nobody hears this')
    })
    void context.step('goes on', () => context.sleep(1_000))
    void context.requestAll('bob', 'hi')
    void context.send('nobody', 'hi')
  })
  const context = await ended(play)
  for (const act of Object.values(verbs)) void act(context)
  await new Promise((resolve) => setImmediate(resolve)) // the event loop reports what nobody handled
  t.same(unhandled, [])
  t.ok(await isWell())
})

t.test("the script's own verbs end with its turn too", async (t) => {
  let kept: OrchestratorContext | undefined
  const team = testTeam(
    {
      agents: [{ name: 'ann' }],
      orchestration: {
        strategy: 'custom',
        run: async (orchestrator) => {
          kept = orchestrator
          return 'done'
        },
      },
    },
    { modules: { ann: defineAgent({ receive: () => 'hi' }) } },
  )
  t.teardown(() => team.close())
  await team.execute('go')
  const orchestrator = kept!
  t.throws(() => orchestrator.decide('Which?', 'this', 'late'), { code: 'TURN_ENDED' })
  await t.rejects(orchestrator.request('ann', 'hi'), { code: 'TURN_ENDED' })
  await t.rejects(orchestrator.requestAll(['ann'], 'hi'), { code: 'TURN_ENDED' })
  await t.rejects(orchestrator.synced('noon'), { code: 'TURN_ENDED' })
  t.equal(team.getMessageHistory().length, 2, 'the query and its answer')
})

t.test('what the script decides and counts has to be what it says', async (t) => {
  const refused: string[] = []
  const team = testTeam(
    {
      agents: [{ name: 'ann' }],
      orchestration: {
        strategy: 'custom',
        run: async (given) => {
          const orchestrator = untyped(given)
          for (const act of [
            () => orchestrator.decide(5, 'this', 'so'),
            () => orchestrator.decide('Which?', undefined, 'so'),
            () => orchestrator.vote('ann'),
            () => orchestrator.vote([5]),
            () => orchestrator.vote([{ value: 'yes' }]),
            () =>
              orchestrator.vote([
                { agent: 'ann', value: 'yes' },
                { agent: 'An', value: 'no' },
              ]),
            () => orchestrator.vote([{ agent: '$user', value: 'no' }]),
            () => orchestrator.vote([{ agent: 'ann', value: 'no', weight: -1 }]),
          ]) {
            const { code, details } = await refusalOf(act)
            refused.push(`${code} ${details.path}`)
          }
          return 'done'
        },
      },
    },
    { modules: { ann: defineAgent({ receive: () => 'hi' }) } },
  )
  t.teardown(() => team.close())
  const result = await team.execute('go')
  t.ok(result.success)
  t.same(refused, [
    'MESSAGE_REJECTED question',
    'MESSAGE_REJECTED choice',
    'MESSAGE_REJECTED ballots',
    'MESSAGE_REJECTED ballots[0]',
    'MESSAGE_REJECTED ballots[0].agent',
    'MESSAGE_REJECTED ballots[1].agent',
    'MESSAGE_REJECTED ballots[0].agent',
    'MESSAGE_REJECTED ballots[0].weight',
  ])
})

t.test('the vote of an agent that was removed after its answer counts', async (t) => {
  const team = testTeam(
    {
      agents: [{ name: 'ann' }, { name: 'bob' }],
      orchestration: {
        strategy: 'custom',
        run: async (orchestrator) => {
          await orchestrator.requestAll(['ann', 'bob'], 'hi')
          await team.removeAgent('bob')
          t.same(pluck(orchestrator.agents, 'name'), ['ann'])
          return String(orchestrator.vote([{ agent: 'bob', value: 'yes' }]).winner)
        },
      },
    },
    { modules: { ann: defineAgent({ receive: () => 'hi' }), bob: defineAgent({ receive: () => 'hi' }) } },
  )
  t.teardown(() => team.close())
  t.match(await team.execute('go'), { finalOutput: 'yes' })
})

function streamOf(context: UntypedContext) {
  return context.requestStream('bob', 'hi') as AsyncIterable<string> & { response: Promise<unknown> }
}
