/** Tools given inline: how they are defined, where they run, and what keeps them from work. */
import { setTimeout as delay } from 'node:timers/promises'
import t from 'tap'
import { z } from 'zod'
import {
  type AgentContext,
  ConfigurationError,
  type DramatisError,
  defineAgent,
  defineTool,
  type Tool,
  ToolInputError,
} from '../../src/index.ts'
import { testTeam } from '../../src/testing.ts'
import { needsPackages } from '../../src/tools/options.ts'
import { ask, gate, given, localTeam, never, outcomeOf } from '../kit/team.ts'
import { desk, recordModule } from './desk.ts'
import { adder, doing, refusal, toolEvents } from './tools.ts'

// Tools given inline: they run in the host, once for each call, whatever becomes of the agent's thread.

t.test('an agent calls a tool of its role, by its definition and by its name', async (t) => {
  const { tool, calls } = adder()
  const team = given(t, { roles: { ann: { tools: [tool] } } }).testTeam({
    ann: async (_message, context) => {
      const { sum } = await context.tool(tool, { a: 1, b: 2 })
      const again = await context.tool<typeof tool>('add', { a: sum })
      return `${sum} ${again.sum}`
    },
  })
  t.equal(await ask(team, 'ann'), '3 4')
  t.same(
    calls.map(({ a, b }) => [a, b]),
    [
      [1, 2],
      [3, 1],
    ],
  )
})

t.test("the team's tools are every agent's and the script's; a role's are its own", async (t) => {
  const shared = adder('shared')
  const own = adder('own')
  const team = given(t, {
    tools: [shared.tool],
    roles: { ann: { tools: [own.tool] } },
    script: async (script) => JSON.stringify(await script.tool(shared.tool, { a: 7 })),
  }).testTeam({
    ann: async (_message, context) => JSON.stringify(await context.tool(own.tool, { a: 1 })),
    bob: async (_message, context) => {
      const error = await refusal(context.tool(own.tool, { a: 1 }))
      return `${error.code} ${error.message}`
    },
  })
  t.equal(await ask(team, 'ann'), '{"sum":2}')
  t.match(await ask(team, 'bob'), /^CONFIGURATION Agent "bob" has no tool "own"\. It has shared\.$/)
  const result = await team.execute('go')
  t.equal(result.finalOutput, '{"sum":8}')
})

t.test('a tool that does not exist is refused with the nearest name', async (t) => {
  const team = given(t, { tools: [adder('search').tool] }).testTeam({
    ann: async (_message, context) => (await refusal(context.tool('serach', {}))).message,
  })
  t.equal(await ask(team, 'ann'), 'Agent "ann" has no tool "serach". Did you mean "search"? It has search.')
})

t.test('input that misses the schema is a ToolInputError with each path, and the tool does not run', async (t) => {
  const { tool, calls } = adder()
  const wrong: [unknown, RegExp][] = [
    [{ a: 'one' }, /misses its schema: a: /],
    [{ a: 1, b: null }, /misses its schema: b: /],
    [null, /misses its schema: /],
    ['text', /misses its schema: /],
    [undefined, /misses its schema: /],
    [[], /misses its schema: /],
  ]
  const team = given(t, { tools: [tool] }).testTeam({
    ann: async (_message, context) => {
      const errors: DramatisError[] = []
      for (const [input] of wrong) errors.push(await refusal(context.tool('add', input)))
      t.ok(errors.every((error) => error instanceof ToolInputError))
      for (const [i, [, text]] of wrong.entries()) t.match(errors[i]!.message, text)
      t.match(errors[0]!.details, { tool: 'add', agent: 'ann', issues: /^a: / })
      return 'went on'
    },
  })
  t.equal(await ask(team, 'ann'), 'went on')
  t.same(calls, [])
})

t.test('input that is no JSON is refused before it leaves the turn', async (t) => {
  const { tool, calls } = adder()
  const team = given(t, { tools: [tool] }).testTeam({
    ann: async (_message, context) => (await refusal(context.tool('add', { a: () => 1 }))).message,
  })
  t.match(await ask(team, 'ann'), /^input\.a is function; a JSON value is needed/)
  t.same(calls, [])
})

