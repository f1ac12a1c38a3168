/** Messages that cannot be delivered or read, and what is refused before it is a message. */
import t from 'tap'
import { z } from 'zod'
import { type AgentMessage, defineAgent } from '../../src/index.ts'
import { remainsOf } from '../../src/mailbox/dead-letters.ts'
import { testTeam } from '../../src/testing.ts'
import { where } from '../kit/lists.ts'
import { type Act, refusalOf, stage, type Test, untyped } from './helpers.ts'

// Messages that cannot be delivered or read: their sender hears why, and what was lost is a dead letter.

const SECRET = 'the secret prompt'

t.test('a message to an unknown agent is an error with the nearest name, and a dead letter', async (t) => {
  const { team, refusal, isWell } = stage(t)
  for (const act of [
    (context: { request: Function }) => context.request('bobb', SECRET),
    (context: { send: Function }) => context.send('bobb', SECRET),
    (context: { requestStream: Function }) => context.requestStream('bobb', SECRET).response,
    (context: { requestAny: Function }) => context.requestAny(['bobb'], SECRET),
  ]) {
    const error = await refusal(act as never)
    t.equal(error.code, 'UNKNOWN_AGENT')
    t.equal(error.message, 'No agent of this team is named "bobb"; did you mean "bob"?')
    t.same(error.details, { agent: 'bobb', agents: ['ann', 'bob'] })
  }
  const letters = team.deadLetters.list()
  t.same(
    letters.map(({ reason, message }) => [reason, message.recipient, message.content]),
    Array.from({ length: 4 }, () => ['unknown_agent', 'bobb', SECRET]),
  )
  t.equal(letters[0]?.errors[0]?.code, 'UNKNOWN_AGENT')
  t.ok(await isWell())
})

t.test("the runtime's own names are nobody's to write to", async (t) => {
  const { refusal, isWell } = stage(t)
  for (const name of ['$user', '$runtime', '$orchestrator'])
    t.equal((await refusal((context) => context.request(name, 'hi'))).code, 'UNKNOWN_AGENT', name)
  t.ok(await isWell())
})

t.test('requestAll reports an unknown agent as an outcome, in its place', async (t) => {
  const { play } = stage(t)
  const outcomes = await play((context) => context.requestAll(['bob', 'nobody'], 'hi'))
  t.match(outcomes, [
    { agent: 'bob', ok: true },
    { agent: 'nobody', ok: false, error: { code: 'UNKNOWN_AGENT' } },
  ])
})

t.test('a message from outside to an unknown agent: the same, whether it wants a response or not', async (t) => {
  const { team, isWell } = stage(t)
  for (const requiresResponse of [true, false]) {
    const error = await refusalOf(team.sendMessage({ recipient: 'bobb', content: SECRET, requiresResponse }))
    t.match(error, { code: 'UNKNOWN_AGENT', message: /did you mean "bob"/ })
  }
  t.match(team.deadLetters.list(), [{ reason: 'unknown_agent' }, { reason: 'unknown_agent' }])
  t.match(await refusalOf(team.sendMessage({ recipient: 'bob', content: 'hi', sender: 'bobb' })), {
    code: 'UNKNOWN_AGENT',
    details: { path: 'sender' },
  })
  t.match(await refusalOf(team.broadcast('hi', 'nobody')), { code: 'UNKNOWN_AGENT', details: { path: 'sender' } })
  t.ok(await isWell())
})

t.test('a message to a stopped agent is AGENT_TERMINATED with the reason, and a dead letter', async (t) => {
  const { team, refusal, play } = stage(t, { supervision: { maxRestarts: 0 } })
  await play(() => 'started')
  team.crash('bob')
  await team.clock.advance(0) // the exit is seen
  const error = await refusal((context) => context.request('bob', SECRET))
  t.equal(error.code, 'AGENT_TERMINATED')
  t.match(error.message, /^Agent "bob" is stopped: It died 1 times within 60000 ms .* is tried again after 60000 ms/)
  t.equal(error.details.agent, 'bob')
  t.match(await refusal((context) => context.send('bob', SECRET)), { code: 'AGENT_TERMINATED' })
  t.match(await refusalOf(team.sendMessage({ recipient: 'bob', content: SECRET })), { code: 'AGENT_TERMINATED' })
  t.same(
    team.deadLetters.list().map(({ reason, message }) => [reason, message.content]),
    Array.from({ length: 3 }, () => ['stopped', SECRET]),
  )
  await team.clock.advance(60_000) // coolDownMs
  t.match(await play((context) => context.request('bob', 'hi')), { content: 'bob heard hi' })
})

