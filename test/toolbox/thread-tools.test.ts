/** Tools in modules, which run in the agent's own thread, and outputs that are no JSON. */
import t from 'tap'
import { defineAgent } from '../../src/index.ts'
import rows, { rowsOf } from '../fixtures/tools/rows.ts'
import { ask, gate, given, localTeam, type OpenTeam, outcomeOf } from '../kit/team.ts'
import { type Call, desk, ledger, recordModule, toolModule, typedModule, underWay, watchThreads } from './desk.ts'
import { adder, doing, refusal, toolEvents } from './tools.ts'

// Tools in modules: they run in the agent's own thread, as steps of its turn.

const record = { module: recordModule }
const again = { module: recordModule, export: 'again' }

t.test('a tool in a module runs in the thread of its agent', async (t) => {
  const { team, call } = desk(t, [record, { module: typedModule, export: 'shout' }])
  const events = toolEvents(team)
  const { file, runs } = ledger(t)
  const { outcomes } = await call('record', { file })
  t.match(outcomes, [{ output: { runs: 1, threadId: Number } }])
  t.not((outcomes[0]!.output as { threadId: number }).threadId, 0)
  t.match((await call('shout', { text: 'hey' })).outcomes, [{ output: 'HEY' }])
  t.equal(runs(), 1)
  t.match(events, [
    { type: 'tool.started', agent: 'ann', tool: 'record', input: { file } },
    { type: 'tool.progress', tool: 'record', note: 'run 1' },
    { type: 'tool.finished', tool: 'record', durationMs: Number, output: { runs: 1, threadId: Number }, error: null },
    { type: 'tool.started', tool: 'shout', input: { text: 'hey' } },
    { type: 'tool.finished', tool: 'shout', output: 'HEY' },
  ])
})

t.test('input, errors and the time limit are as in the host', async (t) => {
  const { call } = desk(t, [record, { module: recordModule, export: 'hasty' }])
  const { file } = ledger(t)
  t.match((await call('record', { file: 5 })).outcomes, [{ code: 'TOOL_INPUT', message: /misses its schema: file: / }])
  t.match((await call('record', { file, act: 'throw' })).outcomes, [
    { code: 'TOOL_FAILED', message: /failed: RangeError: thrown by the tool/ },
  ])
  t.match((await call('hasty', { file, act: 'wait' })).outcomes, [
    { code: 'TOOL_TIMEOUT', message: /did not end within 200 ms/ },
  ])
})

t.test('a line that a tool writes goes to the log with the names of agent and tool', async (t) => {
  const lines: object[] = []
  const write = (fields: object, text: string) => void lines.push({ ...fields, text })
  const { call } = desk(t, [record], { logger: { debug: write, info: write, warn: write, error: write } })
  await call('record', { file: ledger(t).file, act: 'print' })
  t.match(lines.at(-1), { agent: 'ann', tool: 'record', runs: 1, text: 'a line of the tool' })
  t.notMatch(JSON.stringify(lines), 'run 1', 'what it says of its progress is no line')
})

t.test('a thread that dies half-way: what may not run twice is an unknown outcome for the sender', async (t) => {
  const { call } = desk(t, [record])
  const { file, runs } = ledger(t)
  const error = await refusal(call('record', { file, act: 'die' }))
  t.equal(error.code, 'OUTCOME_UNKNOWN')
  t.match(error.message, /died while its tool "record" was under way/)
  t.match(error.details, { tool: 'record' })
  t.equal(runs(), 1)
  t.match((await call('record', { file })).outcomes, [{ output: { runs: 2 } }], 'and the agent goes on')
})

t.test('a thread that dies half-way: what is idempotent runs again, under the same key', async (t) => {
  const { team, call } = desk(t, [again])
  const events = toolEvents(team)
  const { file, runs } = ledger(t)
  const { attempt, outcomes } = await call('again', { file, act: 'die' })
  t.match([attempt, outcomes], [2, [{ output: { runs: 2 } }]])
  t.equal(runs(), 2)
  t.equal(new Set(events.map(({ callId }) => callId)).size, 1)
})

