/** Rules 4 to 7 and 10: what a dead thread leaves behind, and how its turn is tried again. */
import t from 'tap'
import type { AgentContext } from '../../src/actors/context.ts'
import { defineAgent } from '../../src/actors/definition.ts'
import { REQUEST, sameStep, writeFrame } from '../../src/mailbox/frame.ts'
import { allocate } from '../../src/mailbox/memory.ts'
import type { TestTeam } from '../../src/testing.ts'
import { ask, gate, localTeam, never, openTeam, outcomeOf, type Receive } from './teams.ts'

/** Dies in its first attempt, after what it does; what it does again in the second is its answer. */
function diesOnce(act: (context: AgentContext) => Promise<unknown>): (team: () => TestTeam<string>) => Receive {
  return (team) => async (_message, context) => {
    const result = await act(context)
    if (context.attempt > 1) return JSON.stringify(result)
    team().crash('worker')
    return never
  }
}

t.test('rule 4: every life of an agent has an epoch', async (t) => {
  const team = localTeam(t, { worker: () => '' })
  const epochs: number[] = []
  team.events.subscribe((event) => {
    if (event.type === 'agent.status' && event.agent === 'worker' && event.status === 'idle') epochs.push(event.epoch)
  })
  await team.start()
  team.crash('worker')
  await team.clock.advance(0)
  t.same(epochs, [1, 2])
})

t.test('rule 4: what the code of a dead life still does is seen by nobody', async (t) => {
  const { opened, open } = gate()
  const heard: string[] = []
  const team = localTeam(
    t,
    {
      worker: defineAgent({
        initialState: { by: 0 },
        async receive(_message, context) {
          const { attempt } = context
          if (attempt === 1) await opened
          await context.send('log', `sent in attempt ${attempt}`)
          void context.publish(`key-${attempt}`, 1, 'fact')
          void context.step('write', () => attempt)
          context.setState((draft) => {
            draft.by += attempt
          })
          return `attempt ${attempt}, state ${context.state.by}`
        },
      }),
      log: (message) => void heard.push(message.content),
    },
    { enableBlackboard: true },
  )
  const run = team.launch('go')
  await team.clock.advance(0)
  team.crash('worker')
  await team.clock.advance(0)
  open()
  await team.clock.advance(0)
  const result = await run.result
  t.equal(result.finalOutput, 'attempt 2, state 2')
  t.same(heard, ['sent in attempt 2'])
  t.same(Object.keys(result.blackboardState!), ['key-2'])
})

t.test('rule 4: what was under way outside the thread belongs to the turn, and counts', async (t) => {
  const team = localTeam(t, {
    async caller(_message, context) {
      return `${(await context.request('worker', 'go')).content}, asked in attempt 1, taken in ${context.attempt}`
    },
    async worker(_message, context) {
      await context.sleep(50)
      return 'answer'
    },
  })
  const asked = ask(team, 'caller')
  await team.clock.advance(10)
  team.crash('caller')
  await team.clock.advance(40)
  t.equal(await asked, 'answer, asked in attempt 1, taken in 2')
})

t.test('rule 5: a turn that had committed when its thread died is never run again', async (t) => {
  let turns = 0
  const team = localTeam(t, {
    worker: defineAgent({
      initialState: { turns: 0 },
      receive(_message, context) {
        turns += 1
        context.setState((draft) => {
          draft.turns += 1
        })
        if (turns === 1) queueMicrotask(() => team.crash('worker')) // the commit is in the outbox, the host has not looked
        return `state ${context.state.turns}`
      },
    }),
  })
  t.equal(await ask(team, 'worker'), 'state 1')
  await team.clock.advance(0)
  t.equal(team.health().agents.worker?.restarts, 1)
  t.equal(await ask(team, 'worker'), 'state 2')
  t.equal(turns, 2)
})

