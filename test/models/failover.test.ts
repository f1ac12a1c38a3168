/** A list of models: who is asked, when the next one is, and with whom a run stays. */
import t, { type Test } from 'tap'
import type { ModelPiece, ModelRequest } from '../../src/actors/definition/model.ts'
import { createTeam, type MultiAgentResult, type RuntimeEvent, type Tool } from '../../src/index.ts'
import type { FailoverEntry } from '../../src/models.ts'
import { type DramatisError, ModelError } from '../../src/shared/errors.ts'
import type { MultiAgentPatternOptions } from '../../src/team.ts'
import { testTeam } from '../../src/testing.ts'
import { modelServer } from '../fixtures/model-server.ts'
import type { Answer as WireAnswer } from '../fixtures/wires/wire.ts'
import { pluck, where } from '../kit/lists.ts'
import { type Extras, localTeam, type Receive, silent } from '../kit/team.ts'
import { adder } from '../toolbox/tools.ts'
import { type Answer, type Answers, calls, FakeModel } from './fake-model.ts'

// A list of models: who is asked, when the next one is, with whom a run stays, and what is told of it.

type Details = Record<string, unknown>

const failing = (reason: string, more: Details = {}) =>
  new ModelError(`It said ${reason}.`, { reason, retryable: false, ...more })
const LIMITED = failing('rate_limit', { status: 429, retryable: true, retryAfterMs: 40_000 })
const brokenAfter = (words: number): Answer => [
  ...Array.from({ length: words }, (_, at) => ({ text: `a${at} ` })),
  failing('unreachable', { code: 'broken_off' }),
]
const fails =
  (error: Error): Answers =>
  () => [error]

const ask: Receive = async (_message, context) => (await context.complete({ prompt: 'Think.' })).text

type Switched = Extract<RuntimeEvent, { type: 'model.switched' }>

interface Desk {
  fast: Answers
  spare?: Answers
  list?: Details
  receive?: Receive
  options?: Extras
}

function desk(t: Test, { fast, spare = () => 'spare', list = {}, receive = ask, options = {} }: Desk) {
  const models = { fast: new FakeModel(fast), spare: new FakeModel(spare) }
  const listed = { ...models, default: { anyOf: ['fast', 'spare'], ...list } } as Extras['models']
  const team = localTeam(t, { ann: receive }, { ...options, models: listed! })
  const events: RuntimeEvent[] = []
  team.events.subscribe((event) => void events.push(event))
  const execute = async (ms = 3_000) => {
    const run = team.launch('go')
    await team.clock.advance(ms)
    return run.result
  }
  const switched = () => where(events, 'type', 'model.switched') as Switched[]
  return { team, events, execute, switched, ...models }
}

t.test('a pause that is longer than its patience is a reason to ask the next one', async (t) => {
  const { execute, switched, events, fast, spare, team } = desk(t, { fast: fails(LIMITED) })
  const result = await execute(3_000)
  t.match(result, { success: true, finalOutput: 'spare' })
  t.equal(fast.requests.length, 1)
  t.equal(spare.requests.length, 1)
  t.match(switched(), [
    { agent: 'ann', entry: 'default', from: 'fast', to: 'spare', reason: 'rate_limit', heard: 0, messageId: /^0/ },
  ])
  t.match(where(events, 'type', 'model.called'), [
    { model: 'fast', error: { code: 'MODEL' } },
    { model: 'spare', error: null },
  ])
  t.match(team.judgement(), {
    state: 'slow',
    sentences: [/^another model answers: models\.default for .*: fast \(rate_limit\) rests until .*, spare answers$/],
  })
  t.match(team.metrics().find(({ name }) => name === 'dramatis_model_switches_total')?.samples, [
    { labels: { entry: 'default', from: 'fast', to: 'spare', reason: 'rate_limit' }, value: 1 },
  ])
})

