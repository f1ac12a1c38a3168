/** Rule 15: mailboxes that drop. Nobody waits for them, and what they drop is seen. */
import t from 'tap'
import { defineAgent } from '../../src/actors/definition/definition.ts'
import { imbalances, leftovers, watchAccounts } from './accounts.ts'
import { ask, gate, type OpenTeam, openTeam, outcomeOf, type Receive } from './teams.ts'

const overflows = (team: OpenTeam) =>
  team.deadLetters
    .list()
    .filter(({ reason, errors }) => reason === 'overflow' && errors[0]?.code === 'MAILBOX_FULL')
    .map(({ message }) => message.content)

/** A worker that waits in its first turn for `open`, and what it has handled. */
function heldWorker() {
  const { opened, open } = gate()
  const handled: string[] = []
  const worker: Receive = async (message) => {
    handled.push(message.content.slice(0, 9))
    await opened
    return 'done'
  }
  return { worker, handled, open }
}

/** Sends each, of that priority. */
const sendsAll =
  (...all: [content: string, priority: number][]): Receive =>
  async (_message, context) => {
    for (const [content, priority] of all) await context.send('worker', content, { priority })
    return 'sent'
  }

const plain = (...contents: string[]): [string, number][] => contents.map((content) => [content, 0])

/** The worker begins with that one. */
async function begins(team: OpenTeam, content: string): Promise<void> {
  await team.sendMessage({ recipient: 'worker', content })
  await team.clock.advance(0)
}

async function afterwards(team: OpenTeam, open: () => void): Promise<void> {
  open()
  await team.clock.runToIdle()
}

t.test('rule 15: drop_newest: what comes to a full mailbox is dropped, whatever its priority', async (t) => {
  const { worker, handled, open } = heldWorker()
  const sender = sendsAll(...plain('a', 'b', 'c'), ['d', 9], ['e', -9])
  const team = openTeam(t, { sender, worker }, { communication: { mailboxCapacity: 3, overflow: 'drop_newest' } })
  const found = watchAccounts(team.host)
  t.equal(await ask(team, 'sender'), 'sent')
  t.same(overflows(team), ['d', 'e'])
  await afterwards(team, open)
  t.same(handled, ['a', 'b', 'c'])
  t.same([found, leftovers(team.host)], [[], []])
})

t.test('rule 15: drop_oldest: what comes takes the place of what has waited longest', async (t) => {
  const { worker, handled, open } = heldWorker()
  const sender = sendsAll(...plain('b', 'c', 'd', 'e', 'f'))
  const team = openTeam(t, { sender, worker }, { communication: { mailboxCapacity: 3, overflow: 'drop_oldest' } })
  const found = watchAccounts(team.host)
  await begins(team, 'a')
  t.equal(await ask(team, 'sender'), 'sent')
  t.same(overflows(team), ['b', 'c', 'd'], 'the turn of a has begun')
  await afterwards(team, open)
  t.same(handled, ['a', 'e', 'f'])
  t.same([found, leftovers(team.host)], [[], []])
})

t.test('rule 15: drop_oldest: the lowest priority goes first, and nothing goes for what is lower still', async (t) => {
  const { worker, handled, open } = heldWorker()
  const sender = sendsAll(
    ['low1', -1],
    ['low2', -1],
    ['none', 0],
    ['high', 5],
    ['x', 0], // for low1
    ['y', 5], // for low2
    ['z', -2], // nothing is as low
    ['w', 9], // for none
    ['v', 0], // for x
  )
  const team = openTeam(t, { sender, worker }, { communication: { mailboxCapacity: 5, overflow: 'drop_oldest' } })
  await begins(team, 'busy')
  await ask(team, 'sender')
  t.same(overflows(team), ['low1', 'low2', 'z', 'none', 'x'])
  await afterwards(team, open)
  t.same(handled, ['busy', 'w', 'high', 'y', 'v'])
})

t.test('rule 15: drop_oldest: by bytes as many go as it takes, and none where that would not do', async (t) => {
  const { worker, handled, open } = heldWorker()
  const x = 'x'.repeat(700)
  const sender = sendsAll(...plain(`a${x}`, `b${x}`, `c${x}`, `d${x}${x}`, 'e'), [`f${x}${x}`, -1])
  const team = openTeam(t, { sender, worker }, { communication: { mailboxBytes: 2_600, overflow: 'drop_oldest' } })
  await begins(team, '0')
  await ask(team, 'sender')
  t.same(
    overflows(team).map(([first]) => first),
    ['a', 'b', 'f'],
  )
  await afterwards(team, open)
  t.same(
    handled.map(([first]) => first),
    ['0', 'c', 'd', 'e'],
  )
})

t.test('rule 15: a message larger than a mailbox that drops is taken alone, or dropped itself', async (t) => {
  for (const [busy, handled] of [
    [true, ['busy', 'small']],
    [false, ['xxxxxxxxx']],
  ] as const) {
    const worker = heldWorker()
    const team = openTeam(
      t,
      { worker: worker.worker },
      { communication: { mailboxBytes: 500, overflow: 'drop_oldest' }, supervision: { backoff: { baseMs: 50 } } },
    )
    const send = (content: string) => team.sendMessage({ recipient: 'worker', content })
    await team.start()
    if (busy) await begins(team, 'busy')
    else {
      for (let i = 0; i < 2; i++) {
        team.crash('worker') // the second time it stays down for a while
        await team.clock.advance(0)
      }
    }
    await send('small')
    await send('x'.repeat(2_000))
    t.same(overflows(team).length, 1)
    await afterwards(team, worker.open)
    t.same(worker.handled, handled)
    t.same(leftovers(team.host), [])
  }
})

