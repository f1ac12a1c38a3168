/** What is refused before it is a message is a dead letter all the same, if it was for somebody; but a small one. */
import t from 'tap'
import { remainsOf } from '../../src/mailbox/dead-letters.ts'
import { where } from '../kit/lists.ts'
import { type Act, refusalOf, stage, untyped } from './helpers.ts'

const LARGE = 'x'.repeat(20_000)

t.test('a message from outside that is none leaves a letter with what is valid of it', async (t) => {
  const { team, isWell } = stage(t)
  const good = { recipient: 'bob', content: 'hi', structuredData: { n: 1 }, priority: 2, metadata: { m: 1 } }
  const before = { sender: '$user', type: 'request', recipient: 'bob', runId: '' }
  for (const [wrong, left] of [
    [
      { ...good, priority: 1.5 },
      { ...good, ...before, priority: 0, metadata: { m: 1, omitted: ['priority'] } },
    ],
    [
      { ...good, content: 5 },
      { ...good, ...before, content: '', metadata: { m: 1, omitted: ['content'] } },
    ],
    [
      { ...good, structuredData: new Date() },
      { ...good, ...before, structuredData: null, metadata: { m: 1, omitted: ['structuredData'] } },
    ],
    [
      { ...good, metadata: 5 },
      { ...good, ...before, metadata: { omitted: ['metadata'] } },
    ],
    [
      { ...good, recipient: ['bob', 5] },
      { ...good, ...before, recipient: ['bob'] },
    ],
    [
      { ...good, type: 'publish', requiresResponse: true },
      { ...good, ...before, type: 'publish' },
    ],
    [
      { ...good, sender: 'nobody' },
      { ...good, ...before, sender: 'nobody' },
    ],
    [{ ...good, runId: 'no-such-run' }, good],
  ] as const) {
    const error = await refusalOf(() => untyped(team).sendMessage(wrong))
    const letter = team.deadLetters.list().at(-1)
    t.match(letter, { reason: 'rejected', message: left })
    t.equal(letter?.errors[0], error)
  }
  t.equal(team.deadLetters.list().length, 8)
  t.ok(await isWell())
})

t.test('what was for nobody leaves none', async (t) => {
  const { team } = stage(t)
  for (const wrong of [undefined, null, 'hi', {}, { content: 'hi' }, { recipient: [], content: 'hi' }])
    await refusalOf(() => untyped(team).sendMessage(wrong))
  await refusalOf(() => team.sendMessage({ recipient: null, content: 'hi' }))
  t.same(team.deadLetters.list(), [])
})

t.test('one that a receiveMessage refuses was for that agent', async (t) => {
  const { team } = stage(t)
  await refusalOf(() => untyped(team.getAgent('bob')!).receiveMessage({ content: 5 }))
  t.match(team.deadLetters.list(), [{ reason: 'rejected', message: { recipient: 'bob', content: '' } }])
})

t.test('it is told as an event', async (t) => {
  const { team } = stage(t)
  const told: unknown[] = []
  team.events.subscribe((event) => void (event.type === 'message.dead' && told.push(event.letter)))
  await refusalOf(() => untyped(team).sendMessage({ recipient: 'bob', content: 5 }))
  await team.clock.advance(0)
  t.same(told, team.deadLetters.list())
})

t.test('of what is above the limit the beginning is kept, once, whoever refuses it', async (t) => {
  const { team, refusal, isWell } = stage(t, { communication: { maxMessageBytes: 4_096 } })
  for (const knock of [
    () => team.sendMessage({ recipient: 'bob', content: LARGE }),
    () => team.sendMessage({ recipient: 'bob', content: LARGE, requiresResponse: true }),
    () => team.getAgent('bob')!.receiveMessage({ ...sample, content: LARGE }),
  ])
    await refusalOf(knock)
  const acts: Act[] = [(context) => context.send('bob', LARGE), (context) => context.request('bob', LARGE)]
  for (const act of acts) await refusal(act)
  const letters = team.deadLetters.list()
  t.same(
    letters.map(({ reason, message, errors }) => [reason, message.recipient, message.content, errors[0]?.code]),
    Array.from({ length: 5 }, () => ['rejected', 'bob', LARGE.slice(0, 1_024), 'MESSAGE_REJECTED']),
  )
  t.ok(letters.every(({ message }) => String(message.metadata.omitted) === 'content'))
  t.same(
    where(team.getMessageHistory(letters.at(-1)?.message.runId), 'recipient', 'bob'),
    [],
    'it never was in a history',
  )
  t.ok(await isWell())
})

