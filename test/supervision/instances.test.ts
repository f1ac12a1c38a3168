/** The role option `instances`: several threads, each a life of its own, take from one mailbox under one name. */
import t from 'tap'
import type { AgentContext } from '../../src/actors/definition/context.ts'
import { defineAgent } from '../../src/actors/definition/definition.ts'
import { turnBehind } from '../../src/actors/turn/context.ts'
import type { AgentMessage } from '../../src/mailbox/message.ts'
import { pluck } from '../kit/lists.ts'
import {
  ask,
  type Cast,
  type Extras,
  gate,
  given,
  heard,
  never,
  numbers,
  type OpenTeam,
  openTeam,
  outcomeOf,
  statusesOf,
} from '../kit/team.ts'

type Test = Parameters<typeof openTeam>[0]

/** A team whose worker has `instances`. */
function teamOf(t: Test, instances: number, cast: Cast, { roles, ...extras }: Extras = {}) {
  const team = openTeam(t, cast, { ...extras, roles: { ...roles, worker: { instances, ...roles?.worker } } })
  return team
}

const workers = (team: OpenTeam) => team.agent('worker').instances

/** In which instance a handler runs. */
function instanceOf(team: OpenTeam, context: AgentContext): number {
  const turn = turnBehind(context)
  if (!turn) throw new Error('no turn is behind this context')
  return team.agent(context.role.name).holderOf(turn.start.turn)!.instance
}

/** Asks the worker that often at once, each time as a run of its own. */
const askOften = (team: OpenTeam, contents: readonly string[]) =>
  contents.map((content) => outcomeOf(ask(team, 'worker', content)))

t.test('what an instance waits for has a number that no other instance has, also in its next life', async (t) => {
  const cast: Cast = {
    worker: async ({ content }, context) => {
      if (content === 'note') return context.send('other', content)
      return (await context.request('other', content)).content
    },
    other: async ({ content }, context) => {
      await context.sleep(10)
      return content
    },
  }
  const team = teamOf(t, 2, cast, { roles: { other: { instances: 2 } } })
  await team.start()
  askOften(team, ['note'])
  await team.clock.runToIdle()
  team.crashCell(workers(team)[0])
  await team.clock.runToIdle()
  const asked = askOften(team, ['a', 'b'])
  await team.clock.runToIdle()
  t.same([asked[0]!.value, asked[1]!.value], ['a', 'b'])
})

t.test('as many turns of an agent are under way as it has instances, also of one run', async (t) => {
  const seen = { now: 0, most: 0 }
  const cast: Cast = {
    worker: async ({ content }, context) => {
      seen.now += 1
      seen.most = Math.max(seen.most, seen.now)
      await context.sleep(10)
      seen.now -= 1
      return content
    },
  }
  const team = teamOf(t, 3, cast, {
    script: async (script) => {
      const answers = await Promise.all(numbers(7).map((content) => script.request('worker', content)))
      return answers.map(({ content }) => content).join('')
    },
  })
  const run = outcomeOf(team.execute('go'))
  await team.clock.runToIdle()
  t.equal(run.value?.finalOutput, '0123456')
  t.equal(seen.most, 3)
  t.same(Object.keys(run.value!.agentOutputs), ['worker'])
})

t.test('a message goes to whichever instance is free next', async (t) => {
  const heard: string[] = []
  const cast: Cast = {
    worker: async ({ content }, context) => {
      heard.push(`${content} at ${instanceOf(team, context)}`)
      if (content !== '0') await context.sleep(Number(content))
    },
    sender: async (_message, context) => {
      for (let i = 0; i < 60; i++) await context.request('worker', '0') // of short turns of one run a thread is given several at once
      heard.length = 0
      for (const content of ['100', '10', '11', '12']) await context.send('worker', content)
    },
  }
  const team = teamOf(t, 2, cast)
  await team.start()
  await ask(team, 'sender')
  await team.clock.runToIdle()
  t.same(heard.sort(), ['10 at 1', '100 at 0', '11 at 1', '12 at 1'])
})

