/** Rule 6: what a turn has done already when it is tried again, and what may not be done twice. */
import t from 'tap'
import type { AgentContext } from '../../src/actors/definition/context.ts'
import { defineAgent } from '../../src/actors/definition/definition.ts'
import {
  allocate,
  BLANK,
  kindOf,
  lengthOf,
  REQUEST,
  SEND,
  STEP_BEGAN,
  sameStep,
  stepOf,
  writeFrame,
} from '../../src/mailbox/frame.ts'
import type { TestTeam } from '../../src/testing.ts'
import { leftovers } from './accounts.ts'
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

t.test('rule 6: a step is known by whom it is for', async (t) => {
  const answers = (name: string): Receive => {
    return () => name
  }
  const worker = diesOnce(async (context) => {
    const names = context.attempt === 1 ? ['a', 'b'] : ['b', 'a']
    const replies = await Promise.all(names.map((name) => context.request(name, 'who')))
    return replies.map(({ content }) => content)
  })(() => team)
  const team = localTeam(t, { worker, a: answers('a'), b: answers('b') })
  t.equal(await ask(team, 'worker'), '["b","a"]')
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

const blank = { ...BLANK, kind: REQUEST, sender: 3, recipient: 4, run: 1, turn: 1, correlation: 1, step: 1 }

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

t.test('rule 6: a turn so long that the log has forgotten how it began is not run again', async (t) => {
  let attempts = 0
  const team = localTeam(t, {
    async worker(_message, context) {
      attempts += 1
      for (let i = 0; i < 70; i++) await context.step(`step ${i}`, () => 'x'.repeat(2 ** 20))
      await context.request('other', 'go') // when it is answered, all that came before it is in the log
      team.crash('worker')
      return never
    },
    other: () => '',
  })
  t.match((await team.execute('go')).error, {
    code: 'OUTCOME_UNKNOWN',
    message: /^Agent "worker" died in a turn so long that the log in memory had to forget how it began/,
  })
  t.equal(attempts, 1)
})

t.test('rule 6: the steps of a later attempt have numbers of their own', async (t) => {
  const worker = diesOnce(async (context) => {
    await context.step('a', () => 1)
    await context.send('other', 'note')
    if (context.attempt === 1) return
    await context.step('b', () => 2)
    await context.send('other', 'another note')
  })(() => team)
  const team = openTeam(t, { worker, other: () => '' })
  await ask(team, 'worker')
  const steps: number[] = []
  for (const run of team.host.runs.values())
    for (const entry of run.log.entries()) {
      if (entry.kind !== 'frames') continue
      for (let at = entry.from; at < entry.to; at += lengthOf(entry.memory, at)) {
        const kind = kindOf(entry.memory, at)
        if (kind === STEP_BEGAN || kind === SEND) steps.push(stepOf(entry.memory, at))
      }
    }
  t.equal(steps.length, 4)
  t.equal(new Set(steps).size, 4)
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

t.test('rule 6: of several answers the same one is first again', async (t) => {
  const worker = diesOnce(async (context) => {
    const asked = ['late', 'soon'].map((name) => context.request(name, 'go'))
    const first = await Promise.race(asked)
    await Promise.all(asked)
    return first.sender
  })(() => team)
  const team = localTeam(t, {
    worker,
    late: (_message, context) => context.sleep(20),
    soon: (_message, context) => context.sleep(10),
  })
  const answer = ask(team, 'worker')
  await team.clock.advance(50)
  t.match(await answer, 'soon')
})

t.test('rule 6: a request that its turn had withdrawn is withdrawn, not waited for', async (t) => {
  const team = openTeam(t, {
    async worker(_message, context) {
      const withdrawal = new AbortController()
      const refusal = context.request('slow', 'go', { signal: withdrawal.signal }).catch(({ code }) => code as string)
      if (context.attempt === 1) withdrawal.abort(new Error('no more'))
      const code = await refusal
      if (context.attempt > 1) return `${code} at attempt ${context.attempt}`
      await context.request('log', 'withdrawn')
      team.crash('worker')
      return never
    },
    log: () => '',
    slow: () => never,
  })
  t.equal(await ask(team, 'worker'), 'CANCELLED at attempt 2')
  t.same(leftovers(team.host), [])
})