t.test(
  'a thread that dies while the host runs its tool: it runs once, and the next attempt gets its output',
  async (t) => {
    const threads = watchThreads(t)
    const { opened: released, open: release } = gate()
    let runs = 0
    const slow = doing(async ({ progress }) => {
      runs += 1
      progress('begun')
      await released
      return { runs }
    })
    const { team, call } = desk(t, [slow])
    await team.start()
    const [agent] = threads
    const begun = underWay(team)
    const reply = call('act', {})
    await begun
    const crashed = new Promise((resolve) => {
      team.events.subscribe((event) => void (event.type === 'agent.crashed' && resolve(event)))
    })
    await agent!.terminate()
    await crashed
    release()
    t.match(await reply, { attempt: 2, outcomes: [{ output: { runs: 1 } }] })
    t.equal(runs, 1)
  },
)

t.test('two hundred calls at once in a thread', async (t) => {
  const { call } = desk(t, [record])
  const { file, runs } = ledger(t)
  const { outcomes } = await call('record', { file }, 200)
  t.equal(outcomes.filter(({ output }) => output).length, 200)
  t.equal(runs(), 200)
})

t.test('what a module does not have is named when its agent starts', async (t) => {
  const wrong: [object, RegExp][] = [
    [
      { module: recordModule, export: 'noTool' },
      /^agents\[0\]\.tools\[0\]\.export: .* an object, which is no tool as its export "noTool"\. Tools among its exports: /,
    ],
    [{ module: recordModule, export: 'nothing' }, /has nothing as its export "nothing"/],
    [{ module: new URL('./not-there.js', recordModule) }, /^agents\[0\]\.tools\[0\]\.module: there is no file/],
    [
      { module: new URL('./broken.js', recordModule) },
      /^agents\[0\]\.tools\[0\]\.module: the module of a tool of "ann" throws when it is imported: .*broken while/,
    ],
  ]
  for (const [tool, text] of wrong) {
    const { team } = desk(t, [tool as typeof record])
    const error = await refusal(team.start())
    t.equal(error.code, 'CONFIGURATION')
    t.match(error.message, text)
    await team.close()
  }
})

t.test('two tools of one name, and a name that none has, are named when the agent starts', async (t) => {
  const twice = desk(t, [record, record])
  t.match(await refusal(twice.team.start()), {
    code: 'CONFIGURATION',
    message:
      'agents[0].tools[1]: a tool named "record" cannot be told apart: the tool at agents[0].tools[0] has it. Rename it.',
  })
  const unknown = desk(t, [record, 'recrod'])
  t.match(await refusal(unknown.team.start()), {
    code: 'CONFIGURATION',
    message: /^agents\[0\]\.tools\[1\]: this role has no tool and no verb "recrod"\. Did you mean "record"\?/,
  })
  const known = desk(t, [record, 'record', 'delegate'])
  await known.team.start()
  const shared = desk(t, ['record'], { tools: [record, 'record'] })
  await shared.team.start()
})

t.test(
  'under a virtual clock a tool in a module runs in the host, as its agent does, and is a step all the same',
  async (t) => {
    const { opened: began, open } = gate()
    const { file, runs } = ledger(t)
    const team = given(t, { roles: { ann: { tools: [record] } } }).team({
      ann: async (_message, context) => {
        const { runs } = (await context.tool('record', { file })) as { runs: number }
        open()
        await context.sleep(1_000)
        return `${context.attempt}: ${runs}`
      },
    })
    const reply = outcomeOf(team.sendMessage({ recipient: 'ann', content: '', requiresResponse: true }))
    await Promise.all([began, team.clock.advance(0)])
    await crashAndRevive(team)
    await team.clock.runToIdle()
    t.match(reply.value, { content: '2: 1' })
    t.equal(runs(), 1, 'its output comes from the log')
  },
)