t.test('rule 5: what the dead thread had published is drained before anything is decided', async (t) => {
  const heard: string[] = []
  const team = localTeam(t, {
    async worker(_message, context) {
      if (context.attempt > 1) return 'done'
      for (let i = 0; i < 300; i++) void context.send('log', `${i}`)
      team.crash('worker')
      return never
    },
    log: (message) => void heard.push(message.content),
  })
  t.equal(await ask(team, 'worker'), 'done')
  await team.clock.advance(0)
  t.same(
    heard,
    Array.from({ length: 300 }, (_, i) => `${i}`),
  )
})

t.test('rule 6: the turn under way comes first, with attempt + 1; the others gain none', async (t) => {
  const turns: string[] = []
  const team = localTeam(t, {
    async worker(message, context) {
      turns.push(`${message.content} ${context.attempt}`)
      if (message.content === 'a' && context.attempt === 1) {
        await context.sleep(5)
        team.crash('worker')
        return never
      }
    },
  })
  for (const content of ['a', 'b', 'c']) await team.sendMessage({ recipient: 'worker', content })
  await team.clock.advance(0)
  await team.sendMessage({ recipient: 'worker', content: 'urgent', priority: 9 })
  await team.clock.advance(5)
  t.same(turns, ['a 1', 'a 2', 'urgent 1', 'b 1', 'c 1'])
})

t.test('rule 6: a request is asked once', async (t) => {
  const asked: string[] = []
  const worker = diesOnce(async (context) => (await context.request('oracle', 'why')).content)(() => team)
  const team = localTeam(t, {
    worker,
    oracle(message) {
      asked.push(message.content)
      return `answer ${asked.length}`
    },
  })
  t.equal(await ask(team, 'worker'), '"answer 1"')
  t.same(asked, ['why'])
})

t.test('rule 6: a request that failed fails in the same way', async (t) => {
  let asked = 0
  const worker = diesOnce((context) => context.request('oracle', 'why').catch((error: Error) => error.message))(
    () => team,
  )
  const team = localTeam(t, {
    worker,
    oracle() {
      asked += 1
      throw new Error(`failure ${asked}`)
    },
  })
  t.match(await ask(team, 'worker'), /Error: failure 1/)
  t.equal(asked, 1)
})

t.test('rule 6: a send is sent once', async (t) => {
  const heard: string[] = []
  const worker = diesOnce(async (context) => {
    await context.send('log', 'one')
    await context.send('log', 'two', { structuredData: { with: 'data' }, metadata: { and: 'more' } })
    await context.send('log', 'two', { structuredData: { with: 'data' }, metadata: { and: 'more' } })
  })(() => team)
  const team = localTeam(t, { worker, log: (message) => void heard.push(message.content) })
  await ask(team, 'worker')
  await team.clock.advance(0)
  t.same(heard, ['one', 'two', 'two'])
})

t.test('rule 6: a refused send is refused again', async (t) => {
  const worker = diesOnce((context) => context.send('nobody', 'one').catch((error: Error) => error.message))(() => team)
  const team = localTeam(t, { worker })
  t.match(await ask(team, 'worker'), /No agent of this team is named \\"nobody\\"/)
  t.equal(team.deadLetters.list().length, 1)
})

t.test('rule 6: a publish is published once, and a read reads what it read', async (t) => {
  let versions: number[] = []
  const team = localTeam(
    t,
    {
      async worker(_message, context) {
        const before = await context.blackboard.read('shared')
        const written = await context.publish('shared', 'value', 'fact')
        if (context.attempt === 1) {
          team.crash('worker')
          return never
        }
        versions = (await context.blackboard.getHistory('shared')).map(({ version }) => version)
        return `${before} then version ${written.version}`
      },
    },
    { enableBlackboard: true },
  )
  const result = await team.execute('go')
  t.equal(result.finalOutput, 'undefined then version 1')
  t.same(versions, [1])
})

t.test('rule 6: a finished step is not done again, an emitted chunk not emitted again', async (t) => {
  let done = 0
  const chunks: string[] = []
  const worker = diesOnce(async (context) => {
    context.emit('piece')
    return context.step('count', () => {
      done += 1
      return { done }
    })
  })(() => team)
  const team = localTeam(t, { worker })
  team.events.subscribe((event) => {
    if (event.type === 'output.delta') chunks.push(event.chunk)
  })
  const result = await team.execute('go')
  t.equal(result.finalOutput, '{"done":1}')
  t.equal(done, 1)
  t.same(chunks, ['piece'])
  t.same(
    result.orchestrationTrace.events.filter(({ eventType }) => eventType.startsWith('step.')).map((e) => e.eventType),
    ['step.began', 'step.finished', 'step.replayed'],
  )
})