t.test('pauses up to patienceMs, 2 s without it, are waited for, as without a list', async (t) => {
  for (const [retryAfterMs, list, answer] of [
    [1_500, {}, 'fast'],
    [2_500, {}, 'spare'],
    [2_500, { patienceMs: 3_000 }, 'fast'],
  ] as const) {
    const soon = failing('rate_limit', { status: 429, retryable: true, retryAfterMs })
    const { execute, switched, spare } = desk(t, { fast: [[soon], 'fast'], list })
    t.match(await execute(5_000), { finalOutput: answer })
    t.equal(switched().length, answer === 'fast' ? 0 : 1)
    t.equal(spare.requests.length, answer === 'fast' ? 0 : 1)
  }
})

t.test(
  'a model that is silent is left after silenceMs, after patienceMs without it, else after a minute',
  async (t) => {
    const never = new Promise<never>(() => {})
    for (const [list, ms] of [
      [{ silenceMs: 7_000 }, 7_000],
      [{ patienceMs: 5_000 }, 5_000],
      [{ patienceMs: 5_000, silenceMs: 7_000 }, 7_000],
      [{ patienceMs: 0 }, 60_000],
      [{}, 60_000],
    ] as const) {
      const { team, spare, switched } = desk(t, { fast: () => never, list })
      const run = team.launch('go')
      await team.clock.advance(ms - 1)
      t.equal(spare.requests.length, 0, `${JSON.stringify(list)}: it is waited for`)
      await team.clock.advance(1)
      t.match(await run.result, { success: true, finalOutput: 'spare' })
      t.match(switched(), [{ from: 'fast', to: 'spare', reason: 'timeout', heard: 0 }])
    }
  },
)

t.test('a model that is silent has all the time of the call where no other one may answer', async (t) => {
  const never = new Promise<never>(() => {})
  const error = (of: MultiAgentResult) => JSON.stringify(of.error ?? '')
  const off = await desk(t, { fast: () => never, list: { silenceMs: false } }).execute(300_000)
  t.match(error(off), /did not answer within 300000 ms/)
  const both = desk(t, { fast: () => never, spare: () => never, list: { silenceMs: 10_000 } })
  t.match(error(await both.execute(300_000)), /fast \(timeout\), spare \(timeout\)/)
  t.match([both.fast.requests.length, both.spare.requests.length], [2, 1])
  t.match(pluck(both.switched(), 'to'), ['spare', 'fast'])
  const refused = failing('quota')
  const last = desk(t, { fast: fails(refused), list: { silenceMs: 10_000 } })
  t.match(await last.execute(), { finalOutput: 'spare' })
  const options: Extras = { communication: { modelTimeoutMs: 15_000 } }
  const short = desk(t, { fast: () => never, spare: () => never, list: { silenceMs: 10_000 }, options })
  const run = short.team.launch('go')
  await short.team.clock.advance(15_100)
  t.match(error(await run.result), /No model/, 'all of them have the time of one call')
  t.equal(last.spare.requests[0]!.silenceMs, undefined, 'the first will not come back')
})

for (const [reason, fails] of [
  ['rate_limit', LIMITED],
  ['quota', failing('quota')], // no queue of a provider holds the next call back
] as const)
  t.test(`runs stay with the model that has answered, until one call tries the first again: ${reason}`, async (t) => {
    let isUp = false
    const twice: Receive = async (_message, context) => {
      const first = await context.complete({ prompt: 'One.' })
      await context.sleep(70_000)
      return `${first.text} ${(await context.complete({ prompt: 'Two.' })).text}`
    }
    const options: Extras = {
      communication: { responseTimeoutMs: 600_000 },
      roles: { ann: { concurrency: 4, limits: { turnTimeoutMs: false } } },
    }
    const { team, fast, switched } = desk(t, { fast: () => (isUp ? 'fast' : [fails]), receive: twice, options })
    const first = team.launch('go')
    await team.clock.advance(10_000)
    isUp = true
    const second = team.launch('go')
    await team.clock.advance(10_000)
    t.equal(fast.requests.length, 1, 'it rests')
    await team.clock.advance(45_000)
    const third = team.launch('go')
    await team.clock.advance(5_000)
    t.equal(fast.requests.length, 2, 'one call tries it again')
    t.same(team.judgement().sentences, [])
    const fourth = team.launch('go')
    await team.clock.advance(200_000)
    const outputs = await Promise.all(
      [first, second, third, fourth].map(async ({ result }) => (await result).finalOutput),
    )
    t.same(outputs, ['spare spare', 'spare spare', 'fast fast', 'fast fast'])
    t.match(switched(), [{ runId: first.id }, { runId: second.id, from: 'fast', to: 'spare', reason }])
    t.equal(switched().length, 2)
  })

