/** Tools that ask people, wait for approvals, or are made up in a rehearsal. */
import t, { type Test } from 'tap'
import { z } from 'zod'
import {
  createTeam,
  defineAgent,
  defineTool,
  type MultiAgentPatternOptions,
  type RuntimeEvent,
  type Team,
  type ToolContext,
} from '../../src/index.ts'
import { answerInLog } from '../../src/runtime/views/recorded-runs.ts'
import { nextTurn } from '../../src/shared/timers.ts'
import { rehearsalModel, rehearse, scriptedModel, testTeam, virtualClock } from '../../src/testing.ts'
import { calculator, weather, workspace } from '../../src/tools/index.ts'
import { MemoryDisk, MemoryStore } from '../durability/memory-store.ts'
import { given, heard, silent } from '../kit/team.ts'
import { quietly } from '../models/notices.ts'
import { asked, type Call, callerModule, desk, ledger, recordModule, toolModule } from './desk.ts'
import { doing, refusal } from './tools.ts'

const DAY_MS = 86_400_000

type Run = (context: ToolContext, sleep: (ms: number) => Promise<void>) => Promise<unknown>

/** A run in which an agent calls that tool. */
async function begun(t: Test, run: Run, timeoutMs?: number) {
  let sleep = async (_ms: number): Promise<void> => {}
  const tool = doing((context) => run(context, (ms) => sleep(ms)), { ...(timeoutMs && { timeoutMs }) })
  const team = given(t, { tools: [tool] }).testTeam({
    ann: async (_message, context) => `${await context.tool(tool, {})}`,
  })
  sleep = (ms) => team.clock.sleep(ms)
  const { result } = team.launch('go', { runId: 'one' })
  await team.clock.advance(0)
  return { team, result, question: () => team.questions('one')[0] }
}

t.test('a tool waits for a person as long as that takes, and its own time goes on behind the answer', async (t) => {
  for (const [restMs, expected] of [
    [499, { success: true, finalOutput: 'red' }],
    [501, { success: false, error: { message: /did not end within 1000 ms/ } }],
  ] as const) {
    const { team, result, question } = await begun(
      t,
      async ({ ask }, sleep) => {
        await sleep(500)
        const color = await ask('Which color?', { choices: ['red', 'blue'] })
        await sleep(restMs)
        return color
      },
      1_000,
    )
    t.same(team.questions('one'), [])
    await team.clock.advance(500)
    t.match(question(), { agent: 'ann', kind: 'ask', text: 'Which color?', choices: ['red', 'blue'] })
    await team.clock.advance(DAY_MS)
    t.match(
      team.waits().filter(({ agent }) => agent === 'ann'),
      [{ kind: 'ask', for: [] }],
    )
    await team.answer(question()!.questionId, 'red')
    await team.clock.advance(1_000)
    t.match(await result, expected)
  }
})

t.test('two questions of one call are two, and one that its tool gives up is withdrawn', async (t) => {
  const { team, result } = await begun(t, ({ ask }) => Promise.race([ask('Left?'), ask('Right?')]))
  const [left, right] = team.questions('one')
  t.match([left, right], [{ text: 'Left?' }, { text: 'Right?' }])
  const closed = heard(team, 'question.closed', ({ questionId, how }) => ({ questionId, how }))
  await team.answer(right!.questionId, 'this way')
  t.match(await result, { success: true, finalOutput: 'this way' })
  t.same(team.questions('one'), [])
  t.same(closed, [
    { questionId: right!.questionId, how: 'answered' },
    { questionId: left!.questionId, how: 'withdrawn' },
  ])
})

t.test('a question that its tool does not wait for ends with the call, and ends nothing else', async (t) => {
  let late: ToolContext['ask'] | undefined
  const { team, result } = await begun(t, async ({ ask }, sleep) => {
    late = ask
    void ask('Now?', { answerWithinMs: 10 })
    const asked = ask('Later?')
    await sleep(1_000)
    return asked
  })
  await team.clock.advance(20)
  t.match(team.questions('one'), [{ text: 'Later?' }])
  await team.getRun('one')!.cancel('enough')
  t.match(await result, { success: false })
  await team.clock.advance(1_000)
  t.match(await refusal(late!('After all?')), { code: 'CANCELLED' })
  t.same(team.questions('one'), [])
})

