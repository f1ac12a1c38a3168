/** Rule 7: which message is given up, and when. */
import t from 'tap'
import { leftovers } from './accounts.ts'
import { ask, localTeam, never, openTeam, outcomeOf, type Receive } from './teams.ts'

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
  t.equal(team.host.directory.cells[2]!.suspects.size, 0)
})

t.test('rule 7: what a poisoned message had asked others for is withdrawn', async (t) => {
  const told: string[] = []
  const team = openTeam(
    t,
    {
      async worker(_message, context) {
        void context.request('oracle', 'why')
        await context.sleep(10)
        team.crash('worker')
        return never
      },
      oracle: (_message, context) => context.sleep(1_000).catch(({ code }) => void told.push(code)),
    },
    { supervision: { poisonAttempts: 1 } },
  )
  const asked = outcomeOf(ask(team, 'worker'))
  await team.clock.advance(10)
  t.match(asked.error, { code: 'AGENT_CRASHED' })
  t.same(told, ['CANCELLED'])
  t.same(leftovers(team.host), [])
})
