/** Models at real addresses: keys, places, and agents that want the keys. */

import { inspect } from 'node:util'
import t from 'tap'
import type { Logger, RuntimeEvent } from '../../src/index.ts'
import { LimitNotices } from '../../src/runtime/logging/limit-notices.ts'
import { lineLogger } from '../../src/runtime/logging/logger.ts'
import { MultiAgentPattern, type MultiAgentPatternOptions } from '../../src/team.ts'
import { testTeam, virtualClock } from '../../src/testing.ts'
import { type ModelServer, modelServer } from '../fixtures/model-server.ts'
import { type Answer, errorBody } from '../fixtures/model-wire.ts'
import { howMany } from '../how-many.ts'
import { gate, given, OpenTeam, silent } from '../kit/team.ts'
import { doing } from '../toolbox/tools.ts'
import { calls, FakeModel } from './fake-model.ts'
import { killAt } from './killed-turns.ts'
import { modelTeam, ThreadTeam } from './teams.ts'

// Teams whose models are reached by their address, through the openai client and a server that speaks its API.

type Test = Pick<typeof t, 'teardown'>

const KEY = 'key-of-the-team-1'
const at = ({ baseURL }: ModelServer, model = 'small') => ({ model, baseURL, apiKey: KEY })

/** One role without code. */
function teamAt(t: Test, server: ModelServer, more: Partial<MultiAgentPatternOptions> = {}) {
  const team = testTeam({
    agents: [{ name: 'ann', systemPrompt: 'Be brief.', temperature: 0.5, maxOutputTokens: 99 }],
    orchestration: { strategy: 'sequential' },
    models: { default: at(server) },
    logger: silent,
    ...more,
  })
  t.teardown(() => team.close())
  return team
}

t.test('a role is played by a model at its address', async (t) => {
  const server = await modelServer(t)
  server.answer({ text: 'Forty-two.', usage: { inputTokens: 30, outputTokens: 4 } })
  const result = await teamAt(t, server).execute('What is the answer?')
  t.equal(result.finalOutput, 'Forty-two.')
  t.match(result.totalTokenUsage, { inputTokens: 30, outputTokens: 4, totalTokens: 34, calls: 1 })
  t.equal(result.rehearsed, false)
  const [call] = server.calls
  t.equal(call?.key, KEY)
  t.match(call?.body, { model: 'small', temperature: 0.5, max_tokens: 99 })
  t.match(call?.body.messages, [
    { role: 'system', content: /^Be brief\./ },
    { role: 'user', content: /What is the answer\?/ },
  ])
})

t.test('each call of a model has an idempotency key of its own', async (t) => {
  const server = await modelServer(t)
  server.always('Yes.')
  const team = teamAt(t, server)
  for (const query of ['Is it so?', 'Is it so?', 'And now?']) await team.execute(query)
  const keys = server.calls.map(({ headers }) => headers['idempotency-key'])
  t.equal(keys.length, 3)
  t.equal(new Set(keys).size, 3)
  for (const key of keys) t.match(key, /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/)
})

t.test('the key of a call is the same when it is made again, and never that of another agent or call', async (t) => {
  const server = await modelServer(t)
  server.always('Yes.')
  const agents = ['ann', 'bob'].map((name) => ({ name, systemPrompt: 'Be brief.' }))
  const orchestration = { strategy: 'sequential' } as const
  const team = new OpenTeam({ agents, orchestration, models: { default: at(server) }, logger: silent }, new Map(), 1)
  await team.start()
  const run = team.host.runs.find(team.launch('go').id)!
  const ask = team.host.calls.verbs.get('model')!
  const messages = [{ role: 'user', content: 'Is it so?' }]
  const keys: unknown[] = []
  for (const [name, callId] of [
    ['ann', 'a'],
    ['ann', 'a'],
    ['bob', 'a'],
    ['ann', 'b'],
  ] as const) {
    const agent = team.agent(name)
    const caller = { agent, turn: 1, correlation: 1, callId, run, say: () => {} }
    await ask({ messages }, caller, new AbortController().signal)
    keys.push(server.calls.at(-1)?.headers['idempotency-key'])
  }
  t.equal(keys[0], keys[1])
  t.equal(new Set(keys).size, 3)
  await team.close()
})

