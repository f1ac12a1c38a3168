/** A team on real threads: what only they can show, and how they start. */

import { spawnSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import {
  createTeam,
  type Logger,
  type MultiAgentPatternOptions,
  type OrchestrationConfig,
  type RuntimeEvent,
} from '../../src/index.ts'
import { flagsOf } from '../../src/shared/environment.ts'
import { held } from '../held.ts'
import { howMany } from '../how-many.ts'
import { pluck, where } from '../kit/lists.ts'
import { all, type Test } from './stage.ts'

// The same team on real threads: what only they can show.

const module = new URL('../fixtures/team/actor.js', import.meta.url)
const relay = new URL('../fixtures/team/relay.js', import.meta.url)

/** A logger that keeps what it is told, and tells when something was said. */
function listener() {
  const lines: { text: string; [field: string]: unknown }[] = []
  const waiting: { text: string; tell(): void }[] = []
  const note = (fields: object, text: string) => {
    lines.push({ ...fields, text })
    for (const wait of waiting) if (wait.text === text) wait.tell()
  }
  const logger: Logger = { debug: note, info: note, warn: note, error: note }
  const said = (text: string, times = 1) =>
    held(
      new Promise<void>((resolve) => {
        const tell = () => {
          if (lines.filter((line) => line.text === text).length >= times) resolve()
        }
        waiting.push({ text, tell })
        tell()
      }),
    )
  return { lines, logger, said }
}

function start(t: Test, options: Partial<MultiAgentPatternOptions> = {}) {
  const heard = listener()
  const team = createTeam({
    agents: [
      { name: 'a', module },
      { name: 'b', module },
    ],
    orchestration: { strategy: 'sequential', agentOrder: ['a'] },
    logger: heard.logger,
    ...options,
  } as MultiAgentPatternOptions)
  t.teardown(() => team.close())
  return { team, ...heard }
}

t.test('code agents crash once, start again and answer; what they published is there once', async (t) => {
  const { team } = start(t, {
    enableBlackboard: true,
    orchestration: {
      strategy: 'custom',
      async run(orchestrator, query) {
        const outcomes = await orchestrator.requestAll(['a', 'b'], query)
        await orchestrator.requestAll(['a', 'b'], 'publish:finding')
        const found = await orchestrator.blackboard.getHistory('finding')
        const first = await orchestrator.requestAny(['a', 'b'], 'again')
        return `${outcomes.filter(({ ok }) => ok).length} answered, ${found.length} findings, ${first.content}`
      },
    },
  })
  const crashes: string[] = []
  team.events.subscribe((event) => void (event.type === 'agent.crashed' && crashes.push(event.agent)))
  const result = await team.execute('exit')
  t.equal(result.finalOutput, '2 answered, 2 findings, handled 3')
  t.same(crashes.sort(), ['a', 'b'])
  t.equal(team.health().ready, true)
})

t.test('state survives the death of a thread; a turn that was cut off counts once', async (t) => {
  const { team } = start(t)
  t.equal((await team.execute('count')).finalOutput, 'handled 1')
  t.equal((await team.execute('exit')).finalOutput, 'attempt 2, handled 2')
  t.equal((await team.execute('count')).finalOutput, 'handled 3')
  t.match(team.health().agents, { a: { restarts: 1 }, b: { restarts: 0 } })
})

t.test('metrics know the threads and how busy they are', async (t) => {
  const { team } = start(t, { threads: { warmSpares: 0 } })
  await team.execute('echo:hi')
  const samplesOf = (name: string) => team.metrics().find((metric) => metric.name === `dramatis_${name}`)!.samples
  t.same(samplesOf('threads'), [
    { labels: { use: 'agent' }, value: 2 },
    { labels: { use: 'spare' }, value: 0 },
  ])
  const active = samplesOf('agent_event_loop_active_seconds_total')
  t.same(
    active.map(({ labels }) => labels.agent),
    ['a', 'b'],
  )
  for (const { value } of active) t.ok(value > 0)
  await team.close()
  t.match(samplesOf('threads'), [{ value: 0 }, { value: 0 }])
})

t.test('an agent sees its role, and of the environment what it was granted', async (t) => {
  process.env.TEAM_TEST_GRANTED = 'yes'
  process.env.TEAM_TEST_SECRET = 'no'
  const role = { name: 'a', module, env: ['TEAM_TEST_GRANTED'], capabilities: ['acting'], data: { step: 2 } }
  const { team } = start(t, { agents: [role] })
  t.same((await team.execute('role')).agentOutputs.a?.[0]?.structuredData, {
    name: 'a',
    capabilities: ['acting'],
    data: { step: 2 },
  })
  t.same((await team.execute('env')).agentOutputs.a?.[0]?.structuredData, { TEAM_TEST_GRANTED: 'yes' })
})

t.test('errors keep class, fields and the stack of their cause', async (t) => {
  const { team } = start(t)
  const { error } = await team.execute('throw:too far')
  t.match(error, { code: 'AGENT_FAILED', message: /RangeError: too far/, details: { agent: 'a' } })
  t.match(error?.cause, { stack: /RangeError: too far[\s\S]*actor\.(js|ts)/ })
  t.match((await team.execute('refuse:no time')).error, { code: 'TASK_REFUSED', details: { reason: 'no time' } })
})

t.test('what an agent prints and logs goes to the logger, with its name', async (t) => {
  const { team, lines, said } = start(t)
  await team.execute('print:hello')
  await Promise.all([said('hello'), said('starts', 2)])
  t.match(
    lines.find(({ text }) => text === 'hello'),
    { agent: 'a' },
  )
  t.match(
    lines
      .filter(({ text }) => text === 'starts')
      .map(({ agent, name }) => [agent, name])
      .sort(),
    [
      ['a', 'a'],
      ['b', 'b'],
    ],
  )
})

t.test('the stop hook runs when the team closes', async (t) => {
  const { team, lines, said } = start(t)
  await team.start()
  const stopped = said('stops', 2)
  await team.close()
  await stopped
  t.same(pluck(where(lines, 'text', 'stops'), 'agent'), ['b', 'a'])
})

for (const bytes of [70_000, 1_000_000])
  t.test(`${bytes} bytes cross from thread to thread and back`, async (t) => {
    const { team } = start(t)
    const load = 'x'.repeat(bytes)
    const result = await team.execute(`ask:echo:${load}`)
    t.ok(result.finalOutput === load)
    const data = await team.sendMessage({
      recipient: 'a',
      content: 'echo:',
      structuredData: { load },
      requiresResponse: true,
    })
    t.ok((data!.structuredData as { load: string }).load === load)
  })

t.test('a stream comes in pieces, all of them, in order', async (t) => {
  const { team } = start(t, {
    orchestration: {
      strategy: 'custom',
      async run(orchestrator) {
        let text = ''
        const stream = orchestrator.requestStream('a', 'stream:500')
        for await (const piece of stream) text += piece
        return `${text}${(await stream.response).content}`
      },
    },
  })
  t.equal((await team.execute('q')).finalOutput, `${Array.from({ length: 500 }, (_, i) => `${i} `).join('')}streamed`)
})

t.test('what is published reaches observe of another thread', async (t) => {
  const { team, said, lines } = start(t, {
    enableBlackboard: true,
    orchestration: {
      strategy: 'custom',
      async run(orchestrator) {
        await orchestrator.request('a', 'listen:news.*')
        await orchestrator.request('b', 'publish:news.today')
        return 'over'
      },
    },
  })
  await team.execute('q')
  await said('observed')
  t.match(
    lines.find(({ text }) => text === 'observed'),
    { agent: 'a', content: 'news.today', type: 'publish' },
  )
})

t.test('a cancelled run ends at once, and its agents are free', async (t) => {
  const { team } = start(t)
  const run = team.launch('wait')
  for await (const event of run.events()) if (event.type === 'turn.started' && event.agent === 'a') break
  await run.cancel('enough')
  t.match(await run.result, { error: { code: 'RUN_ABORTED' } })
  t.equal((await team.execute('count')).finalOutput, 'handled 1')
})

t.test('many runs at a time, each with its own answer', async (t) => {
  const { team } = start(t)
  const results = await Promise.all(Array.from({ length: 40 }, (_, i) => team.execute(`ask:echo:${i}`)))
  t.same(
    pluck(results, 'finalOutput'),
    results.map((_, i) => String(i)),
  )
})

t.test('events are whole: seq ascends, turns begin before they end, each message once', async (t) => {
  const { team } = start(t, { orchestration: { strategy: 'parallel' } })
  for (let times = 0; times < 5; times++) {
    const run = team.launch('echo:hi')
    const events: RuntimeEvent[] = await all(run.events())
    t.ok(events.slice(1).every(({ seq }, at) => seq > events[at]!.seq))
    const open = new Set<string>()
    for (const event of events) {
      if (event.type === 'turn.started') open.add(event.messageId)
      else if (event.type === 'turn.finished') t.ok(open.delete(event.messageId), `${event.agent} began`)
    }
    t.equal(open.size, 0)
    const messages = events.flatMap((event) => (event.type === 'message' ? [event.message.id] : []))
    t.same(messages, pluck((await run.result).messageHistory, 'id'))
  }
})

t.test('times are those of the trace', async (t) => {
  const { team } = start(t)
  const { executionTimeMs, agentExecutionTimesMs, orchestrationTrace } = await team.execute('ask:stream:30')
  const [a, b] = ['a', 'b'].map((name) => orchestrationTrace.agentActivations.find(({ agent }) => agent === name)!)
  t.same(agentExecutionTimesMs, { a: a!.endedAt - a!.startedAt, b: b!.endedAt - b!.startedAt })
  t.ok(agentExecutionTimesMs.a! <= executionTimeMs)
})

const config = { runners: ['a', 'b'], laps: 2 }
const inModule = (given: object | undefined): OrchestrationConfig => ({
  strategy: 'custom',
  module: relay,
  ...(given && { config: given }),
})

t.test('a protocol in a module runs in a thread, with its configuration', async (t) => {
  const { team } = start(t, { orchestration: inModule(config) })
  const run = team.launch('>')
  const { finalOutput, orchestrationTrace } = await run.result
  t.equal(finalOutput, '>abab a,b')
  t.match(orchestrationTrace.decisions, [{ question: 'How far?', choice: '2 laps' }])
  t.match(await all(run.events({ types: ['output.delta'] })), [{ agent: '$orchestrator', chunk: 'go ', final: true }])
})

t.test('the crash of an agent does not change what such a protocol comes to', async (t) => {
  const { team } = start(t, { orchestration: inModule({ runners: ['a'] }) })
  await team.start()
  const crash = team.sendMessage({ recipient: 'a', content: 'exit', requiresResponse: true })
  const [result] = await Promise.all([team.execute('>'), crash])
  t.equal(result.finalOutput, '>a a,b')
})

t.test(
  'a configuration that misses the schema of such a protocol is found before any message is handled',
  async (t) => {
    const { team } = start(t, { orchestration: inModule({ runners: 'a' }) })
    const wrong = { code: 'CONFIGURATION', details: { path: 'orchestration.config.runners' } }
    await t.rejects(team.start(), wrong)
    await t.rejects(team.execute('q'), wrong)
    await t.rejects(team.launch('q').result, wrong)
  },
)

t.test('such a protocol goes on where its thread died, and asks nobody twice', async (t) => {
  const { team } = start(t, { orchestration: inModule({ runners: ['a', 'b'], laps: 3, exitInLap: 2 }) })
  const result = await team.execute('>')
  t.equal(result.finalOutput, '>ababab a,b')
  t.same([result.agentOutputs.a?.length, result.agentOutputs.b?.length], [3, 3])
  t.same(pluck(result.orchestrationTrace.decisions, 'choice'), ['3 laps'])
  t.equal(Object.values(result.taskCompletion).filter((status) => status === 'completed').length, 6)
})

t.test('a module without an agent or a protocol is a configuration error', async (t) => {
  const { team } = start(t, { agents: [{ name: 'a', module: relay }] })
  await t.rejects(team.execute('q'), { code: 'CONFIGURATION', message: /no agent as its default export/ })
  const { team: other } = start(t, { orchestration: { strategy: 'custom', module } })
  await t.rejects(other.execute('q'), { code: 'CONFIGURATION', message: /no protocol as its default export/ })
})

t.test('closing right after the start leaves nothing behind', async (t) => {
  const { team } = start(t)
  const started = team.start().catch(({ code }) => code)
  await team.close()
  t.equal(await started, 'TEAM_CLOSED')
  t.match(team.health(), { live: false, agents: { a: { status: 'stopped' }, b: { status: 'stopped' } } })
})

// Threads start as the process did: with what it preloads, its conditions and experiments, and without its debugger.

t.test('threads are given the flags that a worker inherits, from the command line and from NODE_OPTIONS', async (t) => {
  for (const [args, nodeOptions, flags] of [
    [[], '', []],
    [
      ['--allow-fs-read', '/a b', '--allow-fs-write=/c', '-e', '1'],
      '',
      ['--allow-fs-read', '/a b', '--allow-fs-write=/c'],
    ],
    [[], '"--allow-fs-read=/a b\\"c" --allow-fs-write /d', ['--allow-fs-read=/a b"c', '--allow-fs-write', '/d']],
    [
      ['-r', './b.cjs', '--import=a, b'],
      '--require ./a.cjs',
      ['--require', './a.cjs', '-r', './b.cjs', '--import=a, b'],
    ],
    [['-C', 'one', '--conditions=two'], '', ['-C', 'one', '--conditions=two']],
    [
      ['--experimental-loader', './l.mjs', '--experimental-vm-modules'],
      '',
      ['--experimental-loader', './l.mjs', '--experimental-vm-modules'],
    ],
    [
      ['--enable-source-maps', '--no-warnings', '--preserve-symlinks'],
      '',
      ['--enable-source-maps', '--no-warnings', '--preserve-symlinks'],
    ],
    [['--inspect', '--inspect-brk=0', '--inspect-port=1', '--debug-port', '1'], '--inspect-wait', []],
    [['--max-old-space-size=100', '--expose-gc', '--stack-size=900', '--title=x', '--v8-pool-size=2'], '--jitless', []],
    [
      ['--env-file=.env', '--env-file-if-exists', '.env', '--test', '--watch', '-pe', '1', '--input-type=module'],
      '',
      [],
    ],
  ] as const)
    t.strictSame(flagsOf(args, nodeOptions), flags)
})

const program = fileURLToPath(new URL('../fixtures/team/shows-flags.js', import.meta.url))

/** Runs the program with flags, and returns what an agent and an isolated tool see in their threads. */
function seen(folder: string, args: readonly string[], nodeOptions = ''): unknown {
  const env = { ...process.env, NODE_OPTIONS: nodeOptions }
  const { stdout, stderr } = spawnSync(process.execPath, [...args, program], { cwd: folder, env, encoding: 'utf8' })
  return stdout.startsWith('[') ? JSON.parse(stdout) : `${stdout}${stderr}`
}

const files = {
  'required.cjs': 'globalThis.preloaded = [...(globalThis.preloaded ?? []), "required"]\n',
  'imported.mjs': 'await null; globalThis.preloaded = [...(globalThis.preloaded ?? []), "imported"]\n',
  'loader.mjs': `export async function load(url, context, next) {
  const loaded = await next(url, context)
  if (!url.includes('shows-flags')) return loaded
  return { ...loaded, source: String(loaded.source).replace('as it is', 'as the loader says') }
}
`,
  '.env': 'FROM_FILE=1\n',
  node_modules: {
    conditional: {
      'package.json': '{ "exports": { "special": "./special.cjs", "default": "./plain.cjs" } }',
      'special.cjs': 'module.exports = "special"\n',
      'plain.cjs': 'module.exports = "plain"\n',
    },
  },
}
const plain = { preloaded: [], text: 'as it is', conditional: 'plain', env: [] }

t.test('agents and isolated tools have what the process preloads, its loaders and its conditions', async (t) => {
  const folder = t.testdir(files)
  for (const [args, nodeOptions, change] of [
    [[], '', {}],
    [['--import', './imported.mjs'], '', { preloaded: ['imported'] }],
    [['-r', './required.cjs'], '--import=./imported.mjs', { preloaded: ['required', 'imported'] }],
    [['--experimental-loader', './loader.mjs'], '', { text: 'as the loader says' }],
    [['--conditions', 'special'], '', { conditional: 'special' }],
    [['--inspect=0', '--env-file=.env', '--expose-gc', '--max-old-space-size=500'], '--stack-trace-limit=20', {}],
  ] as const) {
    const expected = { ...plain, ...change }
    t.strictSame(seen(folder, args, nodeOptions), [expected, expected], [...args, nodeOptions].join(' '))
  }
})

t.test('a preload that throws is a start that failed, with what it threw', async (t) => {
  const folder = t.testdir({ 'thread.cjs': 'if (!require("worker_threads").isMainThread) throw new Error("not here")' })
  t.match(seen(folder, ['--require', './thread.cjs']), /failed twice while it started.*not here/)
})

// A test that mocks timers stops what it tests: teams run, and their limits hold.

const mocking = fileURLToPath(new URL('../fixtures/team/mocked-timers.js', import.meta.url))
const expected = ['slept for 5 ms', 'RUN_TIMEOUT', 'ten seconds later', 'closed', '']

for (const when of ['before', 'after'])
  for (const apis of ['', 'setTimeout', 'setImmediate', 'setTimeout,setInterval,setImmediate'].slice(0, howMany(2, 4)))
    t.test(`teams that are made ${when} the mocks (${apis || 'of all timers'}) answer`, async (t) => {
      const options = { encoding: 'utf8', timeout: 60_000 } as const
      const { stdout, stderr } = spawnSync(process.execPath, [mocking, when, apis], options)
      t.strictSame(stdout.split('\n'), expected, stderr.slice(0, 2_000))
    })
