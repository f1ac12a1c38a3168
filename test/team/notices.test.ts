/** What the logger is told, what agents print, causes of errors, and that no key is in any of it. */

import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { fileURLToPath } from 'node:url'
import { inspect } from 'node:util'
import t from 'tap'
import { type AgentDefinition, createTeam, defineAgent, type Logger, type RuntimeEvent } from '../../src/index.ts'
import { testTeam } from '../../src/testing.ts'
import { inHost } from '../fixtures/team/refused-tools.ts'
import { held } from '../held.ts'
import { where } from '../kit/lists.ts'
import { given, silent } from '../kit/team.ts'
import { after, echo, type Options, stage, type Test, throws } from './stage.ts'

// What the logger is told by itself: at which level, and never what messages say.

interface Line {
  level: string
  text: string
  [field: string]: unknown
}

function logged<Name extends string>(
  t: Test,
  cast: Record<Name, AgentDefinition>,
  options: Options<NoInfer<Name>> = {},
) {
  const lines: Line[] = []
  const note = (level: string) => (fields: object, text: string) => void lines.push({ level, ...fields, text })
  const logger: Logger = { debug: note('debug'), info: note('info'), warn: note('warn'), error: note('error') }
  return { team: stage(t, cast, { ...options, logger }), lines }
}

t.test('a run that goes well is told to who asks for everything, and to nobody else', async (t) => {
  const { team, lines } = logged(t, { a: echo })
  const { runId } = await team.execute('my secret')
  await team.close()
  t.match(
    lines.map(({ level, text, agent, ...fields }) => ({ level, text, agent, runId: fields.runId })),
    [
      { level: 'debug', runId, text: 'a run begins' },
      { level: 'debug', agent: '$orchestrator', text: 'is ready' },
      { level: 'debug', agent: 'a', text: 'is ready' },
      { level: 'debug', runId, text: 'a run has ended' },
    ],
  )
  t.notMatch(JSON.stringify(lines), 'my secret')
})

