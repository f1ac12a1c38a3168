/** The events of a run, as its caller reads them: all of them, in order, from wherever it wants to begin. */
import t from 'tap'
import { defineAgent, type OrchestratorContext, type RuntimeEvent } from '../../src/index.ts'
import { gate } from '../kit/team.ts'
import { after, all, echo, says, stage } from './stage.ts'

const typesOf = (events: readonly RuntimeEvent<unknown>[]) => events.map(({ type }) => type)

t.test('the events of a run begin with run.started and end with run.finished, which has the result', async (t) => {
  const team = stage(t, { a: echo, b: echo })
  const run = team.launch('q')
  const events = await all(run.events())
  t.match(events[0], { type: 'run.started', query: 'q', runId: run.id })
  t.match(events.at(-1), { type: 'run.finished', result: await run.result })
})

t.test('seq ascends', async (t) => {
  const team = stage(t, { a: after(10), b: after(5) })
  const run = team.launch('q')
  const reading = all(run.events())
  await team.clock.advance(20)
  const events = await reading
  for (const [at, event] of events.slice(1).entries())
    t.ok(event.seq > events[at]!.seq, `${event.type} comes after ${events[at]!.type}`)
})

t.test('every turn.finished has its turn.started before it', async (t) => {
  const team = stage(t, { a: after(1), b: echo, c: echo }, { orchestration: { strategy: 'parallel' } })
  const run = team.launch('q')
  await team.clock.advance(5)
  const open = new Set<string>()
  const finished: string[] = []
  for (const event of await all(run.events())) {
    if (event.type !== 'turn.started' && event.type !== 'turn.finished') continue
    const turn = `${event.agent} ${event.messageId} ${event.attempt}`
    if (event.type === 'turn.started') open.add(turn)
    else if (open.delete(turn)) finished.push(event.agent)
    else t.fail(`${turn} ended without having begun`)
  }
  t.same(finished.sort(), ['$orchestrator', 'a', 'b', 'c'])
  t.equal(open.size, 0)
})

t.test('each message is told once, and the same as in the history', async (t) => {
  const team = stage(t, { a: echo })
  const run = team.launch('q')
  const told = (await all(run.events({ types: ['message'] }))).map((event) => event.type === 'message' && event.message)
  t.same(told, (await run.result).messageHistory)
})

t.test('after resumes behind the event with that number', async (t) => {
  const team = stage(t, { a: echo, b: echo })
  const run = team.launch('q')
  const events = await all(run.events())
  for (const [at, { seq }] of events.slice(0, -1).entries())
    t.same(await all(run.events({ after: seq })), events.slice(at + 1))
})

t.test('types that there are not are refused, with those that there are', async (t) => {
  const run = stage(t, { a: echo }).launch('q')
  const reading = (types: unknown) => all(run.events({ types: types as RuntimeEvent['type'][] }))
  const refused = { code: 'CONFIGURATION', details: { path: 'types' } }
  await t.rejects(reading(['message', 'mesage']), {
    ...refused,
    message: /^types: got "mesage"; accepted: run\.started, .*\. Did you mean "message"\?$/,
  })
  await t.rejects(reading('message'), { ...refused, message: /^types: got "message"; accepted: a list of types of/ })
  await t.rejects(reading(null), refused)
})

t.test('types keeps those types alone, and the reader still ends', async (t) => {
  const team = stage(t, { a: echo, b: echo })
  const run = team.launch('q')
  t.same(typesOf(await all(run.events({ types: ['turn.finished', 'run.started'] }))), [
    'run.started',
    'turn.finished',
    'turn.finished',
    'turn.finished',
  ])
})

t.test('a reader that comes while the run is under way gets what was before, then what is', async (t) => {
  const team = stage(t, { a: after(10) })
  const run = team.launch('q')
  await team.clock.advance(5)
  const events = all(run.events())
  await team.clock.advance(5)
  t.same(await events, await all(run.events()))
})

t.test('two readers get the same', async (t) => {
  const team = stage(t, { a: echo })
  const run = team.launch('q')
  const [one, other] = await Promise.all([all(run.events()), all(run.events())])
  t.same(one, other)
})

t.test('a reader that leaves does not end the run', async (t) => {
  const team = stage(t, { a: after(10) })
  const run = team.launch('q')
  for await (const _event of run.events()) break
  await team.clock.advance(10)
  t.equal((await run.result).success, true)
})

t.test('leaving the loop over stream aborts the run', async (t) => {
  const team = stage(t, { a: after(10) })
  for await (const _event of team.stream('q', { runId: 'r' })) break
  const run = team.getRun('r')
  t.equal(run?.status, 'aborted')
  t.match((await run?.result)?.error, { code: 'RUN_ABORTED', details: { reason: 'the reader left the stream' } })
})

t.test('stream gives the same events as the run', async (t) => {
  const team = stage(t, { a: echo })
  const events = await all(team.stream('q', { runId: 'r' }))
  t.same(events, await all(team.getRun('r')!.events()))
})

t.test('what happens to an agent is told to the runs under way', async (t) => {
  const team = stage(t, { a: after(10) })
  const run = team.launch('q')
  await team.clock.advance(5)
  team.crash('a')
  await team.clock.advance(20)
  const crashed = (await all(run.events())).find(({ type }) => type === 'agent.crashed')
  t.match(crashed, { agent: 'a', epoch: 1, restartInMs: 0, error: { code: 'AGENT_CRASHED' } })
})

t.test('the team tells all runs, each event with its run', async (t) => {
  const team = stage(t, { a: echo })
  const told: string[] = []
  team.events.subscribe(({ type, runId }) => void (type.startsWith('run.') && told.push(`${type} ${runId}`)))
  await Promise.all([team.execute('q', { runId: 'one' }), team.execute('q', { runId: 'two' })])
  await team.clock.advance(0)
  t.same(told.sort(), ['run.finished one', 'run.finished two', 'run.started one', 'run.started two'])
})

