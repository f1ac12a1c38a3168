/** Rules 15 and 16: who waits for room in a full mailbox, and what becomes of it. */
import t from 'tap'
import { leftovers } from './accounts.ts'
import { ask, gate, never, openTeam, outcomeOf, type Receive } from './teams.ts'

const LARGE = 'x'.repeat(5_000)
const communication = { mailboxCapacity: 2, mailboxBytes: 2_500 }

t.test('rule 16: a message larger than the mailbox does not pass those that wait for room before it', async (t) => {
  const heard: string[] = []
  const team = openTeam(
    t,
    {
      async sender(_message, context) {
        await Promise.all(['small', LARGE, 'last'].map((content) => context.request('worker', content)))
      },
      worker: ({ content }) => void heard.push(content),
    },
    { roles: { worker: { communication } } },
  )
  await team.start()
  const worker = team.host.directory.cell('worker')!
  for (let i = 0; i < 2; i++) team.host.team.claim(worker.index, 10) // of messages that others are about to write
  const asked = outcomeOf(ask(team, 'sender'))
  await team.clock.advance(0)
  t.same([worker.mailbox.parked.length, worker.mailbox.accepted], [3, 0], 'there is room for none of them')
  for (let i = 0; i < 2; i++) team.host.mailboxes.freed(worker, 10)
  team.host.loop.kick()
  await team.clock.advance(0)
  t.ok(asked.settled)
  t.same(heard, ['small', LARGE, 'last'])
  t.same(leftovers(team.host), [])
})

t.test('rule 15: one that is withdrawn while it waits behind another for room gives none back', async (t) => {
  const { opened, open } = gate()
  const gone = new AbortController()
  const sends: Receive = async ({ content }, context) =>
    context.send('worker', content, content === 'second' ? { signal: gone.signal } : {}).then(
      () => 'sent',
      ({ code }) => code,
    )
  const team = openTeam(
    t,
    { one: sends, two: sends, worker: () => opened },
    { roles: { worker: { communication: { mailboxCapacity: 1 } } } },
  )
  await team.sendMessage({ recipient: 'worker', content: 'busy' })
  await team.clock.advance(0)
  const outcomes = [outcomeOf(ask(team, 'one', 'first'))]
  await team.clock.advance(0)
  outcomes.push(outcomeOf(ask(team, 'two', 'second')))
  await team.clock.advance(0)
  t.equal(team.host.directory.cell('worker')!.mailbox.parked.length, 2)
  gone.abort()
  await team.clock.advance(0)
  open()
  await team.clock.advance(0)
  t.match(outcomes, [{ value: 'sent' }, { value: 'CANCELLED' }])
  t.same(leftovers(team.host), [])
})

t.test(
  'rules 8 and 15: who waits for room with more than the mailbox holds is told when its agent is stopped',
  async (t) => {
    const team = openTeam(
      t,
      {
        sender: (_message, context) =>
          context.send('worker', LARGE).then(
            () => 'sent',
            ({ code }) => code,
          ),
        worker: () => never,
      },
      { roles: { worker: { communication, supervision: { maxRestarts: 0 } } } },
    )
    await team.sendMessage({ recipient: 'worker', content: 'busy' })
    const asked = outcomeOf(ask(team, 'sender'))
    await team.clock.advance(0)
    t.equal(team.host.directory.cell('worker')!.mailbox.parked.length, 1)
    team.crash('worker')
    await team.clock.advance(0)
    t.equal(asked.value, 'AGENT_TERMINATED')
    t.same(
      team.deadLetters.list().map(({ reason }) => reason),
      ['stopped', 'stopped'],
    )
  },
)
