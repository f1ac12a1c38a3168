/** Models and recorded steps in a rehearsal: who is asked, who fails, and what is played again. */

import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { z } from 'zod'
import type { ModelClient } from '../../../src/actors/definition/model.ts'
import { type AgentContext, defineAgent, defineTool, type MultiAgentPatternOptions } from '../../../src/index.ts'
import { Reach } from '../../../src/runtime/testing/reach.ts'
import { SteppedClock } from '../../../src/runtime/testing/virtual-clock.ts'
import { rehearse, scriptedModel } from '../../../src/testing.ts'
import { modelServer } from '../../fixtures/model-server.ts'
import { howMany } from '../../how-many.ts'
import { never, silent } from '../../kit/team.ts'
import { calls, FakeModel } from '../../models/fake-model.ts'

// Which models a rehearsal asks: none that cost money, unless that is wanted.

const agents = [{ name: 'ann' }, { name: 'bob', model: 'other' }, { name: 'cat', model: 'huge' }]
const orchestration = { strategy: 'sequential' } as const
const plan = { query: 'REST or GraphQL?', seeds: 5, faults: ['crash', 'delay'] } as const

t.test('nobody is asked but the rehearsal model, whatever models the team has', async (t) => {
  const server = await modelServer(t)
  const { baseURL } = server
  let keys = 0
  const apiKey = () => {
    keys += 1
    return 'secret'
  }
  const asks = defineAgent({
    receive: async ({ content }, context) => (await context.think({ prompt: content, model: 'other' })).text,
  })
  const script = async (run: AgentContext, query: string) => {
    const said = [await run.complete({ prompt: query, model: 'own' })]
    said.push(await run.complete({ prompt: query, model: 'careful' }))
    for (const name of ['ann', 'bob', 'cat', 'dan'])
      said.push({ ...said[0]!, text: (await run.request(name, query)).content })
    return said.map(({ text }) => text).join('\n')
  }
  let calls = 0
  const own: ModelClient = {
    async *complete() {
      calls += 1
      yield { text: 'Mine.' }
    },
  }
  const options: MultiAgentPatternOptions = {
    agents: [...agents, { name: 'dan' }],
    orchestration: { strategy: 'custom', run: script },
    models: {
      default: { model: 'large', baseURL, apiKey },
      other: { model: 'small', baseURL, apiKeyEnv: 'A_VARIABLE_THAT_NOBODY_SETS' },
      own,
      careful: { client: own, temperature: 0.1 },
    },
    logger: silent,
  }
  const answers: string[] = []
  const { outcomes, standsInFor } = await rehearse(options, {
    ...plan,
    modules: { dan: asks },
    check: (outcome) => void answers.push(outcome.ok ? outcome.message.content : outcome.error.message),
  })
  t.match(outcomes, { done: 5 }, answers.join('\n'))
  t.same(standsInFor, ['default', 'other', 'own', 'careful'])
  t.ok(answers.every((answer) => answer.split('\n').every((line) => line.startsWith('[rehearsal]'))))
  t.same([server.calls.length, keys, calls], [0, 0, 0])
})

t.test('the model of the environment is not asked either', async (t) => {
  const server = await modelServer(t)
  const before = { ...process.env }
  Object.assign(process.env, { OPENAI_API_KEY: 'key', OPENAI_BASE_URL: server.baseURL, DRAMATIS_MODEL: 'large' })
  t.teardown(() => {
    for (const name of ['OPENAI_API_KEY', 'OPENAI_BASE_URL', 'DRAMATIS_MODEL'])
      if (before[name] === undefined) delete process.env[name]
      else process.env[name] = before[name]
  })
  const { outcomes, standsInFor } = await rehearse({ agents: [{ name: 'ann' }], orchestration }, plan)
  t.match(outcomes, { done: 5 })
  t.same(standsInFor, ['default'])
  t.equal(server.calls.length, 0)
})

t.test('a name that no model has is refused as in life', async (t) => {
  const own: ModelClient = { async *complete() {} }
  const wrong = { agents: [{ name: 'ann', model: 'ownn' }], orchestration, models: { own } }
  await t.rejects(rehearse(wrong, plan), { code: 'CONFIGURATION', message: /no model of this team is named "ownn"/ })
})