t.test('a run takes other models, and only those that there are', async (t) => {
  const server = await modelServer(t)
  server.always(({ body }) => body.model)
  const team = teamAt(t, server, { models: { default: at(server), slow: at(server, 'large') } })
  const said = async (models?: Record<string, string>) => (await team.execute('go', { models })).finalOutput
  t.equal(await said(), 'small')
  t.equal(await said({ default: 'slow' }), 'large')
  t.equal(await said({ default: 'tiny' }), 'tiny')
  t.equal(await said(), 'small', 'the next run has those of the team')
  await t.rejects(said({ defautl: 'slow' }), {
    code: 'CONFIGURATION',
    message: 'models.defautl: no model of this team is named "defautl". Did you mean "default"?',
  })
  await t.rejects(said(Object({ default: 5 })), { message: /^models\.default: got 5; accepted: / })
  await t.rejects(said({ default: '' }), { code: 'CONFIGURATION', details: { path: 'models.default' } })
})

t.test('under a limit in money a model without a price, which a run alone names, is not called', async (t) => {
  const server = await modelServer(t)
  server.always(({ body }) => body.model)
  const prices = { currency: 'EUR', models: { small: { input: 1, output: 2 } } }
  const team = teamAt(t, server, { prices, budget: { perRun: { money: 1 } } })
  t.equal((await team.execute('go')).finalOutput, 'small')
  const { error } = await team.execute('go', { models: { default: 'tiny' } })
  t.match(error?.message, /"tiny", which has no price; .* budget\.perRun\.money is a limit in money: add the model/)
  t.equal(server.calls.length, 1)
})

t.test('a stream is asked for where somebody reads along', async (t) => {
  const server = await modelServer(t)
  server.always({ text: ['One', ' two'] })
  const chunks: string[] = []
  const team = given(t, { models: { default: at(server) } }).testTeam({
    ann: async (_message, context) => {
      await context.complete({ prompt: 'a' })
      return (await context.complete({ prompt: 'b', stream: true })).text
    },
  })
  team.events.subscribe((event) => void (event.type === 'output.delta' && chunks.push(event.chunk)))
  t.equal((await team.execute('go')).finalOutput, 'One two')
  t.strictSame(
    server.calls.map(({ body }) => body.stream),
    [false, true],
  )
  t.strictSame(chunks, ['One', ' two'])
})

t.test('an answer that breaks off is asked for again, also where somebody reads along', async (t) => {
  const server = await modelServer(t)
  // On a thread, in real time: a virtual clock would not wait for the socket before it goes on to the next attempt.
  const team = new ThreadTeam({
    agents: [{ name: 'ann' }],
    orchestration: { strategy: 'sequential' },
    models: { default: at(server) },
    logger: silent,
  })
  t.teardown(() => team.close())
  server.answer({ hangUp: 'in the body', text: 'Once upon' })
  server.answer({ text: 'Once upon a time' })
  t.equal((await team.execute('go')).finalOutput, 'Once upon a time')

  server.answer({ hangUp: 1, text: ['Twice', ' upon'] })
  server.answer({ text: 'Thrice' })
  const run = team.launch('go')
  let read = ''
  for await (const text of run.text()) read += text
  t.equal(read, 'Twice\n\nThrice')
  t.equal((await run.result).finalOutput, 'Thrice')
  t.strictSame(
    server.calls.map(({ body }) => body.stream),
    [false, false, true, true],
  )
})

t.test('the end of a run reaches the socket of its call', async (t) => {
  const server = await modelServer(t)
  server.answer({ text: 'Late.', after: new Promise(() => {}) })
  const run = teamAt(t, server).launch('go')
  const call = await server.called(1)
  await run.cancel()
  t.equal(await call.ended, 'left')
})

