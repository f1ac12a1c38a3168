/** Teams whose models are reached by their address, through the openai client and a server that speaks its API. */
import t from 'tap'
import type { MultiAgentPatternOptions } from '../../src/team.ts'
import { testTeam } from '../../src/testing.ts'
import { type ModelServer, modelServer } from '../fixtures/model-server.ts'
import type { Answer } from '../fixtures/model-wire.ts'
import { given, OpenTeam, silent } from '../kit/team.ts'
import { killAt } from './killed-turns.ts'
import { ThreadTeam } from './teams.ts'

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
  for (let place = 1; place <= whole.places; place += 1) {
    const { finalOutput, asked } = await play(place)
    t.strictSame({ finalOutput, asked }, { finalOutput: 'done', asked: whole.asked }, `at ${place}`)
  }
})

class MortalTeam extends OpenTeam {
  end(agent: string): void {
    this.crash(agent)
  }
}