t.test('rule 6: a step that failed fails in the same way, without being done again', async (t) => {
  let done = 0
  const worker = diesOnce((context) =>
    context
      .step('count', () => {
        done += 1
        throw new Error(`failure ${done}`)
      })
      .catch((error: Error) => error.message),
  )(() => team)
  const team = localTeam(t, { worker })
  t.match(await ask(team, 'worker'), /failure 1/)
  t.equal(done, 1)
})

t.test('rule 6: now, random and uuid give in the second attempt what they gave in the first', async (t) => {
  const attempts: unknown[] = []
  const team = localTeam(t, {
    async worker(_message, context) {
      const drawn = [context.now(), context.random(), context.uuid(), context.random(), context.now()]
      attempts.push(drawn)
      if (context.attempt === 1) {
        await context.sleep(1_000)
        team.crash('worker')
        return never
      }
    },
  })
  const asked = ask(team, 'worker')
  await team.clock.advance(1_000)
  await asked
  t.same(attempts[1], attempts[0])
  t.same(attempts.length, 2)
})

t.test('rule 6: parallel steps are matched in whatever order they come', async (t) => {
  const asked: string[] = []
  const team = localTeam(t, {
    async worker(_message, context) {
      const names = ['a', 'b', 'c']
      if (context.attempt > 1) names.reverse()
      const replies = await Promise.all(names.map((name) => context.request('oracle', name)))
      if (context.attempt === 1) {
        team.crash('worker')
        return never
      }
      return replies.map(({ content }) => content).join(' ')
    },
    oracle(message) {
      asked.push(message.content)
      return `${message.content}${asked.length}`
    },
  })
  t.equal(await ask(team, 'worker'), 'c3 b2 a1')
  t.same(asked, ['a', 'b', 'c'])
})

t.test('rule 6: the same step is known again whatever the memory held before', async (t) => {
  for (let length = 0; length < 9; length++) {
    const frames = [0, 255].map((before) => {
      const memory = allocate(256)
      memory.u8.fill(before)
      writeFrame(memory, 0, { ...blank, content: 'x'.repeat(length), data: `"${'é'.repeat(length)}→"` }, 0)
      return memory
    })
    t.ok(sameStep(frames[0]!, 0, frames[1]!, 0), `${length} characters`)
  }
})

const blank = {
  kind: REQUEST,
  flags: 0,
  type: 'request' as const,
  sender: 3,
  recipient: 4,
  run: 1,
  turn: 1,
  correlation: 1,
  step: 1,
  attempt: 1,
  content: '',
  data: undefined,
  metadata: undefined,
  threadId: undefined,
  name: undefined,
  limit: -1,
  priority: 0,
}

t.test('rule 6: a request under way when the thread died settles once, whenever its answer comes', async (t) => {
  for (let seed = 1; seed <= 100; seed++) {
    let asked = 0
    const { opened, open } = gate()
    const team = localTeam(
      t,
      {
        caller: defineAgent({
          start() {
            if (asked > 0) open() // the answer and the second attempt race each other
          },
          async receive(_message, context) {
            return `${(await context.request('oracle', 'why')).content} in attempt ${context.attempt}`
          },
        }),
        async oracle() {
          asked += 1
          await opened
          for (let i = 0; i < seed % 10; i++) await new Promise((resolve) => setImmediate(resolve))
          return 'because'
        },
      },
      { seed },
    )
    const caller = outcomeOf(ask(team, 'caller'))
    await team.clock.advance(0)
    team.crash('caller')
    for (let i = 0; i < 10; i++) await team.clock.advance(0)
    t.match(caller, { value: 'because in attempt 2' }, `seed ${seed}`)
    t.equal(asked, 1)
  }
})

