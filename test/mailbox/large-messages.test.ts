/** What is large, much or urgent, and who comes before whom. */
import t from 'tap'
import type { Question } from '../fixtures/transport/asker.ts'
import { pluck } from '../kit/lists.ts'
import { ask, gate, given, localTeam, outcomeOf } from '../kit/team.ts'
import { hold, letters, MIB, notes, play, role, sendBy, settled, textsOf } from './transport-team.ts'

/** Takes several large messages at once. */
const roomy = role('recorder', { communication: { mailboxBytes: 8 * MIB } })
const DEADLINE = { timeout: 40_000 }

const long: Record<string, string> = {
  '10 MiB of plain text': 'abcdefgh'.repeat((10 / 8) * MIB),
  '10 MiB of Chinese': '漢字'.repeat(2.5 * MIB),
  '10 MiB with lone surrogates and NUL': 'a\ud800\0\udc00'.repeat(1.25 * MIB),
}

for (const [title, content] of Object.entries(long)) {
  t.test(`${title} is asked and answered as it was`, DEADLINE, async (t) => {
    const { value } = await play(t, [role('echo')], async (orchestrator) => {
      const response = await orchestrator.request('echo', content)
      return response.content === content
    })
    t.ok(value)
  })
}

t.test('a long list of emoji is asked and answered as it was', DEADLINE, async (t) => {
  const list = Array.from({ length: 100_000 }, (_, i) => (i % 2 ? '👩‍👩‍👧‍👦' : '🏳️‍🌈'))
  const { value } = await play(t, [role('echo')], async (orchestrator) => {
    const response = await orchestrator.request('echo', '', { structuredData: { list } })
    return JSON.stringify(response.structuredData) === JSON.stringify({ list })
  })
  t.ok(value)
})

t.test('agents ask each other with 10 MiB both ways, several at once', DEADLINE, async (t) => {
  const agents = [role('echo'), role('asker'), role('asker', { name: 'other' })]
  const { value } = await play(t, agents, async (orchestrator) => {
    const structuredData: Question = { to: 'echo', text: '漢', times: 5 * MIB }
    const answers = await Promise.all(
      ['asker', 'other'].map((name) => orchestrator.request(name, 'ask', { structuredData })),
    )
    return answers.map((answer) => answer.structuredData)
  })
  const whole = { same: true, length: 5 * MIB }
  t.same(value, [whole, whole])
})

for (const priority of [0, 5, -5]) {
  for (const size of [20_000, 2 * MIB]) {
    t.test(`small messages stay behind one of ${size} bytes, all of priority ${priority}`, DEADLINE, async (t) => {
      const { value } = await play(t, [roomy, role('sender')], async (orchestrator) => {
        const release = await hold(orchestrator)
        await sendBy(orchestrator, [
          ...letters(2, { priority }),
          { to: 'recorder', text: 'L', times: size, priority },
          ...letters(3, { priority }),
        ])
        await settled(orchestrator)
        await release()
        return notes(orchestrator)
      })
      t.same(pluck(value, 'length'), [1, 1, size, 1, 1, 1])
      t.same(textsOf(value), ['0', '1', 'L'.repeat(20), '0', '1', '2'])
    })
  }
}

t.test('many large messages arrive in their order, with small ones between', DEADLINE, async (t) => {
  const { value } = await play(t, [role('recorder'), role('sender')], async (orchestrator) => {
    const sent = Array.from({ length: 40 }, (_, i) => ({
      to: 'recorder',
      text: `${i % 10}`,
      times: [1, 70_000, 300_000, 20_000][i % 4]!,
    }))
    await sendBy(orchestrator, sent)
    return [await notes(orchestrator), sent] as const
  })
  const [came, sent] = value
  t.same(
    came.map(({ content, length }) => [content[0], length]),
    sent.map(({ text, times }) => [text, times]),
  )
})

