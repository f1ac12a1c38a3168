/** Runs that are asked for wrongly or given up, and teams that are closed at any moment. */
import t from 'tap'
import {
  defineAgent,
  type MultiAgentResult,
  RunAbortedError,
  RunTimeoutError,
  TeamClosedError,
  TeamOverloadedError,
} from '../../src/index.ts'
import { testTeam } from '../../src/testing.ts'
import { pluck } from '../kit/lists.ts'
import { refusalOf, stage, type Test, untyped } from './helpers.ts'

// Runs that are asked for wrongly, are too many, take too long or are given up: each ends, says why, and takes
// nothing with it.

/** Agents "ann" and "bob": ann asks bob, who waits until the test lets him go or his turn is to stop. */
function waitingTeam(t: Test, options: object = {}) {
  const begun: string[] = []
  const stopped: unknown[] = []
  const waiting: (() => void)[] = []
  const ann = defineAgent({
    receive: async ({ content }, context) => (await context.request('bob', content)).content,
  })
  const bob = defineAgent({
    receive({ content }, { signal }) {
      begun.push(content)
      return new Promise<string>((resolve) => {
        waiting.push(() => resolve(`${content}, said bob`))
        signal.addEventListener('abort', () => {
          stopped.push(signal.reason)
          resolve('too late')
        })
      })
    },
  })
  const team = testTeam(
    {
      agents: [{ name: 'ann' }, { name: 'bob' }],
      orchestration: { strategy: 'sequential', agentOrder: ['ann'] },
      ...options,
    },
    { modules: { ann, bob } },
  )
  t.teardown(() => team.close())
  return {
    team,
    begun,
    stopped,
    /** Lets everything happen that can happen now. */
    settle: () => team.clock.advance(0),
    /** Bob answers whom he works for; resolves when the next has begun. */
    async release() {
      for (const go of waiting.splice(0)) go()
      await team.clock.advance(0)
    },
  }
}

const revoked = () => {
  const { proxy, revoke } = Proxy.revocable({}, {})
  revoke()
  return proxy
}

t.test('a query or an option that cannot be is refused by path, before the run exists', async (t) => {
  const { team: typed, isWell } = stage(t)
  const team = untyped(typed)
  for (const [args, path] of [
    [[], 'query'],
    [[5], 'query'],
    [[{ query: 'secret' }], 'query'],
    [['hi', null], 'options'],
    [['hi', 'fast'], 'options'],
    [['hi', []], 'options'],
    [['hi', { timeout: 5 }], 'timeout'],
    [['hi', { timeoutMs: 0 }], 'timeoutMs'],
    [['hi', { timeoutMs: -1 }], 'timeoutMs'],
    [['hi', { timeoutMs: Number.NaN }], 'timeoutMs'],
    [['hi', { timeoutMs: 2 ** 31 }], 'timeoutMs'],
    [['hi', { timeoutMs: '5' }], 'timeoutMs'],
    [['hi', { priority: 'high' }], 'priority'],
    [['hi', { priority: Number.NaN }], 'priority'],
    [['hi', { signal: {} }], 'signal'],
    [['hi', { runId: 5 }], 'runId'],
    [['hi', { runId: '' }], 'runId'],
    [['hi', { threadId: 5 }], 'threadId'],
    [['hi', { threadId: '' }], 'threadId'],
    [['hi', { metadata: null }], 'metadata'],
    [['hi', { metadata: 'secret' }], 'metadata'],
    [['hi', { metadata: { n: 5 } }], 'metadata.n'],
    [['hi', { output: {} }], 'output'],
    [['hi', revoked()], 'options'],
    [[revoked()], 'query'],
  ] as [unknown[], string][]) {
    const error = await refusalOf(() => team.execute(...args))
    t.equal(error.code, 'CONFIGURATION')
    t.equal(error.details.path, path, error.message)
    t.ok(error.message.startsWith(`${path}: `), error.message)
    t.throws(() => team.launch(...args), { code: 'CONFIGURATION', details: { path } })
    const ann = untyped(typed.getAgent('ann')!)
    t.equal((await refusalOf(() => ann.run(...args))).details.path, path)
    const stream = team.stream(...args) as AsyncGenerator
    t.equal((await refusalOf(stream.next())).details.path, path)
  }
  t.same(await typed.listRuns(), [])
  t.ok(await isWell())
})

