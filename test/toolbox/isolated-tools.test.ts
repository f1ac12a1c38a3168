/** Tools with `isolate: true`: each call has a thread alone, also where tools are hostile. */
import { spawnSync } from 'node:child_process'
import { mkdtempSync, realpathSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { threadId } from 'node:worker_threads'
import t from 'tap'
import { ToolPool } from '../../src/runtime/verbs/tool-pool.ts'
import { asked, callerModule, desk, ledger, recordModule, typedModule, underWay, watchThreads } from './desk.ts'
import { refusal, toolEvents } from './tools.ts'

// Tools with `isolate: true`: each call has a thread alone, which is ended alone.

const record = { module: recordModule, isolate: true }
const code = { module: recordModule.href, bundled: false, shown: 'record', export: 'default', option: 'tools[0]' }
const callOf = (input: object) => ({ agent: 'ann', runId: 'run', idempotencyKey: 'key', input, maxBytes: 1_000 })
const callerOf = (signal: AbortSignal) => ({ signal, heard() {}, printed: { line() {}, flooded() {}, leftOut() {} } })
const hasty = { module: recordModule, export: 'hasty', isolate: true }

t.test('it runs in a thread of its own, in JavaScript and TypeScript, and is told of like any other', async (t) => {
  const { team, call } = desk(t, [record, { module: typedModule, export: 'shout', isolate: true }, 'record'])
  const events = toolEvents(team)
  const { file, runs } = ledger(t)
  const agents = new Set(
    (await call('record', { file })).outcomes.map(({ output }) => (output as { threadId: number }).threadId),
  )
  t.equal(agents.size, 1)
  t.match((await call('shout', { text: 'hey' })).outcomes, [{ output: 'HEY' }])
  t.equal(runs(), 1)
  t.match(events, [
    { type: 'tool.started', agent: 'ann', tool: 'record', input: { file } },
    { type: 'tool.progress', tool: 'record', note: 'run 1' },
    { type: 'tool.finished', tool: 'record', durationMs: Number, error: null },
    { type: 'tool.started', agent: 'ann', tool: 'shout' },
    { type: 'tool.finished', tool: 'shout' },
  ])
})

t.test('a tool knows whom its run is for, wherever it runs', async (t) => {
  const { whom } = await import('../fixtures/tools/typed.ts')
  for (const given of [
    whom,
    { module: typedModule, export: 'whom' },
    { module: typedModule, export: 'whom', isolate: true },
  ]) {
    const { team } = desk(t, [given])
    const told = async (options: object) => {
      const { messageHistory } = await team.execute(asked('whom', {}, 1), options)
      return Object(messageHistory.at(-1)?.structuredData).outcomes
    }
    t.same(await told({ caller: 'ann', tenant: 'acme' }), [{ output: { caller: 'ann', tenant: 'acme' } }])
    t.same(await told({}), [{ output: {} }])
  }
})

t.test('wrong input and what it throws are as elsewhere', async (t) => {
  const { call } = desk(t, [record])
  const { file } = ledger(t)
  t.match((await call('record', { file: 5 })).outcomes, [{ code: 'TOOL_INPUT', message: /misses its schema: file: / }])
  t.match((await call('record', { file, act: 'throw' })).outcomes, [
    { code: 'TOOL_FAILED', message: /failed: RangeError: thrown by the tool/ },
  ])
})

t.test('it sees the variables that are granted, and no others', async (t) => {
  process.env.TOOLS_TEST_GRANTED = 'granted'
  process.env.TOOLS_TEST_SECRET = 'secret'
  t.teardown(() => {
    delete process.env.TOOLS_TEST_GRANTED
    delete process.env.TOOLS_TEST_SECRET
  })
  const { call } = desk(t, [{ ...record, env: ['TOOLS_TEST_GRANTED', 'TOOLS_TEST_ABSENT'] }])
  const { outcomes } = await call('record', { file: ledger(t).file, act: 'show' })
  t.match(outcomes, [{ output: { agent: 'ann' } }])
  t.same((outcomes[0]!.output as { env: object }).env, { TOOLS_TEST_GRANTED: 'granted' })
})

t.test('an endless loop is ended when its time is up, alone, and its agent goes on', async (t) => {
  const { call } = desk(t, [hasty, record])
  const { file, runs } = ledger(t)
  const { outcomes } = await call('hasty', { file, act: 'loop' })
  t.match(outcomes, [
    { code: 'TOOL_TIMEOUT', message: /Tool "hasty", called by agent "ann", did not end within 200 ms/ },
  ])
  const before = runs()
  t.match((await call('record', { file })).outcomes, [{ output: { runs: before + 1 } }])
})

t.test('a tool that eats memory dies alone, and its agent goes on', async (t) => {
  const { team, call } = desk(t, [{ ...record, limits: { maxHeapMb: 32 } }])
  const { file } = ledger(t)
  const crashes: string[] = []
  team.events.subscribe((event) => void (event.type === 'agent.crashed' && crashes.push(event.agent)))
  t.match((await call('record', { file, act: 'eat' })).outcomes, [
    { code: 'TOOL_FAILED', message: /ran out of memory \(limits\.maxHeapMb\)/ },
  ])
  t.match((await call('record', { file })).outcomes, [{ output: { runs: 2 } }])
  t.same(crashes, [])
})

t.test('a tool that ends its thread fails, and the next call gets another one', async (t) => {
  const { call } = desk(t, [record])
  const { file, runs } = ledger(t)
  t.match((await call('record', { file, act: 'die' })).outcomes, [{ code: 'TOOL_FAILED', message: /died: .*7/ }])
  t.equal(runs(), 1, 'it does not run again')
  t.match((await call('record', { file })).outcomes, [{ output: { runs: 2 } }])
})

t.test('an idempotent tool whose thread dies runs again in another one, with the same key', async (t) => {
  const { team, call } = desk(t, [{ ...record, export: 'again' }])
  const events = toolEvents(team)
  const { file, keys } = ledger(t)
  t.match(await call('again', { file, act: 'die' }), { attempt: 1, outcomes: [{ output: { runs: 2 } }] })
  t.equal(keys().length, 2)
  t.equal(new Set(keys()).size, 1)
  t.same(events.filter(({ type }) => type === 'tool.started').length, 1, 'it is one call')
})

t.test('an idempotent tool whose threads all die fails after three', async (t) => {
  const { call } = desk(t, [{ ...record, export: 'again' }])
  const { file, runs } = ledger(t)
  t.match((await call('again', { file, act: 'die always' })).outcomes, [{ code: 'TOOL_FAILED', message: /died: .*7/ }])
  t.equal(runs(), 3)
})

t.test('many calls at once wait for threads', async (t) => {
  const { call } = desk(t, [record])
  const { file, runs } = ledger(t)
  const { outcomes } = await call('record', { file }, 30)
  t.equal(outcomes.filter(({ output }) => output).length, 30)
  t.equal(runs(), 30)
})

t.test('more calls than may wait are refused at once', async (t) => {
  const pool = new ToolPool({ env: [], maxHeapMb: null }, { threads: 2, queue: 256 })
  const { file } = ledger(t)
  const end = new AbortController()
  const calls = Array.from({ length: 300 }, () =>
    pool.perform(code, callOf({ file, act: 'wait' }), callerOf(end.signal)),
  )
  const refused = await Promise.all(calls.slice(-20).map(refusal))
  t.ok(refused.every(({ message }) => /^256 calls of isolated tools wait for a thread already/.test(message)))
  end.abort(new Error('enough'))
  await Promise.allSettled(calls)
  await pool.close()
})

t.test('calls that wait behind others that are ended get a thread', async (t) => {
  const { call } = desk(t, [hasty, record])
  const { file } = ledger(t)
  const [stuck, fine] = await Promise.all([call('hasty', { file, act: 'loop' }, 16), call('record', { file }, 4)])
  t.ok(stuck.outcomes.every(({ code }) => code === 'TOOL_TIMEOUT'))
  t.equal(fine.outcomes.filter(({ output }) => output).length, 4)
})

t.test('what stops the turn ends the thread', async (t) => {
  const threads = watchThreads(t)
  const { team } = desk(t, [record])
  await team.start()
  const finished = new Promise((resolve) => {
    team.events.subscribe((event) => void (event.type === 'tool.finished' && resolve(event)))
  })
  const begun = underWay(team)
  const run = team.launch(asked('record', { file: ledger(t).file, act: 'loop' }))
  await begun
  const gone = Promise.race([...threads].map((thread) => new Promise((resolve) => thread.once('exit', resolve))))
  await run.cancel('enough')
  await gone
  t.match(await run.result, { success: false })
  t.match(await finished, { tool: 'record', error: { code: /RUN_ABORTED|CANCELLED/ } })
})

t.test('the death of its agent leaves it alone: it runs once, and the next attempt gets its output', async (t) => {
  const threads = watchThreads(t)
  const { team, call } = desk(t, [record])
  await team.start()
  const { file, runs } = ledger(t)
  const agent = [...threads].at(-1)! // its tool was looked at before
  const begun = underWay(team)
  const reply = call('record', { file, act: 'hold' })
  await begun
  const crashed = new Promise((resolve) => {
    team.events.subscribe((event) => void (event.type === 'agent.crashed' && resolve(event)))
  })
  await agent.terminate()
  await crashed
  writeFileSync(`${file}.go`, '')
  t.match(await reply, { attempt: 2, outcomes: [{ output: { runs: 1 } }] })
  t.equal(runs(), 1)
})

t.test('what it prints and logs goes to the log, not to the streams of the process', async (t) => {
  const program = fileURLToPath(new URL('../fixtures/tools/printing-team.js', import.meta.url))
  const { status, stdout, stderr } = spawnSync(process.execPath, [program], { encoding: 'utf8' })
  t.equal(status, 0, stderr)
  const lines = stdout
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as { text: string; agent?: string })
  t.match(lines, [{ text: 'printed by the tool', agent: 'ann' }, { text: 'done' }])
  t.equal(stderr, '')
})