t.test(
  "realModels asks the team's own models; what they take is no time of the run, and their pauses are",
  async (t) => {
    const server = await modelServer(t)
    let failures = 1
    server.always(() => (failures-- > 0 ? { status: 429, headers: { 'retry-after': '3' } } : 'Certainly.'))
    const answers: string[] = []
    const tookMs: number[] = []
    const options = {
      agents: [{ name: 'ann' }],
      orchestration,
      models: { default: { model: 'large', baseURL: server.baseURL, apiKey: 'key' } },
    }
    const {
      outcomes,
      standsInFor,
      failures: failed,
    } = await rehearse(options, {
      query: 'go',
      seeds: 3,
      realModels: true,
      check: (outcome) => {
        answers.push(outcome.ok ? outcome.message.content : outcome.error.message)
        if (outcome.ok) tookMs.push(outcome.message.sentAt - Date.UTC(2025, 0, 1))
      },
    })
    t.ok(tookMs[0]! >= 3_000)
    t.same(tookMs.slice(1), [0, 0])
    t.same([outcomes.done, standsInFor, failed], [3, [], []], answers.join('\n'))
    t.same(answers, Array(3).fill('Certainly.'))
    t.equal(server.calls.length, 4)
  },
)

t.test('a line that plays a failure again asks the same models', async (t) => {
  const server = await modelServer(t)
  server.always('Certainly.')
  const { failures } = await rehearse(
    {
      agents: [{ name: 'ann' }],
      orchestration,
      models: { default: { model: 'large', baseURL: server.baseURL, apiKey: 'key' } },
    },
    {
      query: 'go',
      seeds: 1,
      realModels: true,
      check() {
        throw new Error('no')
      },
    },
  )
  t.equal(failures[0]?.replay, 'await rehearse(options, {"query":"go","seeds":[1],"realModels":true})')
})

t.test('a model that asks nobody stays in its place', async (t) => {
  const answers: string[] = []
  const check = (outcome: { ok: boolean; message?: { content: string } }) =>
    void answers.push(outcome.message?.content ?? '')
  const make = () => ({
    agents: [{ name: 'ann' }],
    orchestration,
    models: { default: scriptedModel([{ fail: 'rate_limit' }, { reply: 'As written.', delayMs: 5_000 }]) },
  })
  const { outcomes, standsInFor } = await rehearse(make, { query: 'go', seeds: 3, check })
  t.same([outcomes.done, standsInFor], [3, []])
  t.same(answers, Array(3).fill('As written.'))
})

// The fault `model`: calls of models fail at random, and another model of the list answers.

const SEEDS = howMany(8, 300)
const ROUNDS = 3

/** Asks for the tool three times, once in each round, and then answers: by what the conversation has. */
const inRounds = () =>
  Object.assign(
    new FakeModel(({ messages }) => {
      const results = messages.filter(({ role }) => role === 'tool').length
      return results < ROUNDS ? calls(['count', { round: results }]) : 'done'
    }),
    { offline: true },
  )

function teamOf(counted: Map<string, number>, switchOn?: readonly string[]): MultiAgentPatternOptions {
  const count = defineTool({
    name: 'count',
    description: 'Counts.',
    input: z.object({ round: z.number() }),
    readOnly: true,
    run({ round }, { idempotencyKey }) {
      counted.set(idempotencyKey, (counted.get(idempotencyKey) ?? 0) + 1)
      return round
    },
  })
  const list = { anyOf: ['fast', 'spare'], ...(switchOn && { switchOn }) }
  return {
    agents: [{ name: 'ann', systemPrompt: 'You count.', tools: [count] }],
    models: { default: list, fast: inRounds(), spare: inRounds() } as never,
    orchestration: { strategy: 'sequential' },
  }
}

t.test('whatever fails, each round of tools runs once and the answer comes', async (t) => {
  const all = new Map<string, number>()
  const switchOn = ['rate_limit', 'broken_off', 'filtered']
  const { outcomes, failures } = await rehearse(() => teamOf(all, switchOn), {
    query: 'Count.',
    seeds: SEEDS,
    faults: ['model'],
  })
  const bothWithhold = /answered: \w+ \(filtered\), \w+ \(filtered\)\./ // nobody is left who may answer
  t.same(
    failures.filter(({ error }) => !bothWithhold.test(error?.message ?? '')),
    [],
  )
  t.ok(failures.length <= SEEDS / 50, `${failures.length} of ${SEEDS}`)
  t.equal(outcomes.done, SEEDS - failures.length)
  t.ok(all.size >= outcomes.done * ROUNDS)
  t.ok([...all.values()].every((times) => times === 1))
})