t.test('a form takes what fits its schema, or a no; anything else leaves the question open', async (t) => {
  const form = {
    type: 'object',
    properties: { name: { type: 'string' }, size: { enum: ['small', 'large'] } },
    required: ['name'],
  }
  const { team, question, result } = await begun(t, async ({ ask }) => {
    const first = await ask('Whose, and how large?', { form })
    return `${first} ${await ask('And then?', { form })}`
  })
  const [of] = [question()!]
  t.match(of, {
    form,
    text: 'Whose, and how large? Answer "no", or in JSON: {"name":"string","size?":"small | large"}',
  })
  for (const wrong of ['ann', '{}', '[1]', '{"name":7}', '{"name":"ann","size":"huge"}', 'yes'])
    t.match(await refusal(team.answer(of.questionId, wrong)), { code: 'CONFIGURATION', details: { path: 'answer' } })
  await team.answer(of.questionId, '{"name":"ann"}')
  await team.clock.advance(0)
  await team.answer(question()!.questionId, 'no')
  t.match(await result, { success: true, finalOutput: '{"name":"ann"} no' })
})

t.test('a question that nobody could be asked fails its tool, with what to do', async (t) => {
  const cyclic: { of?: object } = {}
  cyclic.of = cyclic
  const wrong: [question: string, options: object, RegExp][] = [
    ['', {}, /question is ""/],
    ['Which?', { choices: [] }, /choices is an empty list/],
    ['Which?', { choices: ['a'], form: { type: 'object' } }, /form is .* no choices beside it/],
    ['Which?', { form: cyclic }, /ask: form: form/],
    ['Which?', { ask: 'approval', tool: 'pay' }, /ask: ask: there is no such field/],
    ['Which?', { key: 7 }, /ask: key: it is 7/],
  ]
  const { team, result } = await begun(t, async ({ ask }) => {
    const said: string[] = []
    for (const [question, options] of wrong) said.push((await refusal(ask(question, options))).message)
    void ask('One?', { key: 'k' })
    return [...said, (await refusal(ask('Another?', { key: 'k' }))).message].join('\n')
  })
  const finalOutput = (await result).finalOutput ?? ''
  for (const [i, [, , text]] of wrong.entries()) t.match(finalOutput.split('\n')[i], text)
  t.match(finalOutput, /"k" is the key of another question/)
  t.same(team.questions('one'), [])
  for (const isolate of [true, false]) {
    const { call } = desk(t, [{ module: toolModule('asking'), ...(isolate && { isolate }) } as never])
    t.match((await call('asking', {})).outcomes, [{ code: 'TOOL_FAILED', message: /another thread.*Give it inline/ }])
  }
})

/** A desk that asks where to ship a thing, and ships it. `sent`: the keys of the calls. */
function shop(t: Test, disk: MemoryDisk, sent: string[], idempotent: boolean, startAt: number, question = 'Where to?') {
  const ship = defineTool({
    name: 'ship',
    description: 'Ships.',
    input: z.object({}),
    idempotent,
    async run(_input, { ask, idempotencyKey }) {
      const where = await ask(question)
      sent.push(idempotencyKey)
      return where
    },
  })
  const clock = virtualClock({ startAt })
  const team = createTeam({
    agents: [{ name: 'ann', module: callerModule, tools: [ship], limits: { turnTimeoutMs: 60_000 } }],
    orchestration: {
      strategy: 'custom',
      run: async (script, call) => JSON.stringify((await script.request('ann', call)).structuredData),
    },
    supervision: { watchdogMs: 2 * DAY_MS },
    stateManagement: { store: new MemoryStore(disk) },
    logger: silent,
    clock,
  })
  t.teardown(() => team.close())
  return { team, clock }
}

/** Waits until nobody has to be told of it: the question of a call that was made again is an old one. */
async function questionOf({ team, clock }: ReturnType<typeof shop>) {
  while (team.questions('one').length === 0) {
    await clock.advance(0)
    await nextTurn()
  }
  return team.questions('one')[0]!
}

t.test('after a restart a tool that may run again finds its question, and one that may not is in doubt', async (t) => {
  for (const [idempotent, expected] of [
    [true, { success: true, finalOutput: /north/ }],
    [false, { success: true, finalOutput: /may have happened, or not/ }],
  ] as const)
    for (const answered of [false, true]) {
      const [disk, sent] = [new MemoryDisk(), [] as string[]]
      const before = shop(t, disk, sent, idempotent, 0)
      await before.team.start()
      before.team.launch(asked('ship', {}), { runId: 'one' })
      const question = await questionOf(before)
      await before.clock.advance(DAY_MS)
      await before.team.flush()
      await before.team.close()
      const { questionId } = question
      const store = new MemoryStore(disk)
      if (answered) await answerInLog(store, questionId, 'north', { by: { id: 'eve' } }).then(() => store.close())
      const after = shop(t, disk, sent, idempotent, DAY_MS)
      await after.team.start()
      if (idempotent && !answered) {
        t.match(await questionOf(after), { questionId, askedAt: question.askedAt })
        await after.clock.advance(59_000)
        await after.team.answer(questionId, 'north')
      }
      t.match(await after.team.getRun('one')!.result, expected, `idempotent: ${idempotent}, answered: ${answered}`)
      t.equal(sent.length, idempotent ? 1 : 0)
    }
})