t.test('close ends all of its threads, also those in a loop; twice is fine; nothing keeps the process', async (t) => {
  const threads = watchThreads(t)
  const { team, call } = desk(t, [record, { ...record, export: 'again', limits: { maxHeapMb: 64 } }])
  const { file } = ledger(t)
  const begun = underWay(team)
  const reply = refusal(call('record', { file, act: 'loop' }, 3))
  await begun
  await Promise.all([team.close(), team.close()])
  await team.close()
  t.equal(threads.size, 0)
  await reply
})

t.test('a team that is closed while it loads its tools leaves no thread behind', async (t) => {
  const threads = watchThreads(t)
  for (let turns = 0; turns < 40; turns += 4) {
    const { team } = desk(t, [record])
    const starting = team.start().catch(() => {})
    for (let turn = 0; turn < turns; turn++) await new Promise((resolve) => setImmediate(resolve))
    await team.close()
    await starting
    t.equal(threads.size, 0)
  }
})

t.test('a heap in which no thread can boot is an error that says so', async (t) => {
  const pool = new ToolPool({ env: [], maxHeapMb: 4 }, { threads: 2, queue: 256 }) // with less the whole process dies on Node 24
  t.teardown(() => pool.close())
  const caller = callerOf(new AbortController().signal)
  t.match(await refusal(pool.perform(code, undefined, caller)), { code: 'TOOL_FAILED', message: /ran out of memory/ })
})

