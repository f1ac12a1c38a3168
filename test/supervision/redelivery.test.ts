/** Rules 4, 5, 6 and 10: what a dead thread leaves behind, and what comes of it. */
import t from 'tap'
import { defineAgent } from '../../src/actors/definition/definition.ts'
import { leftovers } from './accounts.ts'
import { ask, gate, localTeam, never, numbers, openTeam, outcomeOf } from './teams.ts'

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
  const team = openTeam(
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
  t.same(leftovers(team.host), [])
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

t.test('rule 4: so does what it waits for on the blackboard', async (t) => {
  const team = localTeam(
    t,
    {
      worker: async (_message, context) =>
        `${(await context.blackboard.waitFor('key')).value} in attempt ${context.attempt}`,
      writer: (_message, context) => context.publish('key', 'found', 'fact').then(() => 'written'),
    },
    { enableBlackboard: { scope: 'team' } },
  )
  const asked = ask(team, 'worker')
  await team.clock.advance(10)
  team.crash('worker')
  await team.clock.advance(10)
  await ask(team, 'writer')
  t.equal(await asked, 'found in attempt 2')
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
  const sent = numbers(2_000) // more than is taken at a time
  const heard: string[] = []
  const team = localTeam(
    t,
    {
      async worker(_message, context) {
        if (context.attempt > 1) return 'done'
        for (const content of sent) void context.send('log', content)
        team.crash('worker')
        return never
      },
      log: (message) => void heard.push(message.content),
    },
    { communication: { mailboxCapacity: 4_000 } },
  )
  t.equal(await ask(team, 'worker'), 'done')
  await team.clock.advance(0)
  t.same(heard, sent)
})

t.test('rule 5: a commit that was not written whole is none', async (t) => {
  const team = localTeam(t, {
    worker: defineAgent({
      initialState: { turns: 0 },
      receive(_message, context) {
        context.setState((draft) => {
          draft.turns += 1
        })
        const state = `state ${context.state.turns} in attempt ${context.attempt}`
        if (context.attempt > 1) return state
        queueMicrotask(() => team.crash('worker')) // its state is in the outbox, its answer is larger than that
        return { content: state, structuredData: 'x'.repeat(2 ** 21) }
      },
    }),
  })
  t.equal(await ask(team, 'worker'), 'state 1 in attempt 2')
})

t.test('rule 5: a turn has committed only when all that it had sent is out', async (t) => {
  const lengths: number[] = []
  const team = localTeam(t, {
    worker(_message, context) {
      void context.send('log', 'first')
      void context.send('log', 'x'.repeat(2 ** 20)) // larger than the outbox; what is left of that has room for the commit
      if (context.attempt === 1) queueMicrotask(() => team.crash('worker'))
      return `attempt ${context.attempt}`
    },
    log: (message) => void lengths.push(message.content.length),
  })
  t.equal(await ask(team, 'worker'), 'attempt 2')
  await team.clock.advance(0)
  t.same(lengths, [5, 2 ** 20])
})

t.test('rule 6: the turn under way comes first, with attempt + 1; the others gain none', async (t) => {
  const turns: string[] = []
  const team = localTeam(t, {
    async sender(_message, context) {
      for (const content of ['a', 'b', 'c']) await context.send('worker', content) // of one run: all stand in its window
    },
    async worker(message, context) {
      turns.push(`${message.content} ${context.attempt}`)
      if (message.content === 'a' && context.attempt === 1) {
        await context.sleep(5)
        team.crash('worker')
        return never
      }
    },
  })
  await ask(team, 'sender')
  await team.clock.advance(0)
  await team.sendMessage({ recipient: 'worker', content: 'urgent', priority: 9 })
  await team.clock.advance(5)
  t.same(turns, ['a 1', 'a 2', 'urgent 1', 'b 1', 'c 1'])
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
  const team = localTeam(t, {
    async worker(_message, context) {
      await context.step('count', () => 1)
      if (context.attempt > 1) return 'done'
      team.crash('worker')
      return never
    },
  })
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
  const told: string[] = []
  const team = localTeam(t, {
    async caller(_message, context) {
      const reply = await context.request('worker', 'go')
      answers.push(reply.content)
      return reply.content
    },
    worker: (_message, context) => context.sleep(1_000).catch(({ code }) => void told.push(code)),
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
  t.same(told, ['CANCELLED'])
  t.match(team.deadLetters.list(), [{ reason: 'late', message: { content: 'second' } }])
})

t.test('rule 10: a new life numbers its requests on, so that no answer is taken for another', async (t) => {
  const { opened, open } = gate()
  const team = localTeam(t, {
    async caller(_message, context) {
      const names = context.attempt === 1 ? ['slow'] : ['quick', 'slow']
      const replies = await Promise.all(names.map((name) => context.request(name, 'go')))
      return replies.map(({ content }) => content).join(' ')
    },
    slow: () => opened.then(() => 'slow'),
    quick: () => 'quick',
  })
  const asked = outcomeOf(ask(team, 'caller'))
  await team.clock.advance(0)
  team.crash('caller')
  await team.clock.advance(0)
  open()
  await team.clock.advance(0)
  t.match(asked, { value: 'quick slow' })
})

t.test(
  'rule 10: a request that had timed out has one answer in the history, and for the turn that is tried again',
  async (t) => {
    const seen: string[] = []
    let runId = ''
    const team = openTeam(t, {
      async caller(_message, context) {
        runId = context.runId
        seen.push(await context.request('worker', 'go', { timeoutMs: 20 }).catch(({ code }) => code))
        await context.sleep(100)
        return 'done'
      },
      async worker(_message, context) {
        await context.sleep(50).catch(() => {})
        return 'too late'
      },
    })
    const asked = ask(team, 'caller')
    await team.clock.advance(60)
    team.crash('caller')
    await team.clock.runToIdle()
    t.equal(await asked, 'done')
    t.same(seen, ['REQUEST_TIMEOUT', 'REQUEST_TIMEOUT'])
    const answers = team
      .getMessageHistory(runId)
      .filter(({ type, sender }) => type === 'response' && sender === 'worker')
    t.match(answers, [{ metadata: { error: { code: 'REQUEST_TIMEOUT' } } }])
    t.equal(answers.length, 1)
  },
)