t.test('a message from outside that is none is refused by field, before anything is sent', async (t) => {
  const { team: typed, isWell } = stage(t)
  const team = untyped(typed)
  const message = { recipient: 'bob', content: 'hi' }
  for (const [wrong, path] of [
    [undefined, 'message'],
    [null, 'message'],
    ['hi', 'message'],
    [{}, 'recipient'],
    [{ recipient: 'bob' }, 'content'],
    [{ ...message, recipient: 5 }, 'recipient'],
    [{ ...message, recipient: '' }, 'recipient'],
    [{ ...message, recipient: [] }, 'recipient'],
    [{ ...message, recipient: null }, 'recipient'],
    [{ ...message, recipient: ['ann', 'bob'], requiresResponse: true }, 'recipient'],
    [{ ...message, content: { secret: SECRET } }, 'content'],
    [{ ...message, type: 'ask' }, 'type'],
    [{ ...message, structuredData: { when: new Date(0) } }, 'structuredData.when'],
    [{ ...message, structuredData: 1n }, 'structuredData'],
    [{ ...message, priority: 1.5 }, 'priority'],
    [{ ...message, responseTimeoutMs: -1 }, 'responseTimeoutMs'],
    [{ ...message, threadId: 5 }, 'threadId'],
    [{ ...message, threadId: '' }, 'threadId'],
    [{ ...message, metadata: 5 }, 'metadata'],
    [{ ...message, requiresResponse: 'yes' }, 'requiresResponse'],
    [{ ...message, type: 'report', recipient: null }, 'recipient'],
    [{ ...message, prioritty: 1 }, 'prioritty'],
    [{ ...message, correlationId: 'an-id' }, 'correlationId'],
    [{ ...message, responseTimeoutMs: 5 }, 'responseTimeoutMs'],
    [{ ...message, type: 'publish' }, 'recipient'],
    [{ ...message, type: 'publish', recipient: null, threadId: 'a-thread' }, 'threadId'],
    [{ ...message, type: 'publish', recipient: null, metadata: { confidense: 1 } }, 'options.confidense'],
    [{ ...message, type: 'subscribe', sender: 'ann' }, 'recipient'],
    [{ ...message, type: 'subscribe', sender: 'ann', recipient: null, structuredData: 1 }, 'structuredData'],
    [{ ...message, type: 'response', metadata: { m: 1 } }, 'metadata'],
  ] as const) {
    const error = await refusalOf(() => team.sendMessage(wrong))
    t.equal(error.code, 'MESSAGE_REJECTED', error.message)
    t.equal(error.details.path, path, error.message)
    t.notMatch(error.message, SECRET)
  }
  t.match(await refusalOf(() => team.sendMessage({ ...message, structuredData: { at: [Symbol('s')] } })), {
    message: 'The message was refused: structuredData.at[0]: is symbol; a JSON value is needed.',
  })
  t.match(await refusalOf(() => team.broadcast(5, 'ann')), { code: 'MESSAGE_REJECTED' })
  t.same(typed.getMessageHistory(), [])
  t.ok(await isWell())
})

t.test('a message of a run that is unknown or over is UNKNOWN_RUN', async (t) => {
  const { team, isWell } = stage(t)
  const { runId } = await team.execute('hi')
  for (const id of [runId, 'no-such-run'])
    t.match(await refusalOf(team.sendMessage({ recipient: 'bob', content: 'hi', runId: id })), {
      code: 'UNKNOWN_RUN',
      message: `No run "${id}" is under way in this team. Leave runId out, or give that of a run that has not ended.`,
    })
  for (const look of ['getBlackboard', 'getMessageHistory', 'getTaskStatus'] as const)
    t.match(await refusalOf(() => team[look]('no-such-run')), { code: 'UNKNOWN_RUN', details: { runId: String } })
  t.ok(await isWell())
})