t.test('a run that fails is an error with its agent, its code and what to do, and without its query', async (t) => {
  const broken = logged(t, { a: throws() })
  const failed = await broken.team.execute('my secret')
  const { team, lines } = logged(t, { a: after(100) })
  const late = team.launch('my secret', { timeoutMs: 5 })
  const aborted = team.launch('my secret')
  await team.clock.advance(5)
  await aborted.cancel('no need')
  await late.result
  t.match(
    [...broken.lines, ...lines].filter(({ text }) => /^a run (failed|was)/.test(text)),
    [
      {
        level: 'error',
        event: 'run.finished',
        agent: 'a',
        runId: failed.runId,
        code: 'AGENT_FAILED',
        error: /^Agent "a" failed in/,
      },
      {
        level: 'error',
        event: 'run.finished',
        runId: late.id,
        code: 'RUN_TIMEOUT',
        error: /within 5 ms \(globalTimeoutMs,/,
      },
      { level: 'debug', runId: aborted.id, code: 'RUN_ABORTED', text: 'a run was aborted' },
    ],
  )
  t.notMatch(JSON.stringify([broken.lines, lines]), 'my secret')
})

t.test('a crash is a warning, the next life is information, the end for good an error', async (t) => {
  const { team, lines } = logged(t, { a: echo }, { supervision: { maxRestarts: 1, backoff: { baseMs: 100 } } })
  await team.start()
  for (let i = 0; i < 2; i++) {
    team.crash('a')
    await team.clock.advance(10)
  }
  t.match(
    lines.filter(({ level }) => level !== 'debug'),
    [
      { level: 'warn', agent: 'a', event: 'agent.crashed', epoch: 1, text: 'crashed and restarts in 0 ms' },
      { level: 'info', agent: 'a', epoch: 2, text: 'is ready again' },
      { level: 'warn', agent: 'a', event: 'agent.crashed', epoch: 2, text: 'crashed and does not restart' },
      { level: 'error', agent: 'a', error: { code: 'AGENT_TERMINATED' }, text: 'is stopped for good' },
    ],
  )
})

t.test('an agent that cannot start is an error with the reason', async (t) => {
  const broken = defineAgent({
    start() {
      throw new Error('no disk')
    },
    receive: () => '',
  })
  const { team, lines } = logged(t, { a: broken })
  await t.rejects(team.start())
  await team.clock.advance(0)
  t.match(where(lines, 'level', 'error'), [
    { agent: 'a', error: { code: 'START_FAILED', message: /no disk/ }, text: 'is stopped for good' },
  ])
})

t.test('a sync point that some did not come to is a warning, with names and without what was brought', async (t) => {
  const comes = defineAgent({ receive: async (_message, context) => void (await context.sync('noon', 'my secret')) })
  const { team, lines } = logged(
    t,
    { a: comes, b: comes },
    { syncPoints: [{ name: 'noon', requiredAgents: ['a', 'b'], timeoutMs: 1_000 }] },
  )
  await Promise.all(['a', 'b'].map((recipient) => team.sendMessage({ recipient, content: 'go' })))
  await team.clock.advance(1_000)
  const warnings = lines.filter(({ level }) => level === 'warn')
  const text = 'a generation of a sync point ended without some'
  t.match(warnings, [
    { event: 'sync', point: 'noon', generation: 1, missing: ['b'], runId: /./, text },
    { event: 'sync', point: 'noon', generation: 1, missing: ['a'], runId: /./, text },
  ])
  t.equal(warnings.length, 2)
  t.notMatch(JSON.stringify(lines), 'my secret')
})

t.test('dead letters are a warning for each agent and reason, with ids and without words', async (t) => {
  const { team, lines } = logged(t, { a: throws('said by the handler'), b: echo })
  await team.sendMessage({ recipient: 'a', content: 'my secret' })
  await t.rejects(team.sendMessage({ recipient: 'nobody', content: 'my secret' }))
  await team.clock.advance(10)
  const [letter] = team.deadLetters.list()
  const warnings = lines.filter(({ level }) => level === 'warn')
  t.match(
    warnings.sort((a, b) => String(a.agent).localeCompare(String(b.agent))),
    [
      { agent: 'a', event: 'message.dead', reason: 'failed', count: 1, code: 'AGENT_FAILED' },
      { agent: 'nobody', event: 'message.dead', reason: 'unknown_agent', count: 1, code: 'UNKNOWN_AGENT' },
    ],
  )
  t.ok(warnings.some(({ messageId }) => messageId === letter!.id))
  t.notMatch(JSON.stringify(lines), 'my secret')
  t.notMatch(JSON.stringify(warnings), 'said by the handler')
})

t.test('however many messages die at a time, it is one line', async (t) => {
  const { team, lines } = logged(t, { a: after(1_000) }, { supervision: { maxRestarts: 0 } })
  for (let i = 0; i < 50; i++) await team.sendMessage({ recipient: 'a', content: 'x' })
  team.crash('a')
  await team.clock.advance(0)
  const letters = lines.filter(({ event, level }) => event === 'message.dead' && level === 'warn')
  t.match(letters, [{ agent: 'a', reason: 'stopped', count: 50 }])
})

t.test('a message that was withdrawn is no trouble', async (t) => {
  const sends = defineAgent({
    async receive(_message, context) {
      for (let i = 0; i < 3; i++) await context.send('b', 'hi')
      await context.sleep(1_000)
    },
  })
  const cast = { a: sends, b: after(1_000) }
  const { team, lines } = logged(t, cast, { orchestration: { strategy: 'sequential', agentOrder: ['a'] } })
  const run = team.launch('q')
  await team.clock.advance(1)
  await run.cancel()
  await team.clock.advance(10_000)
  t.ok(lines.some(({ level, agent, reason }) => level === 'debug' && agent === 'b' && reason === 'cancelled'))
  t.same(
    lines.filter(({ level }) => level === 'warn' || level === 'error'),
    [],
  )
})

// What agents print on real threads, and what becomes of it in the log.

const module = new URL('../fixtures/team/printer.js', import.meta.url)

interface PrintsLine {
  level: string
  agent?: unknown
  lines?: unknown
  text: string
}

/** A team whose log is kept; `once` resolves when it is as wanted. */
function printer(t: Test) {
  const log: PrintsLine[] = []
  let check = () => {}
  const note = (level: string) => (fields: object, text: string) => {
    log.push({ level, ...fields, text })
    check()
  }
  const logger: Logger = { debug() {}, info: note('info'), warn: note('warn'), error: note('error') }
  const team = createTeam({
    agents: [{ name: 'printer', module }],
    orchestration: { strategy: 'sequential' },
    logger,
  })
  t.teardown(() => team.close())
  const once = (wanted: (log: PrintsLine[]) => boolean) =>
    held(
      new Promise<void>((resolve) => {
        check = () => {
          if (wanted(log)) resolve()
        }
        check()
      }),
    )
  return { team, log, once }
}

const printed = (log: PrintsLine[]) => log.filter(({ level }) => level === 'info')
const has = (text: string) => (log: PrintsLine[]) => log.some((line) => line.text === text)

t.test('pieces of a line are one line; what has no end is told when the thread has ended', async (t) => {
  const { team, log, once } = printer(t)
  await team.execute('in pieces')
  await once(has('one line'))
  t.notOk(has('no end')(log))
  await team.close()
  await once(has('no end'))
  t.same(printed(log), [
    { level: 'info', agent: 'printer', text: 'one line' },
    { level: 'info', agent: 'printer', text: 'no end' },
  ])
})

t.test('bytes that are no text are replaced', async (t) => {
  const { team, once } = printer(t)
  await team.execute('no text')
  await once(has('a\ufffd\ufffdb'))
})

t.test('a line of 5 MB is cut', async (t) => {
  const { team, log, once } = printer(t)
  await team.execute('a long line')
  await once((log) => printed(log).length > 0)
  t.equal(printed(log)[0]!.text, `${'x'.repeat(16_384)} ... (${5_000_000 - 16_384} characters left out)`)
})

t.test('what an agent prints before it dies is told', async (t) => {
  const { team, once } = printer(t)
  await team.execute('die')
  await once(has('my last words'))
  await once(has('and one more thing'))
})

t.test('of 10 MB at once each line is told or counted, and the team goes on', async (t) => {
  const { team, log, once } = printer(t)
  await team.execute('flood')
  await team.close()
  const leftOut = () => log.reduce((sum, { lines }) => sum + (typeof lines === 'number' ? lines : 0), 0)
  await once((log) => printed(log).length + leftOut() === 100_000)
  t.ok(leftOut() > 0)
  t.ok(log.some(({ level, agent, text }) => level === 'warn' && agent === 'printer' && text.includes('left out')))
})

// A key that a caller has put into a query: agents get what was written, and nobody who looks from outside does.

const KEY = 'a-key-of-the-team-0123456789'
const QUERY = `Why does ${KEY} not work?`
const SHOWN = 'Why does [redacted] not work?'

t.test('a key in a query reaches the agents, and is in nothing that callers read of the run', async (t) => {
  const heard: unknown[] = []
  const bob = defineAgent({
    receive({ content }) {
      heard.push(content)
      return content
    },
  })
  const ann = defineAgent({
    async receive({ content }, context) {
      await context.publish('query', content, 'question')
      heard.push((await context.blackboard.read('query'))?.value)
      return String((await context.delegate('bob', content)).result)
    },
  })
  const team = testTeam(
    {
      agents: [{ name: 'ann' }, { name: 'bob' }],
      orchestration: { strategy: 'sequential', agentOrder: ['ann'] },
      enableBlackboard: true,
      models: { default: { model: 'small', baseURL: 'http://localhost:1/v1', apiKey: KEY } },
      logger: silent,
    },
    { modules: { ann, bob } },
  )
  t.teardown(() => team.close())
  const run = team.launch(QUERY, { runId: 'one' })
  const board = run.blackboard
  const entries: unknown[] = []
  await board?.subscribe('query', ({ value }) => void entries.push(value))
  const awaited = board?.waitFor('query')
  const result = await run.result
  t.match(result, { success: true, finalOutput: SHOWN })
  t.strictSame(heard, [QUERY, QUERY])
  t.equal(run.query, SHOWN)
  t.equal((await team.listRuns())[0]?.query, SHOWN)
  t.equal(run.tasks[0]?.description, SHOWN)
  entries.push((await awaited)?.value, (await board?.read('query'))?.value, (await board?.query())?.[0]?.value)
  entries.push((await board?.getHistory('query'))?.[0]?.value)
  t.strictSame(entries, [SHOWN, SHOWN, SHOWN, SHOWN, SHOWN])
  t.equal(team.launch(QUERY, { runId: 'one' }).id, 'one', 'the same query joins the run')
})

// Causes of what agents throw: no key of the team is in them, and the log lines of agents have them too.

function thrown(): Error {
  const deep = Object.assign(new Error(`${KEY} is wrong`), { code: KEY, status: 401 })
  const errors = [Object.assign(new Error(`not with Bearer ${KEY}`), { code: 'E_ONE' }), new Error('two')]
  return new Error('no', { cause: new AggregateError(errors, 'none', { cause: deep }) })
}

t.test('causes and the errors of an AggregateError are redacted in the result, in events and in the log', async (t) => {
  const lines: object[] = []
  const line = (fields: object) => void lines.push(fields)
  const logger: Logger = { debug() {}, info() {}, warn: line, error: line }
  const team = given(t, {
    logger,
    models: { default: { model: 'small', baseURL: 'http://localhost:1/v1', apiKey: KEY } },
  }).testTeam({
    ann(_message, context) {
      context.log.warn({ error: thrown() }, 'it will fail')
      throw thrown()
    },
  })
  const run = team.launch('go')
  const events: RuntimeEvent[] = []
  for await (const event of run.events()) events.push(event)
  const result = await run.result
  const cause = {
    message: 'none',
    cause: { message: '[redacted] is wrong', code: '[redacted]', status: 401 },
    errors: [{ message: 'not with [redacted]', code: 'E_ONE' }, { message: 'two' }],
  }
  t.match(result.error, { cause: { message: 'no', cause } })
  t.match(result.error?.message, /E_ONE.*two/)
  t.match(lines, [{ error: { name: 'Error', message: 'no', cause } }, { error: result.error?.message }])
  t.match(events.at(-1), { type: 'run.finished', result: { error: { cause: { cause } } } })
  t.notMatch(inspect([result, events, lines], { depth: 20 }), KEY)
})

// What an agent or a tool throws is told with its causes, in the result, in events and in the log.

const fixture = (name: string) => fileURLToPath(new URL(`../fixtures/team/${name}.js`, import.meta.url))

/** An address at which nobody listens. */
async function nobody(): Promise<string> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  server.close()
  await once(server, 'close')
  return `127.0.0.1:${port}`
}

