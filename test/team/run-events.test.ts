/** The events of a run and the statuses of agents: all of them, in order, each once. */

import { readFileSync } from 'node:fs'
import t from 'tap'
import {
  type AgentStatus,
  defineAgent,
  type OrchestratorContext,
  type RuntimeEvent,
  sequenceDiagram,
} from '../../src/index.ts'
import { pluck } from '../kit/lists.ts'
import { gate, given, type Receive } from '../kit/team.ts'
import { after, all, echo, says, stage, throws } from './stage.ts'

// The events of a run, as its caller reads them: all of them, in order, from wherever it wants to begin.

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

// Ids of events: a reader goes on behind one, and is told where it cannot.

t.test('a reader goes on behind an id', async (t) => {
  const team = stage(t, { a: echo })
  const run = team.launch('q')
  const events = await all(run.events())
  for (const [at, { seq }] of events.slice(0, -1).entries())
    t.same(await all(run.events({ after: `${team.logName}.${seq}` })), events.slice(at + 1))
})

t.test('who comes back behind the end gets nothing more, whatever turns end later', async (t) => {
  const team = stage(t, { a: after(60_000) })
  const run = team.launch('q')
  await team.clock.advance(5)
  await run.cancel()
  const events = await all(run.events())
  t.equal(events.at(-1)?.type, 'run.finished')
  await team.clock.advance(5)
  const { seq } = events.at(-1)!
  for (const place of [seq, seq + 8, seq + 16]) t.same(await all(run.events({ after: place, follow: false })), [])
  t.same(await all(run.events({ after: seq })), [], 'a reader that follows ends, too')
})

t.test('an id of another log is told as reset, and all events follow', async (t) => {
  const team = stage(t, { a: echo })
  const other = stage(t, { a: echo })
  t.not(team.logName, other.logName, 'two teams with the same seed have two logs')
  const run = team.launch('q')
  const events = await all(run.events())
  const [reset, ...rest] = await all(run.events({ after: `${other.logName}.${events[2]!.seq}` }))
  t.match(reset, { type: 'reset', seq: -1, runId: run.id })
  t.same(rest, events)
})

t.test('an id that the log has not given yet is no place in it', async (t) => {
  const team = stage(t, { a: echo })
  const run = team.launch('q')
  await run.result
  t.equal(typesOf(await all(run.events({ after: `${team.logName}.999999` })))[0], 'reset')
})

t.test('what the log has given up is told as a gap, to who begins and to who is slow', async (t) => {
  const large = 'x'.repeat(2 ** 20)
  const sends = defineAgent({
    async receive(_message, context) {
      for (let i = 0; i < 80; i++) await context.send('b', large)
      return 'sent'
    },
  })
  const team = stage(
    t,
    { a: sends, b: defineAgent({ receive: () => {} }) },
    {
      communication: { mailboxBytes: 2 ** 30 },
      orchestration: { strategy: 'custom', run: async (desk) => (await desk.request('a', 'go')).content },
    },
  )
  const run = team.launch('q')
  const slow = run.events()[Symbol.asyncIterator]()
  const first = await slow.next()
  await run.result
  const seen: RuntimeEvent[] = [first.value]
  for (let next = await slow.next(); !next.done; next = await slow.next()) seen.push(next.value)
  const late = await all(run.events())
  const gaps = seen.filter(({ type }) => type === 'gap')
  t.equal(gaps.length, 1)
  t.equal(late[0]?.type, 'gap')
  t.ok(late[0]?.type === 'gap' && late[0].entries > 10)
  t.same(
    pluck(seen.slice(seen.indexOf(gaps[0]!) + 1), 'seq'),
    pluck(late.slice(1), 'seq'),
    'both go on with the oldest event that is there',
  )
  const seqs = seen.map(({ seq }) => seq)
  t.same(
    seqs,
    [...seqs].sort((a, b) => a - b),
    'seq ascends over the gap',
  )
  t.same(await all(run.events({ after: `${team.logName}.${late[0]?.seq}` })), late.slice(1), 'a gap has an id too')
  t.notOk(typesOf(await all(run.events({ types: ['run.finished'] }))).includes('gap'), 'types leaves it out')
})