t.test('after a restart another question is asked, whatever the first was answered', async (t) => {
  const [disk, sent] = [new MemoryDisk(), [] as string[]]
  const before = shop(t, disk, sent, true, 0)
  await before.team.start()
  before.team.launch(asked('ship', {}), { runId: 'one' })
  const { questionId } = await questionOf(before)
  await before.team.flush()
  await before.team.close()
  const store = new MemoryStore(disk)
  await answerInLog(store, questionId, 'north', { by: { id: 'eve' } }).then(() => store.close())
  const after = shop(t, disk, sent, true, 0, 'Where to at last?')
  await after.team.start()
  const question = await questionOf(after)
  t.match(question, { text: 'Where to at last?' })
  await after.team.answer(question.questionId, 'south')
  t.match(await after.team.getRun('one')!.result, { success: true, finalOutput: /south/ })
})

// Tools whose calls a person has to approve: in the host, in the agent's thread, and in threads of their own.

type Question = Extract<RuntimeEvent, { type: 'question' }>

/** Answers each question, and keeps it. */
function answering(team: Pick<Team, 'events' | 'getRun'>, answer: string): Question[] {
  const questions: Question[] = []
  team.events.subscribe((event) => {
    if (event.type !== 'question') return
    questions.push(event)
    void team.getRun(event.runId)!.answer(event.questionId, answer)
  })
  return questions
}

function payer(approval: boolean | ((input: { euros: number }) => boolean)) {
  const paid: number[] = []
  const tool = defineTool({
    name: 'pay',
    description: 'Pays.',
    input: z.object({ euros: z.number() }),
    approval,
    timeoutMs: 100,
    run: ({ euros }) => paid.push(euros),
  })
  return { tool, paid }
}

t.test('a call waits for its approval, and its time limit begins after that', async (t) => {
  const { tool, paid } = payer(true)
  const team = given(t, { roles: { ann: { tools: [tool] } } }).team({
    ann: async (_message, context) => `${await context.tool(tool, { euros: 5 })}`,
  })
  const run = team.launch('go')
  await team.clock.advance(10_000)
  t.equal(run.status, 'waiting')
  t.same(paid, [])
  for await (const event of run.events({ types: ['question'] })) {
    const { questionId, kind, text, choices } = event as Question
    t.strictSame(
      { kind, text, choices },
      { kind: 'approval', text: 'May agent "ann" call the tool "pay" with {"euros":5}?', choices: ['yes', 'no'] },
    )
    await run.answer(questionId, 'yes')
    break
  }
  await team.clock.runToIdle()
  t.equal((await run.result).finalOutput, '1')
  t.same(paid, [5])
})

t.test('a call that is not approved fails, and nothing is done', async (t) => {
  const { tool, paid } = payer(true)
  const team = given(t, { roles: { ann: { tools: [tool] } } }).team({
    ann: (_message, context) => context.tool(tool, { euros: 5 }).then(String, (error) => error.message),
  })
  answering(team, 'no')
  const { finalOutput } = await team.execute('go')
  t.equal(
    finalOutput,
    'A person did not agree that agent "ann" calls the tool "pay". Do something else, or ask for less.',
  )
  t.same(paid, [])
})

/** A tool that takes a text and needs approval, and what it was called with. */
function shell() {
  const ran: string[] = []
  const tool = defineTool({
    name: 'shell',
    description: 'Runs a command.',
    input: z.object({ command: z.string() }),
    approval: true,
    run: ({ command }) => ran.push(command),
  })
  return { tool, ran }
}

t.test('a person is shown all of a long input, and what is invisible in it', async (t) => {
  const { tool, ran } = shell()
  const command = `echo ${'x'.repeat(15_000)} \u202e; rm -rf /`
  const team = given(t, { roles: { ann: { tools: [tool] } } }).team({
    ann: async (_message, context) => `${await context.tool(tool, { command })}`,
  })
  const questions = answering(team, 'yes')
  await team.execute('go')
  t.match(questions[0]?.text, 'xxx \\u{202e}; rm -rf /"}?')
  t.strictSame(ran, [command])
})