t.test('what a provider answers wrongly fails the run with words of its own', async (t) => {
  const server = await modelServer(t)
  server.answer({ status: 404 })
  const result = await teamAt(t, server).execute('go')
  t.match(result.error?.message, /Model "small" of 127\.0\.0\.1:\d+ does not exist, or its address is wrong \(404\)/)
})

t.test('a turn of ten steps that is cut off at any of them asks its provider each thing once', async (t) => {
  const steps: Answer[] = [
    { toolCalls: [{ name: 'publish', input: { key: 'one', value: 1, entryType: 'fact' } }] },
    { toolCalls: [{ name: 'request', input: { to: 'bob', content: 'two' } }] },
    { toolCalls: [{ name: 'read_blackboard', input: {} }] },
    { toolCalls: [{ name: 'delegate', input: { to: 'bob', task: 'three' } }] },
    { text: 'done' },
  ]
  const play = async (place: number) => {
    const server = await modelServer(t)
    server.always(({ body }) =>
      body.model === 'bob' ? 'yes' : steps[body.messages.filter(({ role }) => role === 'assistant').length]!,
    )
    const team = new MortalTeam(
      {
        agents: [
          { name: 'ann', tools: ['request', 'delegate', 'publish', 'read_blackboard'] },
          { name: 'bob', model: 'bob' },
        ],
        orchestration: { strategy: 'sequential', agentOrder: ['ann'] },
        models: { default: at(server), bob: at(server, 'bob') },
        supervision: { maxRestarts: Number.POSITIVE_INFINITY, backoff: { baseMs: 0, capMs: 0 }, poisonAttempts: 100 },
        logger: silent,
      },
      new Map(),
      1,
    )
    await team.start()
    const places = killAt(team, 'ann', (at) => at === place)
    const { finalOutput } = await team.execute('go')
    await team.close()
    await server.close()
    const asked = server.calls.map(({ body }) => `${body.model} ${body.messages.length}`)
    return { finalOutput, asked: asked.sort(), places: places() }
  }
  const whole = await play(0)
  t.equal(whole.finalOutput, 'done')
  t.equal(new Set(whole.asked.filter((asked) => asked.startsWith('small'))).size, steps.length)
  t.ok(whole.places >= 20)
  for (let place = 1; place <= whole.places; place += howMany(3, 1)) {
    const { finalOutput, asked } = await play(place)
    t.strictSame({ finalOutput, asked }, { finalOutput: 'done', asked: whole.asked }, `at ${place}`)
  }
})

class MortalTeam extends OpenTeam {
  end(agent: string): void {
    this.crash(agent)
  }
}

// An agent that wants the keys of the models: its thread has none, and what it is told by a provider leaves without
// them.

const FROM_VARIABLE = 'key-of-the-variable-0123456789'
const FROM_FUNCTION = 'key-of-the-function-0123456789'
const module = (name: string) => new URL(`../fixtures/${name}.js`, import.meta.url)

/** A team with one hostile agent and all that comes out of it. */
async function stage(t: Test, model: 'variable' | 'function', granted = 'HOSTILE_TEST_GRANTED') {
  const server = await modelServer(t)
  const variables = { HOSTILE_TEST_API_KEY: FROM_VARIABLE, HOSTILE_TEST_GRANTED: 'what it may see' }
  Object.assign(process.env, variables)
  t.teardown(() => {
    for (const name of Object.keys(variables)) delete process.env[name]
  })
  const out: string[] = []
  const lines = lineLogger((line) => void out.push(line))
  const tell = (level: 'debug' | 'info' | 'warn' | 'error') => (fields: object, text: string) => {
    lines[level](fields, text)
    out.push(shown({ fields, text }))
  }
  const { baseURL } = server
  const team = new MultiAgentPattern({
    agents: [
      { name: 'spy', model, module: module('models/hostile-agent'), env: [granted] },
      { name: 'other', module: module('thread-counter') },
    ],
    orchestration: { strategy: 'sequential', agentOrder: ['spy'] },
    models: {
      default: { model: 'small', baseURL, apiKey: async () => FROM_FUNCTION },
      variable: { model: 'small', baseURL, apiKeyEnv: 'HOSTILE_TEST_API_KEY' },
      function: { model: 'small', baseURL, apiKey: async () => FROM_FUNCTION },
    },
    logger: { debug: tell('debug'), info: tell('info'), warn: tell('warn'), error: tell('error') },
  })
  t.teardown(() => team.close())
  team.events.subscribe((event: RuntimeEvent) => void out.push(shown(event)))
  return { team, server, out }
}

