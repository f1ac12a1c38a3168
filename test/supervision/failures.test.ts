/** What counts as a failure (rule 0): a handler that throws has failed, and its agent goes on. */
import t from 'tap'
import { defineAgent } from '../../src/actors/definition/definition.ts'
import { ask, gate, localTeam, type Receive } from './teams.ts'

const throws =
  (thrown: unknown): Receive =>
  () => {
    throw thrown
  }

t.test('rule 0: a handler that throws has failed, its caller gets the cause at once, the agent goes on', async (t) => {
  const team = localTeam(t, {
    worker(message) {
      if (message.content === 'bad') throw new RangeError('out of range')
      return 'fine'
    },
  })
  await t.rejects(ask(team, 'worker', 'bad'), {
    code: 'AGENT_FAILED',
    message: 'Agent "worker" failed in its turn for a request from "$user": RangeError: out of range',
    details: { agent: 'worker', cause: 'RangeError: out of range' },
    cause: { name: 'RangeError', message: 'out of range', stack: /failures\.test/ },
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
    const team = localTeam(t, { worker: throws(thrown), rejecter: () => Promise.reject(thrown) })
    for (const agent of ['worker', 'rejecter'])
      await t.rejects(ask(team, agent), { code: 'AGENT_FAILED', details: { agent, cause: shown } })
  })
}

t.test('rule 0: a handler that rejects has failed', async (t) => {
  const team = localTeam(t, {
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
  const team = localTeam(
    t,
    {
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
    },
    {
      orchestration: {
        strategy: 'custom',
        run: async (script) => {
          await script.request('counter', 'good')
          await script.request('counter', 'bad').catch(() => {})
          return (await script.request('counter', 'good')).content
        },
      },
    },
  )
  t.equal((await team.execute('go')).finalOutput, '2 2')
})

t.test('rule 0: a failed message that nobody waits for is a dead letter with reason failed', async (t) => {
  const team = localTeam(t, { worker: throws(new Error('no')) })
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
  const team = localTeam(t, {
    worker: defineAgent({ receive: () => 'fine', observe: throws(new Error('deaf')) as never }),
  })
  await team.broadcast('hear', '$user')
  await team.clock.advance(0)
  t.match(team.deadLetters.list(), [{ reason: 'failed', message: { type: 'broadcast', recipient: String } }])
  t.equal(await ask(team, 'worker'), 'fine')
})

t.test('rule 0: a refusal is no failure of the agent', async (t) => {
  let attempts = 0
  const team = localTeam(
    t,
    {
      worker(_message, context) {
        attempts += 1
        throw context.refuse('not mine')
      },
    },
    { supervision: { onHandlerError: 'retry' } },
  )
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
  const team = localTeam(t, { worker }, { supervision: { onHandlerError: 'retry' } })
  t.equal(await ask(team, 'worker', 'good'), 'done')
  await t.rejects(ask(team, 'worker', 'bad'), { code: 'AGENT_FAILED', details: { cause: 'Error: attempt 3' } })
  t.same(attempts, [1, 2, 3, 1, 2, 3])
  t.equal(team.health().agents.worker?.restarts, 0)
})

t.test("rule 0: with 'retry' a step that was finished is not done again, in no attempt", async (t) => {
  const done: string[] = []
  const seen: string[] = []
  const team = localTeam(
    t,
    {
      async worker(_message, context) {
        await context.step('once', () => void done.push('once'))
        await context.send('log', 'begun')
        if (context.attempt < 3) throw new Error('again')
        return 'done'
      },
      log: (message) => void seen.push(message.content),
    },
    { supervision: { onHandlerError: 'retry' } },
  )
  t.equal(await ask(team, 'worker'), 'done')
  t.same(done, ['once'])
  t.same(seen, ['begun'])
})

t.test("rule 0: with 'retry' an attempt that failed is no answer: not to the run, nor in its history", async (t) => {
  const team = localTeam(
    t,
    {
      worker(_message, context) {
        if (context.attempt === 1) throw new Error('again')
        return 'done'
      },
    },
    { supervision: { onHandlerError: 'retry' } },
  )
  const result = await team.execute('go')
  t.equal(result.finalOutput, 'done')
  t.same(result.failures, [])
  t.same(Object.values(result.taskCompletion), ['completed'])
  t.same(
    result.messageHistory
      .filter(({ sender, type }) => sender === 'worker' && type === 'response')
      .map((m) => m.content),
    ['done'],
  )
})

t.test("rule 0: with 'retry' the failed attempt is no answer to a caller that crashes", async (t) => {
  const team = localTeam(
    t,
    {
      async caller(_message, context) {
        return (await context.request('worker', 'go')).content
      },
      async worker(_message, context) {
        if (context.attempt === 1) throw new Error('again')
        await context.sleep(10)
        return 'done'
      },
    },
    { supervision: { onHandlerError: 'retry' } },
  )
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
    const team = localTeam(
      t,
      {
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
      },
      { supervision: { onHandlerError } },
    )
    t.equal(await ask(team, 'caller'), 'gave up')
    await team.clock.advance(0)
    t.equal(attempts, 1)
    t.equal(team.health().agents.worker?.restarts, 0)
  })

  t.test(`rule 0: with '${onHandlerError}' the messages behind the failed one keep their order`, async (t) => {
    const handled: string[] = []
    const team = localTeam(
      t,
      {
        async sender(_message, context) {
          for (const content of ['a', 'b', 'c']) await context.send('worker', content)
        },
        worker(message, context) {
          if (message.content === 'a' && context.attempt === 1) throw new Error('again')
          handled.push(message.content)
        },
      },
      { supervision: { onHandlerError } },
    )
    await ask(team, 'sender')
    await team.clock.advance(0)
    t.same(handled, ['a', 'b', 'c'])
  })
}

t.test("rule 0: onHandlerError 'restart' gives the agent a new life, with its state", async (t) => {
  const team = localTeam(
    t,
    {
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
    },
    { supervision: { onHandlerError: 'restart' } },
  )
  t.equal(await ask(team, 'worker', 'good'), 'attempt 1, count 1')
  t.equal(await ask(team, 'worker', 'bad'), 'attempt 2, count 2')
  t.equal(team.health().agents.worker?.restarts, 1)
})

t.test("rule 0: with 'restart' the same error twice ends the message, and its caller gets the cause", async (t) => {
  let attempts = 0
  const team = localTeam(
    t,
    {
      worker() {
        attempts += 1
        throw new Error('always')
      },
    },
    { supervision: { onHandlerError: 'restart' } },
  )
  await t.rejects(ask(team, 'worker'), { code: 'AGENT_CRASHED', message: /Error: always/ })
  t.equal(attempts, 2)
})

t.test('rule 0: a verb that is left alone and rejects hurts nobody', async (t) => {
  const team = localTeam(
    t,
    {
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
    },
    {
      enableBlackboard: true,
      orchestration: {
        strategy: 'custom',
        async run(script) {
          void script.route('x')
          void script.synced('x')
          return (await script.request('worker', 'go')).content
        },
      },
    },
  )
  t.equal((await team.execute('go')).finalOutput, 'fine')
  await team.clock.runToIdle()
  t.equal(team.health().agents.worker?.restarts, 0)
})