const LIMIT = 4_096

t.test('a message above the limit is refused by every way in, with both numbers', async (t) => {
  const { team, refusal, isWell } = stage(t, { communication: { maxMessageBytes: LIMIT } })
  const large = SECRET.repeat(1_000)
  for (const act of [
    (context: { request: Function }) => context.request('bob', large),
    (context: { send: Function }) => context.send('bob', large),
    (context: { request: Function }) => context.request('bob', 'hi', { structuredData: { large } }),
    (context: { publish: Function }) => context.publish('k', large, 'fact'),
    (context: { emit: Function }) => context.emit(large),
    (context: { step: Function }) => context.step('large', () => large),
  ])
    isTooLarge(t, await refusal(act as never))
  isTooLarge(t, await refusalOf(team.sendMessage({ recipient: 'bob', content: large })))
  isTooLarge(t, await refusalOf(team.sendMessage({ recipient: 'bob', content: large, requiresResponse: true })))
  isTooLarge(t, await refusalOf(Promise.resolve(team.getAgent('bob')?.run(large))))
  t.same(where(team.getMessageHistory(), 'recipient', 'bob'), [])
  t.ok(await isWell())
})

t.test('a query above 16 MiB fails its run with MESSAGE_REJECTED', async (t) => {
  const { team, isWell } = stage(t)
  const result = await team.execute('x'.repeat(2 ** 24))
  t.match(result, { success: false, error: { code: 'MESSAGE_REJECTED', details: { limit: 2 ** 24 } } })
  t.ok(await isWell())
})

t.test('a message of several MiB arrives, and so does its answer', async (t) => {
  const { play } = stage(t)
  const answer = await play((context) => context.request('bob', 'x'.repeat(5_000_000)))
  t.equal((answer as AgentMessage).content.length, 'bob heard '.length + 5_000_000)
})

t.test('a full mailbox that rejects says so to every sender, and each message is a dead letter', async (t) => {
  const waiting: (() => void)[] = []
  const ann = defineAgent({
    async receive(_message, context) {
      const outcomes = await context.requestAll(['bob', 'bob'], SECRET)
      return outcomes.map((outcome) => (outcome.ok ? 'answered' : outcome.error.code)).join()
    },
  })
  const bob = defineAgent({ receive: () => new Promise<string>((resolve) => waiting.push(() => resolve('bob'))) })
  const team = testTeam(
    {
      agents: [{ name: 'ann' }, { name: 'bob', communication: { mailboxCapacity: 1, overflow: 'reject' } }],
      orchestration: { strategy: 'sequential', agentOrder: ['ann'] },
    },
    { modules: { ann, bob } },
  )
  t.teardown(() => team.close())
  const run = team.launch('hi')
  await team.clock.advance(0)
  const message = { recipient: 'bob', content: SECRET }
  for (const knock of [
    () => team.sendMessage({ ...message, requiresResponse: true }),
    () => team.sendMessage(message),
    () => team.getAgent('bob')?.run(SECRET),
  ]) {
    const error = await refusalOf(knock)
    t.match(error, { code: 'MAILBOX_FULL', details: { agent: 'bob', capacity: 1 } })
    t.match(error.message, /^The mailbox of agent "bob" is full .*Send more slowly, or raise communication\.mailboxCap/)
    t.notMatch(error.message, SECRET)
  }
  for (const answer of waiting.splice(0)) answer()
  t.equal((await run.result).finalOutput, 'answered,MAILBOX_FULL')
  t.same(
    team.deadLetters.list().map(({ reason, message: { content } }) => [reason, content]),
    Array.from({ length: 4 }, () => ['rejected', SECRET]),
  )
})