t.test("rule 6: what an instance's death cuts off another tries again, with the steps that it had done", async (t) => {
  const effects: string[] = []
  const heard: string[] = []
  const { opened, open } = gate()
  const cast: Cast = {
    worker: async (_message, context) => {
      heard.push(`attempt ${context.attempt} at ${instanceOf(team, context)}`)
      await context.step('effect', () => void effects.push('once'))
      const { content } = await context.request('other', 'slow')
      return `${content} at ${instanceOf(team, context)}`
    },
    other: async () => {
      effects.push('asked')
      await opened
      return 'answered'
    },
  }
  // Instance 0 is not back before the other has taken the message.
  const team = teamOf(t, 2, cast, { supervision: { backoff: { baseMs: 50, capMs: 50 } } })
  await team.start()
  const asked = outcomeOf(ask(team, 'worker'))
  await team.clock.advance(5)
  team.crashCell(workers(team)[0])
  await team.clock.advance(5)
  t.same(heard, ['attempt 1 at 0', 'attempt 2 at 1'])
  open() // the answer is to a request of instance 0, and goes to the turn where it is
  await team.clock.runToIdle()
  t.equal(asked.value, 'answered at 1')
  t.same(effects, ['once', 'asked'])
})

t.test('rule 6: an answer that comes while nobody is at the turn is there when it is tried again', async (t) => {
  const { opened, open } = gate()
  const cast: Cast = {
    worker: async ({ content }, context) => {
      if (content === 'long') return context.sleep(100)
      return (await context.request('other', 'hi')).content
    },
    other: async () => {
      await opened
      return 'answered'
    },
  }
  const team = teamOf(t, 2, cast, { roles: { worker: { supervision: { restart: 'temporary' } } } })
  await team.start()
  const asked = outcomeOf(ask(team, 'worker'))
  await team.clock.advance(1)
  askOften(team, ['long'])
  await team.clock.advance(1)
  team.crashCell(workers(team)[0])
  await team.clock.advance(1)
  open()
  await team.clock.advance(1)
  t.equal(asked.settled, false, 'instance 1 is busy, and instance 0 is gone')
  await team.clock.runToIdle()
  t.equal(asked.value, 'answered')
})

t.test('the waits of instances do not take each other for their own', async (t) => {
  const cast: Cast = {
    worker: async ({ content }, context) => {
      const answers = await Promise.all(numbers(5).map((i) => context.request('other', `${content}.${i}`)))
      return answers.map((answer) => answer.content).join(' ')
    },
    other: async ({ content }, context) => {
      await context.sleep(1)
      return content
    },
  }
  const team = teamOf(t, 3, cast, { roles: { other: { instances: 2 } } })
  const asked = askOften(team, numbers(9))
  for (let ms = 0; ms < 30; ms += 7) {
    await team.clock.advance(7)
    team.crashCell(workers(team)[(ms / 7) % 3])
  }
  await team.clock.runToIdle()
  t.same(
    asked.map(({ value, error }) => value ?? error?.code),
    numbers(9).map((n) =>
      numbers(5)
        .map((i) => `${n}.${i}`)
        .join(' '),
    ),
  )
})

t.test('rule 7: a message that kills one instance after the other is poison, and counts against none', async (t) => {
  const cast: Cast = {
    worker: async ({ content }, context) => {
      await context.sleep(content === 'poison' ? 5 : 1)
      if (content !== 'poison') return 'fine'
      team.crashCell(workers(team)[instanceOf(team, context)], new Error('killed'))
      return await never
    },
  }
  const team = teamOf(t, 2, cast)
  const epochs = heard(team, 'agent.crashed', (event) => event.epoch)
  await team.start()
  const asked = askOften(team, ['poison', 'a', 'b'])
  await team.clock.runToIdle()
  t.match(asked[0]!.error, { code: 'AGENT_CRASHED', message: /died 2 times on this message/ })
  t.same([asked[1]!.value, asked[2]!.value], ['fine', 'fine'])
  t.same(pluck(team.deadLetters.list(), 'reason'), ['poison'])
  t.same(epochs, [1, 2], 'no two lives of the agent have the same number')
  t.same(
    workers(team).map(({ restarts, restartTimes }) => [restarts, restartTimes]),
    [
      [1, []],
      [1, []],
    ],
  )
})