t.test('an input that is too long for a person is refused, and nobody is asked', async (t) => {
  const { tool, ran } = shell()
  const call = { command: `echo ${'x'.repeat(20_000)}; rm -rf /` }
  const team = given(t, { roles: { ann: { tools: [tool] } } }).team({
    ann: (_message, context) => context.tool(tool, call).then(String, (error) => error.message),
  })
  const questions = answering(team, 'yes')
  t.match((await team.execute('go')).finalOutput, /input of 20029 characters.* at most 20000\. Give the tool less/)
  t.strictSame([questions, ran], [[], []])
})

t.test('a function says of which calls; of an input that misses the schema nobody is asked', async (t) => {
  const { tool, paid } = payer(({ euros }) => euros > 100)
  const team = given(t, { roles: { ann: { tools: [tool] } } }).team({
    async ann(_message, context) {
      await context.tool(tool, { euros: 5 })
      await context.tool(tool, { euros: 500 })
      return context.tool(tool, {} as never).then(String, ({ code }) => code)
    },
  })
  const questions = answering(team, 'yes')
  t.equal((await team.execute('go')).finalOutput, 'TOOL_INPUT')
  t.equal(questions.length, 1)
  t.match(questions[0]?.text, '{"euros":500}')
  t.same(paid, [5, 500])
})

t.test('an approval is asked for once, whatever happens to who calls', async (t) => {
  const { tool, paid } = payer(true)
  const team = given(t, { roles: { ann: { tools: [tool] } } }).team({
    async ann(_message, context) {
      await context.tool(tool, { euros: 5 })
      await context.sleep(100)
    },
  })
  const questions = heard(team, 'question', (event) => event)
  const run = team.launch('go')
  await team.clock.advance(1)
  team.crash('ann')
  await team.clock.advance(1)
  await run.answer(questions[0]!.questionId, 'yes')
  await team.clock.advance(1)
  team.crash('ann')
  await team.clock.runToIdle()
  t.equal((await run.result).success, true)
  t.equal(questions.length, 1)
  t.same(paid, [5])
})

for (const isolate of [false, true])
  t.test(`a tool in a module is asked for, too${isolate ? ', in a thread of its own' : ''}`, async (t) => {
    const { team } = desk(t, [{ module: toolModule('approved'), isolate }])
    const questions = answering(team, 'yes')
    const { error, agentOutputs } = await team.execute(asked('approved', {}))
    t.equal(error, null)
    t.match(agentOutputs.ann, [{ structuredData: { outcomes: [{ output: 'done' }] } }])
    t.match(questions, [{ kind: 'approval', agent: 'ann', text: 'May agent "ann" call the tool "approved" with {}?' }])
    t.equal(questions.length, 1)
  })

// Tools where the rehearsal model answers: those that change something do not run, whatever way they are called.

const receipt = z.object({ refundId: z.string(), eur: z.number().min(1).max(50) })

/** A tool with an effect, and one that only looks. */
function refundShop() {
  const refunds: object[] = []
  const looks: object[] = []
  const refund = defineTool({
    name: 'refund',
    description: 'Pays money back.',
    input: z.object({ orderId: z.string().min(3) }),
    output: receipt,
    run(input) {
      refunds.push(input)
      return { refundId: 'r1', eur: 22.19 }
    },
  })
  const order = defineTool({
    name: 'order',
    description: 'Shows an order.',
    input: z.object({ orderId: z.string() }),
    readOnly: true,
    run(input) {
      looks.push(input)
      return 'shipped'
    },
  })
  return { refund, order, refunds, looks }
}

const orchestration = { strategy: 'sequential' } as const
const started = (events: readonly RuntimeEvent[]) => events.filter(({ type }) => type === 'tool.started')

function allOf(team: { events: { subscribe(next: (event: RuntimeEvent) => void): unknown } }): RuntimeEvent[] {
  const events: RuntimeEvent[] = []
  team.events.subscribe((event) => void events.push(event))
  return events
}

