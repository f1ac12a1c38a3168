/** Closing a team, at every moment: it ends all that is under way, answers whoever waits, and takes nothing more. */
import t from 'tap'
import { defineAgent, type MultiAgentResult, RunAbortedError, TeamClosedError } from '../../src/index.ts'
import { testTeam } from '../../src/testing.ts'
import { refusalOf, stage, type Test, untyped } from './helpers.ts'

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
