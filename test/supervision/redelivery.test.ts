/** Rules 0, 4 to 7 and 10: what a failure or a dead thread leaves behind, and what comes of it. */
import t from 'tap'
import { defineAgent } from '../../src/actors/definition/definition.ts'
import { pluck, where } from '../kit/lists.ts'
import { ask, type Cast, gate, given, never, numbers, openTeam, outcomeOf, type Receive } from '../kit/team.ts'

t.test('rule 4: every life of an agent has an epoch', async (t) => {
  const team = openTeam(t, { worker: () => '' })
  const epochs: number[] = []
  team.events.subscribe((event) => {
    if (event.type === 'agent.status' && event.agent === 'worker' && event.status === 'idle') epochs.push(event.epoch)
  })
  await team.start()
  await team.dies('worker')
  t.same(epochs, [1, 2])
})

t.test('rule 4: what the code of a dead life still does is seen by nobody', async (t) => {
  const { opened, open } = gate()
  const heard: string[] = []
  const team = given(t, { enableBlackboard: true }).team({
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
  })
  const run = team.launch('go')
  await team.clock.advance(0)
  await team.dies('worker')
  open()
  await team.clock.advance(0)
  const result = await run.result
  t.equal(result.finalOutput, 'attempt 2, state 2')
  t.same(heard, ['sent in attempt 2'])
  t.same(Object.keys(result.blackboardState!), ['key-2'])
})