t.test('a mistyped option is answered with the one that was meant', async (t) => {
  const { team } = stage(t)
  t.match(await refusalOf(() => untyped(team).execute('hi', { timeoutMS: 5 })), {
    message: 'timeoutMS: no such option of a run; did you mean "timeoutMs"?',
  })
})

t.test('the same runId with the same query joins that run', async (t) => {
  const { team, begun, release, settle } = waitingTeam(t)
  const first = team.launch('hi', { runId: 'one' })
  await settle()
  const second = team.launch('hi', { runId: 'one' })
  t.equal(second.id, first.id)
  await release()
  t.equal((await second.result).finalOutput, 'hi, said bob')
  t.equal(await first.result, await second.result)
  t.equal((await team.execute('hi', { runId: 'one' })).finalOutput, 'hi, said bob', 'and when it is over')
  t.same(begun, ['hi'])
})

t.test('the same runId with another query is a conflict', async (t) => {
  const { team, release, settle } = waitingTeam(t)
  const run = team.launch('hi', { runId: 'one' })
  await settle()
  for (const conflict of [() => team.launch('ho', { runId: 'one' }), () => team.execute('ho', { runId: 'one' })]) {
    const error = await refusalOf(conflict)
    t.match(error, { code: 'CONFIGURATION', details: { path: 'runId', got: 'one' } })
    t.match(error.message, /^runId: "one" is the id of a run with another query; .*Use a new id/)
  }
  await release()
  t.ok((await run.result).success)
})

t.test('a run beyond maxConcurrentRuns and maxQueuedRuns is TEAM_OVERLOADED', async (t) => {
  const { team, release, settle } = waitingTeam(t, { maxConcurrentRuns: 1, maxQueuedRuns: 1 })
  const runs = [team.launch('1'), team.launch('2')]
  await settle()
  t.same(pluck(runs, 'status'), ['running', 'queued'])
  const result = await team.execute('3', { runId: 'third' })
  t.match(result, { success: false, runId: 'third', finalOutput: null, data: null, failures: [], messageHistory: [] })
  t.match(JSON.parse(JSON.stringify(result)), {
    success: false,
    error: { code: 'TEAM_OVERLOADED' },
    executionTimeMs: 0,
  })
  for (const error of [await refusalOf(() => team.launch('3')), result.error]) {
    t.ok(error instanceof TeamOverloadedError)
    t.match(error, { code: 'TEAM_OVERLOADED', details: { running: 1, queued: 1 } })
    t.match(error?.message, /1 runs are under way and 1 wait; .*maxConcurrentRuns, maxQueuedRuns\)\. Try again later/)
  }
  t.same(team.health().runs, { running: 1, queued: 1 })
  await release()
  const third = team.launch('3')
  await settle()
  await release()
  await release()
  for (const run of [...runs, third]) t.ok((await run.result).success)
})

t.test('queued runs begin by priority, then in their order', async (t) => {
  const { team, begun, release, settle } = waitingTeam(t, { maxConcurrentRuns: 1 })
  const runs = [
    team.launch('first'),
    team.launch('low', { priority: -1 }),
    team.launch('plain'),
    team.launch('high', { priority: 2.5 }),
    team.launch('plain too', { priority: 0 }),
    team.launch('high too', { priority: 2.5 }),
  ]
  await settle()
  for (const _run of runs) await release()
  for (const run of runs) t.ok((await run.result).success)
  t.same(begun, ['first', 'high', 'high too', 'plain', 'plain too', 'low'])
})

