/** Rules 17 and 18: every message is accounted for, and what nobody handles is kept. */
import t from 'tap'
import { DeadLetterList } from '../../src/mailbox/dead-letters.ts'
import { imbalances, leftovers, watchAccounts } from './accounts.ts'
import { ask, localTeam, never, numbers, openTeam } from './teams.ts'

t.test('rule 17: a message to an unknown agent is a dead letter and an error to its sender', async (t) => {
  const team = localTeam(t, {
    sender: (message, context) =>
      context[message.content === 'ask' ? 'request' : 'send']('wroker', 'x').then(
        () => 'sent',
        (error: Error) => error.message,
      ),
    worker: () => '',
  })
  for (const verb of ['ask', 'send'])
    t.equal(await ask(team, 'sender', verb), 'No agent of this team is named "wroker"; did you mean "worker"?')
  await t.rejects(team.sendMessage({ recipient: 'wroker', content: 'x' }), { code: 'UNKNOWN_AGENT' })
  await t.rejects(ask(team, 'wroker'), { code: 'UNKNOWN_AGENT' })
  t.same(
    team.deadLetters.list().map(({ reason, message }) => `${reason} ${message.recipient}`),
    Array.from({ length: 4 }, () => 'unknown_agent wroker'),
  )
})

t.test('rule 17: a message to a stopped agent is a dead letter and an error to its sender', async (t) => {
  const team = localTeam(
    t,
    {
      sender: (message, context) =>
        context[message.content === 'ask' ? 'request' : 'send']('worker', 'x').then(
          () => 'sent',
          (error: { code: string }) => error.code,
        ),
      worker: () => '',
    },
    { roles: { worker: { supervision: { maxRestarts: 0 } } } },
  )
  await team.start()
  team.crash('worker')
  await team.clock.advance(0)
  for (const verb of ['ask', 'send']) t.equal(await ask(team, 'sender', verb), 'AGENT_TERMINATED')
  await t.rejects(team.sendMessage({ recipient: 'worker', content: 'x' }), { code: 'AGENT_TERMINATED' })
  t.same(
    team.deadLetters.list().map(({ reason }) => reason),
    ['stopped', 'stopped', 'stopped'],
  )
})

t.test('rule 17: a send larger than its recipient takes is a dead letter and an error to its sender', async (t) => {
  const handled: number[] = []
  const team = openTeam(
    t,
    {
      async sender(_message, context) {
        const outcomes = [200, 2_000, 201].map((size) =>
          context.send('worker', 'x'.repeat(size)).then(
            () => 'accepted',
            (error) => `${error.code}, at most ${error.details.limit}`,
          ),
        )
        return (await Promise.all(outcomes)).join('; ')
      },
      worker: ({ content }) => void handled.push(content.length),
    },
    { roles: { worker: { communication: { maxMessageBytes: 1_000 } } } },
  )
  t.equal(await ask(team, 'sender'), 'accepted; MESSAGE_REJECTED, at most 1000; accepted')
  await team.clock.advance(0)
  t.match(team.deadLetters.list(), [{ reason: 'rejected', message: { sender: 'sender', recipient: 'worker' } }])
  t.same(handled, [200, 201])
  t.same(leftovers(team.host), [])
})