t.test('rule 6: a step under way that may not run twice makes the outcome unknown, and is not run again', async (t) => {
  let runs = 0
  const team = localTeam(t, {
    async worker(_message, context) {
      await context.step('pay', () => {
        runs += 1
        team.crash('worker')
        return never
      })
    },
  })
  await t.rejects(ask(team, 'worker'), {
    code: 'OUTCOME_UNKNOWN',
    message: /^Agent "worker" died while its step "pay" was under way/,
    details: { agent: 'worker', step: 'pay' },
  })
  await team.sendMessage({ recipient: 'worker', content: 'note' })
  await team.clock.advance(1_000)
  t.match(team.deadLetters.list().at(-1), { reason: 'failed', errors: [{ code: 'OUTCOME_UNKNOWN' }] })
  t.equal(runs, 2)
})

t.test('rule 6: an idempotent step under way runs again', async (t) => {
  let runs = 0
  const team = localTeam(t, {
    async worker(_message, context) {
      return context.step(
        'put',
        () => {
          runs += 1
          if (runs === 2) return 'put'
          team.crash('worker')
          return never
        },
        { idempotent: true },
      )
    },
  })
  t.equal(await ask(team, 'worker'), 'put')
  t.equal(runs, 2)
})

t.test('rule 6: a handler that fails beside a step under way is not retried over it', async (t) => {
  let runs = 0
  const team = localTeam(
    t,
    {
      async worker(_message, context) {
        const { opened, open } = gate()
        void context.step('pay', () => {
          runs += 1
          open()
          return never
        })
        await opened
        throw new Error('no')
      },
    },
    { supervision: { onHandlerError: 'retry' } },
  )
  await t.rejects(ask(team, 'worker'), { code: 'AGENT_FAILED' })
  t.equal(runs, 1)
})

t.test('rule 7: a message that kills its agent three times is poison', async (t) => {
  let attempts = 0
  const team = localTeam(t, {
    worker(message) {
      if (message.content === 'fine') return 'fine'
      attempts += 1
      team.crash('worker')
      return never
    },
  })
  const poisoned = t.rejects(ask(team, 'worker'), {
    code: 'AGENT_CRASHED',
    message: /^Agent "worker" died 3 times on this message/,
    details: { attempts: 3, deaths: [{ epoch: 1 }, { epoch: 2 }, { epoch: 3 }] },
  })
  await team.clock.advance(1_000)
  await poisoned
  t.equal(attempts, 3)
  t.match(team.deadLetters.list(), [
    {
      reason: 'poison',
      message: { content: 'go', recipient: 'worker' },
      errors: [
        { code: 'AGENT_CRASHED', details: { epoch: 1 } },
        { code: 'AGENT_CRASHED', details: { epoch: 2 } },
        { code: 'AGENT_CRASHED', details: { epoch: 3 } },
      ],
    },
  ])
  t.equal(await ask(team, 'worker', 'fine'), 'fine')
})

t.test('rule 7: poisonAttempts can be set, for one agent too', async (t) => {
  let attempts = 0
  const worker: Receive = () => {
    attempts += 1
    team.crash('worker')
    return never
  }
  const team = localTeam(t, { worker }, { roles: { worker: { supervision: { poisonAttempts: 1 } } } })
  await t.rejects(ask(team, 'worker'), { code: 'AGENT_CRASHED' })
  t.equal(attempts, 1)
})

t.test('rule 7: the same error twice is enough, two different ones are not', async (t) => {
  const attempts: string[] = []
  const team = openTeam(t, {
    worker(message, context) {
      attempts.push(message.content)
      team.crash('worker', failure(message.content === 'same' ? 'boom' : `boom ${context.attempt}`))
      return never
    },
  })
  for (const content of ['same', 'other']) {
    const poisoned = t.rejects(ask(team, 'worker', content), { code: 'AGENT_CRASHED', cause: { message: /boom/ } })
    await team.clock.advance(1_000)
    await poisoned
  }
  t.same(attempts, ['same', 'same', 'other', 'other', 'other'])
})

/** An error that is thrown at the same place each time. */
const failure = (message: string) => new Error(message)

