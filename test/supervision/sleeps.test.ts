/** Rule 6: a sleep is a step. A turn that is tried again sleeps only what is left of it. */
import t from 'tap'
import type { AgentContext } from '../../src/index.ts'
import { ask, localTeam, never, outcomeOf } from './teams.ts'

const SECOND = 1_000

t.test('a sleep ends when it would have ended without the crash', async (t) => {
  const team = localTeam(t, {
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
  const team = localTeam(
    t,
    {
      ann: async (_message, context) => {
        await context.sleep(SECOND)
        return `in attempt ${context.attempt}`
      },
    },
    { supervision: { backoff: { baseMs: 10 * SECOND, capMs: 10 * SECOND } } },
  )
  const answer = outcomeOf(ask(team, 'ann', 'go', { responseTimeoutMs: 60 * SECOND }))
  await team.clock.advance(1)
  team.crash('ann') // the first restart is at once, the second one waits
  await team.clock.advance(0)
  team.crash('ann')
  await team.clock.advance(5 * SECOND)
  t.notOk(answer.settled)
  await team.clock.advance(5 * SECOND)
  t.equal(answer.value, 'in attempt 3')
})

t.test('sleeps that were over are not slept again, each for itself', async (t) => {
  const ends: number[] = []
  const team = localTeam(t, {
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
    const team = localTeam(t, {
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
  const team = localTeam(
    t,
    {
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
    },
    { supervision: { backoff: { baseMs: 10 * SECOND, capMs: 10 * SECOND } } },
  )
  const answer = outcomeOf(ask(team, 'ann', 'go', { responseTimeoutMs: 60 * SECOND }))
  await team.clock.advance(20 * SECOND)
  t.equal(answer.value, 'the answer')
})

t.test('a handler that failed sleeps only what it had not slept to the end', async (t) => {
  const begun: number[] = []
  const team = localTeam(
    t,
    {
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
    },
    { supervision: { onHandlerError: 'retry' } },
  )
  const answer = outcomeOf(ask(team, 'ann', 'go', { responseTimeoutMs: 60 * SECOND }))
  await team.clock.advance(SECOND)
  t.same(begun, [0, SECOND])
  await team.clock.advance(3 * SECOND - 1)
  t.notOk(answer.settled)
  await team.clock.advance(1)
  t.equal(answer.value, 'rested')
})

t.test('a sleep of another length is another sleep', async (t) => {
  const team = localTeam(t, {
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
  const team = localTeam(t, {
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