t.test('rule 17: accepted = handled + dead + queued + in flight, with every record', async (t) => {
  const team = openTeam(
    t,
    {
      async worker(message, context) {
        const [what, times] = message.content.split(' ')
        if (what === 'fail') throw new Error('no')
        if (what === 'sleep') await context.sleep(Number(times))
        if (what === 'crash' && context.attempt <= Number(times)) {
          team.crash('worker')
          return never
        }
        if (what === 'ask') return (await context.request('other', 'sleep 20')).content
        return 'fine'
      },
      other: (_message, context) => context.sleep(20).then(() => 'other'),
    },
    {
      supervision: { maxRestarts: 4, coolDownMs: 100 },
      communication: { mailboxCapacity: 6, queueTimeoutMs: 400, responseTimeoutMs: 150 },
    },
  )
  const found = watchAccounts(team.host)
  const work = ['fail', 'crash 1', 'sleep 10', 'ask', 'crash 9', 'sleep 300', 'ask', 'crash 1', 'crash 1', 'crash 9']
  for (let round = 0; round < 6; round++)
    for (const content of work) {
      void team.sendMessage({ recipient: 'worker', content, requiresResponse: round % 2 === 0 }).catch(() => {})
      await team.clock.advance(17)
    }
  await team.clock.runToIdle()
  t.same(found, [])
  t.same(imbalances(team.host), [])
  t.same(leftovers(team.host), [])
  const { accepted, handled, deadLettered } = team.host.directory.cell('worker')!.mailbox
  t.ok(handled > 0 && deadLettered > 0)
  t.equal(accepted, handled + deadLettered)
})

t.test('rule 17: what waits for room when its run is aborted is a dead letter', async (t) => {
  const gone = new AbortController()
  const team = openTeam(
    t,
    {
      async sender(_message, context) {
        for (const content of numbers(2)) void context.send('worker', content)
        await context.sleep(1_000)
      },
      worker: (_message, context) => context.sleep(1_000),
    },
    { communication: { mailboxCapacity: 1 } },
  )
  const run = team.execute('go', { signal: gone.signal })
  await team.clock.advance(1)
  gone.abort()
  await run
  await team.clock.advance(0)
  const letters = team.deadLetters.list().filter(({ message }) => message.recipient === 'worker')
  t.same(letters.map(({ message, reason }) => `${message.content} ${reason}`).sort(), ['0 cancelled', '1 cancelled'])
  t.same(imbalances(team.host), [])
})

t.test('rule 17: a message whose handler fails counts as dead, not as handled', async (t) => {
  const team = openTeam(t, {
    worker() {
      throw new Error('no')
    },
  })
  await team.sendMessage({ recipient: 'worker', content: 'note' })
  await t.rejects(ask(team, 'worker'), { code: 'AGENT_FAILED' })
  const { accepted, handled, deadLettered } = team.host.directory.cell('worker')!.mailbox
  t.same({ accepted, handled, deadLettered }, { accepted: 2, handled: 1, deadLettered: 1 })
  t.equal(team.deadLetters.list().length, 1)
})

t.test('rule 18: a dead letter keeps the whole message, the reason, the errors and the time', async (t) => {
  const team = localTeam(t, {
    worker() {
      throw new Error('no')
    },
  })
  const events: unknown[] = []
  team.events.subscribe((event) => {
    if (event.type === 'message.dead') events.push(event.letter)
  })
  await team.start()
  await team.clock.advance(7)
  await team.sendMessage({
    recipient: 'worker',
    content: 'note',
    structuredData: { deep: [1] },
    metadata: { a: 1 },
    priority: 3,
    threadId: 'thread',
  })
  await team.clock.advance(0)
  const letters = team.deadLetters.list()
  t.match(letters, [
    {
      id: letters[0]?.message.id,
      reason: 'failed',
      at: 7,
      errors: [{ code: 'AGENT_FAILED' }],
      message: {
        type: 'request',
        sender: '$user',
        recipient: 'worker',
        content: 'note',
        structuredData: { deep: [1] },
        metadata: { a: 1 },
        priority: 3,
        threadId: 'thread',
        requiresResponse: false,
        sentAt: 7,
      },
    },
  ])
  t.same(events, letters)
})

t.test('rule 18: the list is bounded: the oldest letters go, and are counted', async (t) => {
  const list = new DeadLetterList(3)
  const [letter] = [{ message: never, reason: 'failed', errors: [], at: 0 }] as never[]
  for (const id of numbers(5)) list.add(Object.assign({}, letter, { id }), 64)
  t.same(
    list.list().map(({ id }) => id),
    ['2', '3', '4'],
  )
  t.equal(list.total, 5)
})