t.test('rule 7: after a death with several turns under way only the guilty one is poison', async (t) => {
  const begun: string[] = []
  const team = openTeam(
    t,
    { worker: () => 'done' },
    {
      orchestration: {
        strategy: 'custom',
        async run(script, query) {
          begun.push(`${query} ${script.attempt}`)
          await script.sleep(query === 'guilty' ? 10 : 20)
          if (query === 'guilty') {
            team.crash('$orchestrator', failure('boom'))
            return never
          }
          return (await script.request('worker', query)).content
        },
      },
    },
  )
  const runs = ['one', 'guilty', 'two'].map((query) => team.execute(query))
  await team.clock.advance(60_000)
  const results = await Promise.all(runs)
  t.same(
    results.map(({ error }) => error?.code),
    [undefined, 'AGENT_CRASHED', undefined],
  )
  t.same(begun, ['one 1', 'guilty 1', 'two 1', 'one 2', 'guilty 2', 'guilty 3', 'two 2'])
  t.equal(team.host.cells[2]!.suspects.size, 0)
})

t.test('rules 5 to 7: a redelivered turn that takes another way is a divergence, named in the trace', async (t) => {
  const heard: string[] = []
  const team = localTeam(t, {
    async worker(_message, context) {
      if (context.attempt === 1) {
        await context.send('log', 'first way')
        await context.step('count', () => 1)
        team.crash('worker')
        return never
      }
      await context.send('log', 'second way')
      return 'done'
    },
    log: (message) => void heard.push(message.content),
  })
  const result = await team.execute('go')
  await team.clock.advance(0)
  t.equal(result.finalOutput, 'done')
  t.same(heard, ['first way', 'second way'])
  t.match(
    result.orchestrationTrace.events.filter(({ eventType }) => eventType === 'step.mismatch'),
    [
      {
        agent: 'worker',
        details: {
          error: { code: 'STEP_MISMATCH', details: { agent: 'worker', missed: ['send to log', 'step count'] } },
        },
      },
    ],
  )
})

t.test('rules 5 to 7: a redelivered turn that does the same is none', async (t) => {
  const worker = diesOnce((context) => context.step('count', () => 1))(() => team)
  const team = localTeam(t, { worker })
  const { events } = (await team.execute('go')).orchestrationTrace
  t.notOk(events.some(({ eventType }) => eventType === 'step.mismatch'))
})

t.test('rule 10: a response that comes when nobody waits any more is a dead letter with reason late', async (t) => {
  const { opened, open } = gate()
  const team = localTeam(t, {
    async caller(_message, context) {
      const gone = new AbortController()
      void context.request('worker', 'go', { signal: gone.signal })
      await opened
      gone.abort()
      return 'gave up'
    },
    worker() {
      open() // what it answers is in its outbox before the caller's cancellation is read
      return 'too late'
    },
  })
  t.equal(await ask(team, 'caller'), 'gave up')
  await team.clock.advance(0)
  t.match(team.deadLetters.list(), [{ reason: 'late', message: { type: 'response', content: 'too late' } }])
})

t.test('rule 10: a request settles exactly once, and a second response is refused as late', async (t) => {
  const answers: string[] = []
  const team = localTeam(t, {
    async caller(_message, context) {
      const reply = await context.request('worker', 'go')
      answers.push(reply.content)
      return reply.content
    },
    worker: () => never,
  })
  const run = team.launch('go')
  await team.clock.advance(0)
  const request = run.messageHistory.find(({ recipient }) => recipient === 'worker')!
  const response = { ...request, type: 'response' as const, sender: 'worker', correlationId: request.id }
  const caller = team.getAgent('caller')!
  await caller.receiveMessage({ ...response, content: 'first' })
  await t.rejects(caller.receiveMessage({ ...response, content: 'second' }), {
    code: 'MESSAGE_REJECTED',
    details: { path: 'correlationId' },
  })
  t.equal((await run.result).finalOutput, 'first')
  t.same(answers, ['first'])
  t.match(team.deadLetters.list(), [{ reason: 'late', message: { content: 'second' } }])
})