for (const after of ['', 'abc', 'abc.', '.5', 'a.b.5', 'abc.1.5', 1.5, Number.NaN, -2, 'abc.99999999999999999999', {}])
  t.test(`${JSON.stringify(after)} is no place in the events`, async (t) => {
    const team = stage(t, { a: echo })
    const run = team.launch('q')
    await t.rejects(all(run.events({ after: after as string })), {
      code: 'CONFIGURATION',
      details: { path: 'after' },
    })
  })

// Events of a trace: messages stand among the rest, each once, where they were sent.

t.test('events list messages, between the turns that sent and handled them', async (t) => {
  const asks = defineAgent({
    async receive(_message, context) {
      await context.broadcast('all')
      await context.request('broken', 'why').catch(() => {})
      return 'done'
    },
  })
  const hears = defineAgent({ receive: () => '', observe() {} })
  const cast = { a: asks, b: hears, broken: throws() }
  const team = stage<string>(t, cast, { orchestration: { strategy: 'sequential', agentOrder: ['a'] } })
  const { orchestrationTrace, messageHistory } = await team.execute('Go.')
  const { events } = orchestrationTrace
  t.same(
    events.flatMap(({ eventType, agent, timestamp, details }) =>
      eventType === 'message' ? [{ agent, timestamp, ...details }] : [],
    ),
    messageHistory.map(({ id, type, sender, recipient, sentAt }) => ({
      agent: sender,
      timestamp: sentAt,
      messageId: id,
      type,
      to: recipient,
    })),
  )
  const [, asked] = messageHistory
  const about = events.flatMap(({ eventType, agent, details }) => {
    const { messageId, type = '' } = details as { messageId?: string; type?: string }
    const isIts = agent === 'a' && (messageId === asked?.id || type === 'response')
    return isIts && /^turn|^message$/.test(eventType) ? [eventType] : []
  })
  t.same(about, ['turn.started', 'message', 'turn.finished'])
  const diagram = sequenceDiagram(orchestrationTrace)
  t.equal(
    diagram.match(/->>/g)?.length,
    orchestrationTrace.messageFlow.filter(({ type }) => type !== 'broadcast').length,
  )
})

t.test('a task in the name of a manager is an event, and a message, of the manager', async (t) => {
  const tasks = [{ worker: 'b', task: 'dig' }]
  const boss = defineAgent({
    receive: ({ metadata }) =>
      Object(metadata.hierarchical).step === 'plan' ? { structuredData: { tasks, reasoning: 'so' } } : 'over',
  })
  const led = { strategy: 'hierarchical' as const, manager: 'boss', workers: ['b'], workerAutonomy: 'high' as const }
  const team = stage<string>(t, { boss, b: echo }, { orchestration: led })
  const { events } = (await team.execute('Go.')).orchestrationTrace
  const given = events.find(({ details }) => Object(details).type === 'delegate')
  t.match(given, { eventType: 'message', agent: 'boss', details: { to: 'b' } })
  const isTask = ({ type }: { type: string }) => type === 'delegate'
  t.equal(team.getAgent('boss')!.getMessageHistory().filter(isTask).length, 1)
})

t.test("the page has the documents' words for events, and ours are those of a trace", async (t) => {
  const page = readFileSync('docs/reference/events.md', 'utf8') // tests are started in the project's folder
  const rows = [...page.matchAll(/^\| `(agent_start|agent_end|message_sent|message_received)` +\| `([\w.]+)`/gm)]
  t.equal(rows.length, 4)
  const { orchestrationTrace } = await stage(t, { a: echo }).execute('Go.')
  const known = new Set(orchestrationTrace.events.map(({ eventType }) => eventType))
  for (const [, theirs, ours] of rows) t.ok(known.has(ours!), `${theirs}: ${ours}`)
})

// What an agent does, as events: each change once, and the same that health says.

type Watched = { events: { subscribe(next: (event: RuntimeEvent) => void): unknown } }

/** The statuses of an agent from now on, in order. */
function statuses(team: Watched, agent: string): AgentStatus[] {
  const seen: AgentStatus[] = []
  team.events.subscribe((event) => {
    if (event.type === 'agent.status' && event.agent === agent) seen.push(event.status)
  })
  return seen
}