t.test('20 MB to a list is not kept either', async (t) => {
  const { team } = stage(t)
  await refusalOf(() => team.sendMessage({ recipient: ['ann', 'bob'], content: 'x'.repeat(20_000_000) }))
  t.match(team.deadLetters.list(), [{ reason: 'rejected', message: { recipient: ['ann', 'bob'] } }])
  t.equal(team.deadLetters.list()[0]?.message.content.length, 1_024)
})

t.test('what a recipient with a lower limit refuses is cut too', async (t) => {
  const { team, refusal } = stage(t, {
    agents: [{ name: 'ann' }, { name: 'bob', communication: { maxMessageBytes: 4_096 } }],
  })
  await refusal((context) => context.request('bob', LARGE))
  t.match(team.deadLetters.list(), [{ reason: 'rejected', message: { content: LARGE.slice(0, 1_024) } }])
})

t.test('what a verb refuses has a letter of its run', async (t) => {
  const { team, refusal } = stage(t)
  await refusal((context) => context.send('bob', 'hi', { priority: 1.5, structuredData: { n: 1 } }))
  const [letter] = team.deadLetters.list()
  const runId = (await team.listRuns())[0]?.id
  t.match(letter, {
    reason: 'rejected',
    message: { sender: 'ann', recipient: 'bob', content: 'hi', structuredData: { n: 1 }, runId },
    errors: [{ code: 'MESSAGE_REJECTED', details: { path: 'priority' } }],
  })
  await refusal((context) => context.request(5, 'hi'))
  t.equal(team.deadLetters.list().length, 1, 'a number is nobody')
})

t.test('what the verbs for several refuse has one letter for all of them, as from outside', async (t) => {
  const { team, refusal, isWell } = stage(t)
  const ab = ['ann', 'bob']
  for (const [act, remains, path] of [
    [(context) => context.requestAll(ab, 5), { recipient: ab, content: '' }, 'content'],
    [(context) => context.requestAll(ab, 'hi', null), { recipient: ab, content: 'hi' }, 'options'],
    [(context) => context.requestAll(ab, 'hi', { concurrency: 0 }), { recipient: ab }, 'concurrency'],
    [(context) => context.requestAny(['bob', 5], 'hi'), { recipient: ['bob'] }, 'to[1]'],
    [(context) => context.requestAny('bob', 'hi'), { recipient: 'bob' }, 'to'],
    [(context) => context.requestQuorum(ab, 3, 'hi'), { recipient: ab, requiresResponse: true }, 'count'],
    [(context) => context.requestQuorum(['bob', 'bob'], 1, 'hi'), { recipient: ['bob', 'bob'] }, 'to'],
  ] as [Act, object, string][]) {
    const before = team.deadLetters.list().length
    await refusal(act)
    const letters = team.deadLetters.list()
    t.equal(letters.length, before + 1)
    t.match(letters.at(-1), {
      reason: 'rejected',
      message: { sender: 'ann', requiresResponse: true, ...remains },
      errors: [{ code: 'MESSAGE_REJECTED', details: { path } }],
    })
  }
  const before = team.deadLetters.list().length
  for (const act of [(context) => context.requestAny([], 'hi'), (context) => context.requestAll(5, 'hi')] as Act[])
    await refusal(act)
  t.equal(team.deadLetters.list().length, before, 'what is for nobody has none')
  t.ok(await isWell())
})

t.test('whatever comes, what remains is a small message', async (t) => {
  const hostile = {
    recipient: 'bob',
    get content(): string {
      throw new Error('gotcha')
    },
    structuredData: {
      get trap(): string {
        throw new Error('gotcha')
      },
    },
    metadata: { large: LARGE },
  }
  t.match(remainsOf(hostile), {
    content: '',
    structuredData: null,
    metadata: { omitted: ['metadata', 'structuredData'] },
  })
  t.match(remainsOf({ recipient: Array.from({ length: 1_000 }, () => 'bob'), content: '' }), {
    recipient: Array.from({ length: 64 }, () => 'bob'),
    metadata: { omitted: ['recipient'] },
  })
  t.equal(remainsOf({ recipient: LARGE }), undefined)
})

const sample = {
  id: 'an-id',
  type: 'request' as const,
  sender: '$user',
  recipient: 'bob',
  content: '',
  structuredData: null,
  priority: 0,
  requiresResponse: false,
  responseTimeoutMs: null,
  threadId: null,
  metadata: {},
  runId: '',
  correlationId: null,
  sentAt: 0,
}