t.test('a thread that was ended just before is gone too when its pool is closed', async (t) => {
  const threads = watchThreads(t)
  const pool = new ToolPool({ env: [], maxHeapMb: null }, { threads: 2, queue: 256 })
  const end = new AbortController()
  const call = callOf({ file: ledger(t).file, act: 'loop' })
  await new Promise<void>((resolve) => {
    pool.perform(code, call, { ...callerOf(end.signal), heard: () => resolve() }).catch(() => {})
  })
  end.abort(new Error('enough'))
  await pool.close()
  t.equal(threads.size, 0)
})

t.test('a module that has no tool, throws, or does not end its import, is named when the agent starts', async (t) => {
  const wrong: [object, RegExp][] = [
    [{ ...record, export: 'noTool' }, /^agents\[0\]\.tools\[0\]\.export: .* which is no tool as its export "noTool"/],
    [
      { ...record, module: new URL('./broken.js', recordModule) },
      /^agents\[0\]\.tools\[0\]\.module: the module of a tool of "ann" throws when it is imported: .*broken\.js:2:.*broken while/,
    ],
    [{ ...record, module: new URL('./absent.js', recordModule) }, /^agents\[0\]\.tools\[0\]\.module: there is no file/],
  ]
  for (const [tool, text] of wrong) {
    const { team } = desk(t, [tool as typeof record])
    const error = await refusal(team.start())
    t.equal(error.code, 'CONFIGURATION')
    t.match(error.message, text)
    await team.close()
  }
  const looping = desk(t, [], {
    agents: [
      {
        name: 'ann',
        module: callerModule,
        tools: [{ ...record, module: new URL('./loops.js', recordModule) }],
        limits: { turnTimeoutMs: 300 },
      },
    ],
  })
  t.match(await refusal(looping.team.start()), {
    code: 'START_FAILED',
    message: /did not load within 300 ms/,
  })
})

// Isolated tools that attack the host or each other: by what they post, and by what they change in their thread.

const module = new URL('../fixtures/tools/hostile.js', import.meta.url)
const tool = (name: string) => ({ module, export: name, isolate: true })