t.test('a run that takes longer than globalTimeoutMs ends with RUN_TIMEOUT, and all in it', async (t) => {
  const { team, stopped, settle } = waitingTeam(t, { globalTimeoutMs: 1_000 })
  const run = team.launch('hi')
  await team.clock.advance(1_000)
  const result = await run.result
  t.match(result, { success: false, finalOutput: null, data: null, runId: run.id })
  t.ok(result.error instanceof RunTimeoutError)
  t.match(result.error, { code: 'RUN_TIMEOUT', details: { runId: run.id, timeoutMs: 1_000 } })
  t.match(result.error?.message, /^The run did not end within 1000 ms \(globalTimeoutMs, or the run's timeoutMs\)/)
  t.equal(run.status, 'failed')
  await settle()
  t.match(stopped, [{ code: 'RUN_TIMEOUT' }], 'the agent at work is told why')
  t.same(await idle(team), { ann: 'idle', bob: 'idle' })
})

t.test("a run's own timeoutMs goes first, and counts from execute on, in the queue too", async (t) => {
  const { team, begun, release, settle } = waitingTeam(t, { maxConcurrentRuns: 1 })
  const first = team.launch('first')
  const queued = team.launch('queued', { timeoutMs: 50 })
  await team.clock.advance(50)
  t.match(await queued.result, { success: false, error: { code: 'RUN_TIMEOUT', details: { timeoutMs: 50 } } })
  await release()
  t.ok((await first.result).success)
  await settle()
  t.same(begun, ['first'])
  t.same(team.health().runs, { running: 0, queued: 0 })
})

t.test('a run aborted before it starts ends at once and asks nobody', async (t) => {
  const { team, begun, release, settle } = waitingTeam(t)
  const run = team.launch('hi', { signal: AbortSignal.abort(new Error('changed my mind')) })
  const result = await run.result
  t.ok(result.error instanceof RunAbortedError)
  t.match(result, { success: false, error: { code: 'RUN_ABORTED', message: /: changed my mind\.$/ } })
  t.equal(run.status, 'aborted')
  await settle()
  t.same(begun, [])
  const after = team.execute('after')
  await settle()
  await release()
  t.equal((await after).finalOutput, 'after, said bob')
})

t.test('an aborted run ends with RUN_ABORTED, and everything under way in it', async (t) => {
  const { team, begun, stopped, release, settle } = waitingTeam(t)
  const controller = new AbortController()
  const other = team.launch('other')
  await settle()
  const run = team.launch('aborted', { signal: controller.signal })
  await settle()
  t.same(begun, ['other'], 'ann is busy: the request waits in her mailbox')
  controller.abort(new Error('changed my mind'))
  const result = await run.result
  t.match(result, { success: false, finalOutput: null, error: { code: 'RUN_ABORTED', details: { runId: run.id } } })
  t.match(team.deadLetters.list(), [{ reason: 'cancelled', message: { recipient: 'ann', content: 'aborted' } }])
  t.same(stopped, [], 'the other run goes on')
  await release()
  t.equal((await other.result).finalOutput, 'other, said bob')
  t.same(begun, ['other'])
  t.same(await idle(team), { ann: 'idle', bob: 'idle' })
})

t.test('the turn under way of an aborted run hears why', async (t) => {
  const { team, stopped, settle } = waitingTeam(t)
  const run = team.launch('hi')
  await settle()
  await run.cancel('changed my mind')
  await settle()
  t.match(await run.result, { success: false, error: { code: 'RUN_ABORTED', message: /changed my mind/ } })
  t.match(stopped, [{ code: 'RUN_ABORTED' }])
  await run.cancel('again')
  t.match((await run.result).error?.message, /changed my mind/, 'the second time changes nothing')
  t.same(await idle(team), { ann: 'idle', bob: 'idle' })
})

t.test('whatever a signal is aborted with, the run ends', async (t) => {
  const { team } = stage(t)
  for (const reason of [undefined, null, 5, 'text', Symbol('s'), Object.create(null), { a: 1n }]) {
    const controller = new AbortController()
    const run = team.launch('hi', { signal: controller.signal })
    controller.abort(reason)
    t.match((await run.result).error, { code: 'RUN_ABORTED' })
  }
})

t.test('leaving a stream aborts its run', async (t) => {
  const { team } = waitingTeam(t)
  let runId = ''
  for await (const event of team.stream('hi')) {
    runId = event.runId
    if (event.type === 'turn.started' && event.agent === 'bob') break
  }
  t.match(await team.getRun(runId)?.result, { success: false, error: { code: 'RUN_ABORTED' } })
  t.same(await idle(team), { ann: 'idle', bob: 'idle' })
})

t.test('a run that fails is a result, not a rejection; its error is data too', async (t) => {
  const team = testTeam(
    { agents: [{ name: 'ann' }], orchestration: { strategy: 'sequential' } },
    {
      modules: {
        ann: defineAgent({
          receive() {
            throw new Error('no paper')
          },
        }),
      },
    },
  )
  t.teardown(() => team.close())
  const result = await team.execute('hi')
  t.match(result, { success: false, finalOutput: null, data: null, error: { code: 'AGENT_FAILED' } })
  t.match(JSON.parse(JSON.stringify(result)), {
    success: false,
    error: { code: 'AGENT_FAILED', message: /no paper/, details: { agent: 'ann' } },
    failures: [{ agent: 'ann', error: { code: 'AGENT_FAILED' } }],
  })
  await t.rejects(Promise.resolve(team.getAgent('ann')?.run('hi')), { code: 'AGENT_FAILED' })
})

t.test('a script that throws, or returns no answer, fails its run', async (t) => {
  for (const [run, code, says] of [
    [
      () => Promise.reject(new Error('lost the plot')),
      'AGENT_FAILED',
      /The protocol script failed: Error: lost the plot/,
    ],
    [
      async () => ({ secret: 'hidden' }),
      'REPLY_INVALID',
      /Protocol "custom" returned an object; it has to return a text/,
    ],
    [async () => undefined, 'REPLY_INVALID', /returned nothing/],
  ] as const) {
    const team = testTeam(
      { agents: [{ name: 'ann' }], orchestration: { strategy: 'custom', run: run as () => Promise<string> } },
      { modules: { ann: defineAgent({ receive: () => 'hi' }) } },
    )
    t.teardown(() => team.close())
    const result = await team.execute('hi')
    t.equal(result.error?.code, code)
    t.match(result.error?.message, says)
    t.notMatch(result.error?.message, 'hidden')
  }
})

t.test('an answer that misses the output schema of its run, or a schema that throws, fails the run', async (t) => {
  const { team } = stage(t)
  const schema = (validate: () => never | { issues: { message: string }[] }) => ({
    '~standard': { version: 1 as const, vendor: 'test', validate },
  })
  for (const [output, says] of [
    [schema(() => ({ issues: [{ message: 'a number is needed' }] })), /misses its output schema: a number is needed/],
    [
      schema(() => {
        throw new TypeError('no schema')
      }),
      /TypeError: no schema/,
    ],
  ] as const) {
    const result = await team.execute('hi', { output: output as never })
    t.match(result, { success: false, data: null, error: { code: 'REPLY_INVALID' } })
    t.match(result.error?.message, says)
    t.notMatch(result.error?.message, 'ann is well')
  }
})

t.test('answers of agents whose names objects have by themselves are theirs', async (t) => {
  const hi = defineAgent({ receive: () => 'hi' })
  const team = testTeam(
    { agents: [{ name: 'constructor' }, { name: 'toString' }], orchestration: { strategy: 'sequential' } },
    { modules: { constructor: hi, toString: hi } },
  )
  t.teardown(() => team.close())
  const { agentOutputs } = await team.execute('hi')
  t.same(Object.entries(agentOutputs), [
    ['constructor', [{ content: 'hi' }]],
    ['toString', [{ content: 'hi' }]],
  ])
})

async function idle(team: ReturnType<typeof waitingTeam>['team']) {
  await team.clock.advance(0)
  return Object.fromEntries(team.listAgents().map(({ name, status }) => [name, status]))
}

// Closing a team, at every moment: it ends all that is under way, answers whoever waits, and takes nothing more.

/** An agent "ann" who works until she is told to stop. */
function busyTeam(t: Test, options: object = {}) {
  const ann = defineAgent({
    receive: (_message, { signal }) =>
      new Promise<string>((resolve) => signal.addEventListener('abort', () => resolve('too late'))),
  })
  const team = testTeam(
    { agents: [{ name: 'ann' }], orchestration: { strategy: 'sequential' }, ...options },
    { modules: { ann } },
  )
  t.teardown(() => team.close())
  return team
}

t.test('after close every way in is TEAM_CLOSED and says what to do', async (t) => {
  const { team } = stage(t)
  await team.execute('hi')
  await team.close()
  const ann = team.getAgent('ann')!
  const message = { recipient: 'ann', content: 'hi' }
  for (const [way, knock] of Object.entries({
    execute: () => team.execute('hi'),
    launch: () => team.launch('hi'),
    stream: () => team.stream('hi').next(),
    start: () => team.start(),
    sendMessage: () => team.sendMessage(message),
    'sendMessage with a response': () => team.sendMessage({ ...message, requiresResponse: true }),
    broadcast: () => team.broadcast('hi', 'ann'),
    'agent.run': () => ann.run('hi'),
    'agent.receiveMessage': () => untyped(ann).receiveMessage(message),
  })) {
    const error = await refusalOf(knock)
    t.ok(error instanceof TeamClosedError, way)
    t.match(error, { code: 'TEAM_CLOSED', message: 'The team is closed; make a new one with createTeam.' })
  }
})

t.test('after close what happened can still be read', async (t) => {
  const { team } = stage(t)
  const { runId } = await team.execute('hi')
  await team.close()
  t.equal((await team.getRun(runId)?.result)?.finalOutput, 'ann is well')
  t.ok(team.getMessageHistory(runId).length > 0)
  t.match(team.health(), { live: false, ready: false, draining: true, agents: { ann: { status: 'stopped' } } })
})

t.test('close twice is fine, at once and later', async (t) => {
  const { team } = stage(t)
  await team.execute('hi')
  await Promise.all([team.close(), team.close()])
  await team.close()
  await team[Symbol.asyncDispose]()
  t.equal(team.getAgentStatus('ann'), 'stopped')
})

t.test('a team that never started closes', async (t) => {
  const { team } = stage(t)
  await team.close()
  t.match(await refusalOf(team.execute('hi')), { code: 'TEAM_CLOSED' })
})

t.test('close takes options or none, and says which', async (t) => {
  const { team, isWell } = stage(t)
  for (const [options, path] of [
    [null, 'options'],
    [5, 'options'],
    [{ drainMs: -1 }, 'drainMs'],
    [{ drainMs: '5' }, 'drainMs'],
    [{ drainMS: 5 }, 'drainMS'],
  ] as const)
    t.match(await refusalOf(() => untyped(team).close(options)), { code: 'CONFIGURATION', details: { path } })
  t.ok(await isWell(), 'a close that was refused closes nothing')
})

t.test('close while 50 runs are under way and 50 wait: all end with RUN_ABORTED', async (t) => {
  const team = busyTeam(t, { maxConcurrentRuns: 50 })
  const runs = Array.from({ length: 100 }, (_, i) => team.launch(`run ${i}`))
  await team.clock.advance(0)
  t.same(team.health().runs, { running: 50, queued: 50 })
  await team.close()
  const results: MultiAgentResult[] = await Promise.all(runs.map(({ result }) => result))
  for (const [i, result] of results.entries()) {
    t.ok(result.error instanceof RunAbortedError)
    t.match(result, {
      success: false,
      runId: runs[i]?.id,
      error: { code: 'RUN_ABORTED', message: 'The team was closed.', details: { reason: 'close' } },
    })
    t.equal(runs[i]?.status, 'aborted')
  }
  t.same(team.health().runs, { running: 0, queued: 0 })
  t.same(
    new Set(team.deadLetters.list().map(({ reason }) => reason)),
    new Set(['cancelled']),
    'what waited for ann is not lost in silence',
  )
})

t.test('close answers whoever waits for a response, and buries what waits in a mailbox', async (t) => {
  const team = busyTeam(t)
  const message = { recipient: 'ann', content: 'hi' }
  const waiting = [1, 2, 3].map(() => refusalOf(team.sendMessage({ ...message, requiresResponse: true })))
  await team.clock.advance(0)
  await team.sendMessage({ ...message, content: 'nobody waits for this' })
  await team.close()
  for (const error of await Promise.all(waiting))
    t.match(error, { code: 'RUN_ABORTED', message: 'The team was closed.' })
  t.same(
    team.deadLetters.list().map(({ reason, message: { content } }) => [reason, content]),
    ['hi', 'hi', 'nobody waits for this'].map((content) => ['cancelled', content]),
  )
})

t.test('close answers whoever waits for room in a full mailbox', async (t) => {
  const team = busyTeam(t, { communication: { mailboxCapacity: 1 } })
  const sends = ['1', '2', '3'].map((content) =>
    team.sendMessage({ recipient: 'ann', content }).then(
      () => 'accepted',
      (error) => error.code,
    ),
  )
  await team.clock.advance(0)
  await team.close()
  t.same(await Promise.all(sends), ['accepted', 'RUN_ABORTED', 'RUN_ABORTED'])
  t.same(
    team.deadLetters.list().map(({ reason, message: { content } }) => [reason, content]),
    [
      ['cancelled', '2'],
      ['cancelled', '3'],
      ['cancelled', '1'],
    ],
  )
})

t.test('close while the agents start: whoever waits for the start hears it', async (t) => {
  const ann = defineAgent({ start: () => new Promise(() => {}), receive: () => 'hi' })
  const team = testTeam({ agents: [{ name: 'ann' }], orchestration: { strategy: 'sequential' } }, { modules: { ann } })
  const start = refusalOf(team.start())
  const send = refusalOf(team.sendMessage({ recipient: 'ann', content: 'hi' }))
  const run = team.launch('hi')
  await team.close()
  t.match(await start, { code: 'TEAM_CLOSED' })
  t.match(await send, { code: 'TEAM_CLOSED' })
  t.match(await run.result, { success: false, error: { code: 'RUN_ABORTED' } })
})

t.test('a start that nobody awaited harms nobody', async (t) => {
  const unhandled: unknown[] = []
  const note = (error: unknown) => unhandled.push(error)
  process.on('unhandledRejection', note)
  t.teardown(() => process.off('unhandledRejection', note))
  const { team } = stage(t)
  void team.start()
  await team.close()
  await new Promise((resolve) => setImmediate(resolve)) // the event loop reports what nobody handled
  t.same(unhandled, [])
})

t.test('close with drainMs takes no new runs and lets those under way end', async (t) => {
  const { team } = stage(t)
  const run = team.launch('hi')
  const closed = team.close({ drainMs: 1_000 })
  t.match(await team.execute('more'), { success: false, error: { code: 'TEAM_CLOSED', message: /is closing/ } })
  t.match(await refusalOf(() => team.launch('more')), { code: 'TEAM_CLOSED' })
  t.equal((await run.result).finalOutput, 'ann is well')
  await closed
  t.match(await refusalOf(team.execute('more')), { code: 'TEAM_CLOSED' })
})

t.test('what takes longer than drainMs is aborted', async (t) => {
  const team = busyTeam(t)
  const run = team.launch('hi')
  await team.clock.advance(0)
  const closed = team.close({ drainMs: 100 })
  await team.clock.advance(100)
  await closed
  t.match(await run.result, { success: false, error: { code: 'RUN_ABORTED' } })
})

t.test('a wait for the blackboard ends when the team closes', async (t) => {
  const { team, play } = stage(t)
  const waiting = refusalOf(play((context) => context.blackboard.waitFor('never', { timeoutMs: 60_000 })))
  await team.clock.advance(0)
  await team.close()
  t.match(await waiting, { code: 'RUN_ABORTED' })
})