/** As a logger or a reader might show it, whatever is inside. */
const shown = (value: unknown) => `${inspect(value, { depth: null, getters: true })} ${JSON.stringify(value)}`

t.test('nothing that an agent can reach in its thread is a key', async (t) => {
  const { team, server } = await stage(t, 'variable')
  server.always({ status: 500 })
  const result = await team.execute('dump')
  const dumped = result.agentOutputs.spy?.[0]?.structuredData as { env: object; reach: string[] }
  t.strictSame(dumped.env, { HOSTILE_TEST_GRANTED: 'what it may see' })
  t.ok(dumped.reach.length > 100, 'it has looked around')
  for (const secret of ['key-of-the', '[redacted]'])
    t.strictSame(
      dumped.reach.filter((text) => text.includes(secret)),
      [],
      secret,
    )
})

t.test('a key leaves the team nowhere, in no log, event, trace, history, result', async (t) => {
  for (const [how, model, key, granted] of [
    ['said back by a provider, out of a variable', 'variable', FROM_VARIABLE, undefined],
    ['said back by a provider, out of a function', 'function', FROM_FUNCTION, undefined],
    ['granted to the agent itself', 'variable', FROM_VARIABLE, 'HOSTILE_TEST_API_KEY'],
  ] as const)
    for (const query of ['reply', 'throw']) {
      const { team, server, out } = await stage(t, model, granted)
      const echo = `Bearer ${key}, ${encodeURIComponent(key)}, ${Buffer.from(key).toString('base64')}, ${key}`
      server.always(({ prompt }) => (prompt.startsWith('asked with') ? 'Well.' : `Your key is ${echo}`))
      server.answer({ status: 401, body: errorBody(`Incorrect API key provided: ${echo}`) })
      for (const _ of ['as an error', 'as an answer']) {
        const run = team.launch(query)
        for await (const event of run.events()) out.push(shown(event))
        const result = await run.result
        const { messageHistory, orchestrationTrace, agentOutputs, failures, blackboardState } = result
        out.push(shown({ result, messageHistory, orchestrationTrace, agentOutputs, failures, blackboardState }))
        out.push(shown([team.getMessageHistory(run.id), run.messageHistory, team.deadLetters.list(), team.health()]))
        out.push(`${result.error?.stack} ${inspect(result.error?.cause)}`)
        const reply = team.sendMessage({ recipient: 'spy', content: query, requiresResponse: true })
        out.push(await reply.then(shown, shown))
      }
      const forms = [key, encodeURIComponent(key), Buffer.from(key).toString('base64').slice(0, 30)]
      const holding = (texts: string[]) => texts.filter((text) => forms.some((form) => text.includes(form)))
      t.strictSame(
        holding(out).map((text) => text.slice(0, 300)),
        [],
        how,
      )
      t.ok(
        out.some((text) => text.includes('[redacted]')),
        'it was there',
      )
      t.equal(server.calls[0]?.key, key)
      const prompts = server.calls.map(({ prompt }) => prompt)
      if (granted === undefined) t.strictSame(holding(prompts), [], 'not even the agent has seen it')
    }
})

// How many models think at once, and what the log says when more want to.

const named = (count: number) => Array.from({ length: count }, (_, i) => ({ name: `agent${i}` }))
const parallel = { strategy: 'parallel' } as const

/** Answers when so many ask at once. */
function together(count: number): FakeModel {
  const { open, opened } = gate()
  let asking = 0
  return new FakeModel(async () => {
    asking += 1
    if (asking === count) open()
    await opened
    return 'thought'
  })
}