t.test('the result in the run.finished of team.events is the one that execute gives', async (t) => {
  const team = stage(t, { a: echo })
  const results: unknown[] = []
  team.events.subscribe((event) => void (event.type === 'run.finished' && results.push(event.result)))
  const result = await team.execute('q')
  await team.clock.advance(0)
  t.equal(results[0], result)
})

t.test('a subscriber of team.events that throws is reported and closed, and harms nobody', async (t) => {
  const errors: object[] = []
  const log = () => {}
  const team = stage(
    t,
    { a: echo },
    { logger: { debug: log, info: log, warn: log, error: (fields) => errors.push(fields) } },
  )
  const told: string[] = []
  team.events.subscribe(() => {
    throw new Error('mine')
  })
  team.events.subscribe(({ type }) => told.push(type))
  t.equal((await team.execute('q')).success, true)
  t.match(errors, [{ error: 'Error: mine' }])
  t.ok(told.includes('turn.finished'))
})

t.test('a run can be cancelled from within a subscriber of its events', async (t) => {
  const team = stage(t, { a: after(10) })
  team.events.subscribe((event) => {
    if (event.type === 'turn.started' && event.agent === 'a') void team.getRun(event.runId)?.cancel('seen enough')
  })
  const result = await team.execute('q')
  t.match(result.error, { code: 'RUN_ABORTED', details: { reason: 'seen enough' } })
  t.same(Object.values(result.taskCompletion), ['cancelled'])
})

t.test('text gives the pieces that the script emits, and they are final', async (t) => {
  const team = stage(
    t,
    { a: says('never') },
    {
      orchestration: {
        strategy: 'custom',
        async run(orchestrator) {
          for (const piece of ['one ', 'two']) orchestrator.emit(piece)
          return 'one two'
        },
      },
    },
  )
  const run = team.launch('q')
  t.same(await all(run.text()), ['one ', 'two'])
  t.match(await all(run.events({ types: ['output.delta'] })), [
    { agent: '$orchestrator', chunk: 'one ', final: true },
    { agent: '$orchestrator', chunk: 'two', final: true },
  ])
})

t.test('text ends with what the script did not emit of its answer, if it emits the beginning', async (t) => {
  const emitting = (pieces: string[], answer: string) => {
    const run = async (orchestrator: OrchestratorContext) => {
      for (const piece of pieces) orchestrator.emit(piece)
      return answer
    }
    return stage(t, { a: says('never') }, { orchestration: { strategy: 'custom', run } }).launch('q')
  }
  t.same(await all(emitting(['one ', 'two'], 'one two three').text()), ['one ', 'two', ' three'])
  t.same(await all(emitting(['one ', 'two'], 'something else').text()), ['one ', 'two'])
})

t.test('text gives the whole answer where nobody emits, and nothing of a run that failed', async (t) => {
  const team = stage(t, { a: after(10, 'whole') })
  const run = team.launch('q')
  const failing = team.launch('q', { timeoutMs: 5 })
  const texts = Promise.all([all(run.text()), all(failing.text())])
  await team.clock.advance(10)
  t.same(await texts, [['whole'], []])
})

t.test('pieces that an agent emits are told, but are not part of the answer', async (t) => {
  const drafting = defineAgent({
    receive(_message, context) {
      context.emit('a draft')
      return 'the answer'
    },
  })
  const run = stage(t, { a: drafting }).launch('q')
  t.match(await all(run.events({ types: ['output.delta'] })), [{ agent: 'a', chunk: 'a draft', final: false }])
  t.same(await all(run.text()), ['the answer'])
})

t.test('a handle gives its events even when the team has forgotten the run', async (t) => {
  const team = stage(t, { a: echo })
  const run = team.launch('q')
  const result = await run.result
  const events = await all(run.events())
  for (let i = 0; i < 101; i++) await team.execute(`q${i}`)
  t.equal(team.getRun(run.id), undefined)
  t.same(await all(run.events()), events)
  t.same(new Set(result.messageHistory.map(({ runId }) => runId)), new Set([run.id]))
})

t.test('team.events tells the end of a run before who waits for the run goes on', async (t) => {
  const fails = defineAgent({
    receive() {
      throw new Error('no')
    },
  })
  for (const [a, cancels] of [
    [echo, false],
    [fails, false],
    [after(10), true],
  ] as const) {
    const team = stage(t, { a })
    const order: string[] = []
    team.events.subscribe(({ type }) => void (type === 'run.finished' && order.push('told')))
    const run = team.launch('q')
    const done = run.result.then(() => void order.push('gone on'))
    if (cancels) void run.cancel()
    await done
    t.strictSame(order, ['told', 'gone on'])
  }
})

t.test('a turn that goes on behind the end of its run is one turn of its trace, to its own end', async (t) => {
  const isOver = gate()
  const stubborn = defineAgent({
    async receive(_message, context) {
      await context.sleep(10).catch(() => {}) // it heeds no signal
      await isOver.opened
      return 'late'
    },
  })
  const team = stage(t, { a: stubborn })
  const ended = new Promise<void>((resolve) => {
    team.events.subscribe((event) => event.type === 'turn.finished' && event.agent === 'a' && resolve())
  })
  const run = team.launch('q')
  for await (const event of run.events()) if (event.type === 'turn.started' && event.agent === 'a') break
  await run.cancel()
  const turns = () => run.trace.agentActivations.filter(({ agent }) => agent === 'a')
  t.equal(turns().length, 1)
  isOver.open()
  await ended
  t.equal(turns().length, 1)
})