t.test('a refused connection is told with its code and address, whoever met it', async (t) => {
  const lines: object[] = []
  const line = (fields: object) => void lines.push(fields)
  const module = fixture('refused-tools')
  const team = createTeam({
    agents: [
      {
        name: 'ann',
        module: fixture('refused'),
        tools: [inHost, { module, export: 'inThread' }, { module, export: 'inOwnThread', isolate: true }],
      },
    ],
    orchestration: { strategy: 'sequential' },
    logger: { debug() {}, info() {}, warn: line, error: line },
  })
  t.teardown(() => team.close())
  for (const by of ['agent', 'host', 'thread', 'isolated']) {
    const address = await nobody()
    const run = team.launch(`${by} http://${address}/${process.pid}`)
    const finished: RuntimeEvent[] = []
    for await (const event of run.events()) if (event.type === 'tool.finished') finished.push(event)
    const { error } = await run.result
    const why = {
      name: 'Error',
      code: 'ECONNREFUSED',
      address: '127.0.0.1',
      message: `connect ECONNREFUSED ${address}`,
    }
    const fetching = { name: 'TypeError', message: 'fetch failed', cause: why }
    t.match(error, { code: 'AGENT_FAILED', cause: by === 'agent' ? fetching : { name: 'ToolFailedError' } }, by)
    t.match(error?.message, `TypeError: fetch failed; cause: Error: connect ECONNREFUSED ${address}`, by)
    t.match(lines, [{ event: 'run.finished', error: error?.message }], by)
    if (by !== 'agent') t.match(finished, [{ error: { code: 'TOOL_FAILED', cause: fetching } }], by)
    lines.length = 0
  }
})