t.test('what a tool throws, and output that is no JSON or too large, is a ToolFailedError', async (t) => {
  const boom = new TypeError('boom')
  const outputs: Record<string, () => unknown> = {
    throws: () => {
      throw boom
    },
    rejects: () => Promise.reject('a text'),
    gives_code: () => ({ rows: [{ here: 1 }, () => 1] }),
    gives_much: () => 'x'.repeat(70_000),
    refuses: () => {
      throw new ToolInputError('the city does not exist', { city: 'Atlantis' })
    },
  }
  const team = given(t, {
    tools: Object.entries(outputs).map(([name, run]) => doing(run, { name })),
    communication: { maxMessageBytes: 65_536 },
  }).testTeam({
    ann: async ({ content }, context) => {
      const { code, message, cause } = await refusal(context.tool(content, {}))
      return `${code} ${message} ${cause instanceof Error ? cause.message : ''}`
    },
  })
  t.match(
    await ask(team, 'ann', 'throws'),
    /^TOOL_FAILED Tool "throws", called by agent "ann", failed: TypeError: boom .*boom/,
  )
  t.match(await ask(team, 'ann', 'rejects'), /^TOOL_FAILED .*failed: a text/)
  t.match(await ask(team, 'ann', 'gives_code'), /^TOOL_FAILED .* what is no JSON: output\.rows\[1\] is function/)
  t.match(await ask(team, 'ann', 'gives_much'), /^TOOL_FAILED .* 70\d\d\d bytes; at most 65536/)
  t.match(await ask(team, 'ann', 'refuses'), /^TOOL_INPUT the city does not exist/)
})

t.test('what a tool returns is what its agent gets: all of JSON, and nothing', async (t) => {
  const values = [null, 0, '', false, [], {}, { a: [1, { b: null }] }, 'ü中', undefined]
  const team = given(t, { tools: values.map((value, i) => doing(() => value, { name: `give${i}` })) }).testTeam({
    ann: async ({ content }, context) => {
      const value = await context.tool(`give${content}`, {})
      return value === undefined ? 'undefined' : JSON.stringify(value)
    },
  })
  for (const [i, value] of values.entries())
    t.equal(await ask(team, 'ann', `${i}`), JSON.stringify(value) ?? 'undefined')
})

t.test('a tool that takes too long is given up, and its signal says so', async (t) => {
  const signals: AbortSignal[] = []
  const slow = doing(
    ({ signal }) => {
      signals.push(signal)
      return never
    },
    { timeoutMs: 500 },
  )
  const team = given(t, { tools: [slow] }).testTeam({
    ann: async (_message, context) => {
      const error = await refusal(context.tool(slow, {}))
      return `${error.code} ${error.message}`
    },
  })
  const events = toolEvents(team)
  const reply = outcomeOf(ask(team, 'ann'))
  await team.clock.advance(499)
  t.equal(reply.settled, false)
  t.equal(signals[0]!.aborted, false)
  await team.clock.advance(1)
  await team.clock.runToIdle()
  t.match(reply.value, /^TOOL_TIMEOUT Tool "act", called by agent "ann", did not end within 500 ms/)
  t.match(signals[0]!.reason, { code: 'TOOL_TIMEOUT' })
  t.match(events, [
    { type: 'tool.started' },
    { type: 'tool.finished', durationMs: 500, error: { code: 'TOOL_TIMEOUT' } },
  ])
})

t.test('half a minute is the time limit of a tool that has none of its own', async (t) => {
  const slow = doing(() => never)
  const team = given(t, { tools: [slow] }).testTeam({
    ann: async (_message, context) => (await refusal(context.tool(slow, {}))).code,
  })
  const reply = outcomeOf(ask(team, 'ann'))
  await team.clock.advance(29_999)
  t.equal(reply.settled, false)
  await team.clock.advance(1)
  await team.clock.runToIdle()
  t.equal(reply.value, 'TOOL_TIMEOUT')
})

t.test('what stops the turn stops the tool', async (t) => {
  const { opened: began, open } = gate()
  let signal: AbortSignal | undefined
  const slow = doing((context) => {
    signal = context.signal
    open()
    return never
  })
  const team = localTeam(t, { ann: (_message, context) => context.tool(slow, {}) }, { tools: [slow] })
  const events = toolEvents(team)
  const run = team.launch('go')
  await began
  await run.cancel('enough')
  await run.result
  await team.clock.advance(0)
  t.equal(signal!.aborted, true)
  t.match(events.at(-1), { type: 'tool.finished', error: { code: /./ } })
})