t.test('a run stays with the first that has answered it while others go to the next', async (t) => {
  let asked = 0
  const fast: Answers = () => (asked++ === 1 ? [failing('quota')] : 'fast')
  const twice: Receive = async (message, context) => {
    if (message.content !== 'twice') return ask(message, context)
    const first = await ask(message, context)
    await context.sleep(5_000)
    return `${first} ${await ask(message, context)}`
  }
  const { team, execute } = desk(t, { fast, receive: twice, options: { roles: { ann: { concurrency: 2 } } } })
  const run = team.launch('twice')
  await team.clock.advance(1_000)
  t.equal((await execute()).finalOutput, 'spare')
  await team.clock.advance(5_000)
  t.equal((await run.result).finalOutput, 'fast fast')
})

t.test('while one call tries the first again, others stay with the one that has answered', async (t) => {
  let asked = 0
  const late: Answers = ({ clock }) =>
    asked++ === 0 ? [failing('quota')] : clock!.sleep(5_000).then((): Answer => 'fast')
  const { team, fast, execute } = desk(t, { fast: late, options: { roles: { ann: { concurrency: 2 } } } })
  t.equal((await execute()).finalOutput, 'spare')
  await team.clock.advance(60_000)
  const trial = team.launch('go')
  await team.clock.advance(1_000)
  t.equal(fast.requests.length, 2, 'it is under way')
  t.equal((await execute()).finalOutput, 'spare')
  await team.clock.advance(5_000)
  t.equal((await trial.result).finalOutput, 'fast')
  t.equal((await execute(6_000)).finalOutput, 'fast')
})

t.test('reasons: a filter and a wrong key only if they are named, a rejected request never', async (t) => {
  const askedSpare = async (reason: string, list: Details = {}) => {
    const { execute, spare } = desk(t, { fast: fails(failing(reason)), list })
    const { success } = await execute()
    t.equal(success, spare.requests.length > 0)
    return success
  }
  for (const reason of ['rate_limit', 'quota', 'not_found', 'too_long', 'timeout', 'unreachable', 'server'])
    t.equal(await askedSpare(reason), true, reason)
  t.equal(await askedSpare('invalid_answer'), true)
  for (const reason of ['filtered', 'auth']) {
    t.equal(await askedSpare(reason), false, reason)
    t.equal(await askedSpare(reason, { switchOn: [reason] }), true, reason)
  }
  t.equal(await askedSpare('server', { switchOn: ['filtered'] }), false)
  t.equal(await askedSpare('rejected'), false)
  t.equal(await askedSpare('other'), false)
})

t.test('behind the last the first has all the time that a model alone has', async (t) => {
  const answers: Answer[] = [[LIMITED], 'fast at last']
  const { execute, switched, spare } = desk(t, { fast: answers, spare: fails(failing('unreachable')) })
  t.match(await execute(60_000), { success: true, finalOutput: 'fast at last' })
  t.equal(spare.requests.length, 1)
  t.match(switched(), [
    { from: 'fast', to: 'spare', reason: 'rate_limit' },
    { from: 'spare', to: 'fast', reason: 'unreachable' },
  ])
})