const asks = defineAgent({
  async receive(_message, context) {
    await context.sleep(10)
    const { content } = await context.request('b', 'hi')
    await context.sleep(10)
    return content
  },
})

t.test('an agent starts, works, waits for others, works on and is idle again', async (t) => {
  const team = stage(t, { a: asks, b: after(10) }, { orchestration: { strategy: 'sequential', agentOrder: ['a'] } })
  const a = statuses(team, 'a')
  const b = statuses(team, 'b')
  const run = team.launch('go')
  await team.clock.advance(100)
  t.same(a, ['starting', 'idle', 'running', 'waiting', 'running', 'idle'])
  t.same(b, ['starting', 'idle', 'running', 'idle'])
  await run.result
  await team.close()
  t.equal(a.at(-1), 'stopped')
})

t.test('health says the same at every moment', async (t) => {
  const team = stage(t, { a: asks, b: after(10) }, { orchestration: { strategy: 'sequential', agentOrder: ['a'] } })
  const a = statuses(team, 'a')
  const b = statuses(team, 'b')
  const run = team.launch('go')
  const said = new Set<AgentStatus>()
  for (let ms = 0; ms < 40; ms++) {
    await team.clock.advance(1)
    const { agents } = team.health()
    t.same([agents.a?.status, agents.b?.status], [a.at(-1), b.at(-1)])
    said.add(agents.a!.status)
  }
  t.same([...said], ['running', 'waiting', 'idle'])
  await run.result
})

t.test('a wait for the host is one too', async (t) => {
  const a = defineAgent({ receive: async (_message, context) => void (await context.blackboard.waitFor('key')) })
  const team = stage(t, { a })
  const seen = statuses(team, 'a')
  const run = team.launch('go')
  await team.clock.advance(1)
  t.equal(seen.at(-1), 'waiting')
  t.equal(team.getAgentStatus('a'), 'waiting')
  await run.blackboard?.write('key', 1, 'fact')
  await run.result
  t.same(seen.slice(-2), ['running', 'idle'])
})

const reader = (chunkMs: number) =>
  defineAgent({
    async receive(_message, context) {
      for await (const _chunk of context.requestStream('b', 'write')) await context.sleep(chunkMs)
    },
  })

/** Waits for its reader three times. */
const writer = defineAgent({
  async receive(_message, context) {
    await context.sleep(1)
    for (let i = 0; i < 200; i++) {
      context.emit(`${i}`)
      if (i % 50 === 0) await Promise.all([context.step('a', () => i), context.step('b', () => i)])
    }
    await context.sleep(5)
  },
})

t.test('a wait for the reader of a stream is one too, and health says the same', async (t) => {
  const agents = { a: reader(1), b: writer }
  const team = stage(t, agents, { orchestration: { strategy: 'sequential', agentOrder: ['a'] } })
  const b = statuses(team, 'b')
  const run = team.launch('go')
  for (let ms = 0; ms < 400; ms++) {
    await team.clock.advance(1)
    t.equal(team.health().agents.b?.status, b.at(-1), `at ${ms}`)
  }
  await run.result
  const waited = ['running', 'waiting']
  t.same(b, ['starting', 'idle', ...waited, ...waited, ...waited, 'running', 'idle'])
})

t.test('who waits for its reader is running again when its turn begins anew', async (t) => {
  const agents = { a: reader(1_000_000), b: writer }
  const team = stage(t, agents, { orchestration: { strategy: 'sequential', agentOrder: ['a'] } })
  const b = statuses(team, 'b')
  const run = team.launch('go')
  await team.clock.advance(10)
  t.same([team.health().agents.b?.status, b.at(-1)], ['waiting', 'waiting'])
  team.crash('b')
  await team.clock.advance(0)
  t.same(b.slice(-2), ['running', 'waiting'], 'its sleep is over, so it soon waits again')
  await run.cancel()
})