function lines(): { logger: Logger; said: string[] } {
  const said: string[] = []
  return { said, logger: { ...silent, info: (_fields, text) => void said.push(text) } }
}

t.test('twenty model agents in parallel are all at their model at once', async (t) => {
  const { team } = modelTeam(t, together(20), named(20), { orchestration: parallel })
  t.equal((await team.execute('go')).failures.length, 0)
})

t.test('twenty model agents are all at their provider at once', async (t) => {
  const server = await modelServer(t)
  const { open, opened } = gate()
  server.always({ text: 'thought', after: opened })
  const models = { default: { model: 'small', baseURL: server.baseURL } }
  const team = testTeam({ agents: named(20), models, orchestration: parallel, logger: silent })
  t.teardown(() => team.close())
  const run = team.execute('go')
  await server.called(20)
  open()
  t.equal((await run).failures.length, 0)
})

t.test('one model agent thinks for twenty runs at once', async (t) => {
  const { team } = modelTeam(t, together(20), named(1), { orchestration: { strategy: 'sequential' } })
  const results = await Promise.all(Array.from({ length: 20 }, () => team.execute('go')))
  t.ok(results.every(({ success }) => success))
})

for (const [option, options, role] of [
  ['maxConcurrentAgents', { maxConcurrentAgents: 2 }, {}],
  ['maxConcurrentRuns', { maxConcurrentRuns: 1 }, {}],
  ['orchestration.maxConcurrent', { orchestration: { ...parallel, maxConcurrent: 2 } }, {}],
  ['concurrency of "agent0"', {}, { concurrency: 2 }],
] as const)
  t.test(`the log names ${option} when something waits for it, once`, async (t) => {
    const { logger, said } = lines()
    const agents = named(4).map((agent) => ({ ...agent, ...role }))
    const { team } = modelTeam(t, () => 'thought', agents, { orchestration: parallel, logger, ...options })
    await Promise.all(Array.from({ length: 4 }, () => team.execute('go')))
    const about = said.filter((text) => text.startsWith(`${option} (`))
    t.match(about[0], /^.* \(\d+\) is reached: /)
    t.equal(about.length, 1)
  })

t.test('the log and an event name maxParallelToolCalls when calls of an answer wait for it', async (t) => {
  const { logger, said } = lines()
  const answers = [calls(['act', {}], ['act', {}], ['act', {}]), 'done']
  const agents = [{ name: 'ann', tools: [doing(() => 'done')], maxParallelToolCalls: 2 }]
  const { team } = modelTeam(t, answers, agents, { logger })
  const events: RuntimeEvent[] = []
  team.events.subscribe((event) => void (event.type === 'limit.reached' && events.push(event)))
  t.equal((await team.execute('go')).finalOutput, 'done')
  t.match(events, [{ option: 'maxParallelToolCalls', limit: 2, agent: 'ann', runId: /./ }])
  t.same(said, ['maxParallelToolCalls (2) is reached: of 3 calls of one answer the others wait'])
})

t.test('nothing is said where nothing waits', async (t) => {
  const { logger, said } = lines()
  const { team } = modelTeam(t, () => 'thought', named(20), { orchestration: parallel, logger })
  await team.execute('go')
  t.same(said, [])
})

t.test('a limit that is reached for long is said again after a minute', async (t) => {
  const { logger, said } = lines()
  const clock = virtualClock()
  const limits = new LimitNotices(clock, logger)
  for (let i = 0; i < 3; i++) {
    limits.reached({ option: 'maxConcurrentRuns', limit: 2 }, 'runs wait')
    limits.reached({ option: 'maxConcurrentAgents', limit: 3 }, 'agents wait')
    await clock.advance(30_000)
  }
  t.same(said, [
    'maxConcurrentRuns (2) is reached: runs wait',
    'maxConcurrentAgents (3) is reached: agents wait',
    'maxConcurrentRuns (2) is reached: runs wait',
    'maxConcurrentAgents (3) is reached: agents wait',
  ])
})