t.test(
  'a rehearsal model runs what is readOnly; what is not is answered from its output schema, and a notice names it',
  async (t) => {
    const { refund, order, refunds, looks } = refundShop()
    const { logger, lines } = quietly()
    const agents = [{ name: 'ann', tools: [refund, order] }]
    const team = testTeam({ agents, orchestration, models: 'rehearsal', logger })
    t.teardown(() => team.close())
    const events = allOf(team)
    const result = await team.execute('Refund 12')
    t.match(result, { success: true, rehearsed: true })
    t.same([refunds.length, looks.length], [0, 1])
    t.match(result.finalOutput, /refund said "\{"refundId":" refundId","eur":[\d.]+\}".*order said "shipped"/)
    t.match(started(events), [
      { tool: 'refund', simulated: true },
      { tool: 'order', simulated: undefined },
    ])
    t.equal(lines.length, 1)
    t.match(lines[0], /^warn This tool does not run, but is answered.*: refund\. .*readOnly: true.*realTools: true/)
  },
)

t.test('without a key one notice says that nobody is asked, and which tools do not run', async (t) => {
  const { refund, order, refunds } = refundShop()
  const { logger, lines } = quietly()
  const noKey = { OPENAI_API_KEY: process.env.OPENAI_API_KEY, OPENAI_BASE_URL: process.env.OPENAI_BASE_URL }
  for (const name of Object.keys(noKey)) delete process.env[name]
  t.teardown(() => {
    for (const [name, value] of Object.entries(noKey)) if (value !== undefined) process.env[name] = value
  })
  const team = testTeam({ agents: [{ name: 'ann', tools: [refund, order] }], orchestration, logger })
  t.teardown(() => team.close())
  await team.execute('Refund 12')
  await team.execute('And 13')
  t.equal(refunds.length, 0)
  t.equal(lines.length, 1)
  t.match(lines[0], /^warn no model is configured, so the rehearsal model answers.* does not run.*: refund\./)
})

t.test('realTools: true runs all of them', async (t) => {
  const { refund, refunds } = refundShop()
  const { logger, lines } = quietly()
  const options = { agents: [{ name: 'ann', tools: [refund] }], orchestration, models: 'rehearsal' as const, logger }
  const team = testTeam({ ...options, rehearsal: { realTools: true } })
  t.teardown(() => team.close())
  await team.execute('Refund 12')
  t.equal(refunds.length, 1)
  t.same(lines, [])
})

t.test(
  'in the host, in a thread and in a thread of its own: what code calls beside a rehearsed model does not run',
  async (t) => {
    const { refund, refunds } = refundShop()
    const tools = [refund, { module: recordModule }, { module: recordModule, export: 'again', isolate: true }]
    const team = createTeam({
      agents: [{ name: 'ann', module: callerModule, tools }, { name: 'mia' }],
      orchestration,
      models: 'rehearsal',
      threads: { warmSpares: 0 },
      logger: quietly().logger,
    })
    t.teardown(() => team.close())
    const events = allOf(team)
    const { file, runs } = ledger(t)
    const call = async (tool: string, input: object) => {
      const message = { recipient: 'ann', content: asked(tool, input, 1), requiresResponse: true }
      return ((await team.sendMessage(message))!.structuredData as { outcomes: Call[] }).outcomes[0]!
    }
    const { output } = await call('refund', { orderId: '123' })
    t.ok(receipt.safeParse(output).success)
    t.match(await call('record', { file }), { output: /^\[rehearsal\] "record" was not run/ })
    t.match(await call('again', { file }), { output: /^\[rehearsal\] "again" was not run/ })
    t.same([refunds.length, runs()], [0, 0])
    t.same(
      started(events).map((event) => 'simulated' in event),
      [true, true, true],
    )
    for (const tool of ['refund', 'record', 'again'])
      t.match(await call(tool, {}), { code: 'TOOL_INPUT' }, `the input of ${tool} is checked as in life`)
  },
)

t.test('a team of code alone runs its tools until it asks the rehearsal model, and in other runs', async (t) => {
  const { refund, refunds } = refundShop()
  const code = defineAgent({
    async receive({ content }, context) {
      await context.tool(refund, { orderId: 'before' })
      if (content === 'ask') await context.complete({ prompt: 'Whom?' })
      await context.tool(refund, { orderId: 'after' })
    },
  })
  const options = { agents: [{ name: 'ann', tools: [refund] }], orchestration, logger: quietly().logger }
  const team = testTeam({ ...options, models: 'rehearsal' as const }, { modules: { ann: code } })
  t.teardown(() => team.close())
  await team.execute('ask')
  t.same(refunds, [{ orderId: 'before' }])
  await team.execute('go')
  t.same(refunds.slice(1), [{ orderId: 'before' }, { orderId: 'after' }])
})