t.test('where none answers the error is the last one, with all that were tried', async (t) => {
  const spare = fails(failing('unreachable'))
  const failures: DramatisError[] = []
  const receive: Receive = async (_message, context) => {
    await context.complete({ prompt: 'Think.' }).catch((error: DramatisError) => failures.push(error))
    return 'no answer'
  }
  await desk(t, { fast: fails(failing('quota', { retryAfterMs: 40_000 })), spare, receive }).execute()
  await desk(t, { fast: fails(failing('rejected')), receive }).execute()
  const [both, alone] = failures
  t.equal(both?.code, 'MODEL')
  t.match(both?.message, /No model of "default" answered: fast \(quota, asks for 40 s\), spare \(unreachable\)\./)
  t.same(both?.details.tried, [
    { model: 'fast', reason: 'quota' },
    { model: 'spare', reason: 'unreachable' },
  ])
  t.match(alone?.message, /It said rejected/)
  t.equal(alone?.details.tried, undefined)
})

t.test('an answer that breaks off is void, and made anew from the same prompt', async (t) => {
  const { add, runs } = tools()
  const rounds: Answers = (_request, nth) => (nth === 0 ? calls(['add', { a: 1 }]) : 'It is two.')
  const models = { fast: new FakeModel(() => brokenAfter(200)), spare: new FakeModel(rounds) }
  const team = adding(t, models, add)
  const run = team.launch('1 + 1?', { stream: true })
  const answer = read(run.text())
  const parts: { type: string; text?: string; reason?: string }[] = []
  const reading = (async () => {
    for await (const part of run.stream()) parts.push(part as never)
  })()
  await team.clock.runToIdle()
  t.match(await run.result, { success: true, finalOutput: 'It is two.' })
  t.match(await answer, /It is two\.$/)
  await reading
  const lastVoid = parts.findLastIndex(({ type }) => type === 'superseded')
  const said = parts.slice(lastVoid + 1).filter(({ type }) => type === 'text')
  t.equal(pluck(said, 'text').join(''), 'It is two.')
  t.equal(runs(), 1)
  t.match(models.spare.requests[0]!.messages.at(-1), { role: 'user', content: '1 + 1?' })
})

t.test('an answer without tools that is read as it comes is made anew, too', async (t) => {
  const models = { fast: new FakeModel(() => brokenAfter(200)), spare: new FakeModel(() => 'It is two.') }
  const team = adding(t, models)
  const run = team.launch('1 + 1?', { stream: true })
  const [all, answer] = [read(run.text()), read(run.text({ only: 'answer' }))]
  await team.clock.runToIdle()
  t.match(await run.result, { success: true, finalOutput: 'It is two.' })
  const callIds = new Set<string>()
  for await (const part of run.stream()) if (part.type === 'text') callIds.add(part.callId)
  t.equal(callIds.size, 1, 'one call, whoever answers')
  t.match(await all, /^a0 a1 .*\n\nIt is two\.$/s)
  t.equal(await answer, 'It is two.')
  const events = run.trace.events.filter(({ eventType }) => eventType === 'model.switched')
  t.match(events, [{ details: { from: 'fast', to: 'spare', reason: 'broken_off', heard: 200 } }])
})

t.test('code that reads an answer in pieces gets another model until the first word is out', async (t) => {
  const broken = failing('unreachable', { code: 'broken_off' })
  const before: ModelPiece[] = [{ reasoning: 'Hm.' }, { toolInput: { id: 'c', name: 'add', text: '{' } }]
  const streams: Receive = async (_message, context) =>
    (await context.complete({ prompt: 'Think.', stream: true })).text
  const thinking = desk(t, { fast: () => [...before, broken], receive: streams })
  const run = thinking.team.launch('go')
  const words = read(run.text())
  await thinking.team.clock.advance(3_000)
  t.match(await run.result, { success: true, finalOutput: 'spare' })
  t.equal(await words, 'spare')
  t.match(thinking.switched(), [{ from: 'fast', to: 'spare', reason: 'broken_off', heard: 0 }])
  const speaking = desk(t, { fast: () => [...before, { text: 'Half' }, broken], receive: streams })
  t.match(await speaking.execute(), { success: false, error: { modelFailure: { code: 'broken_off' } } })
  t.equal(speaking.spare.requests.length, 0)
  const stalled = desk(t, { fast: () => new Promise<never>(() => {}), receive: streams, list: { silenceMs: 5_000 } })
  t.match(await stalled.execute(5_000), { success: true, finalOutput: 'spare' })
})

