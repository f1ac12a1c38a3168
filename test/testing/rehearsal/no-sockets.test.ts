/** A rehearsal never touches the world: every connection, name look-up, datagram and process of this program is counted. */
import child from 'node:child_process'
import dgram from 'node:dgram'
import dns from 'node:dns'
import net from 'node:net'
import { createAnthropic } from '@ai-sdk/anthropic'
import type { Test } from 'tap'
import t from 'tap'
import { z } from 'zod'
import { fromAiSdk } from '../../../src/ai-sdk/index.ts'
import { defineAgent, defineTool, type MultiAgentPatternOptions } from '../../../src/index.ts'
import { wrapModel } from '../../../src/models.ts'
import { rehearse, testTeam } from '../../../src/testing.ts'
import { runCode, weather, workspace } from '../../../src/tools/index.ts'
import { modelServer } from '../../fixtures/model-server.ts'
import { chatWire } from '../../fixtures/model-wire.ts'
import { anthropicWire } from '../../fixtures/wires/anthropic.ts'
import { silent } from '../../kit/team.ts'

/** Counts what reaches the system until the test is over. */
function watchTheWorld(t: Test): { touched: string[] } {
  const touched: string[] = []
  const watch = (owner: object, name: string) => {
    const real: unknown = Reflect.get(owner, name)
    if (typeof real !== 'function') throw new Error(`There is no ${name}.`)
    Reflect.set(owner, name, function (this: unknown, ...args: unknown[]) {
      touched.push(name)
      return Reflect.apply(real, this, args)
    })
    t.teardown(() => Reflect.set(owner, name, real))
  }
  watch(net.Socket.prototype, 'connect')
  watch(dns, 'lookup')
  watch(dgram, 'createSocket')
  watch(child.ChildProcess.prototype, 'spawn')
  return { touched }
}

const shape = z.object({ url: z.string() })

/** A tool that pays, by a request to that address. */
const paying = (url: string, more: object = {}) =>
  defineTool({ name: 'pay', description: 'Pays.', input: shape, run: () => fetch(url).then(() => 'paid'), ...more })

/** A team that reaches out in every way that there is: models at addresses, clients, tools, and code. */
async function worldly(t: Test): Promise<MultiAgentPatternOptions> {
  const chat = await modelServer(t, chatWire)
  const messages = await modelServer(t, anthropicWire)
  for (const server of [chat, messages]) server.always('Certainly.')
  const claude = fromAiSdk(createAnthropic({ baseURL: messages.baseURL, apiKey: 'a-key-of-them' })('claude-sonnet-4-5'))
  return {
    agents: [
      { name: 'ann', tools: [paying(chat.baseURL), weather()] },
      { name: 'bob', model: 'claude', tools: [paying(chat.baseURL, { name: 'look', readOnly: true, outside: true })] },
      { name: 'cid', model: 'wrapped', tools: [...workspace({ root: 'nowhere', allow: ['ls'] }), runCode] },
      { name: 'dan', module: new URL('../../fixtures/rehearsal/fetches.js', import.meta.url) },
    ],
    orchestration: { strategy: 'parallel' },
    models: {
      default: { model: 'small', baseURL: chat.baseURL, apiKey: 'a-key-of-ours' },
      claude,
      wrapped: wrapModel(claude, (request, next) => next(request)),
    },
    logger: silent,
  }
}

t.test('rehearse() opens no connection, looks up no name and starts no process', async (t) => {
  const options = await worldly(t)
  await rehearse(options, { query: 'https://example.org', seeds: 1 }) // the bundler has its process from now on
  const { touched } = watchTheWorld(t)
  const { runs, standsInFor, simulatedTools } = await rehearse(options, { query: 'https://example.org', seeds: 5 })
  t.equal(runs, 5)
  t.same([...standsInFor].sort(), ['claude', 'default', 'wrapped'])
  const tools = ['list_dir', 'look', 'pay', 'read_file', 'run_cmd', 'run_code', 'weather', 'write_file']
  t.same([...simulatedTools].sort(), tools)
  t.same(touched, [])
  await rehearse(options, { query: 'https://example.org', seeds: 1, realModels: true })
  t.ok(touched.includes('connect'), 'with realModels the same watch sees them')
})

t.test('without a model, a team calls no tool with effects: it opens no connection', async (t) => {
  const server = await modelServer(t)
  const asking = defineAgent({
    receive: async (_message, context) => (await context.think({ prompt: 'Pay.', tools: ['pay'] })).text,
  })
  const team = testTeam(
    {
      agents: [
        { name: 'ann', tools: [paying(server.baseURL)] },
        { name: 'bob', tools: [paying(server.baseURL)] },
      ],
      orchestration: { strategy: 'parallel' },
      models: 'rehearsal',
      logger: silent,
    },
    { modules: { bob: asking } },
  )
  t.teardown(() => team.close())
  const { touched } = watchTheWorld(t)
  const calls: string[] = []
  team.events.subscribe((event) => void (event.type === 'tool.finished' && calls.push(event.agent)))
  t.equal((await team.execute('Pay.')).failures.length, 0)
  t.same(new Set(calls), new Set(['ann', 'bob']), 'the model has called the tool of both')
  t.same(touched, [])
})