t.test('rule 2: an instance that dies too often is stopped alone; the agent is when all of them are', async (t) => {
  const team = teamOf(
    t,
    2,
    {
      worker: () => 'fine',
      watcher: defineAgent({
        receive: (_m, context) => context.watch('worker'),
        observe: ({ content }) => void told.push(content),
      }),
    },
    {
      supervision: { maxRestarts: 0 },
    },
  )
  const told: string[] = []
  const statuses = statusesOf(team, 'worker')
  const run = team.launch('go', { runId: 'watch' })
  await run.result
  const watching = outcomeOf(team.sendMessage({ recipient: 'watcher', content: 'watch', requiresResponse: true }))
  await team.clock.advance(1)
  t.ok(watching.settled)
  team.crashCell(workers(team)[0])
  await team.clock.advance(1)
  t.match(team.health(), { ready: true, agents: { worker: { status: 'idle' } } })
  t.equal(await ask(team, 'worker'), 'fine')
  t.notOk(statuses.includes('failed'))
  team.crashCell(workers(team)[1])
  await team.clock.advance(1)
  t.match(team.health(), { ready: false, agents: { worker: { status: 'failed' } } })
  t.equal(statuses.at(-1), 'failed')
  await t.rejects(ask(team, 'worker'), { code: 'AGENT_TERMINATED' })
  await team.restartAgent('worker')
  t.equal(await ask(team, 'worker'), 'fine')
  t.ok(workers(team).every(({ incarnation }) => incarnation?.ready))
  await t.rejects(team.restartAgent('worker'), { code: 'CONFIGURATION', message: /is not stopped/ })
})

t.test('rule 14: who watches an agent is told once, when the last of its instances is gone', async (t) => {
  const told: string[] = []
  const watcher = defineAgent({
    async receive(_message, context) {
      await context.watch('worker')
      await context.sleep(100)
    },
    observe: ({ structuredData }) => void told.push((structuredData as { event: string }).event),
  })
  const roles = { worker: { supervision: { restart: 'temporary' as const } } }
  const team = teamOf(t, 2, { watcher, worker: () => 'fine' }, { roles })
  const run = outcomeOf(team.execute('go'))
  await team.clock.advance(1)
  team.crashCell(workers(team)[1])
  await team.clock.advance(1)
  t.equal(team.agent('worker').gone, undefined)
  team.crashCell(workers(team)[0])
  await team.clock.runToIdle()
  t.ok(run.settled)
  t.same(told, ['terminated'])
})

t.test('rule 8: the mailbox goes on while one instance is there, and is dead with the last', async (t) => {
  const cast: Cast = {
    worker: async ({ content }, context) => {
      await context.sleep(10)
      return content
    },
  }
  const team = teamOf(t, 2, cast, { roles: { worker: { supervision: { restart: 'temporary' } } } })
  await team.start()
  const asked = askOften(team, numbers(6))
  await team.clock.advance(5)
  team.crashCell(workers(team)[0])
  await team.clock.advance(10)
  t.same(
    pluck(asked, 'value'),
    [undefined, '1', undefined, undefined, undefined, undefined].map((value, i) => (i === 0 ? '0' : value)),
    'what was cut off went first',
  )
  team.crashCell(workers(team)[1])
  await team.clock.runToIdle()
  t.same(
    asked.slice(2).map(({ error }) => error?.code),
    Array.from({ length: 4 }, () => 'AGENT_TERMINATED'),
  )
})

t.test('rule 1: under one_for_all the other instances go with the one that died', async (t) => {
  const attempts: string[] = []
  const cast: Cast = {
    worker: async ({ content }, context) => {
      attempts.push(`${content}:${context.attempt}`)
      await context.sleep(10)
    },
  }
  const together = teamOf(t, 2, cast, { supervision: { strategy: 'one_for_all' } })
  await together.start()
  askOften(together, ['a', 'b'])
  await together.clock.advance(5)
  together.crashCell(workers(together)[0])
  await together.clock.runToIdle()
  t.same(attempts, ['a:1', 'b:1', 'a:2', 'b:2'], 'rule 16: in the order of the mailbox')
  t.same(pluck(workers(together), 'restarts'), [1, 1])
  attempts.length = 0
  const alone = teamOf(t, 2, cast)
  await alone.start()
  askOften(alone, ['a', 'b'])
  await alone.clock.advance(5)
  alone.crashCell(workers(alone)[0])
  await alone.clock.runToIdle()
  t.same(attempts, ['a:1', 'b:1', 'a:2'])
})