t.test('the next model gets no opaque data and no thoughts of another one, and the ids of calls stay', async (t) => {
  const { add } = tools()
  const opaque = (by: string): Answer => [
    { reasoning: `thought of ${by}`, providerData: { chat: { secret: by } } },
    { toolCall: { id: `call-of-${by}`, name: 'add', input: '{"a":1}', providerData: { chat: { sign: by } } } },
  ]
  const fast: Answers = (_request, nth) => (nth === 0 ? opaque('fast') : [LIMITED])
  const spare: Answers = (_request, nth) => (nth === 0 ? opaque('spare') : 'done')
  const models = { fast: new FakeModel(fast), spare: new FakeModel(spare) }
  const team = adding(t, models, add)
  const run = team.launch('1 + 1?')
  await team.clock.runToIdle()
  t.match(await run.result, { finalOutput: 'done' })
  const told = (request: ModelRequest | undefined) => JSON.stringify(request?.messages)
  const [first, second] = models.spare.requests
  t.notMatch(told(first), /thought of fast|secret|sign|dramatis/)
  t.match(told(first), /"toolCalls":\[\{"id":"call-of-fast".*"toolCallId":"call-of-fast"/)
  t.match(told(second), /thought of spare.*"secret":"spare".*"sign":"spare"/)
  t.notMatch(told(second), /thought of fast|"by"/)
  t.match(told(models.fast.requests[1]), /thought of fast.*"secret":"fast"/)
})

t.test('each model is booked for itself', async (t) => {
  const usage = { inputTokens: 10, outputTokens: 5, totalTokens: 15, calls: 1 }
  const broken: ModelPiece[] = [{ text: 'half' }, { usage }]
  const options: Extras = { budget: { perTeam: { tokens: 100_000, windowMs: 60_000 } } }
  const fast = () => [...broken, failing('server')]
  const { execute, team } = desk(t, { fast, options })
  const { totalTokenUsage } = await execute()
  t.match(totalTokenUsage, { totalTokens: 30, calls: 2 })
  t.match(team.budgets(), [{ used: 30 }])
})

t.test('a list names two other models or more, and knows its reasons', (t) => {
  const wrong: [Details, RegExp][] = [
    [{ anyOf: ['fast'] }, /models\.default\.anyOf/],
    [{ anyOf: ['fast', 'fast'] }, /models\.default\.anyOf/],
    [{ anyOf: ['fast', 'slow'] }, /models\.default\.anyOf\[1\]: got "slow"/],
    [{ anyOf: ['fast', 'default'] }, /models\.default\.anyOf\[1\]/],
    [{ anyOf: ['fast', 'spare'], switchOn: ['rejected'] }, /models\.default\.switchOn/],
    [{ anyOf: ['fast', 'spare'], patienceMs: -1 }, /models\.default\.patienceMs/],
    [{ anyOf: ['fast', 'spare'], model: 'x' }, /models\.default/],
  ]
  const [fast, spare] = [new FakeModel([]), new FakeModel([])]
  for (const [list, words] of wrong)
    t.throws(
      () => localTeam(t, { ann: ask }, { models: { fast, spare, default: list } } as unknown as Extras),
      { code: 'CONFIGURATION', message: words },
      JSON.stringify(list),
    )
  t.end()
})

/** A team with one agent that a model plays. */
function adding(t: Test, models: Readonly<Record<'fast' | 'spare', FakeModel>>, add?: Tool) {
  const team = testTeam({
    agents: [{ name: 'ann', systemPrompt: 'You add.', tools: add ? [add] : [] }],
    models: { ...models, default: { anyOf: ['fast', 'spare'] } },
    orchestration: { strategy: 'sequential' },
    logger: silent,
  })
  t.teardown(async () => {
    const closed = team.close()
    await team.clock.runToIdle()
    await closed
  })
  return team
}

function tools() {
  const { tool, calls } = adder()
  return { add: tool, runs: () => calls.length }
}

async function read(pieces: AsyncIterable<string>): Promise<string> {
  let all = ''
  for await (const piece of pieces) all += piece
  return all
}

// A list of models at two real servers: whatever the first does, the second answers, whole and streamed.

const never = new Promise<never>(() => {})
/** Time for a busy machine to bring the first piece of an answer; a silent model costs it once. */
const SILENCE_MS = 3_000

const BAD: readonly [what: string, answer: WireAnswer, reason: string, heard: number][] = [
  ['accepts the call and sends nothing', { text: 'A.', after: never }, 'timeout', 0],
  ['stops in its stream', { text: ['A1 ', 'A2.'], between: never }, 'timeout', 1],
  ['answers 500', { status: 500 }, 'server', 0],
  ['wants a long pause', { status: 429, headers: { 'retry-after': '40' } }, 'rate_limit', 0],
  ['cuts the stream', { text: ['A1 ', 'A2 ', 'A3.'], hangUp: 2 }, 'broken_off', 2],
  ['hangs up', { hangUp: 'at once' }, 'unreachable', 0],
]

async function failoverServersDesk(t: Test, bad: WireAnswer, list: Partial<FailoverEntry> = {}) {
  const [first, second] = [await modelServer(t), await modelServer(t)]
  first.always(bad)
  second.always({ text: ['From ', 'B.'] })
  const options: MultiAgentPatternOptions = {
    agents: [{ name: 'ann', systemPrompt: 'Be brief.' }],
    orchestration: { strategy: 'sequential' },
    models: {
      default: { anyOf: ['a', 'b'], patienceMs: 1, silenceMs: SILENCE_MS, ...list },
      a: { model: 'a', baseURL: first.baseURL },
      b: { model: 'b', baseURL: second.baseURL },
    },
    logger: silent,
  }
  const team = createTeam(options)
  t.teardown(() => team.close())
  return { team, first, second }
}

for (const [what, bad, reason, heard] of BAD)
  t.test(`the first ${what}: the second answers, and the run stays with it`, async (t) => {
    const answers = ['whole', 'streamed'].map(async (how) => {
      const { team, first, second } = await failoverServersDesk(t, bad)
      const run = team.launch('go', { stream: how === 'streamed' })
      const [all, answer] = [read(run.text()), read(run.text({ only: 'answer' }))]
      const parts: string[] = []
      if (how === 'streamed')
        for await (const part of run.stream()) {
          if (part.type === 'superseded') parts.length = 0
          if (part.type === 'text') parts.push(part.text)
        }
      t.match(await run.result, { success: true, finalOutput: 'From B.' }, how)
      t.equal(await answer, 'From B.', how)
      t.match(await all, /From B\.$/, how)
      if (how === 'streamed') t.equal(parts.join(''), 'From B.')
      const switches = run.trace.events.filter(({ eventType }) => eventType === 'model.switched')
      t.match(switches, [{ details: { from: 'a', to: 'b', reason, heard } }], how)
      t.same([first.calls.length, second.calls.length], [1, 1], how)
      if (reason === 'timeout') t.equal(await first.calls[0]!.ended, 'left', `${how}: its socket is given back`)
      t.match(await team.execute('again'), { finalOutput: 'From B.' })
      t.same([first.calls.length, second.calls.length], [1, 2], `${how}: the next run begins with the second`)
    })
    await Promise.all(answers)
  })

t.test('a stream that is cut is broken off, by its name in switchOn, and unreachable for who names that', async (t) => {
  for (const [switchOn, answer] of [
    [['filtered', 'broken_off'], 'From B.'],
    [['unreachable'], 'From B.'],
    [['server'], null],
  ] as const) {
    const { team } = await failoverServersDesk(t, { text: ['A1 ', 'A2.'], hangUp: 1 }, { switchOn })
    t.equal((await team.execute('go')).finalOutput, answer, switchOn.join())
  }
})