t.test('a large message that was half in the window of a thread that died arrives whole', DEADLINE, async (t) => {
  const { value } = await play(t, [role('recorder'), role('sender')], async (orchestrator) => {
    const release = await hold(orchestrator, 'crash')
    const sending = sendBy(orchestrator, [{ to: 'recorder', text: 'L', times: 2 * MIB }, ...letters(2)])
    await settled(orchestrator)
    const answer = await release()
    await sending
    return [answer, await notes(orchestrator)] as const
  })
  t.equal(value[0], 'survived')
  t.same(pluck(value[1], 'length'), [2 * MIB, 1, 1])
})

// ---- too large

t.test('a message above maxMessageBytes is refused, and what follows it is not', DEADLINE, async (t) => {
  const limit = { communication: { maxMessageBytes: 10_000 } }
  const { value, team } = await play(t, [role('recorder'), role('sender', limit)], async (orchestrator) => {
    const outcomes = await sendBy(orchestrator, [
      { to: 'recorder', text: 'x', times: 10_000 - 68 },
      { to: 'recorder', text: 'x', times: 10_001 - 68 },
      { to: 'recorder', text: '漢', times: 5_000 },
      { to: 'recorder', text: 'small' },
    ])
    return [outcomes, await notes(orchestrator)] as const
  })
  t.same(value[0], ['accepted', 'MESSAGE_REJECTED', 'MESSAGE_REJECTED', 'accepted'])
  t.same(pluck(value[1], 'length'), [10_000 - 68, 5])
  t.same(
    team.deadLetters.list().map(({ reason, message }) => [reason, message.content]),
    ['x', '漢'].map((text) => ['rejected', text.repeat(1_024)]),
  )
})

t.test('a caller in the host is refused too, whether it waits for a response or not', DEADLINE, async (t) => {
  const { team } = await play(t, [role('echo', { communication: { maxMessageBytes: 1_000 } })], async () => undefined)
  for (const requiresResponse of [false, true])
    await t.rejects(team.sendMessage({ recipient: 'echo', content: 'x'.repeat(2_000), requiresResponse }), {
      code: 'MESSAGE_REJECTED',
      details: { limit: 1_000 },
    })
})

// ---- a full mailbox

const small = { mailboxCapacity: 4 }

t.test('a send to a full mailbox waits, others do not, and nothing is lost', DEADLINE, async (t) => {
  const agents = [role('recorder', { communication: small }), role('sender'), role('echo')]
  const { value, team } = await play(t, agents, async (orchestrator) => {
    const release = await hold(orchestrator)
    const accepted: number[] = []
    const sends = Array.from({ length: 100 }, async (_, i) => {
      await orchestrator.send('recorder', String(i))
      accepted.push(i)
    })
    await settled(orchestrator)
    await orchestrator.request('echo', 'to somebody else')
    const early = [...accepted]
    await release()
    await Promise.all(sends)
    return { early, accepted, came: await notes(orchestrator) }
  })
  const all = Array.from({ length: 100 }, (_, i) => i)
  t.same(value.early, [0, 1, 2]) // the turn under way has the fourth place
  t.same(value.accepted, all)
  t.same(textsOf(value.came), all.map(String))
  t.same(team.deadLetters.list(), [])
})

t.test('agents that send to a full mailbox wait, and each keeps its order', DEADLINE, async (t) => {
  const senders = ['one', 'two', 'three']
  const agents = [role('recorder', { communication: small }), ...senders.map((name) => role('sender', { name }))]
  const { value } = await play(t, agents, async (orchestrator) => {
    const release = await hold(orchestrator)
    const errands = senders.map((name, i) =>
      orchestrator.request(name, 'send', {
        structuredData: {
          letters: letters(200).map(({ to, text }) => ({ to, text: `${name} ${text}` })),
          inTurn: i === 0,
        },
      }),
    )
    await settled(orchestrator)
    await release()
    await Promise.all(errands)
    return textsOf(await notes(orchestrator))
  })
  for (const name of senders)
    t.same(
      value.filter((text) => text.startsWith(`${name} `)),
      letters(200).map(({ text }) => `${name} ${text}`),
    )
  t.equal(value.length, 600)
})

