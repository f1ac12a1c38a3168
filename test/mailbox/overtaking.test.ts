/** Who comes before whom: urgent messages, and those that wait for room. */
import t from 'tap'
import { ask, gate, localTeam, outcomeOf } from '../supervision/teams.ts'

const numbers = (count: number) => Array.from({ length: count }, (_, i) => `${i}`)

/** An agent that keeps its first turn until `open`, then takes as many ms for a message as its content begins with. */
function holding() {
  const { opened, open } = gate()
  const got: string[] = []
  const team = localTeam(t, {
    async worker({ content }, context) {
      if (content === 'hold') return void (await opened)
      got.push(content)
      await context.sleep(Number.parseInt(content, 10) || 0)
      return content
    },
  })
  const hold = async () => {
    await team.sendMessage({ recipient: 'worker', content: 'hold' })
    await team.clock.advance(0)
  }
  return { team, got, hold, open }
}

t.test('an urgent message overtakes however many wait in the window', async (t) => {
  const { team, got, hold, open } = holding()
  await hold()
  for (const content of numbers(1_000)) await team.sendMessage({ recipient: 'worker', content: `0 ${content}` })
  await team.clock.advance(0)
  for (const content of numbers(3))
    await team.sendMessage({ recipient: 'worker', content: `0 !${content}`, priority: 1 })
  await team.clock.advance(0)
  open()
  await team.clock.runToIdle()
  t.same(got.slice(0, 4), ['0 !0', '0 !1', '0 !2', '0 0'])
  t.equal(got.length, 1_003)
})

t.test('the time to answer an overtaken request does not run while another has its turn', async (t) => {
  const { team, hold, open } = holding()
  await hold()
  const overtaken = outcomeOf(ask(team, 'worker', '0 overtaken', { responseTimeoutMs: 1_000 }))
  await team.clock.advance(0)
  const urgent = outcomeOf(ask(team, 'worker', '5000 urgent', { priority: 9 }))
  await team.clock.advance(0)
  open()
  await team.clock.advance(4_999)
  t.same([overtaken, urgent], [{ settled: false }, { settled: false }])
  await team.clock.advance(1)
  t.match([overtaken, urgent], [{ value: '0 overtaken' }, { value: '5000 urgent' }])
})

t.test('the time to answer a request that overtook runs from its own start', async (t) => {
  const { team, hold, open } = holding()
  await hold()
  for (const content of numbers(3)) await team.sendMessage({ recipient: 'worker', content: `0 ${content}` })
  await team.clock.advance(0)
  const urgent = outcomeOf(ask(team, 'worker', '5000 urgent', { priority: 9, responseTimeoutMs: 100 }))
  await team.clock.advance(1_000)
  t.equal(urgent.settled, false)
  open()
  await team.clock.advance(99)
  t.equal(urgent.settled, false)
  await team.clock.advance(2)
  t.match(urgent.error, { code: 'REQUEST_TIMEOUT' })
})

t.test('a message that was next and is overtaken has its own time from when it begins', async (t) => {
  const { team, hold, open } = holding()
  const slow = outcomeOf(ask(team, 'worker', '900 slow', { responseTimeoutMs: 1_000 }))
  await hold() // comes second
  const overtaken = outcomeOf(ask(team, 'worker', '900 overtaken', { responseTimeoutMs: 1_000 }))
  open()
  const urgent = outcomeOf(ask(team, 'worker', '900 urgent', { priority: 1, responseTimeoutMs: 1_000 }))
  await team.clock.runToIdle()
  t.match([slow, urgent, overtaken], [{ value: '900 slow' }, { value: '900 urgent' }, { value: '900 overtaken' }])
})

// ---- waiting for room

const bytes = (count: number) => ({ roles: { worker: { communication: { mailboxBytes: count } } } })

t.test('a message that waits for room gets it, although smaller ones of others would still fit', async (t) => {
  let flooding = true
  let flooded = 0
  const team = localTeam(
    t,
    {
      async worker(_message, context) {
        await context.sleep(10)
      },
      async flood(_message, context) {
        for (; flooding; flooded++) {
          await context.send('worker', 'x')
          await context.sleep(flooded < 8 ? 0 : 10)
        }
      },
      async large(_message, context) {
        await context.send('worker', 'x'.repeat(600))
      },
    },
    bytes(1_000),
  )
  const flood = ask(team, 'flood')
  await team.clock.advance(50)
  const large = outcomeOf(ask(team, 'large'))
  await team.clock.advance(1_000)
  t.ok(large.settled)
  const before = flooded
  await team.clock.advance(1_000)
  t.ok(flooded > before + 50, 'the others go on')
  flooding = false
  await team.clock.runToIdle()
  await flood
})

t.test('a later turn of the same sender does not overtake what its earlier turn left waiting for room', async (t) => {
  const { opened, open } = gate()
  const got: string[] = []
  const team = localTeam(
    t,
    {
      async worker({ content }) {
        if (content === 'hold') await opened
        else got.push(content.slice(0, 5))
      },
      sender({ content }, context) {
        void context.send('worker', content)
      },
    },
    bytes(1_000),
  )
  await team.sendMessage({ recipient: 'worker', content: 'hold' })
  await ask(team, 'sender', `first${'x'.repeat(500)}`)
  await ask(team, 'sender', `large${'x'.repeat(500)}`)
  await ask(team, 'sender', 'small')
  open()
  await team.clock.runToIdle()
  t.same(got, ['first', 'large', 'small'])
})

t.test('who waits for room in a run that is aborted is told', async (t) => {
  const { team, hold, open } = holding()
  await hold()
  const run = team.launch('0 go', {})
  await team.clock.advance(0)
  const message = { recipient: 'worker', content: '0', runId: run.id }
  for (let i = 0; i < 1_100; i++) void team.sendMessage(message).catch(() => {})
  const waits = outcomeOf(team.sendMessage(message))
  await team.clock.advance(0)
  t.equal(waits.settled, false)
  await run.cancel()
  await team.clock.advance(0)
  t.match(waits, { settled: true, error: { code: 'RUN_ABORTED' } })
  open()
  await team.clock.runToIdle()
})

t.test('when the first that waits for room is withdrawn, those behind it are looked at again', async (t) => {
  const { opened, open } = gate()
  const team = localTeam(
    t,
    {
      worker: async ({ content }) => void (content === 'hold' && (await opened)),
      async asker(_message, context) {
        const withdrawn = new AbortController()
        const asked = context.request('worker', 'x'.repeat(900), { signal: withdrawn.signal }).catch(() => {})
        await context.sleep(10)
        withdrawn.abort()
        await asked
      },
      async sender(_message, context) {
        await context.send('worker', 'small')
        return 'accepted'
      },
    },
    bytes(1_000),
  )
  await team.sendMessage({ recipient: 'worker', content: 'hold' })
  const asker = ask(team, 'asker')
  await team.clock.advance(5)
  const sender = outcomeOf(ask(team, 'sender'))
  await team.clock.advance(4)
  t.equal(sender.settled, false, 'it stands behind the large one')
  await team.clock.advance(10)
  t.match(sender, { value: 'accepted' })
  open()
  await team.clock.runToIdle()
  await asker
})