t.test('rule 4: what was under way outside the thread belongs to the turn, and counts', async (t) => {
  const team = openTeam(t, {
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
  const team = given(t, { enableBlackboard: { scope: 'team' } }).team({
    worker: async (_message, context) =>
      `${(await context.blackboard.waitFor('key')).value} in attempt ${context.attempt}`,
    writer: (_message, context) => context.publish('key', 'found', 'fact').then(() => 'written'),
  })
  const asked = ask(team, 'worker')
  await team.clock.advance(10)
  team.crash('worker')
  await team.clock.advance(10)
  await ask(team, 'writer')
  t.equal(await asked, 'found in attempt 2')
})

t.test('rule 5: a turn that had committed when its thread died is never run again', async (t) => {
  let turns = 0
  const team = openTeam(t, {
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
  const team = given(t, { communication: { mailboxCapacity: 4_000 } }).team({
    async worker(_message, context) {
      if (context.attempt > 1) return 'done'
      for (const content of sent) void context.send('log', content)
      team.crash('worker')
      return never
    },
    log: (message) => void heard.push(message.content),
  })
  t.equal(await ask(team, 'worker'), 'done')
  await team.clock.advance(0)
  t.same(heard, sent)
})

t.test('rule 5: a commit that was not written whole is none', async (t) => {
  const team = openTeam(t, {
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
  const team = openTeam(t, {
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
  const team = openTeam(t, {
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
  const team = openTeam(t, {
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
  t.match(where(result.orchestrationTrace.events, 'eventType', 'step.mismatch'), [
    {
      agent: 'worker',
      details: {
        error: { code: 'STEP_MISMATCH', details: { agent: 'worker', missed: ['send to log', 'step count'] } },
      },
    },
  ])
})

t.test('rules 5 to 7: a redelivered turn that does the same is none', async (t) => {
  const team = openTeam(t, {
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
  const team = openTeam(t, {
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
  const team = openTeam(t, {
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
  const team = openTeam(t, {
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
  await team.dies('caller')
  open()
  await team.clock.advance(0)
  t.match(asked, { value: 'quick slow' })
})

t.test(
  "rule 10: a request that timed out has one answer, in the history and for the turn's next attempt",
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

// Rule 7: which message is given up, and when.

t.test('rule 7: a message that kills its agent three times is poison', async (t) => {
  let attempts = 0
  const team = openTeam(t, {
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
  const team = openTeam(t, { worker }, { roles: { worker: { supervision: { poisonAttempts: 1 } } } })
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
  const team = given(t, {
    script: async (script, query) => {
      begun.push(`${query} ${script.attempt}`)
      await script.sleep(query === 'guilty' ? 10 : 20)
      if (query === 'guilty') {
        team.crash('$orchestrator', failure('boom'))
        return never
      }
      return (await script.request('worker', query)).content
    },
  }).team({ worker: () => 'done' })
  const runs = ['one', 'guilty', 'two'].map((query) => team.execute(query))
  await team.clock.advance(60_000)
  const results = await Promise.all(runs)
  t.same(
    results.map(({ error }) => error?.code),
    [undefined, 'AGENT_CRASHED', undefined],
  )
  t.same(begun, ['one 1', 'guilty 1', 'two 1', 'one 2', 'guilty 2', 'guilty 3', 'two 2'])
  t.equal(team.host.directory.byIndex[2]!.suspects.size, 0)
})

t.test('rule 7: what a poisoned message had asked others for is withdrawn', async (t) => {
  const told: string[] = []
  const team = given(t, { supervision: { poisonAttempts: 1 } }).team({
    async worker(_message, context) {
      void context.request('oracle', 'why')
      await context.sleep(10)
      team.crash('worker')
      return never
    },
    oracle: (_message, context) => context.sleep(1_000).catch(({ code }) => void told.push(code)),
  })
  const asked = outcomeOf(ask(team, 'worker'))
  await team.clock.advance(10)
  t.match(asked.error, { code: 'AGENT_CRASHED' })
  t.same(told, ['CANCELLED'])
})

// What counts as a failure (rule 0): a handler that throws has failed, and its agent goes on.

const throws =
  (thrown: unknown): Receive =>
  () => {
    throw thrown
  }

t.test('rule 0: a handler that throws has failed, its caller gets the cause at once, the agent goes on', async (t) => {
  const team = openTeam(t, {
    worker(message) {
      if (message.content === 'bad') throw new RangeError('out of range')
      return 'fine'
    },
  })
  await t.rejects(ask(team, 'worker', 'bad'), {
    code: 'AGENT_FAILED',
    message: 'Agent "worker" failed in its turn for a request from "$user": RangeError: out of range',
    details: { agent: 'worker', cause: 'RangeError: out of range' },
    cause: { name: 'RangeError', message: 'out of range', stack: /redelivery\.test/ },
  })
  t.equal(await ask(team, 'worker', 'good'), 'fine')
  t.equal(team.health().agents.worker?.restarts, 0)
  t.same(team.deadLetters.list(), [])
  t.equal(team.clock.monotonic(), 0)
})

for (const [what, thrown, shown] of [
  ['a string', 'nothing works', 'nothing works'],
  ['undefined', undefined, 'Error: a handler threw undefined'],
  ['null', null, 'Error: a handler threw null'],
  ['an object', { code: 7 }, '{"code":7}'],
  ['a function', function broken() {}, 'a function (broken)'],
] as const) {
  t.test(`rule 0: a handler that throws ${what} has failed`, async (t) => {
    const team = openTeam(t, { worker: throws(thrown), rejecter: () => Promise.reject(thrown) })
    for (const agent of ['worker', 'rejecter'])
      await t.rejects(ask(team, agent), { code: 'AGENT_FAILED', details: { agent, cause: shown } })
  })
}

t.test('rule 0: a handler that rejects has failed', async (t) => {
  const team = openTeam(t, {
    async worker(_message, context) {
      await context.sleep(5)
      throw new Error('late')
    },
  })
  const asked = ask(team, 'worker')
  const refused = t.rejects(asked, { code: 'AGENT_FAILED', details: { cause: 'Error: late' } })
  await team.clock.advance(5)
  await refused
})

t.test('rule 0: what a failed turn did to the state is discarded', async (t) => {
  const team = given(t, {
    script: async (script) => {
      await script.request('counter', 'good')
      await script.request('counter', 'bad').catch(() => {})
      return (await script.request('counter', 'good')).content
    },
  }).team({
    counter: defineAgent({
      initialState: { count: 0 },
      initialRunState: { seen: 0 },
      receive(message, context) {
        context.setState((draft) => {
          draft.count += 1
        })
        context.setRunState((draft) => {
          draft.seen += 1
        })
        if (message.content === 'bad') throw new Error('no')
        return `${context.state.count} ${context.runState.seen}`
      },
    }),
  })
  t.equal((await team.execute('go')).finalOutput, '2 2')
})

t.test('rule 0: a failed message that nobody waits for is a dead letter with reason failed', async (t) => {
  const team = openTeam(t, { worker: throws(new Error('no')) })
  await team.sendMessage({ recipient: 'worker', content: 'note' })
  await team.clock.advance(0)
  t.match(team.deadLetters.list(), [
    {
      reason: 'failed',
      message: { content: 'note', recipient: 'worker', type: 'request' },
      errors: [{ code: 'AGENT_FAILED', details: { cause: 'Error: no' } }],
    },
  ])
})

t.test('rule 0: an observer that throws makes a dead letter, and the agent goes on', async (t) => {
  const team = openTeam(t, {
    worker: defineAgent({ receive: () => 'fine', observe: throws(new Error('deaf')) as never }),
  })
  await team.broadcast('hear', '$user')
  await team.clock.advance(0)
  t.match(team.deadLetters.list(), [{ reason: 'failed', message: { type: 'broadcast', recipient: String } }])
  t.equal(await ask(team, 'worker'), 'fine')
})

t.test('rule 0: a refusal is no failure of the agent', async (t) => {
  let attempts = 0
  const team = given(t, { supervision: { onHandlerError: 'retry' } }).team({
    worker(_message, context) {
      attempts += 1
      throw context.refuse('not mine')
    },
  })
  await t.rejects(ask(team, 'worker'), { code: 'TASK_REFUSED', details: { reason: 'not mine' } })
  t.equal(attempts, 1)
})

t.test("rule 0: onHandlerError 'retry' tries again in the same life, up to poisonAttempts", async (t) => {
  const attempts: number[] = []
  const worker: Receive = (message, context) => {
    attempts.push(context.attempt)
    if (message.content === 'bad' || context.attempt < 3) throw new Error(`attempt ${context.attempt}`)
    return 'done'
  }
  const team = openTeam(t, { worker }, { supervision: { onHandlerError: 'retry' } })
  t.equal(await ask(team, 'worker', 'good'), 'done')
  await t.rejects(ask(team, 'worker', 'bad'), { code: 'AGENT_FAILED', details: { cause: 'Error: attempt 3' } })
  t.same(attempts, [1, 2, 3, 1, 2, 3])
  t.equal(team.health().agents.worker?.restarts, 0)
})

t.test("rule 0: with 'retry' a step that was finished is not done again, in no attempt", async (t) => {
  const done: string[] = []
  const seen: string[] = []
  const team = given(t, { supervision: { onHandlerError: 'retry' } }).team({
    async worker(_message, context) {
      await context.step('once', () => void done.push('once'))
      await context.send('log', 'begun')
      if (context.attempt < 3) throw new Error('again')
      return 'done'
    },
    log: (message) => void seen.push(message.content),
  })
  t.equal(await ask(team, 'worker'), 'done')
  t.same(done, ['once'])
  t.same(seen, ['begun'])
})

t.test("rule 0: with 'retry' an attempt that failed is no answer: not to the run, nor in its history", async (t) => {
  const team = given(t, { supervision: { onHandlerError: 'retry' } }).team({
    worker(_message, context) {
      if (context.attempt === 1) throw new Error('again')
      return 'done'
    },
  })
  const result = await team.execute('go')
  t.equal(result.finalOutput, 'done')
  t.same(result.failures, [])
  t.same(Object.values(result.taskCompletion), ['completed'])
  t.same(
    pluck(
      result.messageHistory.filter(({ sender, type }) => sender === 'worker' && type === 'response'),
      'content',
    ),
    ['done'],
  )
})

t.test("rule 0: with 'retry' the failed attempt is no answer to a caller that crashes", async (t) => {
  const team = given(t, { supervision: { onHandlerError: 'retry' } }).team({
    async caller(_message, context) {
      return (await context.request('worker', 'go')).content
    },
    async worker(_message, context) {
      if (context.attempt === 1) throw new Error('again')
      await context.sleep(10)
      return 'done'
    },
  })
  const asked = ask(team, 'caller')
  await team.clock.advance(5)
  team.crash('caller')
  await team.clock.advance(5)
  t.equal(await asked, 'done')
})

for (const onHandlerError of ['retry', 'restart'] as const) {
  t.test(`rule 0: with '${onHandlerError}' a turn whose caller has gone is not tried again`, async (t) => {
    let attempts = 0
    const { opened, open } = gate()
    const team = given(t, { supervision: { onHandlerError } }).team({
      async caller(_message, context) {
        const gone = new AbortController()
        void context.request('worker', 'go', { signal: gone.signal })
        await opened
        gone.abort()
        return 'gave up'
      },
      worker() {
        attempts += 1
        open() // it has failed before the caller's cancellation is read
        throw new Error('no')
      },
    })
    t.equal(await ask(team, 'caller'), 'gave up')
    await team.clock.advance(0)
    t.equal(attempts, 1)
    t.equal(team.health().agents.worker?.restarts, 0)
  })

  t.test(`rule 0: with '${onHandlerError}' the messages behind the failed one keep their order`, async (t) => {
    const handled: string[] = []
    const team = given(t, { supervision: { onHandlerError } }).team({
      async sender(_message, context) {
        for (const content of ['a', 'b', 'c']) await context.send('worker', content)
      },
      worker(message, context) {
        if (message.content === 'a' && context.attempt === 1) throw new Error('again')
        handled.push(message.content)
      },
    })
    await ask(team, 'sender')
    await team.clock.advance(0)
    t.same(handled, ['a', 'b', 'c'])
  })
}

t.test("rule 0: onHandlerError 'restart' gives the agent a new life, with its state", async (t) => {
  const team = given(t, { supervision: { onHandlerError: 'restart' } }).team({
    worker: defineAgent({
      initialState: { count: 0 },
      receive(message, context) {
        context.setState((draft) => {
          draft.count += 1
        })
        if (message.content === 'bad' && context.attempt === 1) throw new Error('again')
        return `attempt ${context.attempt}, count ${context.state.count}`
      },
    }),
  })
  t.equal(await ask(team, 'worker', 'good'), 'attempt 1, count 1')
  t.equal(await ask(team, 'worker', 'bad'), 'attempt 2, count 2')
  t.equal(team.health().agents.worker?.restarts, 1)
})

t.test("rule 0: with 'restart' the same error twice ends the message, and its caller gets the cause", async (t) => {
  let attempts = 0
  const team = given(t, { supervision: { onHandlerError: 'restart' } }).team({
    worker() {
      attempts += 1
      throw new Error('always')
    },
  })
  await t.rejects(ask(team, 'worker'), { code: 'AGENT_CRASHED', message: /Error: always/ })
  t.equal(attempts, 2)
})

t.test('rule 0: a verb that is left alone and rejects hurts nobody', async (t) => {
  const team = given(t, {
    enableBlackboard: true,
    script: async (script) => {
      void script.route('x')
      void script.synced('x')
      return (await script.request('worker', 'go')).content
    },
  }).team({
    worker(_message, context) {
      void context.request('nobody', 'x')
      void context.send('nobody', 'x')
      void context.requestAll(['nobody'], 'x', { concurrency: 0 })
      void context.requestAny([], 'x')
      void context.step('fails', () => Promise.reject(new Error('no')))
      void context.sleep(-1)
      void context.sleep(5)
      void context.subscribe('')
      void context.blackboard.read('', undefined)
      void context.blackboard.write('', NaN, 'fact')
      void context.blackboard.waitFor('never')
      void context.blackboard.subscribe('*', () => {})
      void context.watch('nobody')
      queueMicrotask(() => {
        void context.request('worker', 'x')
        void context.step('after the end', () => 1)
        void context.sleep(1)
        void context.subscribe('*')
        void context.blackboard.read('key')
      })
      return 'fine'
    },
  })
  t.equal((await team.execute('go')).finalOutput, 'fine')
  await team.clock.runToIdle()
  t.equal(team.health().agents.worker?.restarts, 0)
})

// What a run's log gives up because it is full is written over; what somebody still needs of it is not.

const PIECE = 100_000 // the log copies it; what is larger has memory of its own
const PIECES = 1_000 // a log keeps 64 MiB

t.test('a message that waits all the while its run fills the log comes as it was sent', async (t) => {
  const { opened, open } = gate()
  const got: string[] = []
  const team = openTeam(t, {
    sender: async (_message, context) => {
      const flood = async (count: number) => {
        for (let i = 0; i < count; i++) await context.request('sink', 'x'.repeat(PIECE))
      }
      await context.send('slow', 'message 0')
      await flood(40) // the log's memory grows with it
      for (let i = 1; i < 5; i++) await context.send('slow', `message ${i}`)
      await flood(PIECES)
      open()
      await context.request('slow', 'the last')
    },
    sink: () => {},
    slow: async ({ content }) => {
      got.push(content)
      await opened
    },
  })
  const run = team.launch('go')
  t.ok((await run.result).success, 'the run succeeded')
  t.same(got, ['message 0', 'message 1', 'message 2', 'message 3', 'message 4', 'the last'])
  t.equal(run.messageHistory[0]?.id, 'log.forgotten', 'and the log was full')
})

t.test('what the instances of an agent are at is kept too, and is whole when it dies', async (t) => {
  const { opened, open } = gate()
  const agents: Cast = {
    sender: async (_message, context) => {
      for (const content of ['left', 'right']) {
        for (let i = 0; i < 40; i++) await context.request('sink', 'x'.repeat(PIECE)) // elsewhere in the log's memory
        await context.send('pair', content)
      }
      for (let i = 0; i < PIECES; i++) await context.request('sink', 'x'.repeat(PIECE))
      open()
    },
    sink: () => {},
    pair: async () => {
      await opened
      throw new Error('not today')
    },
  }
  const team = openTeam(t, agents, { roles: { pair: { instances: 2 } } })
  t.ok((await team.execute('go')).success, 'the run succeeded')
  await team.clock.advance(1)
  const dead = team.deadLetters.list().map(({ message }) => message.content)
  t.same(dead.sort(), ['left', 'right'])
})