t.test('an agent that crashes restarts, and one that crashes too often has failed', async (t) => {
  const team = stage(t, { a: after(50) }, { supervision: { maxRestarts: 1 } })
  const seen = statuses(team, 'a')
  const epochs: number[] = []
  team.events.subscribe((event) => {
    if (event.type === 'agent.status' && event.status === 'running') epochs.push(event.epoch)
  })
  const run = team.launch('go')
  await team.clock.advance(1)
  team.crash('a')
  await team.clock.advance(1)
  t.same(seen, ['starting', 'idle', 'running', 'restarting', 'idle', 'running'])
  t.same(epochs, [1, 2])
  team.crash('a')
  await team.clock.advance(1)
  t.equal(seen.at(-1), 'failed')
  t.equal(team.health().agents.a?.status, 'failed')
  await run.result
})

t.test('who asked before it died waits again in its next life, for the same answer', async (t) => {
  const team = stage(t, { a: asks, b: after(50) }, { orchestration: { strategy: 'sequential', agentOrder: ['a'] } })
  const seen = statuses(team, 'a')
  const run = team.launch('go')
  await team.clock.advance(20)
  team.crash('a')
  await team.clock.advance(20)
  t.equal(seen.at(-1), 'waiting')
  t.equal(team.getAgentStatus('a'), 'waiting')
  await team.clock.advance(100)
  t.equal(seen.at(-1), 'idle')
  await run.result
})

t.test("a run's events have them too, from wherever its reader begins", async (t) => {
  const team = stage(t, { a: asks, b: echo }, { orchestration: { strategy: 'sequential', agentOrder: ['a'] } })
  const run = team.launch('go')
  await team.clock.advance(100)
  await run.result
  const events = await all(run.events())
  t.same(
    events.flatMap((event) => (event.type === 'agent.status' && event.agent === 'a' ? [event.status] : [])),
    ['starting', 'idle', 'running', 'waiting', 'running', 'idle'],
  )
  for (const [at, { seq }] of events.entries()) t.same(await all(run.events({ after: seq })), events.slice(at + 1))
})

t.test('agents of one name in two runs have each their own, and so has one that comes after them', async (t) => {
  const boss: Receive = async ({ content }, context) => {
    const [name, ms] = content.split(' ')
    await context.sleep(Number(ms))
    return (await context.request(await context.spawn({ name: name! }), 'hi')).content
  }
  const helper: Receive = async (_message, context) => void (await context.sleep(30))
  const privileged = { trust: 'privileged' } as const
  const team = given(t, {
    roles: { one: privileged, two: privileged },
    later: { helper, late: helper },
    script: async (script, query) => (await script.request(query.split(': ')[0]!, query.split(': ')[1]!)).content,
  }).team({ one: boss, two: boss })
  const seen: Record<string, string[]> = {}
  team.events.subscribe((event) => {
    if (event.type !== 'agent.status' || !['helper', 'late'].includes(event.agent)) return
    seen[event.runId] ??= []
    seen[event.runId]!.push(`${event.agent} ${event.status} ${event.epoch}`)
  })
  const life = (name: string) =>
    ['starting 0', 'idle 1', 'running 1', 'idle 1', 'stopped 1'].map((status) => `${name} ${status}`)
  const runs = [team.launch('one: helper 0'), team.launch('two: helper 10')]
  await team.clock.advance(100)
  const next = team.launch('one: late 0')
  await team.clock.advance(100)
  for (const { id } of runs) t.same(seen[id], life('helper'))
  t.same(seen[next.id], life('late'))
})

t.test('turns that begin and end at once are told all the same', async (t) => {
  const team = stage(t, { a: echo })
  await team.start()
  const seen = statuses(team, 'a')
  for (let i = 0; i < 3; i++) await team.sendMessage({ recipient: 'a', content: 'hi', requiresResponse: true })
  t.same(seen, ['running', 'idle', 'running', 'idle', 'running', 'idle'])
})

t.test('a turn costs no record for it: what is not watched is not told', async (t) => {
  const team = stage(t, { a: echo })
  const { orchestrationTrace } = await team.execute('go')
  const told = orchestrationTrace.events.filter(({ eventType }) => eventType === 'agent.status')
  t.same(
    pluck(told, 'details'),
    [
      { agent: '$orchestrator', status: 'starting', epoch: 0 },
      { agent: 'a', status: 'starting', epoch: 0 },
    ],
    'of the script and of a',
  )
})