t.test(
  'events tell of each call, with what went in and came out; neither the trace nor the log has that',
  async (t) => {
    const lines: string[] = []
    const write = (fields: object, text: string) => void lines.push(JSON.stringify(fields) + text)
    const { tool } = adder()
    const talker = doing(
      ({ log, progress, agent, runId }) => {
        progress('half')
        log.info({ step: 2 }, `for ${agent} ${runId.length > 0}`)
        return 'x'.repeat(70_000)
      },
      { name: 'talk' },
    )
    const team = given(t, {
      tools: [tool, talker],
      logger: { debug: write, info: write, warn: write, error: write },
    }).testTeam({
      ann: async (_message, context) => {
        await context.tool(tool, { a: 41 })
        await context.tool(talker, {})
        await refusal(context.tool('add', {}))
        return 'ok'
      },
    })
    const events = toolEvents(team)
    const result = await team.execute('go')
    const [started, finished, , progress] = events
    t.match(started, { type: 'tool.started', agent: 'ann', tool: 'add', input: { a: 41 }, runId: result.runId })
    t.match(finished, { type: 'tool.finished', callId: started!.callId, tool: 'add', output: { sum: 42 }, error: null })
    t.match(progress, { type: 'tool.progress', tool: 'talk', note: 'half' })
    t.match(events[4], { type: 'tool.finished', tool: 'talk', output: `"${'x'.repeat(65_535)}…` })
    t.match(events.at(-1), { type: 'tool.finished', tool: 'add', output: undefined, error: { code: 'TOOL_INPUT' } })
    t.equal(events.length, 7)
    const traced = result.orchestrationTrace.events.filter(({ eventType }) => eventType.startsWith('tool.'))
    t.equal(traced.length, 7)
    t.notMatch(JSON.stringify(traced), /41|sum/)
    t.match(traced[1], { eventType: 'tool.finished', agent: 'ann', details: { tool: 'add', error: null } })
    t.match(lines.join(), `"step":2,"agent":"ann","runId":"${result.runId}","tool":"talk"`)
    t.notMatch(lines.join(), /41|sum/)
  },
)

t.test('a tool that was under way when its agent died runs once, and the next attempt gets its output', async (t) => {
  const { opened: began, open } = gate()
  const { opened: released, open: release } = gate()
  let runs = 0
  const slow = doing(async () => {
    runs += 1
    open()
    await released
    return runs
  })
  const team = given(t, { tools: [slow] }).team({
    ann: async (_message, context) => `${context.attempt}: ${await context.tool(slow, {})}`,
  })
  const reply = outcomeOf(ask(team, 'ann'))
  await began
  team.crash('ann')
  await team.clock.advance(1_000)
  t.equal(reply.settled, false)
  release()
  await delay(0)
  await team.clock.advance(1)
  t.equal(reply.value, '2: 1')
  t.equal(runs, 1)
})

t.test('an output that came while the agent was dead is taken from the log', async (t) => {
  const { opened: began, open } = gate()
  const { opened: released, open: release } = gate()
  const { tool, calls } = adder()
  let runs = 0
  const slow = doing(async () => {
    runs += 1
    open()
    await released
    return 'late'
  })
  const team = given(t, { tools: [tool, slow], supervision: { backoff: { baseMs: 1_000, capMs: 1_000 } } }).team({
    ann: async (_message, context) => {
      const [first, second] = await Promise.all([context.tool(tool, { a: 1 }), context.tool(slow, {})])
      return `${context.attempt} ${first.sum} ${second}`
    },
  })
  const reply = outcomeOf(ask(team, 'ann'))
  await began
  team.crash('ann')
  release()
  await delay(0)
  await team.clock.advance(10_000)
  t.equal(reply.value, '2 2 late')
  t.same([runs, calls.length], [1, 1])
})

