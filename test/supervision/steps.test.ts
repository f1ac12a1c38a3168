/** Rules 0, 6, 19 and 22: what a turn has done already when it is tried again, and what may not be done twice. */
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
import { pluck } from '../kit/lists.ts'
import { ask, gate, given, heard, never, openTeam, outcomeOf, type Receive } from '../kit/team.ts'

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
  const team = openTeam(t, {
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
  const team = openTeam(t, {
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
  const team = openTeam(t, { worker, log: (message) => void heard.push(message.content) })
  await ask(team, 'worker')
  await team.clock.advance(0)
  t.same(heard, ['one', 'two', 'two'])
})

t.test('rule 6: a refused send is refused again', async (t) => {
  const worker = diesOnce((context) => context.send('nobody', 'one').catch((error: Error) => error.message))(() => team)
  const team = openTeam(t, { worker })
  t.match(await ask(team, 'worker'), /No agent of this team is named \\"nobody\\"/)
  t.equal(team.deadLetters.list().length, 1)
})

t.test('rule 6: a publish is published once, and a read reads what it read', async (t) => {
  let versions: number[] = []
  const team = given(t, { enableBlackboard: true }).team({
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
  })
  const result = await team.execute('go')
  t.equal(result.finalOutput, 'undefined then version 1')
  t.same(versions, [1])
})

t.test('rule 6: a finished step is not done again, an emitted chunk not emitted again', async (t) => {
  let done = 0
  const worker = diesOnce(async (context) => {
    context.emit('piece')
    return context.step('count', () => {
      done += 1
      return { done }
    })
  })(() => team)
  const team = openTeam(t, { worker })
  const chunks = heard(team, 'output.delta', (event) => event.chunk)
  const result = await team.execute('go')
  t.equal(result.finalOutput, '{"done":1}')
  t.equal(done, 1)
  t.same(chunks, ['piece'])
  t.same(
    pluck(
      result.orchestrationTrace.events.filter(({ eventType }) => eventType.startsWith('step.')),
      'eventType',
    ),
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
  const team = openTeam(t, { worker })
  t.match(await ask(team, 'worker'), /failure 1/)
  t.equal(done, 1)
})

t.test('rule 6: now, random and uuid give in the second attempt what they gave in the first', async (t) => {
  const attempts: unknown[] = []
  const team = openTeam(t, {
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
  const team = openTeam(t, {
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
  const team = openTeam(t, { worker, a: answers('a'), b: answers('b') })
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
    const team = given(t, { seed }).team({
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
    })
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
  const team = openTeam(t, {
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
  const team = openTeam(t, {
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
  const team = openTeam(t, { worker, other: () => '' }, { unfinished: true })
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
  const team = openTeam(t, {
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
  const team = given(t, { supervision: { onHandlerError: 'retry' } }).team({
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
  })
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
  const team = openTeam(t, {
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
})

// Rules 0 and 6: what had succeeded is not done again in any attempt; what had failed is what a retry is for.

const backoff = { baseMs: 1, capMs: 1 }

for (const onHandlerError of ['retry', 'restart'] as const) {
  const supervision = { onHandlerError, backoff }

  t.test(`with '${onHandlerError}' a step that threw runs again, one that succeeded does not`, async (t) => {
    const done: string[] = []
    const team = given(t, { supervision }).team({
      async worker(_message, context) {
        const first = await context.step('first', () => done.push('first'))
        const second = await context.step('second', () => {
          done.push('second')
          if (context.attempt === 1) throw new Error('no network')
          return 'online'
        })
        return `${first} ${second}`
      },
    })
    const asked = outcomeOf(ask(team, 'worker'))
    await team.clock.runToIdle()
    t.match(asked, { value: '1 online' })
    t.same(done, ['first', 'second', 'second'])
  })

  t.test(`with '${onHandlerError}' a request that failed is asked again, one that was answered is not`, async (t) => {
    const asked: string[] = []
    const callee: Receive = ({ content }) => {
      asked.push(content)
      if (content === 'bad' && asked.length < 3) throw new Error('not yet')
      return `${content} done`
    }
    const team = given(t, { roles: { worker: { supervision } } }).team({
      async worker(_message, context) {
        const good = await context.request('callee', 'good')
        return `${good.content}, ${(await context.request('callee', 'bad')).content}`
      },
      callee,
    })
    const answer = outcomeOf(ask(team, 'worker'))
    await team.clock.runToIdle()
    t.match(answer, { value: 'good done, bad done' })
    t.same(asked, ['good', 'bad', 'bad'])
  })

  t.test(`with '${onHandlerError}' a request that was left open when its turn failed is asked again`, async (t) => {
    const asked: number[] = []
    const team = given(t, { roles: { worker: { supervision } } }).team({
      async worker(_message, context) {
        const open = context.request('callee', 'go')
        if (context.attempt === 1) {
          await context.sleep(5)
          throw new Error('again')
        }
        return (await open).content
      },
      async callee(_message, context) {
        const nth = asked.push(asked.length + 1)
        await context.sleep(10).catch(() => {}) // answers although nobody wants it any more
        return `answer ${nth}`
      },
    })
    const answer = outcomeOf(ask(team, 'worker'))
    await team.clock.runToIdle()
    t.match(answer, { value: 'answer 2' })
    t.same(asked, [1, 2])
  })

  t.test(`with '${onHandlerError}' a send that was refused is sent again`, async (t) => {
    const got: string[] = []
    const team = given(t, {
      roles: { worker: { supervision }, full: { communication: { mailboxCapacity: 1, overflow: 'reject' } } },
    }).team({
      async worker(_message, context) {
        await context.send('full', 'first')
        await context.send('full', 'second').catch(async (error) => {
          await context.sleep(20)
          throw error
        })
      },
      async full({ content }, context) {
        got.push(content)
        await context.sleep(10)
      },
    })
    const answer = outcomeOf(ask(team, 'worker'))
    await team.clock.runToIdle()
    t.match(answer, { settled: true, value: '' })
    t.same(got, ['first', 'second'])
  })

  t.test(`with '${onHandlerError}' a send that still waits for room is not sent twice`, async (t) => {
    const got: string[] = []
    const team = given(t, {
      roles: { worker: { supervision }, full: { communication: { mailboxCapacity: 1 } } },
    }).team({
      async worker(_message, context) {
        await context.send('full', 'first')
        const second = context.send('full', 'second')
        if (context.attempt === 1) throw new Error('again')
        await second
      },
      async full({ content }, context) {
        got.push(content)
        await context.sleep(10)
      },
    })
    const answer = outcomeOf(ask(team, 'worker'))
    await team.clock.runToIdle()
    t.match(answer, { settled: true, value: '' })
    t.same(got, ['first', 'second'])
  })

  t.test(`with '${onHandlerError}' the attempt after a failed one is answered from the log if cut off`, async (t) => {
    let done = 0
    const team = given(t, { supervision }).team({
      async worker(_message, context) {
        const outcome = await context
          .step('flaky', () => {
            done += 1
            throw new Error(`failure ${done}`)
          })
          .catch((error: Error) => error.message)
        if (context.attempt === 1) throw new Error('again')
        if (context.attempt === 2) await context.sleep(10)
        return outcome
      },
    })
    const asked = outcomeOf(ask(team, 'worker'))
    await team.clock.advance(5)
    team.crash('worker')
    await team.clock.runToIdle()
    t.match(asked.value, /failure 2/)
    t.equal(done, 2)
  })

  t.test(`with '${onHandlerError}' a turn that failed over a step not to run twice is not tried again`, async (t) => {
    const done: string[] = []
    const team = given(t, { supervision }).team({
      worker(_message, context) {
        done.push(`attempt ${context.attempt}`)
        void context.step('effect', async () => {
          await team.clock.sleep(10)
          done.push('effect')
        })
        throw new Error('without waiting for it')
      },
    })
    const asked = outcomeOf(ask(team, 'worker'))
    await team.clock.runToIdle()
    t.match(asked.error, { code: 'AGENT_FAILED' })
    t.same(done, ['attempt 1', 'effect'])
  })
}

// Rule 6: a sleep is a step. A turn that is tried again sleeps only what is left of it.

const SECOND = 1_000

t.test('a sleep ends when it would have ended without the crash', async (t) => {
  const team = openTeam(t, {
    ann: async (_message, context) => {
      await context.sleep(10 * SECOND)
      return `in attempt ${context.attempt}`
    },
  })
  const answer = outcomeOf(ask(team, 'ann', 'go', { responseTimeoutMs: 60 * SECOND }))
  await team.clock.advance(4 * SECOND)
  team.crash('ann')
  await team.clock.advance(6 * SECOND - 1)
  t.notOk(answer.settled)
  await team.clock.advance(1)
  t.equal(answer.value, 'in attempt 2')
})

t.test('a sleep whose end passes while its agent is down is over at once', async (t) => {
  const team = given(t, { supervision: { backoff: { baseMs: 10 * SECOND, capMs: 10 * SECOND } } }).team({
    ann: async (_message, context) => {
      await context.sleep(SECOND)
      return `in attempt ${context.attempt}`
    },
  })
  const answer = outcomeOf(ask(team, 'ann', 'go', { responseTimeoutMs: 60 * SECOND }))
  await team.clock.advance(1)
  await team.dies('ann') // the first restart is at once, the second one waits
  team.crash('ann')
  await team.clock.advance(5 * SECOND)
  t.notOk(answer.settled)
  await team.clock.advance(5 * SECOND)
  t.equal(answer.value, 'in attempt 3')
})

t.test('sleeps that were over are not slept again, each for itself', async (t) => {
  const ends: number[] = []
  const team = openTeam(t, {
    ann: async (_message, context) => {
      ends.length = 0
      const sleepers = [3, 1, 2, 1].map(async (seconds, i) => {
        await context.sleep(seconds * SECOND)
        ends.push(i)
      })
      await Promise.all(sleepers)
      await context.sleep(SECOND)
      if (context.attempt > 1) return ends.join()
      team.crash('ann')
      return never
    },
  })
  const answer = outcomeOf(ask(team, 'ann', 'go', { responseTimeoutMs: 60 * SECOND }))
  await team.clock.advance(4 * SECOND)
  t.equal(answer.value, '1,3,2,0', 'in the order of before')
})

t.test('of a sleep and an answer the same one is first in each attempt', async (t) => {
  const first = (context: AgentContext) =>
    Promise.race([
      context.request('bob', 'answer').then(({ content }) => content),
      context.sleep(SECOND).then(() => 'the sleep'),
    ])
  for (const [answersAfter, winner] of [
    [SECOND / 2, 'the answer'],
    [2 * SECOND, 'the sleep'],
  ] as const) {
    const team = openTeam(t, {
      ann: async (_message, context) => {
        const was = await first(context)
        await context.sleep(5 * SECOND) // both are over
        if (context.attempt > 1) return was
        team.crash('ann')
        return never
      },
      bob: async (_message, context) => {
        await context.sleep(answersAfter)
        return 'the answer'
      },
    })
    const answer = outcomeOf(ask(team, 'ann', 'go', { responseTimeoutMs: 60 * SECOND }))
    await team.clock.advance(20 * SECOND)
    t.equal(answer.value, winner)
  }
})

t.test('a sleep that had not ended is never before an answer that the log has', async (t) => {
  const team = given(t, { supervision: { backoff: { baseMs: 10 * SECOND, capMs: 10 * SECOND } } }).team({
    ann: async (_message, context) => {
      const was = await Promise.race([
        context.request('bob', 'answer').then(({ content }) => content),
        context.sleep(SECOND).then(() => 'the sleep'),
      ])
      if (context.attempt === 3) return was
      team.crash('ann')
      return never
    },
    bob: () => 'the answer',
  })
  const answer = outcomeOf(ask(team, 'ann', 'go', { responseTimeoutMs: 60 * SECOND }))
  await team.clock.advance(20 * SECOND)
  t.equal(answer.value, 'the answer')
})

t.test('a handler that failed sleeps only what it had not slept to the end', async (t) => {
  const begun: number[] = []
  const team = given(t, { supervision: { onHandlerError: 'retry' } }).team({
    ann: async (_message, context) => {
      begun.push(team.clock.now())
      await context.sleep(SECOND)
      if (context.attempt > 1) {
        await context.sleep(3 * SECOND)
        return 'rested'
      }
      void context.sleep(3 * SECOND).catch(() => {})
      throw new Error('at first')
    },
  })
  const answer = outcomeOf(ask(team, 'ann', 'go', { responseTimeoutMs: 60 * SECOND }))
  await team.clock.advance(SECOND)
  t.same(begun, [0, SECOND])
  await team.clock.advance(3 * SECOND - 1)
  t.notOk(answer.settled)
  await team.clock.advance(1)
  t.equal(answer.value, 'rested')
})

t.test('a sleep of another length is another sleep', async (t) => {
  const team = openTeam(t, {
    ann: async (_message, context) => {
      await context.sleep(context.attempt * SECOND)
      if (context.attempt > 1) return 'slept'
      team.crash('ann')
      return never
    },
  })
  const answer = outcomeOf(ask(team, 'ann', 'go', { responseTimeoutMs: 60 * SECOND }))
  await team.clock.advance(3 * SECOND - 1)
  t.notOk(answer.settled)
  await team.clock.advance(1)
  t.equal(answer.value, 'slept')
})

t.test('a turn that is to stop does not sleep on', async (t) => {
  const team = openTeam(t, {
    ann: async (_message, context) => {
      await context
        .sleep(10 * SECOND)
        .catch((error: { code: string }) => context.log.info({ code: error.code }, 'woken'))
      return 'too late'
    },
  })
  const answer = outcomeOf(ask(team, 'ann', 'go', { responseTimeoutMs: SECOND }))
  await team.clock.advance(SECOND)
  t.match(answer.error, { code: 'REQUEST_TIMEOUT' })
})

// Rules 19 and 22: a step that waits for another agent is no work of the turn's own.

const contentOf = async (context: AgentContext, agent: string) => (await context.request(agent, 'go')).content
const soon = () => new Promise<void>((resolve) => setImmediate(resolve))

/** Each waits for "oracle" in a step, and for nothing else. */
const waits: Record<string, (context: AgentContext) => Promise<unknown>> = {
  'at once': (context) => context.step('ask', () => contentOf(context, 'oracle')),
  'after work of its own': (context) =>
    context.step('ask', async () => {
      await soon()
      return contentOf(context, 'oracle')
    }),
  'twice, one after the other': (context) =>
    context.step('ask', async () => {
      await contentOf(context, 'oracle')
      return contentOf(context, 'oracle')
    }),
  'within a step within it': (context) =>
    context.step('outer', async () => {
      await soon()
      return context.step('inner', () => contentOf(context, 'oracle'))
    }),
  'in several steps at once': (context) =>
    Promise.all(['a', 'b', 'c'].map((name) => context.step(name, () => contentOf(context, 'oracle')))),
  'when another step has ended': (context) =>
    Promise.all([context.step('short', soon), context.step('ask', () => contentOf(context, 'oracle'))]),
  'for room in a mailbox': (context) =>
    context.step('tell', async () => {
      await Promise.all([context.send('oracle', 'a'), context.send('oracle', 'b')])
    }),
}
for (const [how, wait] of Object.entries(waits)) {
  t.test(`rule 19: a turn that waits in a step ${how} gives its permit up`, async (t) => {
    const team = given(t, {
      maxConcurrentAgents: 1,
      roles: { oracle: { communication: { mailboxCapacity: 1 } } },
    }).team({
      async asker(_message, context) {
        await wait(context)
        return 'went on'
      },
      oracle: () => 'yes',
    })
    const run = outcomeOf(team.execute('go'))
    for (let i = 0; i < 20; i++) await team.clock.advance(0)
    t.match(run.value, { success: true, finalOutput: 'went on' })
  })
}

/** Each asks "third", and is at something of its own in a step meanwhile. */
const works: Record<string, (context: AgentContext, own: () => Promise<void>) => Promise<unknown>> = {
  'that was begun after the request': (context, own) =>
    Promise.all([context.request('third', 'go'), context.step('own', own)]),
  'that was begun before the request': (context, own) =>
    Promise.all([context.step('own', own), context.request('third', 'go')]),
  'beside one that asks': (context, own) =>
    Promise.all([context.step('own', own), context.step('ask', () => contentOf(context, 'third'))]),
}
for (const [which, work] of Object.entries(works)) {
  t.test(`rule 19: a turn that works in a step ${which} keeps its permit`, async (t) => {
    const order: string[] = []
    const team = given(t, { maxConcurrentAgents: 1 }).team({
      async worker(_message, context) {
        await work(context, async () => {
          order.push('begins')
          await team.clock.sleep(10)
          order.push('ends')
        })
      },
      third: () => void order.push('third'),
    })
    const run = outcomeOf(team.execute('go'))
    for (let i = 0; i < 20; i++) await team.clock.advance(1)
    t.match(run.value, { success: true })
    t.same(order, ['begins', 'ends', 'third'])
  })
}

t.test('rule 19: a turn that goes on in a step with what it has waited for there keeps its permit', async (t) => {
  const order: string[] = []
  const team = given(t, {
    maxConcurrentAgents: 1,
    script: async (script) => {
      const worker = script.request('worker', 'go')
      await script.sleep(5)
      await Promise.all([worker, script.request('other', 'go')])
      return ''
    },
  }).team({
    async worker(_message, context) {
      const patient = context.request('patient', 'go')
      await context.step('ask', async () => {
        await contentOf(context, 'oracle')
        order.push('begins')
        await team.clock.sleep(10)
        order.push('ends')
      })
      await context.publish('done', true, 'fact')
      await patient
    },
    patient: async (_message, context) => void (await context.blackboard.waitFor('done')),
    oracle: () => 'yes',
    other: () => void order.push('other'),
  })
  const run = outcomeOf(team.execute('go'))
  for (let i = 0; i < 20; i++) await team.clock.advance(1)
  t.match(run.value, { success: true })
  t.same(order, ['begins', 'ends', 'other'])
})

t.test('rule 24: two turns that ask each other within a step are a deadlock', async (t) => {
  const asks =
    (other: string): Receive =>
    (_message, context) =>
      context.step('ask', () => contentOf(context, other))
  const team = openTeam(t, { ann: asks('bob'), bob: asks('ann') })
  const cycles = heard(team, 'deadlock', (event) => event.cycle)
  const { error } = await team.execute('go')
  t.equal(error?.code, 'AGENT_FAILED')
  t.same(cycles[0], ['ann', 'bob'])
})