t.test('a turn that is tried again gets the output of each call, in whatever order it calls', async (t) => {
  const team = given(t, { tools: [{ module: typedModule, export: 'shout' }] }).team({
    ann: async (_message, context) => {
      const texts = context.attempt === 1 ? ['one', 'two', 'two'] : ['two', 'one', 'two']
      const outputs: unknown[] = []
      for (const text of texts) outputs.push(await context.tool('shout', { text }))
      await context.sleep(1_000)
      return outputs.join()
    },
  })
  const events = toolEvents(team)
  const reply = outcomeOf(team.sendMessage({ recipient: 'ann', content: '', requiresResponse: true }))
  while (events.length < 6) await team.clock.advance(0)
  await crashAndRevive(team)
  await team.clock.runToIdle()
  t.match(reply.value, { content: 'TWO,ONE,TWO' })
  t.equal(events.length, 6, 'none has run again')
})

t.test('a tool that its turn is told to stop is told too', async (t) => {
  const { file } = ledger(t)
  const team = given(t, { roles: { ann: { tools: [record] } } }).testTeam({
    ann: defineAgent({
      receive: async (_message, context) => {
        const { code } = await refusal(context.tool('record', { file, act: 'wait' }))
        return code
      },
    }),
  })
  const events = toolEvents(team)
  const run = team.launch('go')
  while (events.length === 0) await team.clock.advance(0)
  await team.clock.advance(70)
  await run.cancel('enough')
  await team.clock.advance(0)
  t.match(events.at(-1), {
    type: 'tool.finished',
    tool: 'record',
    durationMs: 70,
    error: { code: /RUN_ABORTED|CANCELLED/ },
  })
})

t.test('agents that agents make have the tools of the team, and name or load their own', async (t) => {
  const { tool } = adder('shared')
  const { file } = ledger(t)
  const team = given(t, {
    tools: [tool],
    roles: { ann: { trust: 'privileged' } },
    later: {
      kid: async (_message, context) => {
        const { sum } = await context.tool(tool, { a: 1 })
        const { runs } = (await context.tool('record', { file })) as { runs: number }
        return `${sum} ${runs}`
      },
    },
  }).team({
    ann: async ({ content }, context) => {
      const tools = JSON.parse(content) as [string]
      await context.spawn({ name: 'kid', tools })
      return (await context.request('kid', 'go')).content
    },
  })
  const ask = async (tools: unknown) =>
    (await team.sendMessage({ recipient: 'ann', content: JSON.stringify(tools), requiresResponse: true }))!.content
  t.equal(await ask([{ module: recordModule.href }, 'shared']), '2 1')
  for (const [tools, text] of [
    [['shraed'], /role\.tools\[0\]: this role has no tool and no verb "shraed"\. Did you mean "shared"/],
    [[{ module: './x.js' }], /role\.tools\[0\]\.module: got "\.\/x\.js"/],
    [[{ module: recordModule.href, isolate: true, env: ['HOME'] }], /role\.tools\[0\]\.env: .* no environment/],
    [[5], /role\.tools\[0\]: got 5/],
  ] as const)
    t.match((await refusal(ask(tools))).message, text)
})

/** Ends the life of "ann", and waits for the next one: what that imports takes no time of the clock. */
async function crashAndRevive(team: OpenTeam): Promise<void> {
  team.crash('ann')
  await team.clock.advance(0)
  await team.host.lifecycle.ready(team.agent('ann'))
}

// What tools return that is no JSON as it stands: the same comes of it wherever they run, and of a step too.