t.test(
  'the key of a call is the same when its turn is tried again, and differs from that of any other call',
  async (t) => {
    const keys: string[][] = []
    const { tool, calls } = adder()
    const flaky = defineTool({
      name: 'flaky',
      description: 'Fails at first.',
      input: z.object({}),
      run(_input, { idempotencyKey }) {
        keys.push([idempotencyKey])
        if (keys.length === 1) throw new Error('not yet')
        return 'ok'
      },
    })
    const team = given(t, { tools: [tool, flaky], supervision: { onHandlerError: 'retry' } }).testTeam({
      ann: async (_message, context) => {
        await Promise.all([context.tool(tool, { a: 1 }), context.tool(tool, { a: 1 }), context.tool(tool, { a: 2 })])
        return context.tool(flaky, {})
      },
    })
    t.equal(await ask(team, 'ann'), 'ok')
    t.equal(keys.length, 2)
    t.equal(keys[0]![0], keys[1]![0], 'of the one that failed and ran again')
    t.equal(calls.length, 3, 'what had succeeded does not run again')
    t.equal(new Set([...calls.map(({ key }) => key), keys[0]![0]]).size, 4)
    await ask(team, 'ann')
    t.equal(new Set(calls.map(({ key }) => key)).size, 6, 'another message has keys of its own')
  },
)

t.test('agents that get the same message have keys of their own', async (t) => {
  const { tool, calls } = adder()
  const receive = async (_message: unknown, context: AgentContext) => {
    await context.tool(tool, { a: 1 })
  }
  const team = localTeam(t, { ann: receive, bob: receive }, { tools: [tool] })
  await team.sendMessage({ recipient: ['ann', 'bob'], content: 'add' })
  await team.clock.runToIdle()
  t.equal(calls.length, 2)
  t.equal(new Set(calls.map(({ key }) => key)).size, 2)
})

t.test('two hundred calls at once', async (t) => {
  const { tool, calls } = adder()
  const team = given(t, { tools: [tool] }).testTeam({
    ann: async (_message, context) => {
      const sums = await Promise.all(Array.from({ length: 200 }, (_, a) => context.tool(tool, { a, b: 0 })))
      return `${sums.every(({ sum }, a) => sum === a)}`
    },
  })
  t.equal(await ask(team, 'ann'), 'true')
  t.equal(calls.length, 200)
})

t.test('a turn that waits for a tool keeps its place among maxConcurrentAgents', async (t) => {
  const { opened: released, open: release } = gate()
  const slow = doing(async () => {
    await released
    return 1
  })
  const order: string[] = []
  const team = given(t, {
    tools: [slow],
    maxConcurrentAgents: 1,
    script: async (script) => {
      const first = script.request('ann', 'go')
      await script.request('bob', 'go')
      await first
      return 'done'
    },
  }).testTeam({
    ann: async (_message, context) => {
      await context.tool(slow, {})
      order.push('ann')
    },
    bob: () => void order.push('bob'),
  })
  const result = team.execute('go')
  await team.clock.advance(1_000)
  t.same(order, [])
  release()
  await result
  t.same(order, ['ann', 'bob'])
})

// What `defineTool` takes and refuses, at once.

const good = { name: 'search', description: 'Searches.', input: z.object({ query: z.string() }), run: () => 'found' }

function refusalOf(fields: object): ConfigurationError {
  try {
    defineTool({ ...good, ...fields } as typeof good)
  } catch (error) {
    if (error instanceof ConfigurationError) return error
    throw error
  }
  throw new Error('it was taken')
}

t.test('a tool is what it was defined as, and frozen', async (t) => {
  const tool: Tool<{ query: string }, string> = defineTool(good)
  t.match(tool, { name: 'search', description: 'Searches.', timeoutMs: 30_000, idempotent: false })
  t.ok(Object.isFrozen(tool))
  t.match(tool, {
    inputSchema: { type: 'object', properties: { query: { type: 'string' } }, required: ['query'] },
  })
  t.notOk('$schema' in (tool as { inputSchema?: object }).inputSchema!)
})

t.test('a name that some model does not take is refused', async (t) => {
  for (const name of ['', '1st', 'a b', 'a.b', 'größe', 'x'.repeat(65), 5, undefined])
    t.match(refusalOf({ name }), { details: { path: 'name' }, message: /^defineTool: "name": it is / })
  for (const name of ['a', '_', 'web_search', 'Web-Search2', 'x'.repeat(64)]) t.ok(defineTool({ ...good, name }))
})