t.test('a mailbox that is full of bytes is full as well', DEADLINE, async (t) => {
  const agents = [role('recorder', { communication: { mailboxBytes: 10_000 } }), role('sender')]
  const { value } = await play(t, agents, async (orchestrator) => {
    const release = await hold(orchestrator)
    const sending = sendBy(orchestrator, letters(30, { text: 'x', times: 3_000 }))
    await settled(orchestrator)
    const early = orchestrator.agents.find(({ name }) => name === 'sender')?.status
    await release()
    return { early, outcomes: await sending, came: await notes(orchestrator) }
  })
  t.match(value.early, /^(running|waiting)$/, 'for room, as far as its host has heard; its turn is open')
  t.same(new Set(value.outcomes), new Set(['accepted']))
  t.equal(value.came.length, 30)
})

t.test("with 'reject' a send to a full mailbox fails at once and is a dead letter", DEADLINE, async (t) => {
  const agents = [role('recorder', { communication: { ...small, overflow: 'reject' } }), role('sender')]
  const { value, team } = await play(t, agents, async (orchestrator) => {
    const release = await hold(orchestrator)
    const outcomes = await sendBy(orchestrator, letters(6))
    await release()
    return { outcomes, came: textsOf(await notes(orchestrator)) }
  })
  const full = 'MAILBOX_FULL'
  t.same(value.outcomes, ['accepted', 'accepted', 'accepted', full, full, full])
  t.same(value.came, ['0', '1', '2'])
  t.match(
    team.deadLetters.list().map(({ reason, message, errors }) => [reason, message.content, errors[0]?.code]),
    [
      ['rejected', '3', full],
      ['rejected', '4', full],
      ['rejected', '5', full],
    ],
  )
})

t.test("with 'reject' a request to a full mailbox fails at once, from the host too", DEADLINE, async (t) => {
  const agents = [role('recorder', { communication: { mailboxCapacity: 1, overflow: 'reject' } })]
  const { value } = await play(t, agents, async (orchestrator, team) => {
    const release = await hold(orchestrator)
    const codes = await Promise.all(
      [
        orchestrator.request('recorder', 'list'),
        team.sendMessage({ recipient: 'recorder', content: 'list', requiresResponse: true }),
        team.sendMessage({ recipient: 'recorder', content: 'list' }),
      ].map((asked) =>
        asked.then(
          () => 'answered',
          (error: { code: string }) => error.code,
        ),
      ),
    )
    await release()
    return codes
  })
  t.same(value, ['MAILBOX_FULL', 'MAILBOX_FULL', 'MAILBOX_FULL'])
})

t.test('a message larger than the whole mailbox is taken when nothing else waits', DEADLINE, async (t) => {
  for (const overflow of ['block', 'reject'] as const) {
    const agents = [role('recorder', { communication: { mailboxBytes: 1_000, overflow } }), role('sender')]
    const { value } = await play(t, agents, async (orchestrator) => {
      const outcomes = await sendBy(orchestrator, letters(1, { text: 'x', times: MIB }))
      if (overflow === 'reject') return { outcomes, came: undefined } // who asks now may be refused
      return { outcomes, came: await notes(orchestrator) }
    })
    t.same(value.outcomes, ['accepted'])
    if (value.came) t.match(value.came, [{ length: MIB }])
  }
})

t.test('a message larger than the whole mailbox waits for its turn behind others', DEADLINE, async (t) => {
  const agents = [role('recorder', { communication: { mailboxBytes: 1_000 } }), role('sender')]
  const { value } = await play(t, agents, async (orchestrator) => {
    const release = await hold(orchestrator)
    const sending = sendBy(orchestrator, [
      ...letters(2),
      ...letters(1, { text: 'x', times: MIB }),
      ...letters(2),
      ...letters(1, { text: 'y', times: MIB }),
    ])
    await settled(orchestrator)
    await release()
    return { outcomes: await sending, came: await notes(orchestrator) }
  })
  t.same(new Set(value.outcomes), new Set(['accepted']))
  t.same(pluck(value.came, 'length'), [1, 1, MIB, 1, 1, MIB])
})

