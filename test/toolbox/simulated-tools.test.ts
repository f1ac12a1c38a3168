/** Tools where the rehearsal model answers: those that change something do not run, whatever way they are called. */
import t from 'tap'
import { z } from 'zod'
import {
  createTeam,
  defineAgent,
  defineTool,
  type MultiAgentPatternOptions,
  type RuntimeEvent,
} from '../../src/index.ts'
import { rehearsalModel, rehearse, scriptedModel, testTeam } from '../../src/testing.ts'
import { calculator, weather, workspace } from '../../src/tools/index.ts'
import { quietly } from '../models/notices.ts'
import { asked, type Call, callerModule, ledger, recordModule } from './desk.ts'

const receipt = z.object({ refundId: z.string(), eur: z.number().min(1).max(50) })

/** A tool with an effect, and one that only looks. */
function shop() {
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

function heard(team: { events: { subscribe(next: (event: RuntimeEvent) => void): unknown } }): RuntimeEvent[] {
  const events: RuntimeEvent[] = []
  team.events.subscribe((event) => void events.push(event))
  return events
}

t.test(
  'a rehearsal model runs what is readOnly; what is not is answered from its output schema, and a notice names it',
  async (t) => {
    const { refund, order, refunds, looks } = shop()
    const { logger, lines } = quietly()
    const agents = [{ name: 'ann', tools: [refund, order] }]
    const team = testTeam({ agents, orchestration, models: 'rehearsal', logger })
    t.teardown(() => team.close())
    const events = heard(team)
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
  const { refund, order, refunds } = shop()
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
  const { refund, refunds } = shop()
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
    const { refund, refunds } = shop()
    const tools = [refund, { module: recordModule }, { module: recordModule, export: 'again', isolate: true }]
    const team = createTeam({
      agents: [{ name: 'ann', module: callerModule, tools }, { name: 'mia' }],
      orchestration,
      models: 'rehearsal',
      threads: { warmSpares: 0 },
      logger: quietly().logger,
    })
    t.teardown(() => team.close())
    const events = heard(team)
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
  const { refund, refunds } = shop()
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
  const { refund, refunds } = shop()
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
  const { refund, order, refunds, looks } = shop()
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