t.test('every other field is checked too', async (t) => {
  const wrong: Record<string, unknown[]> = {
    description: ['', ' ', 5, undefined],
    input: [undefined, {}, { '~standard': { validate: () => ({ value: 1 }) } }, z.string(), z.object({ at: z.date() })],
    run: [undefined, 'code'],
    idempotent: [1, 'yes'],
    precondition: [true, 'installed'],
    timeoutMs: [0, -1, Number.NaN, Number.POSITIVE_INFINITY, '5'],
  }
  for (const [path, values] of Object.entries(wrong))
    for (const value of values) t.match(refusalOf({ [path]: value }), { details: { path } }, `${path} ${String(value)}`)
  t.match(refusalOf({ input: z.string() }).message, /"search" takes string; a tool takes an object/)
  t.match(refusalOf({ input: z.union([z.object({}), z.object({ a: z.string() })]) }).message, /takes something else/)
  t.match(refusalOf({ input: z.object({ at: z.date() }) }).message, /has no JSON schema for it: .*Date/)
  t.match(refusalOf({ timeoutMS: 5 }).message, /"timeoutMS": there is no such field; there are name, /)
  t.match(refusalOf({ inputSchema: z.object({}) }).message, /"inputSchema": .* \(did you mean "input"\?\)/)
  t.match(refusalOf({ execute: () => 1 }).message, /"execute": .* \(did you mean "run"\?\)/)
  t.throws(() => defineTool(null as unknown as typeof good), ConfigurationError)
})

t.test('a tool whose input has no properties is sent with none', (t) => {
  const inputs = [z.record(z.string(), z.number()), z.object({}), z.looseObject({})]
  for (const input of inputs)
    t.match(defineTool({ ...good, input, run: () => '' }), { inputSchema: { type: 'object', properties: {} } })
  t.end()
})

// A tool that cannot work where it is given says so before any model calls it.

const orchestration = { strategy: 'sequential' } as const

function needing(precondition: () => void) {
  return defineTool({ name: 'draw', description: 'Draws.', input: z.object({}), precondition, run: () => 'drawn' })
}

t.test('a team is not created with a tool that cannot work', async (t) => {
  const modules = { ann: defineAgent({ receive: () => 'done' }) }
  const draw = needing(() => {
    throw new Error('no pencil')
  })
  const refusal = { code: 'CONFIGURATION', message: /the tool "draw" cannot work here: no pencil/ }
  t.throws(() => testTeam({ agents: [{ name: 'ann', tools: [draw] }], orchestration }, { modules }), {
    ...refusal,
    details: { path: 'agents[0].tools[0]', tool: 'draw' },
  })
  t.throws(() => testTeam({ agents: [{ name: 'ann' }], tools: [draw], orchestration }, { modules }), {
    ...refusal,
    details: { path: 'tools[0]' },
  })
})

t.test('a tool that can work is asked when the team is created', async (t) => {
  let asked = 0
  const draw = needing(() => void asked++)
  const modules = { ann: defineAgent({ receive: (_, context) => context.tool('draw', {}) as Promise<string> }) }
  const team = testTeam({ agents: [{ name: 'ann', tools: [draw] }], tools: [draw], orchestration }, { modules })
  t.teardown(() => team.close())
  t.ok(asked > 0)
  t.equal((await team.execute('go')).finalOutput, 'drawn')
})

for (const isolate of [false, true]) {
  t.test(`a tool of a module is asked in its thread, ${isolate ? 'its own' : "the agent's"}`, async (t) => {
    const { team } = desk(t, [{ module: recordModule, export: 'unusable', isolate }])
    t.match(await refusal(team.start()), {
      code: 'CONFIGURATION',
      message: /agents\[0\]\.tools\[0\]\.export: the tool "unusable" cannot work here: no paper/,
    })
  })
}

t.test('packages that are not installed are named, with the command that installs them', async (t) => {
  t.doesNotThrow(() => needsPackages('paint', ['tap', 'zod', '@standard-schema/spec']))
  t.throws(() => needsPackages('paint', ['zod', 'no-such-paint', '@no-such/brush']), {
    constructor: ConfigurationError,
    message:
      'paint needs no-such-paint, @no-such/brush, which are not installed: npm install no-such-paint @no-such/brush',
    details: { packages: ['no-such-paint', '@no-such/brush'] },
  })
})