t.test(
  'without a reason to switch a filter ends the run, in some of the seeds and in the same ones again',
  async (t) => {
    const play = () => rehearse(() => teamOf(new Map()), { query: 'Count.', seeds: 40, faults: ['model'] })
    const [one, other] = [await play(), await play()]
    t.ok(one.failures.length > 0 && one.failures.length < 40)
    t.same(
      one.failures.map(({ seed }) => seed),
      other.failures.map(({ seed }) => seed),
    )
    for (const { error, replay } of one.failures) {
      t.match(JSON.stringify(error), /filtered/)
      t.match(replay, /"faults":\["model"\]/)
    }
  },
)

// Steps that reach outside: done once, recorded, and answered from the recording ever after.

const module = new URL('../../fixtures/rehearsal/steps.js', import.meta.url)
const options: MultiAgentPatternOptions = {
  agents: [{ name: 'steps', module }],
  orchestration: { strategy: 'sequential' },
}

/** A file to read, and where to record. */
function files(t: Test) {
  const folder = t.testdir({ word: 'one' })
  return { word: join(folder, 'word'), record: join(folder, 'record.json') }
}

/** What came of three runs. */
async function answers(query: string, record?: string): Promise<string[]> {
  const seen: string[] = []
  await rehearse(options, {
    query,
    seeds: 3,
    ...(record !== undefined && { record }),
    check: (outcome) => void seen.push(outcome.ok ? outcome.message.content : outcome.error.message),
  })
  return seen
}

const three = (answer: string) => [answer, answer, answer]
const keysOf = (record: string) => Object.keys(JSON.parse(readFileSync(record, 'utf8')))

t.test('each step is recorded by its agent, its name, its place in the turn, and the message', async (t) => {
  const { word, record } = files(t)
  t.same(await answers(`twice ${word}`, record), three('one one 0'), 'it took no time of the run')
  const key = (nth: number) => `step ${JSON.stringify(['steps', 'read', nth, `twice ${word}`, null])}`
  t.same(keysOf(record), [key(1), key(2)])
  rmSync(word)
  t.same(await answers(`twice ${word}`, record), three('one one 0'))
  writeFileSync(word, 'two')
  t.same(await answers(`twice ${word} `, record), three('two two 0'), 'of another message')
  t.equal(keysOf(record).length, 4)
})

t.test('what a step came to may be nothing', async (t) => {
  const { word, record } = files(t)
  t.same(await answers(`nothing ${word}`, record), three('undefined'))
  rmSync(word)
  t.same(await answers(`nothing ${word}`, record), three('undefined'))
})

t.test('time stands still for a connection, with all that goes on in it', async (t) => {
  const { record } = files(t)
  const server = createServer((_request, response) => void setTimeout(() => response.end('a page'), 20))
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  const query = `page http://127.0.0.1:${port}/`
  t.same(await answers(query, record), three('a page'))
  await new Promise((resolve) => server.close(resolve))
  t.same(await answers(query, record), three('a page'))
})

t.test('a step that fails is not recorded, and one that does not reach outside is none of it', async (t) => {
  const { word, record } = files(t)
  rmSync(word)
  for (const answer of await answers(`twice ${word}`, record)) t.match(answer, /ENOENT/)
  t.same(await answers('pure', record), three('1000'))
  t.notOk(existsSync(record))
  writeFileSync(word, 'one')
  t.same(await answers(`twice ${word}`, record), three('one one 0'))
})

t.test('without a recording, outside of a step and after it, real input is refused', async (t) => {
  const { word, record } = files(t)
  for (const answer of await answers(`twice ${word}`))
    t.match(answer, /agent "steps": node:fs\/promises\.readFile is real input.*context\.step.*--record <file>/)
  for (const way of ['outside', 'later'])
    t.match((await answers(`${way} ${word}`, record))[0], /"steps": node:fs\.readFileSync is real/, way)
})

t.test('a step that waits for virtual time, which waits for it, ends with an error', async (t) => {
  const reach = new Reach(new SteppedClock(1, 0), 'read and ask', 5)
  const asks = () => {
    t.ok(reach.begin())
    return never
  }
  const message = /^Step "read and ask" did not end within 5 ms .* ask other agents, and sleep, outside of the step/
  await t.rejects(reach.run(asks), { code: 'AGENT_FAILED', message })
  reach.end()
  t.notOk(reach.begin(), 'it is over')
})
