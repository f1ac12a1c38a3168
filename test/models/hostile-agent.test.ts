/** An agent that wants the keys of the models: its thread has none, and what it is told by a provider leaves without them. */
import { inspect } from 'node:util'
import t from 'tap'
import type { RuntimeEvent } from '../../src/index.ts'
import { lineLogger } from '../../src/runtime/logging/logger.ts'
import { MultiAgentPattern } from '../../src/team.ts'
import { modelServer } from '../fixtures/model-server.ts'
import { errorBody } from '../fixtures/model-wire.ts'

type Test = Pick<typeof t, 'teardown'>

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
