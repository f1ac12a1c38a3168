/** Rule 16: order is kept per sender and recipient within a priority. */
import t from 'tap'
import { leftovers } from './accounts.ts'
import { ask, gate, localTeam, never, numbers, openTeam, type Receive } from './teams.ts'

t.test('rule 16: order is kept per sender, also for large payloads', async (t) => {
  const got: string[] = []
  const sends: Receive = async (_message, context) => {
    for (let i = 0; i < 40; i++)
      await context.send('worker', `${context.role.name}${i}`, {
        structuredData: i % 7 === 3 ? 'x'.repeat(150_000) : i % 5 === 2 ? 'x'.repeat(3_000) : null,
      })
  }
  const team = localTeam(t, { a: sends, b: sends, worker: (message) => void got.push(message.content) })
  await Promise.all([ask(team, 'a'), ask(team, 'b')])
  await team.clock.advance(0)
  for (const sender of ['a', 'b'])
    t.same(
      got.filter((content) => content.startsWith(sender)),
      numbers(40).map((i) => sender + i),
    )
})

t.test('rule 16: order is kept over deaths of recipient and sender', async (t) => {
  const got: string[] = []
  const team = localTeam(
    t,
    {
      async sender(_message, context) {
        for (let i = 0; i < 30; i++) {
          await context.send('worker', `${i}`, { structuredData: i % 4 === 1 ? 'x'.repeat(100_000) : null })
          if (i === 10 * context.attempt && context.attempt < 3) {
            team.crash('sender')
            return never
          }
        }
      },
      async worker(message, context) {
        if (Number(message.content) % 9 === 5 && context.attempt === 1) {
          team.crash('worker')
          return never
        }
        got.push(message.content)
      },
    },
    { supervision: { maxRestarts: 100 } },
  )
  const sending = ask(team, 'sender')
  await team.clock.runToIdle()
  await sending
  t.same(got, numbers(30))
})

t.test('rule 16: order is kept when large messages in parts are cut by deaths of recipient and sender', async (t) => {
  const got: string[] = []
  const large = 'x'.repeat(600_000) // more than either window holds
  const team = openTeam(
    t,
    {
      async sender(_message, context) {
        for (let i = 0; i < 24; i++)
          await context.send('worker', `${i}`, { structuredData: i % 3 === 1 ? large : null })
      },
      worker: (message) => void got.push(message.content),
    },
    {
      communication: { mailboxBytes: 2 ** 23 },
      supervision: { maxRestarts: 100, poisonAttempts: 100, backoff: { baseMs: 1, capMs: 1 } },
    },
  )
  let batches = 0
  let deaths = 0
  team.host.journal.records$.subscribe(() => {
    batches += 1
    const cut = team.host.directory.cell('worker')?.life?.sending !== undefined
    if (cut && batches % 3 === 0 && deaths < 6) {
      deaths += 1
      team.host.clock.defer(() => team.crash('worker'))
    }
    if (batches % 7 === 0 && batches < 60) team.host.clock.defer(() => team.crash('sender'))
  })
  const sending = ask(team, 'sender')
  await team.clock.runToIdle()
  await sending
  t.ok(deaths >= 4, `${deaths} deaths, each while a large message was half in the window`)
  t.same(got, numbers(24))
  t.same(leftovers(team.host), [])
})

t.test('rule 16: higher priority comes first, equal priority in order', async (t) => {
  const { opened, open } = gate()
  const got: string[] = []
  const team = localTeam(t, {
    async sender(_message, context) {
      const priorities = [0, -1, 2, 0, 2, 1, -1, 5]
      for (const [i, priority] of priorities.entries()) await context.send('worker', `${priority} ${i}`, { priority })
    },
    async worker(message) {
      if (message.content === 'hold') await opened
      else got.push(message.content)
    },
  })
  await team.sendMessage({ recipient: 'worker', content: 'hold' })
  await ask(team, 'sender')
  open()
  await team.clock.advance(0)
  t.same(got, ['5 7', '2 2', '2 4', '1 5', '0 0', '0 3', '-1 1', '-1 6'])
})

t.test('rule 16: order within a priority is kept over a death', async (t) => {
  const got: string[] = []
  const { opened, open } = gate()
  const team = localTeam(t, {
    async sender(_message, context) {
      for (const content of numbers(6)) await context.send('worker', content, { priority: Number(content) % 2 })
    },
    async worker(message, context) {
      if (message.content === 'hold' && context.attempt === 1) return never
      if (message.content === 'hold') await opened
      else got.push(message.content)
    },
  })
  await team.sendMessage({ recipient: 'worker', content: 'hold' })
  await team.clock.advance(0) // the worker is at it
  await ask(team, 'sender')
  team.crash('worker')
  await team.clock.advance(0)
  open()
  await team.clock.advance(0)
  t.same(got, ['1', '3', '5', '0', '2', '4'])
})

for (const priority of [3, -3]) {
  t.test(`rule 16: a large message of priority ${priority} keeps its place among small ones`, async (t) => {
    const { opened, open } = gate()
    const got: string[] = []
    const team = localTeam(t, {
      async sender(_message, context) {
        for (const content of numbers(7))
          await context.send('worker', content, {
            priority,
            structuredData: Number(content) % 3 === 1 ? 'x'.repeat(60_000) : null,
          })
      },
      async worker(message) {
        if (message.content === 'hold') await opened
        else got.push(message.content)
      },
    })
    await team.sendMessage({ recipient: 'worker', content: 'hold' })
    await ask(team, 'sender')
    open()
    await team.clock.advance(0)
    t.same(got, numbers(7))
  })
}

t.test('rule 16: what is sent while earlier messages wait for room comes after them', async (t) => {
  const got: string[] = []
  const { opened, open } = gate()
  const team = openTeam(
    t,
    {
      async sender(_message, context) {
        for (let i = 0; i < 100; i++) void context.send('worker', `${i}`)
        void context.request('worker', '100')
        void context.send('worker', '101')
        return (await context.request('worker', '102')).content
      },
      async worker(message) {
        await opened
        got.push(message.content)
        return 'answer'
      },
    },
    { communication: { mailboxCapacity: 4 } },
  )
  const sending = ask(team, 'sender')
  await team.clock.advance(0)
  open()
  t.equal(await sending, 'answer')
  t.same(got, numbers(103))
  t.same(leftovers(team.host), [])
})