t.test("input that misses the schema is its sender's error; the handler never sees it", async (t) => {
  let handled = 0
  const { team } = teamWithInput(t, () => handled++)
  const error = await refusalOf(
    team.sendMessage({ recipient: 'ann', content: SECRET, structuredData: { by: 'two' }, requiresResponse: true }),
  )
  t.equal(error.code, 'MESSAGE_REJECTED')
  t.match(error.message, /^The message to "ann" misses its input schema: by: /)
  t.match(error.details, { agent: 'ann', path: 'structuredData' })
  t.notMatch(error.message, SECRET)
  t.equal(handled, 0)
  const answer = await team.sendMessage({
    recipient: 'ann',
    content: 'hi',
    structuredData: { by: 2 },
    requiresResponse: true,
  })
  t.equal(answer?.content, 'by 2')
})

t.test('input that misses the schema is not tried again, whatever is done about failures', async (t) => {
  for (const onHandlerError of ['retry', 'restart'] as const) {
    let handled = 0
    const { team } = teamWithInput(t, () => handled++, { supervision: { onHandlerError } })
    const asking = { recipient: 'ann', content: 'hi', structuredData: {}, requiresResponse: true }
    t.match(await refusalOf(team.sendMessage(asking)), { code: 'MESSAGE_REJECTED' })
    t.equal(handled, 0)
    t.equal(team.health().agents.ann?.restarts, 0)
  }
})

t.test('one that nobody waits for becomes a dead letter', async (t) => {
  const { team } = teamWithInput(t, () => {})
  await team.sendMessage({ recipient: 'ann', content: 'hi', structuredData: {} })
  await team.clock.advance(1)
  t.match(team.deadLetters.list(), [
    { reason: 'failed', message: { content: 'hi' }, errors: [{ code: 'MESSAGE_REJECTED' }] },
  ])
})

t.test('a schema that throws is a failure of its agent', async (t) => {
  const input = {
    '~standard': {
      version: 1 as const,
      vendor: 'test',
      validate(): never {
        throw new TypeError('no schema')
      },
    },
  }
  const team = testTeam(
    { agents: [{ name: 'ann' }], orchestration: { strategy: 'sequential' } },
    { modules: { ann: defineAgent({ input, receive: () => 'hi' }) } },
  )
  t.teardown(() => team.close())
  t.match((await team.execute('hi')).error, { code: 'AGENT_FAILED', message: /TypeError: no schema/ })
})

t.test('a reply to nothing is refused and a dead letter', async (t) => {
  const { team, isWell } = stage(t)
  const reply = { type: 'response' as const, recipient: null, content: SECRET, sender: 'bob' }
  for (const [message, says] of [
    [reply, /correlationId is missing/],
    [{ ...reply, correlationId: 'no-such-message' }, /correlationId no-such-message/],
  ] as const) {
    const error = await refusalOf(team.sendMessage(message))
    t.match(error, { code: 'MESSAGE_REJECTED', details: { path: 'correlationId' } })
    t.match(error.message, says)
    t.match(error.message, /there was none, or it has been answered/)
    t.notMatch(error.message, SECRET)
  }
  t.match(team.deadLetters.list(), [
    { reason: 'late', message: { content: SECRET } },
    { reason: 'late', message: { content: SECRET } },
  ])
  t.ok(await isWell())
})

t.test('a second reply is refused and a dead letter, also when its run is over', async (t) => {
  const { team, isWell } = stage(t)
  const run = team.launch('hi')
  const result = await run.result
  const asked = result.messageHistory.find(({ recipient }) => recipient === 'ann')
  const answered = result.messageHistory.find(({ correlationId }) => correlationId === asked?.id)
  t.equal(answered?.content, 'ann is well')
  const error = await refusalOf(Promise.resolve(team.getAgent('ann')?.receiveMessage(answered as AgentMessage)))
  t.match(error, { code: 'MESSAGE_REJECTED', details: { path: 'correlationId', got: asked?.id } })
  t.match(team.deadLetters.list(), [{ reason: 'late', message: { runId: run.id, content: 'ann is well' } }])
  t.equal((await run.result).finalOutput, 'ann is well')
  t.ok(await isWell())
})