t.test('whatever a tool posts by itself, the host goes on and the call has its own answer', async (t) => {
  const { call } = desk(t, [tool('posting')])
  const posts = [
    5,
    null,
    'text',
    [],
    {},
    { log: 'fatal', fields: '{}', text: 'x' },
    { log: 'info', fields: 5, text: {} },
    { log: 'constructor', fields: '{}', text: 'x' },
    { progress: 5 },
    { begun: threadId },
    { done: null },
    { done: 5 },
    { done: { ok: false } },
    { done: { ok: false, error: 'no' } },
    { done: { ok: true, output: 5 } },
    { done: { ok: true, tool: { name: 5 } } },
    { ready: true },
    { taskId: 1, result: 'forged' },
  ]
  t.match((await call('posting', { posts })).outcomes, [{ output: 'done' }])
  t.match((await call('posting', {})).outcomes, [{ output: 'done' }], 'and the next one too')
})

t.test('an answer that a tool forges is its own; one that is no JSON, or too deep, is a failure', async (t) => {
  const { call } = desk(t, [tool('posting')])
  const deep = `${'['.repeat(20_000)}${']'.repeat(20_000)}`
  const forged = (output: string) => call('posting', { posts: [{ done: { ok: true, output } }] })
  t.match((await forged('"forged"')).outcomes, [{ output: 'forged' }])
  for (const output of ['{', deep])
    t.match((await forged(output)).outcomes, [
      { code: 'TOOL_FAILED', message: /no JSON, or is nested more than 1,000/ },
    ])
})

t.test('an answer that a tool forges is as long as answers may be, and an error too', async (t) => {
  const { call } = desk(t, [tool('posting')], { communication: { maxMessageBytes: 100_000 } })
  const forged = async (kind: string) => (await call('posting', { forge: { kind, size: 5_000_000 } })).outcomes
  t.match(await forged('output'), [{ code: 'TOOL_FAILED', message: /gave \d+ bytes; at most 100000 are taken/ }])
  for (const kind of ['message', 'details']) {
    const [outcome] = await forged(kind)
    t.equal(outcome!.code, 'TOOL_FAILED', kind)
    t.match(outcome!.message, /^x{1,65536}$/, kind)
  }
})

t.test('a tool that posts without end loses its thread, and its call fails', async (t) => {
  const { call } = desk(t, [tool('posting')])
  t.match((await call('posting', { flood: 100_000 })).outcomes, [
    { code: 'TOOL_FAILED', message: /posted more than 20000 messages/ },
  ])
})

t.test('what a tool changes in its thread is gone with its call', async (t) => {
  const { call } = desk(t, [tool('infecting'), tool('honest')])
  for (let round = 0; round < 2; round += 1) {
    t.match((await call('infecting', {})).outcomes, [{}])
    t.match(
      (await call('honest', {}, 4)).outcomes,
      Array(4).fill({ output: { json: '{"a":1}', text: 'ext', seen: null } }),
    )
  }
})

// Threads of agents and tools may do no more than the process, where Node's permission model bounds it.

const program = fileURLToPath(new URL('../fixtures/tools/trespassing-team.js', import.meta.url))
const root = fileURLToPath(new URL('../../../', import.meta.url))
const permission = process.allowedNodeEnvironmentFlags.has('--permission')
  ? '--permission'
  : '--experimental-permission'

t.test('an agent and an isolated tool may not read, write or spawn what the process may not', async (t) => {
  const folder = realpathSync(mkdtempSync(join(tmpdir(), 'dramatis-permissions-')))
  t.teardown(() => rmSync(folder, { recursive: true }))
  writeFileSync(join(folder, 'allowed.txt'), 'x')
  const flags = [
    permission,
    '--allow-worker',
    `--allow-fs-read=${join(root, '*')}`,
    `--allow-fs-read=${join(folder, '*')}`,
  ]
  const bounded = {
    read: 'done',
    readOther: 'ERR_ACCESS_DENIED',
    write: 'ERR_ACCESS_DENIED',
    spawn: 'ERR_ACCESS_DENIED',
  }
  for (const [args, NODE_OPTIONS] of [
    [flags, ''],
    [[], flags.map((flag) => JSON.stringify(flag)).join(' ')],
  ] as const) {
    const { stdout, stderr } = spawnSync(process.execPath, [...args, program, folder], {
      cwd: root,
      env: { ...process.env, NODE_OPTIONS },
      encoding: 'utf8',
    })
    t.strictSame(stdout.startsWith('{') ? JSON.parse(stdout) : `${stdout}${stderr}`, { agent: bounded, tool: bounded })
  }
})