t.test('rule 15: a dropped request is answered with MailboxFullError at once', async (t) => {
  for (const overflow of ['drop_oldest', 'drop_newest'] as const) {
    const { worker, open } = heldWorker()
    const asks = async (content: string, context: Parameters<Receive>[1]) => {
      const { code, details } = await context.request('worker', content).catch((error) => error)
      return JSON.stringify([code, details.overflow, details.agent])
    }
    const team = openTeam(
      t,
      { one: (m, context) => asks(m.content, context), two: (m, context) => asks(m.content, context), worker },
      { roles: { worker: { communication: { mailboxCapacity: 2, overflow } } } },
    )
    await begins(team, 'busy')
    const one = outcomeOf(ask(team, 'one', 'one'))
    await team.clock.advance(0)
    const two = outcomeOf(ask(team, 'two', 'two'))
    await team.clock.advance(0)
    const [dropped, waits] = overflow === 'drop_oldest' ? [one, two] : [two, one]
    t.equal(dropped.value, `["MAILBOX_FULL","${overflow}","worker"]`)
    t.notOk(waits.settled)
    t.same(imbalances(team.host), [])
    await afterwards(team, open)
    t.same(leftovers(team.host), [])
  }
})

t.test('rule 15: a caller outside of the team who asks is told, and one who only tells is not', async (t) => {
  const { worker, open } = heldWorker()
  const team = openTeam(t, { worker }, { communication: { mailboxCapacity: 1, overflow: 'drop_newest' } })
  await team.sendMessage({ recipient: 'worker', content: 'busy' })
  t.equal(await team.sendMessage({ recipient: 'worker', content: 'told' }), null)
  await t.rejects(ask(team, 'worker', 'asked'), { code: 'MAILBOX_FULL' })
  await t.rejects(team.getAgent('worker')!.run('run'), { code: 'MAILBOX_FULL' })
  t.same(overflows(team), ['told', 'asked', 'run'])
  await afterwards(team, open)
  t.same(leftovers(team.host), [])
})

t.test('rule 15: what a death has cut off is not dropped', async (t) => {
  const handled: string[] = []
  const team = openTeam(
    t,
    {
      async worker(message, context) {
        if (message.content === 'first' && context.attempt < 3) team.crash('worker', new Error(`${context.attempt}`))
        else handled.push(`${message.content} ${context.attempt}`)
      },
    },
    {
      communication: { mailboxCapacity: 2, overflow: 'drop_oldest' },
      supervision: { backoff: { baseMs: 50, capMs: 50 } },
    },
  )
  for (const content of ['first', 'b']) await team.sendMessage({ recipient: 'worker', content })
  await team.clock.advance(0)
  t.equal(team.getAgentStatus('worker'), 'restarting')
  for (const content of ['c', 'd']) await team.sendMessage({ recipient: 'worker', content })
  t.same(overflows(team), ['b', 'c'])
  await team.clock.runToIdle()
  t.same(handled, ['first 3', 'd 1'])
  t.same(leftovers(team.host), [])
})

t.test('a subscriber that is told of more than its mailbox holds has all of its room again afterwards', async (t) => {
  const { opened, open } = gate()
  const seen: string[] = []
  const team = openTeam(
    t,
    {
      writer: async (_message, context) => {
        await context.request('reader', 'subscribe')
        for (let i = 0; i < 12; i++) await context.publish(`k${i}`, i, 'fact')
      },
      reader: defineAgent({
        receive: (_message, context) => context.subscribe('**'),
        async observe(message) {
          seen.push(message.content)
          await opened
        },
      }),
    },
    { roles: { reader: { communication: { mailboxCapacity: 2 } } } },
  )
  const found = watchAccounts(team.host)
  await ask(team, 'writer')
  await afterwards(team, open)
  t.same(
    seen,
    Array.from({ length: 12 }, (_, i) => `k${i}`),
  )
  t.same([found, leftovers(team.host), team.host.repairs.count], [[], [], 0])
})

t.test('rule 15: a subscriber whose mailbox drops is bounded as for any other message', async (t) => {
  const { opened, open } = gate()
  const seen: string[] = []
  const team = openTeam(
    t,
    {
      writer: async (_message, context) => {
        await context.request('reader', 'subscribe')
        for (let i = 0; i < 5; i++) await context.publish(`k${i}`, i, 'fact')
      },
      reader: defineAgent({
        receive: (_message, context) => context.subscribe('**'),
        async observe(message) {
          seen.push(message.content)
          await opened
        },
      }),
    },
    { roles: { reader: { communication: { mailboxCapacity: 2, overflow: 'drop_oldest' } } } },
  )
  await ask(team, 'writer')
  t.same(overflows(team), ['k1', 'k2', 'k3'])
  await afterwards(team, open)
  t.same(seen, ['k0', 'k4'])
  t.same(leftovers(team.host), [])
})