const row = { id: 7, at: '1970-01-01T00:00:00.000Z' }
const GIVEN: Record<string, unknown> = {
  date: '1970-01-01T00:00:00.000Z',
  rows: [row, row],
  amount: { total: { euro: 2.5, at: '1970-01-01T00:00:00.001Z' } },
  boxed: { n: 5, s: 'text', list: [true] },
  map: { byId: { 1: '1970-01-01T00:00:00.000Z', two: [3] } },
  pairs: [['1970-01-01T00:00:00.000Z', row]],
  set: [1],
  bytes: { type: 'Buffer', data: [104, 105] },
  invalid: { at: null },
  bare: { at: '1970-01-01T00:00:00.000Z' },
  proto: JSON.parse('{"__proto__": {"a": 1}}'),
}
const REFUSED: Record<string, string> = {
  function: 'rows[0].run is function. Return strings,',
  bigint: 'rows[0].total is bigint. Return it as a string, or as a number.',
  inside: 'run is function. Return strings,',
  promise: '[0] is a Promise. Await it.',
  error: 'why is a RangeError. Return strings,',
  nan: 'mean is NaN. ',
  hole: '[1] is undefined. ',
  symbol: 'kind is symbol. ',
  hidden: 'it is a Hidden. ',
  cycle: 'back.to is a cycle. Leave out what leads back.',
}

const module = toolModule('rows')
const PLACES = { 'the host': rows, "the agent's thread": { module }, 'a thread of its own': { module, isolate: true } }

for (const [place, tool] of Object.entries(PLACES)) {
  t.test(`a tool in ${place} gives its agent what JSON makes of what it returns`, async (t) => {
    const { call } = desk(t, [tool])
    for (const [kind, output] of Object.entries(GIVEN))
      t.same((await call('rows', { kind })).outcomes, [{ output }], kind)
  })

  t.test(`a tool in ${place} that returns what JSON cannot say fails with its name and the path`, async (t) => {
    const { call } = desk(t, [tool])
    for (const [kind, says] of Object.entries(REFUSED)) {
      const [outcome] = (await call('rows', { kind })).outcomes as [Call]
      t.equal(outcome.code, 'TOOL_FAILED', kind)
      const where = says.startsWith(' ') || says.startsWith('[') ? `output${says}` : `output.${says}`
      t.ok(outcome.message?.startsWith(`Tool "rows" gave agent "ann" what is no JSON: ${where}`), kind)
    }
    t.match((await call('rows', { kind: 'throws' })).outcomes, [{ code: 'TOOL_FAILED', message: /Error: not now$/ }])
  })
}

t.test('the output of a tool is typed as JSON makes it', async (t) => {
  const tool = doing(() => ({
    at: new Date(0),
    list: [{ on: new Date(0) }],
    any: 5 as unknown,
    map: new Map([['a', new Date(0)]]),
    set: new Set([1]),
    show() {},
  }))
  const output = { at: 'text', list: [{ on: 'text' }], any: 5, map: { a: 'text' }, set: [1] }
  const typed: (typeof tool)['~types'] = { input: {}, output }
  t.ok(typed)
})

t.test('a step gives what JSON makes of its result, in the first attempt and in a later one', async (t) => {
  const seen: unknown[] = []
  const team = given(t, { supervision: { onHandlerError: 'retry' } }).testTeam({
    ann: async ({ content }, context) => {
      seen.push(await context.step('read', () => rowsOf(content)))
      if (context.attempt === 1) throw new Error('once more')
      return 'done'
    },
  })
  for (const [kind, value] of Object.entries(GIVEN)) {
    await ask(team, 'ann', kind)
    t.same(seen.splice(0), [value, value], kind)
  }
})

t.test('a step whose result JSON cannot say fails with the path', async (t) => {
  const team = localTeam(t, {
    ann: async ({ content }, context) => {
      const thrown: unknown = await context.step('read', () => rowsOf(content)).catch((error) => error)
      return thrown instanceof Error ? thrown.message : 'it has not failed'
    },
  })
  for (const [kind, says] of Object.entries(REFUSED)) {
    const [what] = says.split('. ')
    t.match(await ask(team, 'ann', kind), `${what}; a JSON value is needed`, kind)
  }
})