t.test('a reply in the place of the agent that was asked counts, and a second one does not', async (t) => {
  const ann = defineAgent({ receive: async (_message, context) => (await context.request('bob', 'hi')).content })
  const bob = defineAgent({
    receive: (_message, { signal }) => new Promise<string>((end) => signal.addEventListener('abort', () => end('bob'))),
  })
  const team = testTeam(
    { agents: [{ name: 'ann' }, { name: 'bob' }], orchestration: { strategy: 'sequential', agentOrder: ['ann'] } },
    { modules: { ann, bob } },
  )
  t.teardown(() => team.close())
  const run = team.launch('go')
  let asked: AgentMessage | undefined
  for await (const event of run.events({ types: ['message'] }))
    if (event.type === 'message' && event.message.recipient === 'bob') {
      asked = event.message
      break
    }
  const reply = { type: 'response' as const, recipient: null, correlationId: asked?.id ?? '' }
  await team.getAgent('ann')?.receiveMessage({ ...(asked as AgentMessage), ...reply, content: 'from outside' })
  t.equal((await run.result).finalOutput, 'from outside')
  t.match(await refusalOf(team.sendMessage({ ...reply, content: 'again' })), { code: 'MESSAGE_REJECTED' })
  t.match(team.deadLetters.list(), [{ reason: 'late', message: { content: 'again' } }])
})

t.test('who waits for a response hears of the end of the run, or of the time limit', async (t) => {
  const ann = defineAgent({ receive: async (_message, context) => (await context.request('bob', 'hi')).content })
  const bob = defineAgent({ receive: () => new Promise(() => {}) })
  const team = testTeam(
    {
      agents: [{ name: 'ann' }, { name: 'bob' }],
      orchestration: { strategy: 'sequential', agentOrder: ['ann'] },
      globalTimeoutMs: 1_000,
      supervision: { stopGraceMs: 10 },
    },
    { modules: { ann, bob } },
  )
  t.teardown(() => team.close())
  const run = team.launch('go')
  await team.clock.advance(0)
  const message = { recipient: 'bob', content: SECRET, requiresResponse: true }
  const within = refusalOf(team.sendMessage({ ...message, runId: run.id }))
  const alone = refusalOf(team.sendMessage(message))
  await team.clock.advance(0)
  await run.cancel('changed my mind')
  t.match(await within, { code: 'RUN_ABORTED', message: /changed my mind/ })
  await team.clock.advance(1_000)
  t.match(await alone, { code: 'RUN_TIMEOUT', details: { timeoutMs: 1_000 } })
  await team.clock.advance(10) // stopGraceMs
  t.same(
    team.deadLetters.list().map(({ reason, message: { content } }) => [reason, content]),
    [SECRET, 'hi', SECRET].map((content) => ['cancelled', content]),
    'one that waits is taken out at once, one under way has its grace',
  )
})

t.test('an agent is given a message only if it is one', async (t) => {
  const { team, isWell } = stage(t)
  const bob = untyped(team.getAgent('bob')!)
  for (const wrong of [undefined, null, 5, {}, { content: 5 }, { content: 'hi', type: 'ask' }])
    t.match(await refusalOf(() => bob.receiveMessage(wrong)), { code: 'MESSAGE_REJECTED' })
  t.ok(await isWell())
})

function teamWithInput(t: Test, handle: () => unknown, options: object = {}) {
  const ann = defineAgent({
    input: z.object({ by: z.number() }),
    receive({ structuredData }) {
      handle()
      return `by ${structuredData.by}`
    },
  })
  const team = testTeam(
    { agents: [{ name: 'ann' }], orchestration: { strategy: 'sequential' }, ...options },
    { modules: { ann } },
  )
  t.teardown(() => team.close())
  return { team }
}

function isTooLarge(t: Pick<typeof import('tap').default, 'equal' | 'match' | 'notMatch'>, error: Error): void {
  t.match(error, { code: 'MESSAGE_REJECTED', details: { bytes: Number, limit: LIMIT } })
  t.match(
    error.message,
    /^The message (to "\w+" )?is \d+ bytes encoded; at most 4096 are taken .*maxMessageBytes\)\. Send it in/,
  )
  t.notMatch(error.message, SECRET)
}

// What is refused before it is a message is a dead letter all the same, if it was for somebody; but a small one.

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