t.test('rule 19: each turn of an instance needs a permit of its run', async (t) => {
  const seen = { now: 0, most: 0 }
  const cast: Cast = {
    worker: async (_message, context) => {
      seen.now += 1
      seen.most = Math.max(seen.most, seen.now)
      await context.sleep(5)
      seen.now -= 1
      await context.request('other', 'hi')
    },
    other: () => '',
  }
  const team = teamOf(t, 4, cast, {
    maxConcurrentAgents: 2,
    script: async (script) => {
      await Promise.all(numbers(8).map((content) => script.request('worker', content)))
      return 'done'
    },
  })
  const run = outcomeOf(team.execute('go'))
  await team.clock.runToIdle()
  t.equal(run.value?.finalOutput, 'done')
  t.equal(seen.most, 2)
})

t.test('one instance hears what is said to all, and one what it has subscribed to', async (t) => {
  const heard: string[] = []
  const worker = defineAgent({
    async receive(_message, context) {
      await context.subscribe('news.*')
      await context.publish('news.1', 'x', 'fact')
    },
    observe: ({ type, content }) => void heard.push(`${type} ${content}`),
  })
  const other: Cast[string] = async (_message, context) => {
    await context.broadcast('to all')
  }
  const team = teamOf(t, 3, { worker, other } as Cast, {
    script: async (script) => {
      await script.request('worker', '')
      await script.request('worker', '')
      await script.request('other', '')
      return ''
    },
  })
  const run = outcomeOf(team.execute('go'))
  await team.clock.runToIdle()
  t.same(run.value?.error, null)
  t.same(heard.sort(), ['broadcast to all', 'publish news.1', 'publish news.1'])
})

t.test('what an instance says to all does not come back to its own name; what it asks its name does', async (t) => {
  const heard: string[] = []
  const worker = defineAgent({
    async receive({ content }, context) {
      if (content === 'inner') return `instance ${instanceOf(team, context)}`
      await context.broadcast('hi')
      return (await context.request('worker', 'inner')).content
    },
    observe: ({ content }) => void heard.push(content),
  })
  const team = teamOf(t, 2, { worker } as Cast)
  const run = outcomeOf(team.execute('go'))
  await team.clock.runToIdle()
  t.equal(run.value?.finalOutput, 'instance 1')
  t.same(heard, [])
})

t.test('rule 15: they share one mailbox: its room, its dropping and its deadline', async (t) => {
  const cast: Cast = { worker: (_message, context) => context.sleep(100) }
  const communication = { mailboxCapacity: 4, overflow: 'drop_oldest' as const, queueTimeoutMs: 50 }
  const team = teamOf(t, 2, cast, { roles: { worker: { communication } } })
  await team.start()
  const asked = askOften(team, numbers(2))
  await team.clock.advance(1)
  asked.push(...askOften(team, numbers(3)))
  await team.clock.advance(60)
  t.same(
    asked.map(({ error }) => error?.code),
    [undefined, undefined, 'MAILBOX_FULL', 'MESSAGE_EXPIRED', 'MESSAGE_EXPIRED'],
  )
  await team.clock.runToIdle()
  t.ok(asked[0]!.settled && asked[1]!.settled)
})

t.test('a message larger than the mailbox is taken when no instance has anything', async (t) => {
  const cast: Cast = {
    worker: async ({ content }, context) => {
      await context.sleep(10)
      return `${content.length} at ${team.clock.monotonic()}`
    },
  }
  const team = teamOf(t, 2, cast, { roles: { worker: { communication: { mailboxBytes: 4_096 } } } })
  await team.start()
  askOften(team, ['small'])
  await team.clock.advance(5)
  askOften(team, ['small'])
  await team.clock.advance(6) // instance 0 has nothing, and instance 1 has
  const large = outcomeOf(ask(team, 'worker', 'x'.repeat(10_000)))
  await team.clock.runToIdle()
  t.equal(large.value, '10000 at 25')
})