t.test('models of tests that are no rehearsal run tools; the rehearsal model as one does not', async (t) => {
  const { refund, refunds } = refundShop()
  const agents = [{ name: 'ann', tools: [refund] }]
  const model = scriptedModel([{ toolCall: { name: 'refund', input: { orderId: '123' } } }, { reply: 'done' }])
  const scripted = testTeam({ agents, orchestration }, { model })
  const rehearsed = testTeam({ agents, orchestration }, { model: rehearsalModel() })
  t.teardown(() => Promise.all([scripted.close(), rehearsed.close()]))
  await scripted.execute('go')
  t.equal(refunds.length, 1)
  await rehearsed.execute('go')
  t.equal(refunds.length, 1)
})

t.test('a tool that needs approval is asked for as in life, and does not run', async (t) => {
  const paid: unknown[] = []
  const input = z.object({ eur: z.number() })
  const pay = defineTool({
    name: 'pay',
    description: 'Pays.',
    input,
    approval: true,
    run: (each) => void paid.push(each),
  })
  const team = testTeam({
    agents: [{ name: 'ann', tools: [pay] }],
    orchestration,
    models: 'rehearsal',
    logger: quietly().logger,
  })
  t.teardown(() => team.close())
  const run = team.launch('Pay')
  for await (const event of run.events({ types: ['question'] })) {
    if (event.type !== 'question') continue
    t.match(event.text, 'May agent "ann" call the tool "pay"')
    await run.answer(event.questionId, 'yes')
    break
  }
  t.match(await run.result, { success: true, finalOutput: /pay said .*"pay" was not run/ })
  t.same(paid, [])
})

t.test('built-in tools that only look say so', async (t) => {
  const all = [calculator, weather(), ...workspace({ root: t.testdir() })]
  const readOnly = all.filter((tool) => Reflect.get(tool, 'readOnly') === true).map(({ name }) => name)
  t.same(readOnly, ['calculator', 'weather', 'read_file', 'list_dir'])
})

t.test('wrong fields are refused by name', async (t) => {
  const tool = { name: 'a', description: 'a', input: z.object({}), run: () => 1 }
  for (const field of ['readOnly', 'outside', 'output'] as const)
    t.throws(() => defineTool({ ...tool, ...Object({ [field]: 'yes' }) }), {
      code: 'CONFIGURATION',
      message: new RegExp(`"${field}"`),
    })
  const wrong = (rehearsal: unknown) => () =>
    testTeam({ agents: [{ name: 'a' }], orchestration, ...Object({ rehearsal }) })
  t.throws(wrong({ realTools: 1 }), { code: 'CONFIGURATION', details: { path: 'rehearsal.realTools' } })
  t.throws(wrong({ tools: true }), { code: 'CONFIGURATION', message: /rehearsal\.tools/ })
})

t.test('rehearse() runs what only looks and is of this program; all with realTools', async (t) => {
  const { refund, order, refunds, looks } = refundShop()
  let abroad = 0
  const far = defineTool({
    name: 'far',
    description: 'Looks far away.',
    input: z.object({}),
    readOnly: true,
    outside: true,
    async run() {
      abroad += 1
      await new Promise((resolve) => setTimeout(resolve, 5)) // real time
      return 'seen'
    },
  })
  const caller = defineAgent({
    async receive(_message, context) {
      const { eur } = await context.tool(refund, { orderId: '123' })
      return `${eur > 0} ${await context.tool(order, { orderId: '123' })} ${await context.tool(far, {})}`
    },
  })
  const options: MultiAgentPatternOptions = { agents: [{ name: 'caller', tools: [refund, order, far] }], orchestration }
  const answers = new Set<string>()
  const plan = {
    query: 'go',
    seeds: 4,
    modules: { caller },
    check: (outcome: { ok: boolean; message?: { content: string } }) =>
      void answers.add(outcome.message?.content ?? ''),
  }
  const { outcomes, simulatedTools } = await rehearse(options, plan)
  t.match(outcomes, { done: 4 })
  t.same(simulatedTools, ['far', 'refund'])
  t.same([refunds.length, looks.length, abroad], [0, 4, 0])
  t.match([...answers], [/^true shipped \[rehearsal\] "far" was not run/])
  answers.clear()
  const real = await rehearse(options, { ...plan, realTools: true })
  t.match(real.outcomes, { done: 4 })
  t.same([real.simulatedTools, refunds.length, abroad], [[], 4, 4])
  t.same([...answers], ['true shipped seen'])
})
