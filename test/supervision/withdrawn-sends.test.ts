/** Rules 15 and 17: a send that waits for room in a full mailbox ends when its signal, or its turn, is aborted. */
import t from 'tap'
import { defineAgent } from '../../src/actors/definition/definition.ts'
import { leftovers, watchAccounts } from './accounts.ts'
import { ask, gate, openTeam, outcomeOf, type Receive } from './teams.ts'

const codeOf = (error: { code: string }) => error.code

/** A worker with room for one message besides the one that it holds until `open`, and who sends to it. */
function fullMailbox(t: Parameters<typeof openTeam>[0], sender: Receive, options = {}) {
  const { opened, open } = gate()
  const got: string[] = []
  const team = openTeam(
    t,
    {
      sender,
      async worker({ content }) {
        if (content === 'hold') await opened
        else got.push(content)
      },
    },
    { ...options, roles: { worker: { communication: { mailboxCapacity: 2 } } } },
  )
  const fill = async () => {
    for (const content of ['hold', 'first']) await team.sendMessage({ recipient: 'worker', content })
  }
  const rest = async () => {
    open()
    await team.clock.runToIdle()
  }
  return { team, got, fill, rest, accounts: watchAccounts(team.host) }
}

t.test('a send that waits for room is withdrawn by its signal, and leaves no trace of room taken', async (t) => {
  const { team, got, fill, rest, accounts } = fullMailbox(t, async (_message, context) => {
    const withdrawal = new AbortController()
    const sent = context.send('worker', 'withdrawn', { signal: withdrawal.signal }).catch(codeOf)
    const next = context.send('worker', 'next')
    await context.sleep(10)
    withdrawal.abort(new Error('changed my mind'))
    const code = await sent
    await next
    return String(code)
  })
  await fill()
  const sender = outcomeOf(ask(team, 'sender'))
  await team.clock.advance(10)
  await rest()
  t.match(sender, { value: 'CANCELLED' })
  t.same(got, ['first', 'next'])
  t.match(team.deadLetters.list(), [{ reason: 'cancelled', message: { content: 'withdrawn' } }])
  t.same([accounts, leftovers(team.host)], [[], []])
})

t.test('of many sends that wait, also those that the host does not know of yet can be withdrawn', async (t) => {
  const contents = Array.from({ length: 100 }, (_, i) => `${i}`)
  const { team, got, fill, rest, accounts } = fullMailbox(t, async (_message, context) => {
    const withdrawals = contents.map(() => new AbortController())
    const sends = contents.map((content, i) =>
      context.send('worker', content, { signal: withdrawals[i]!.signal }).then(() => 'sent', codeOf),
    )
    await context.sleep(10)
    for (const [i, withdrawal] of withdrawals.entries()) if (i % 3 === 0) withdrawal.abort()
    const outcomes = await Promise.all(sends)
    return outcomes.filter((outcome) => outcome === 'CANCELLED').length.toString()
  })
  await fill()
  const sender = outcomeOf(ask(team, 'sender'))
  await team.clock.advance(10)
  await rest()
  t.match(sender, { value: '34' })
  t.same(got, ['first', ...contents.filter((_, i) => i % 3 !== 0)])
  t.same([accounts, leftovers(team.host)], [[], []])
})

t.test('a turn that is told to stop withdraws what it sends and is not accepted', async (t) => {
  const reasons: string[] = []
  const { team, got, fill, rest, accounts } = fullMailbox(
    t,
    async (_message, context) => {
      await context.send('worker', 'withdrawn').catch((error) => reasons.push(codeOf(error)))
    },
    { communication: { responseTimeoutMs: 50 } },
  )
  await fill()
  const sender = outcomeOf(ask(team, 'sender'))
  await team.clock.advance(60)
  t.match(sender, { error: { code: 'REQUEST_TIMEOUT' } })
  t.same(reasons, ['REQUEST_TIMEOUT'])
  await rest()
  t.same(got, ['first'])
  t.match(team.deadLetters.list(), [{ reason: 'cancelled', message: { content: 'withdrawn' } }])
  t.same([accounts, leftovers(team.host)], [[], []])
})

t.test('a withdrawn send is no less withdrawn in the next attempt of its turn', async (t) => {
  const outcomes: string[] = []
  const { team, got, fill, rest } = fullMailbox(t, async (_message, context) => {
    const withdrawal = new AbortController()
    const sent = context.send('worker', 'withdrawn', { signal: withdrawal.signal }).then(() => 'sent', codeOf)
    if (context.attempt === 1) {
      await context.sleep(10)
      withdrawal.abort()
    }
    outcomes.push(await sent)
    if (context.attempt === 1) await context.sleep(1_000)
  })
  await fill()
  const sender = outcomeOf(ask(team, 'sender'))
  await team.clock.advance(20)
  team.crash('sender')
  await team.clock.advance(0)
  await rest()
  t.equal(sender.settled, true)
  t.same(outcomes, ['CANCELLED', 'CANCELLED'])
  t.same(got, ['first'])
})

t.test('a signal that aborts when the send was accepted changes nothing', async (t) => {
  const withdrawal = new AbortController()
  const sender = defineAgent({
    async receive(_message, context) {
      await context.send('worker', 'accepted', { signal: withdrawal.signal })
      withdrawal.abort()
    },
  })
  const got: string[] = []
  const team = openTeam(t, { sender, worker: ({ content }) => void got.push(content) })
  await ask(team, 'sender')
  await team.clock.advance(0)
  t.same(got, ['accepted'])
  t.same(leftovers(team.host), [])
})