t.test('a turn is cancelled in the instance that has it', async (t) => {
  const aborted: string[] = []
  const cast: Cast = {
    worker: async ({ content }, context) => {
      context.signal.addEventListener('abort', () => aborted.push(content))
      await context.sleep(10)
      return content
    },
  }
  const team = teamOf(t, 2, cast)
  const runs = numbers(2).map((query) => team.launch(query))
  await team.clock.advance(5)
  await runs[1]!.cancel()
  await team.clock.advance(0)
  t.same(aborted, ['1'])
  await team.clock.runToIdle()
  t.equal((await runs[0]!.result).finalOutput, '0')
})

t.test('an agent with instances comes, leaves and comes again with other ones', async (t) => {
  const seen = { now: 0, most: 0 }
  const late: Cast[string] = async (_message, context) => {
    seen.now += 1
    seen.most = Math.max(seen.most, seen.now)
    await context.sleep(10)
    seen.now -= 1
    return (await context.request('worker', 'hi')).content
  }
  const team = teamOf(t, 1, { worker: () => 'hello' }, { later: { late } })
  await team.start()
  for (const instances of [3, 1, 2]) {
    seen.most = 0
    await team.addAgent({ name: 'late', instances })
    const asked = numbers(6).map((i) => outcomeOf(ask(team, 'late', i)))
    await team.clock.runToIdle()
    t.ok(asked.every(({ value }) => value === 'hello'))
    t.equal(seen.most, instances)
    await team.removeAgent('late')
    await t.rejects(ask(team, 'late'), { message: /removed from the team/ })
  }
  t.equal(team.host.directory.actors.length, 6)
})

t.test('rule 12: close ends all instances', async (t) => {
  const stopped: string[] = []
  const worker = defineAgent({
    receive: (_message, context) => context.sleep(1_000),
    stop: () => void stopped.push('stop'),
  })
  const team = teamOf(t, 3, { worker } as Cast)
  const runs = numbers(4).map((query) => outcomeOf(team.execute(query)))
  await team.clock.advance(1)
  const closed = team.close()
  await team.clock.runToIdle()
  await closed
  t.equal(stopped.length, 3)
  t.ok(runs.every(({ value }) => value?.error?.code === 'RUN_ABORTED'))
  t.ok(workers(team).every(({ incarnation }) => incarnation === undefined))
})

t.test('rule 11: a start that fails twice in one instance is a start failure', async (t) => {
  let starts = 0
  const worker = defineAgent({
    start() {
      starts += 1
      if (starts >= 2) throw new Error('no licence for a second one')
    },
    receive: () => 'fine',
  })
  const team = teamOf(t, 2, { worker } as Cast)
  await t.rejects(team.start(), { code: 'START_FAILED', message: /no licence/ })
  t.equal(await ask(team, 'worker'), 'fine', 'the other instance does the work')
})

t.test('one name in health, metrics, trace and events', async (t) => {
  const cast: Cast = { worker: async (_message, context) => void (await context.sleep(10)) }
  const team = teamOf(t, 2, cast)
  const statuses = statusesOf(team, 'worker')
  const runs = [outcomeOf(team.execute('a'))]
  await team.clock.advance(5)
  runs.push(outcomeOf(team.execute('b')))
  await team.clock.advance(2)
  t.match(team.health().agents, { worker: { status: 'running', inFlight: 2, queued: 0 } })
  team.crashCell(workers(team)[0])
  await team.clock.advance(1)
  t.match(team.health().agents, { worker: { status: 'running', restarts: 1 } })
  await team.clock.runToIdle()
  t.same(statuses, ['starting', 'idle', 'running', 'idle'])
  t.match(team.getAgent('worker')!.getContextSummary(), /\(idle\): 2 turns, 1 restarts, 0 messages waiting/)
  const samples = team.metrics().flatMap(({ name, samples }) => samples.map((sample) => ({ name, ...sample })))
  for (const [name, value] of Object.entries({ messages_handled_total: 2, agent_restarts_total: 1, agent_ready: 1 }))
    t.match(
      samples.filter((sample) => sample.name === `dramatis_${name}` && sample.labels.agent === 'worker'),
      [{ value }],
    )
  t.same(
    runs.map(
      ({ value }) => value!.orchestrationTrace.agentActivations.filter(({ agent }) => agent === 'worker').length,
    ),
    [2, 1],
    'the attempt that was cut off, and one for each turn that ended',
  )
})

