/** Rules 17 and 18: every message is accounted for, and what nobody handles is kept. */
import t from 'tap'
import { defineAgent } from '../../src/actors/definition/definition.ts'
import { DeadLetterList } from '../../src/mailbox/dead-letters.ts'
import type { TypedMessage } from '../../src/mailbox/message.ts'
import { pluck } from '../kit/lists.ts'
import { ask, gate, given, heard, never, numbers, type OpenTeam, openTeam, outcomeOf } from '../kit/team.ts'

t.test('rule 17: a message to an unknown agent is a dead letter and an error to its sender', async (t) => {
  const team = openTeam(t, {
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
  const team = given(t, { roles: { worker: { supervision: { maxRestarts: 0 } } } }).team({
    sender: (message, context) =>
      context[message.content === 'ask' ? 'request' : 'send']('worker', 'x').then(
        () => 'sent',
        (error: { code: string }) => error.code,
      ),
    worker: () => '',
  })
  await team.start()
  await team.dies('worker')
  for (const verb of ['ask', 'send']) t.equal(await ask(team, 'sender', verb), 'AGENT_TERMINATED')
  await t.rejects(team.sendMessage({ recipient: 'worker', content: 'x' }), { code: 'AGENT_TERMINATED' })
  t.same(pluck(team.deadLetters.list(), 'reason'), ['stopped', 'stopped', 'stopped'])
})

t.test('rule 17: a send larger than its recipient takes is a dead letter and an error to its sender', async (t) => {
  const handled: number[] = []
  const team = given(t, { roles: { worker: { communication: { maxMessageBytes: 1_000 } } } }).team({
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
  })
  t.equal(await ask(team, 'sender'), 'accepted; MESSAGE_REJECTED, at most 1000; accepted')
  await team.clock.advance(0)
  t.match(team.deadLetters.list(), [{ reason: 'rejected', message: { sender: 'sender', recipient: 'worker' } }])
  t.same(handled, [200, 201])
})

t.test('rule 17: accepted = handled + dead + queued + in flight, with every record', async (t) => {
  const team = given(t, {
    supervision: { maxRestarts: 4, coolDownMs: 100 },
    communication: { mailboxCapacity: 6, queueTimeoutMs: 400, responseTimeoutMs: 150 },
  }).team({
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
  })
  const work = ['fail', 'crash 1', 'sleep 10', 'ask', 'crash 9', 'sleep 300', 'ask', 'crash 1', 'crash 1', 'crash 9']
  for (let round = 0; round < 6; round++)
    for (const content of work) {
      void team.sendMessage({ recipient: 'worker', content, requiresResponse: round % 2 === 0 }).catch(() => {})
      await team.clock.advance(17)
    }
  await team.clock.runToIdle()
  const { accepted, handled, deadLettered } = team.agent('worker').mailbox
  t.ok(handled > 0 && deadLettered > 0)
  t.equal(accepted, handled + deadLettered)
})

t.test('rule 17: what waits for room when its run is aborted is a dead letter', async (t) => {
  const gone = new AbortController()
  const team = given(t, { communication: { mailboxCapacity: 1 } }).team({
    async sender(_message, context) {
      for (const content of numbers(2)) void context.send('worker', content)
      await context.sleep(1_000)
    },
    worker: (_message, context) => context.sleep(1_000),
  })
  const run = team.execute('go', { signal: gone.signal })
  await team.clock.advance(1)
  gone.abort()
  await run
  await team.clock.advance(0)
  const letters = team.deadLetters.list().filter(({ message }) => message.recipient === 'worker')
  t.same(letters.map(({ message, reason }) => `${message.content} ${reason}`).sort(), ['0 cancelled', '1 cancelled'])
})

t.test('rule 17: a message whose handler fails counts as dead, not as handled', async (t) => {
  const team = openTeam(t, {
    worker() {
      throw new Error('no')
    },
  })
  await team.sendMessage({ recipient: 'worker', content: 'note' })
  await t.rejects(ask(team, 'worker'), { code: 'AGENT_FAILED' })
  const { accepted, handled, deadLettered } = team.agent('worker').mailbox
  t.same({ accepted, handled, deadLettered }, { accepted: 2, handled: 1, deadLettered: 1 })
  t.equal(team.deadLetters.list().length, 1)
})

t.test('rule 18: a dead letter keeps the whole message, the reason, the errors and the time', async (t) => {
  const team = openTeam(t, {
    worker() {
      throw new Error('no')
    },
  })
  const events = heard(team, 'message.dead', (event) => event.letter)
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
  t.same(pluck(list.list(), 'id'), ['2', '3', '4'])
  t.equal(list.total, 5)
})

// Rule 18: a dead letter is kept, and can be sent again or thrown away.

/** A worker that fails until it is told otherwise, and what it has heard since. */
function worker() {
  const heard: TypedMessage[] = []
  const state = { fails: true }
  const take = (message: TypedMessage) => {
    if (state.fails) throw new Error('not yet')
    heard.push(message)
  }
  return { state, heard, definition: defineAgent({ receive: take, observe: take }) }
}

const contents = (team: Pick<OpenTeam, 'deadLetters'>) => team.deadLetters.list().map(({ message }) => message.content)
const only = (team: Pick<OpenTeam, 'deadLetters'>) => team.deadLetters.list()[0]!.id

t.test('rule 18: replay sends the message again, as a new one that says of which letter it is', async (t) => {
  const { state, heard, definition } = worker()
  const team = openTeam(t, { worker: definition })
  const fields = { structuredData: { deep: [1] }, metadata: { a: 1 }, priority: 3, threadId: 'thread' }
  await team.sendMessage({ recipient: 'worker', content: 'note', ...fields })
  await team.clock.advance(0)
  const [letter] = team.deadLetters.list()
  state.fails = false
  const { runId } = await team.deadLetters.replay(letter!.id)
  t.same(team.deadLetters.list(), [])
  await team.clock.advance(0)
  t.equal(heard[0]?.runId, runId)
  const metadata = { a: 1, replayOf: letter!.id }
  t.match(heard, [{ ...fields, metadata, type: 'request', sender: '$user', content: 'note', requiresResponse: false }])
  t.not(heard[0]?.id, letter?.id)
})

t.test('rule 18: a letter that dies again is a new letter', async (t) => {
  const { definition } = worker()
  const team = openTeam(t, { worker: definition })
  await team.sendMessage({ recipient: 'worker', content: 'note' })
  await team.clock.advance(0)
  const first = only(team)
  await team.deadLetters.replay(first)
  await team.clock.advance(0)
  t.match(team.deadLetters.list(), [{ reason: 'failed', message: { content: 'note', metadata: { replayOf: first } } }])
  await t.rejects(team.deadLetters.replay(first), { code: 'MESSAGE_REJECTED', details: { path: 'id', got: first } })
})

t.test('rule 18: replay goes into the run of the letter while that is under way, else into its own', async (t) => {
  const { state, heard, definition } = worker()
  const { opened, open } = gate()
  const team = given(t, {
    script: async (script) => {
      await script.send('worker', 'note')
      await opened
      return ''
    },
  }).team({ worker: definition })
  const run = team.launch('go')
  await team.clock.advance(0)
  const first = only(team)
  t.equal((await team.deadLetters.replay(first)).runId, run.id)
  await team.clock.advance(0)
  open()
  await run.result
  state.fails = false
  const [second] = team.deadLetters.list()
  t.equal(second?.message.runId, run.id, 'of the run')
  await team.deadLetters.replay(second!.id)
  await team.clock.advance(0)
  t.match(heard, [{ sender: '$orchestrator', content: 'note', metadata: { replayOf: second?.id } }])
  t.not(heard[0]?.runId, run.id)
})

t.test('rule 18: a request is sent again as a message that nobody waits for', async (t) => {
  const { state, heard, definition } = worker()
  const team = openTeam(t, { worker: definition }, { communication: { queueTimeoutMs: 10 } })
  state.fails = false
  await team.start()
  for (let i = 0; i < 2; i++) {
    await team.dies('worker')
  }
  const asked = outcomeOf(ask(team, 'worker', 'why'))
  await team.clock.advance(10)
  t.equal(asked.error?.code, 'MESSAGE_EXPIRED')
  await team.clock.runToIdle()
  await team.deadLetters.replay(only(team))
  await team.clock.advance(0)
  t.match(heard, [{ content: 'why', requiresResponse: false }])
})

t.test('rule 18: a broadcast is observed again by the one who had not handled it', async (t) => {
  const { state, heard, definition } = worker()
  const team = openTeam(t, { worker: definition, other: () => '' })
  await team.broadcast('hear', '$user')
  await team.clock.advance(0)
  state.fails = false
  await team.deadLetters.replay(only(team))
  await team.clock.advance(0)
  t.match(heard, [{ type: 'broadcast', content: 'hear', recipient: null }])
})

t.test('rule 18: a letter that is refused again stays, and is not there twice', async (t) => {
  let mayStart = true
  const team = given(t, { communication: { mailboxCapacity: 1, overflow: 'reject' } }).team({
    worker: defineAgent({
      start() {
        if (!mayStart) throw new Error('not now')
      },
      receive: () => never,
    }),
  })
  await team.sendMessage({ recipient: 'worker', content: 'first' })
  await t.rejects(team.sendMessage({ recipient: 'worker', content: 'second' }))
  const [letter] = team.deadLetters.list()
  const events: string[] = []
  await team.clock.advance(0)
  team.events.subscribe(({ type }) => events.push(type))
  await t.rejects(team.deadLetters.replay(letter!.id), { code: 'MAILBOX_FULL' })
  t.same(team.deadLetters.list(), [letter])
  mayStart = false
  await team.dies('worker')
  await t.rejects(team.deadLetters.replay(letter!.id), { code: 'AGENT_TERMINATED' })
  t.same(contents(team), ['second', 'first'])
  t.equal(events.filter((type) => type === 'message.dead').length, 1, 'the first, when its agent was stopped')
})

t.test('rule 18: a letter that waits for room stays, and is not sent twice meanwhile', async (t) => {
  const team = given(t, { communication: { mailboxCapacity: 1 }, supervision: { maxRestarts: 0 } }).team({
    worker(message) {
      if (message.content === 'busy') return never
      throw new Error('no')
    },
  })
  await team.sendMessage({ recipient: 'worker', content: 'note' })
  await team.clock.advance(0)
  await team.sendMessage({ recipient: 'worker', content: 'busy' })
  const id = only(team)
  const again = outcomeOf(team.deadLetters.replay(id))
  await team.clock.advance(0)
  t.notOk(again.settled)
  await t.rejects(team.deadLetters.replay(id), { code: 'MESSAGE_REJECTED', message: /it is being sent again/ })
  await team.dies('worker') // which stops it
  t.equal(again.error?.code, 'AGENT_TERMINATED')
  t.same(contents(team), ['note', 'busy'])
})

t.test('rule 18: what cannot be sent again says why, and stays', async (t) => {
  const team = openTeam(t, { asker: () => '', worker: () => '' }, { communication: { maxMessageBytes: 1_500 } })
  const cases: Record<string, () => Promise<unknown>> = {
    'has not kept all of it \\(content\\)': () => team.sendMessage({ recipient: 'worker', content: 'x'.repeat(2_000) }),
    '"nobody" is no agent of this team': () => team.sendMessage({ recipient: 'nobody', content: 'x' }),
    'for several agents': () =>
      team.sendMessage({ recipient: ['worker', 'asker'], content: 'x', requiresResponse: true }),
    'a response that comes by itself': () =>
      team.sendMessage({ type: 'response', sender: 'worker', recipient: 'asker', content: 'x', correlationId: 'none' }),
  }
  for (const [why, refused] of Object.entries(cases)) {
    await t.rejects(refused())
    const id = team.deadLetters.list().at(-1)!.id
    await t.rejects(team.deadLetters.replay(id), {
      code: 'MESSAGE_REJECTED',
      message: new RegExp(`cannot be sent again: .*${why}`),
      details: { got: id },
    })
  }
  t.equal(team.deadLetters.list().length, 4)
})

t.test('rule 18: discard takes a letter off the list; an unknown one is an error', async (t) => {
  const { definition } = worker()
  const team = openTeam(t, { worker: definition })
  for (const content of ['a', 'b']) await team.sendMessage({ recipient: 'worker', content })
  await team.clock.advance(0)
  const id = only(team)
  team.deadLetters.discard(id)
  t.same(contents(team), ['b'])
  t.match(team.health(), { deadLetters: 1, deadLettersForgotten: 0 })
  t.throws(() => team.deadLetters.discard(id), { code: 'MESSAGE_REJECTED', details: { path: 'id', got: id } })
  await t.rejects(team.deadLetters.replay(id), { code: 'MESSAGE_REJECTED', details: { path: 'id', got: id } })
})

t.test('rule 18: after close letters can be listed and discarded, and not sent again', async (t) => {
  const { definition } = worker()
  const team = openTeam(t, { worker: definition })
  await team.sendMessage({ recipient: 'worker', content: 'a' })
  await team.clock.advance(0)
  await team.close()
  await t.rejects(team.deadLetters.replay(only(team)), { code: 'TEAM_CLOSED' })
  t.same(contents(team), ['a'])
  team.deadLetters.discard(only(team))
  t.same(contents(team), [])
})

t.test('rule 18: each letter has an id of its own, also where a message has several', async (t) => {
  const team = openTeam(t, { worker: () => never })
  const { frames, journal } = team.host
  const { deadLetters } = journal
  const run = team.host.runs.open('run', '')
  const { memory } = frames.make({ kind: 1, recipient: team.agent('worker').index, run: run.index })
  for (const reason of ['expired', 'late'] as const) team.host.journal.deadLetter(run, memory, 0, reason, [])
  t.equal(new Set(deadLetters.list().map(({ id }) => id)).size, 2)
})