t.test('a large message gets its place although small ones of others keep coming', DEADLINE, async (t) => {
  const agents = [
    role('recorder', { communication: { mailboxBytes: 4_000 } }),
    role('sender', { name: 'busy' }),
    role('sender'),
  ]
  const { value } = await play(t, agents, async (orchestrator) => {
    const stream = orchestrator.request('busy', 'send', { structuredData: { letters: letters(5_000), inTurn: true } })
    await sendBy(orchestrator, letters(1, { text: 'x', times: 3_500 }))
    const came = await notes(orchestrator)
    await stream
    return came
  })
  t.ok(value.some(({ length }) => length === 3_500))
  t.ok(value.length < 5_000)
})

// ---- urgent

t.test('a higher priority overtakes the backlog of a busy agent', DEADLINE, async (t) => {
  const { value } = await play(t, [role('recorder')], async (orchestrator) => {
    const release = await hold(orchestrator)
    for (const { text } of letters(500)) await orchestrator.send('recorder', text)
    await settled(orchestrator) // they are in the window already
    await orchestrator.send('recorder', 'low', { priority: -1 })
    await orchestrator.send('recorder', 'high', { priority: 1 })
    await orchestrator.send('recorder', 'highest', { priority: 9 })
    await orchestrator.send('recorder', 'as high', { priority: 1 })
    await settled(orchestrator)
    await release()
    return textsOf(await notes(orchestrator))
  })
  t.same(value, ['highest', 'high', 'as high', ...letters(500).map(({ text }) => text), 'low'])
})

t.test('more urgent messages than the window holds keep their order within each priority', DEADLINE, async (t) => {
  const { value } = await play(t, [role('recorder'), role('sender')], async (orchestrator) => {
    const release = await hold(orchestrator)
    await sendBy(
      orchestrator,
      letters(300).map((letter, i) => ({ ...letter, times: 1_000, priority: 1 + (i % 3) })),
    )
    await settled(orchestrator)
    await release()
    return notes(orchestrator)
  })
  const came = value.map(({ content, length }) => Number(content.slice(0, length / 1_000)))
  const numbers = letters(300).map((_, i) => i)
  for (const rest of [0, 1, 2])
    t.same(
      came.filter((number) => number % 3 === rest),
      numbers.filter((number) => number % 3 === rest),
    )
})

// ---- replies

t.test('a reply gets through to a turn whose mailbox is full', DEADLINE, async (t) => {
  const agents = [role('recorder', { communication: { mailboxCapacity: 2 } }), role('sender'), role('echo')]
  const { value } = await play(t, agents, async (orchestrator) => {
    const release = await hold(orchestrator, 'ask')
    const sending = sendBy(orchestrator, letters(100))
    await settled(orchestrator)
    const answer = await release()
    return { answer, outcomes: await sending, came: textsOf(await notes(orchestrator)) }
  })
  t.equal(value.answer, 'é'.repeat(300_000))
  t.equal(value.outcomes.length, 100)
  t.same(value.came, pluck(letters(100), 'text'))
})

t.test(
  'a large reply gets through to a turn behind which a large message is half in the window',
  DEADLINE,
  async (t) => {
    const { value } = await play(t, [roomy, role('sender'), role('echo')], async (orchestrator) => {
      const release = await hold(orchestrator, 'ask')
      await sendBy(orchestrator, letters(2, { text: 'x', times: 2 * MIB }))
      await settled(orchestrator)
      return { answer: await release(), came: await notes(orchestrator) }
    })
    t.equal(value.answer, 'é'.repeat(300_000))
    t.match(value.came, [{ length: 2 * MIB }, { length: 2 * MIB }])
  },
)

// Who comes before whom: urgent messages, and those that wait for room.

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
  const team = given(t, bytes(1_000)).testTeam({
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
  })
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
  const team = given(t, bytes(1_000)).testTeam({
    async worker({ content }) {
      if (content === 'hold') await opened
      else got.push(content.slice(0, 5))
    },
    sender({ content }, context) {
      void context.send('worker', content)
    },
  })
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
  const team = given(t, bytes(1_000)).testTeam({
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
  })
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