t.test('an agent with several instances has no state', async (t) => {
  for (const field of ['initialState', 'initialRunState']) {
    const team = teamOf(t, 2, { worker: defineAgent({ [field]: { seen: 0 }, receive: () => {} }) })
    await t.rejects(team.start(), {
      code: 'CONFIGURATION',
      message: new RegExp(`^agents\\[0\\]\\.instances: the 2 instances of agent "worker" .* ${field} is refused`),
      details: { path: 'agents[0].instances', got: 2, accepted: '1' },
    })
  }
  for (const verb of ['setState', 'setRunState'] as const) {
    const team = teamOf(t, 2, { worker: (_message, context) => context[verb](() => {}) })
    t.match(await team.execute('go'), {
      error: { code: 'AGENT_FAILED', message: new RegExp(`agents\\[0\\]\\.instances: .* ${verb} is refused`) },
    })
  }
})

t.test('with `concurrency` each instance has turns of several runs', async (t) => {
  const open: string[] = []
  const { opened, open: release } = gate()
  const worker = async (_message: AgentMessage, context: AgentContext) => {
    open.push(`${context.runId} at ${instanceOf(team, context)}`)
    await opened
    return context.runId
  }
  const team = teamOf(t, 2, { worker }, { roles: { worker: { concurrency: 2 } } })
  const runs = numbers(6).map((runId) => outcomeOf(team.execute(runId, { runId })))
  await team.clock.advance(0)
  t.same(open.sort(), ['0 at 0', '1 at 0', '2 at 1', '3 at 1'])
  release()
  await team.clock.runToIdle()
  t.same(
    runs.map(({ value }) => value?.finalOutput),
    numbers(6),
  )
})

t.test('an instance that is tried again takes no room that the others have', async (t) => {
  const cast: Cast = { worker: (_message, context) => context.sleep(10) }
  const team = teamOf(t, 2, cast, { supervision: { maxRestarts: 0 } })
  await team.start()
  team.crashCell(workers(team)[0])
  await team.clock.advance(1)
  const asked = askOften(team, numbers(5))
  await team.clock.advance(1)
  await team.restartAgent('worker')
  await team.clock.runToIdle()
  t.ok(asked.every(({ settled }) => settled))
})

t.test('each turn has its own time, in whichever instance it is', async (t) => {
  const cast: Cast = { worker: ({ content }, context) => context.sleep(Number(content)) }
  const team = teamOf(t, 2, cast, { roles: { worker: { limits: { turnTimeoutMs: 100 } } } })
  await team.start()
  const [first, second, third] = askOften(team, ['90', '500', '50'])
  await team.clock.advance(120)
  t.match([first!.error, second!.error], [undefined, { code: 'TURN_TIMEOUT' }])
  await team.clock.runToIdle()
  t.same([third!.settled, third!.error], [true, undefined])
})

t.test('an urgent message is taken by whichever instance is free, as any other', async (t) => {
  const team = given(t, { roles: { pair: { instances: 2 } } }).team({
    pair: ({ content }, context) => (content === 'busy' ? context.sleep(1_000).then(() => 'late') : 'at once'),
  })
  const busy = ask(team, 'pair', 'busy')
  await team.clock.advance(1)
  const urgent = outcomeOf(ask(team, 'pair', 'urgent', { priority: 5 }))
  await team.clock.advance(0)
  t.equal(urgent.value, 'at once')
  await team.clock.advance(1_000)
  t.equal(await busy, 'late')
})
