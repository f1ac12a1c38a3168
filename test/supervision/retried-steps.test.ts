/** Rules 0 and 6: what had succeeded is not done again in any attempt; what had failed is what a retry is for. */
import t from 'tap'
import { ask, localTeam, outcomeOf, type Receive } from './teams.ts'

const backoff = { baseMs: 1, capMs: 1 }

for (const onHandlerError of ['retry', 'restart'] as const) {
  const supervision = { onHandlerError, backoff }

  t.test(`with '${onHandlerError}' a step that threw runs again, one that succeeded does not`, async (t) => {
    const done: string[] = []
    const team = localTeam(
      t,
      {
        async worker(_message, context) {
          const first = await context.step('first', () => done.push('first'))
          const second = await context.step('second', () => {
            done.push('second')
            if (context.attempt === 1) throw new Error('no network')
            return 'online'
          })
          return `${first} ${second}`
        },
      },
      { supervision },
    )
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
    const team = localTeam(
      t,
      {
        async worker(_message, context) {
          const good = await context.request('callee', 'good')
          return `${good.content}, ${(await context.request('callee', 'bad')).content}`
        },
        callee,
      },
      { roles: { worker: { supervision } } },
    )
    const answer = outcomeOf(ask(team, 'worker'))
    await team.clock.runToIdle()
    t.match(answer, { value: 'good done, bad done' })
    t.same(asked, ['good', 'bad', 'bad'])
  })

  t.test(`with '${onHandlerError}' a request that was left open when its turn failed is asked again`, async (t) => {
    const asked: number[] = []
    const team = localTeam(
      t,
      {
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
      },
      { roles: { worker: { supervision } } },
    )
    const answer = outcomeOf(ask(team, 'worker'))
    await team.clock.runToIdle()
    t.match(answer, { value: 'answer 2' })
    t.same(asked, [1, 2])
  })

  t.test(`with '${onHandlerError}' a send that was refused is sent again`, async (t) => {
    const got: string[] = []
    const team = localTeam(
      t,
      {
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
      },
      { roles: { worker: { supervision }, full: { communication: { mailboxCapacity: 1, overflow: 'reject' } } } },
    )
    const answer = outcomeOf(ask(team, 'worker'))
    await team.clock.runToIdle()
    t.match(answer, { settled: true, value: '' })
    t.same(got, ['first', 'second'])
  })

  t.test(`with '${onHandlerError}' a send that still waits for room is not sent twice`, async (t) => {
    const got: string[] = []
    const team = localTeam(
      t,
      {
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
      },
      { roles: { worker: { supervision }, full: { communication: { mailboxCapacity: 1 } } } },
    )
    const answer = outcomeOf(ask(team, 'worker'))
    await team.clock.runToIdle()
    t.match(answer, { settled: true, value: '' })
    t.same(got, ['first', 'second'])
  })

  t.test(
    `with '${onHandlerError}' the attempt after a failed one is answered from the log when it is cut off`,
    async (t) => {
      let done = 0
      const team = localTeam(
        t,
        {
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
        },
        { supervision },
      )
      const asked = outcomeOf(ask(team, 'worker'))
      await team.clock.advance(5)
      team.crash('worker')
      await team.clock.runToIdle()
      t.match(asked.value, /failure 2/)
      t.equal(done, 2)
    },
  )

  t.test(
    `with '${onHandlerError}' a turn that failed over a step which may not run twice is not tried again`,
    async (t) => {
      const done: string[] = []
      const team = localTeam(
        t,
        {
          worker(_message, context) {
            done.push(`attempt ${context.attempt}`)
            void context.step('effect', async () => {
              await team.clock.sleep(10)
              done.push('effect')
            })
            throw new Error('without waiting for it')
          },
        },
        { supervision },
      )
      const asked = outcomeOf(ask(team, 'worker'))
      await team.clock.runToIdle()
      t.match(asked.error, { code: 'AGENT_FAILED' })
      t.same(done, ['attempt 1', 'effect'])
    },
  )
}
