/** Messages that nobody handles, and those that nobody wants any more: every one is accounted for. */
import t from 'tap'
import type { AgentContext } from '../../src/actors/definition/context.ts'
import { defineAgent } from '../../src/actors/definition/definition.ts'
import { EarlyAborts } from '../../src/actors/thread/replies.ts'
import { Channel } from '../../src/mailbox/channel.ts'
import { DeadLetterList } from '../../src/mailbox/dead-letters.ts'
import { ASKS, REQUEST, turnOf } from '../../src/mailbox/frame.ts'
import type { Envelope } from '../../src/mailbox/mailbox.ts'
import type { TypedMessage } from '../../src/mailbox/message.ts'
import { ORCHESTRATOR_INDEX } from '../../src/runtime/host/directory.ts'
import { HostFrames } from '../../src/runtime/log/host-frames.ts'
import { CancelledError, type DramatisError } from '../../src/shared/errors.ts'
import { virtualClock } from '../../src/testing.ts'
import { leftovers } from '../kit/accounts.ts'
import { BareSupervisor } from '../kit/bare-supervisor.ts'
import { pluck } from '../kit/lists.ts'
import {
  ask,
  gate,
  given,
  heard,
  never,
  numbers,
  type OpenTeam,
  openTeam,
  outcomeOf,
  type Receive,
} from '../kit/team.ts'
import { frameOf } from '../mailbox/frames.ts'

// Rules 17 and 18: every message is accounted for, and what nobody handles is kept.

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

// What nobody wants any more is withdrawn, down the chain.

/** Notes why its turn is told to stop. */
function stops(told: string[]): Receive {
  return async (_message, context) => {
    await context.sleep(100_000).catch(({ code }: DramatisError) => told.push(`${context.role.name}: ${code}`))
  }
}

/** Passes the request on to that agent. */
const passesTo =
  (next: string): Receive =>
  async ({ content }, context) =>
    (await context.request(next, content)).content

/** Asks, and withdraws it when the test says so. */
function withdraws(to: string, codes: string[]) {
  const withdrawal = new AbortController()
  const caller: Receive = async (_message, context) => {
    await context.request(to, 'go', { signal: withdrawal.signal }).catch(({ code }: DramatisError) => codes.push(code))
    return codes.join()
  }
  return { caller, withdraw: () => withdrawal.abort(new Error('not wanted any more')) }
}

t.test('a request that is withdrawn takes the whole chain behind it along', async (t) => {
  const told: string[] = []
  const { caller, withdraw } = withdraws('b', [])
  const team = openTeam(t, { caller, b: passesTo('c'), c: passesTo('d'), d: passesTo('e'), e: stops(told) })
  const asked = outcomeOf(ask(team, 'caller'))
  await team.clock.advance(10)
  withdraw()
  await team.clock.advance(0)
  t.equal(asked.value, 'CANCELLED')
  t.same(told, ['e: CANCELLED'])
})

t.test('a chain whose last request waits in a queue is taken out of it', async (t) => {
  const told: string[] = []
  const { opened, open } = gate()
  const { caller, withdraw } = withdraws('b', [])
  const team = openTeam(t, {
    caller,
    b: passesTo('c'),
    c: passesTo('d'),
    async d({ content }) {
      told.push(content)
      await opened
    },
  })
  const held = ask(team, 'd', 'first')
  const asked = outcomeOf(ask(team, 'caller'))
  await team.clock.advance(10)
  withdraw()
  await team.clock.advance(0)
  t.equal(asked.value, 'CANCELLED')
  open()
  await held
  await team.clock.advance(0)
  t.same(told, ['first'])
})

t.test('a chain whose last request waits for room, or stands in line behind others, is withdrawn there', async (t) => {
  const told: string[] = []
  const { opened, open } = gate()
  const { caller, withdraw } = withdraws('b', [])
  const team = given(t, { roles: { d: { communication: { mailboxCapacity: 1 } } } }).team({
    caller,
    b: passesTo('c'),
    async c(_message, context) {
      const sends = ['1', '2', '3'].map((content) => context.send('d', content))
      const requests = ['4', '5'].map((content) => context.request('d', content))
      await Promise.all([...sends, ...requests])
    },
    async d({ content }) {
      told.push(content)
      await opened
    },
  })
  const held = ask(team, 'd', 'first')
  const asked = outcomeOf(ask(team, 'caller'))
  await team.clock.advance(10)
  withdraw()
  await team.clock.advance(0)
  t.equal(asked.value, 'CANCELLED')
  open()
  await held
  await team.clock.advance(0)
  t.same(told, ['first'])
})

t.test('a withdrawal follows the chain through an agent that is between two lives', async (t) => {
  const told: string[] = []
  const { caller, withdraw } = withdraws('b', [])
  const team = given(t, { supervision: { backoff: { baseMs: 5_000, capMs: 5_000 } } }).team({
    caller,
    b: passesTo('c'),
    c: passesTo('d'),
    d: stops(told),
  })
  const asked = outcomeOf(ask(team, 'caller'))
  await team.clock.advance(10)
  team.crash('b')
  await team.clock.advance(10)
  team.crash('b')
  await team.clock.advance(10)
  t.equal(team.getAgentStatus('b'), 'restarting')
  withdraw()
  await team.clock.advance(0)
  t.equal(asked.value, 'CANCELLED')
  t.same(told, ['d: CANCELLED'])
  await team.clock.advance(10_000)
})

t.test('a verb that the host is busy with for a turn between two lives ends with it', async (t) => {
  const { caller, withdraw } = withdraws('b', [])
  const team = given(t, {
    unfinished: true,
    enableBlackboard: true,
    supervision: { backoff: { baseMs: 5_000, capMs: 5_000 } },
    script: async (script) => {
      await script.request('caller', 'go')
      return never // the run goes on
    },
  }).team({ caller, b: async (_message, context) => void (await context.blackboard.waitFor('never')) })
  const run = team.launch('go')
  await team.clock.advance(10)
  for (let deaths = 0; deaths < 2; deaths++) {
    team.crash('b')
    await team.clock.advance(10)
  }
  t.equal(team.agent('b').calls.size, 1)
  withdraw()
  await team.clock.advance(0)
  t.equal(run.status, 'running')
  t.equal(team.agent('b').calls.size, 0)
})

t.test('what a redelivered turn does not ask for again is withdrawn when it ends', async (t) => {
  const told: string[] = []
  const team = openTeam(t, {
    async worker(_message, context) {
      if (context.attempt > 1) return 'another way'
      return (await context.request('b', 'go')).content
    },
    b: passesTo('c'),
    c: stops(told),
  })
  const asked = outcomeOf(ask(team, 'worker'))
  await team.clock.advance(10)
  team.crash('worker')
  await team.clock.advance(10)
  t.equal(asked.value, 'another way')
  t.same(told, ['c: CANCELLED'])
})

t.test('a death takes along what its message, given up for good, had asked of others', async (t) => {
  const told: string[] = []
  const team = given(t, { supervision: { poisonAttempts: 1 } }).team({
    worker: passesTo('b'),
    b: passesTo('c'),
    c: stops(told),
  })
  const asked = outcomeOf(ask(team, 'worker'))
  await team.clock.advance(10)
  team.crash('worker')
  await team.clock.advance(10)
  t.equal(asked.error?.code, 'AGENT_CRASHED')
  t.same(told, ['c: CANCELLED'])
})

t.test('a timeout and the end of a run follow the chain like a withdrawal', async (t) => {
  const told: string[] = []
  const cast = {
    async caller(_message: unknown, context: AgentContext) {
      await context.request('b', 'go', { timeoutMs: 50 }).catch(({ code }: DramatisError) => told.push(code))
      await context.request('b', 'again').catch(() => {})
    },
    b: passesTo('c'),
    c: passesTo('d'),
    d: stops(told),
  }
  const team = openTeam(t, cast)
  const run = team.launch('go')
  await team.clock.advance(60)
  t.same(told.sort(), ['REQUEST_TIMEOUT', 'd: CANCELLED'])
  await run.cancel('enough')
  await team.clock.advance(0)
  t.same(told.sort(), ['REQUEST_TIMEOUT', 'd: CANCELLED', 'd: RUN_ABORTED'])
})

t.test('the losers of requestAny and requestQuorum take their chains along', async (t) => {
  const told: string[] = []
  const team = openTeam(t, {
    async caller({ content }, context) {
      if (content === 'any') await context.requestAny(['quick', 'b', 'e'], 'go')
      else await context.requestQuorum(['b', 'quick', 'other', 'e'], 2, 'go')
      return 'decided'
    },
    quick: () => 'quick',
    other: async (_message, context) => void (await context.sleep(5)),
    b: passesTo('c'),
    c: passesTo('d'),
    d: stops(told),
    e: passesTo('f'),
    f: stops(told),
  })
  for (const content of ['any', 'quorum']) {
    const asked = outcomeOf(ask(team, 'caller', content))
    await team.clock.advance(10)
    t.equal(asked.value, 'decided')
  }
  // Of requestAny they may have been caught before they began.
  t.same(told.slice(-2).sort(), ['d: CANCELLED', 'f: CANCELLED'])
})

t.test('who waits for a permit in a chain gives its place up', async (t) => {
  const told: string[] = []
  const { caller, withdraw } = withdraws('b', told)
  const cast = { caller, b: passesTo('c'), c: passesTo('d'), d: stops(told), other: () => 'in' }
  const bare = new BareSupervisor(cast, [], { maxConcurrentAgents: 1 })
  await bare.start()
  const asked = outcomeOf(bare.ask('caller'))
  await bare.clock.advance(10)
  withdraw()
  await bare.clock.advance(10)
  t.ok(asked.settled)
  t.equal(await bare.ask('other'), 'in')
  t.same(leftovers(bare.host), [])
})

for (const [size, length] of [
  ['small', 10],
  ['larger than a window, so that it waits for room in the outbox', 2_000_000],
] as const)
  t.test(`a request that is withdrawn in the same step reaches nobody: ${size}`, async (t) => {
    let heard = 0
    const team = openTeam(t, {
      async caller(_message, context) {
        for (let i = 0; i < 10; i++) {
          const withdrawal = new AbortController()
          const response = context.request('b', 'x'.repeat(length), { signal: withdrawal.signal })
          withdrawal.abort()
          await response.catch(() => {})
        }
        return (await context.request('b', 'last')).content
      },
      b({ content }) {
        heard += 1
        return content
      },
    })
    t.equal(await ask(team, 'caller'), 'last')
    t.equal(heard, 1)
    t.equal(team.deadLetters.list().length, 10)
  })

t.test('a turn that is withdrawn and does not know it yet gets nothing done any more', async (t) => {
  const done: string[] = []
  const { caller, withdraw } = withdraws('worker', done)
  const bare = new BareSupervisor(
    {
      caller,
      async worker(_message, context) {
        await context.sleep(50) // a timer of its own: it learns of the withdrawal later
        await Promise.allSettled([context.request('b', 'go'), context.ask('And now?')])
      },
      b: () => void done.push('b works'),
    },
    [],
  )
  bare.host.calls.register([['ask', async () => void done.push('a person is asked')]])
  await bare.start()
  const asked = outcomeOf(bare.ask('caller'))
  await bare.clock.advance(10)
  bare.threads.get('worker')!.ailments.add('deaf')
  withdraw()
  await bare.clock.advance(100)
  t.ok(asked.settled)
  t.same(done, ['CANCELLED'])
  bare.threads.get('worker')!.ailments.delete('deaf')
  bare.threads.get('worker')!.wake()
  await bare.clock.advance(0)
  t.same(done, ['CANCELLED'])
  t.same(leftovers(bare.host), [])
})

// Aborts and their turns pass each other: one for a turn that is to begin counts, one for a turn that is over is
// forgotten.

const reason = new CancelledError('not wanted any more', {})

/** The aborts of a life whose window holds the messages of that many turns, from 1 on. */
function lifeWith(lane: 'plain' | 'ranked', turns: number) {
  const channel = new Channel()
  const aborts = new EarlyAborts(channel)
  const frames = new HostFrames(virtualClock())
  const envelopes = new Map<number, Pick<Envelope<unknown>, 'turn' | 'ring' | 'ringAt' | 'ringEnd'>>()
  for (let turn = 1; turn <= turns; turn++) {
    const { memory, bytes } = frameOf({ turn })
    const ringAt = channel[lane].reserve(bytes)
    channel[lane].copy(memory.u8, 0, bytes)
    envelopes.set(turn, { turn, ring: lane, ringAt: ringAt, ringEnd: channel[lane].written })
  }
  channel[lane].publish()
  /** As the thread takes the next message. */
  const take = () => {
    const at = channel[lane].peek()
    const turn = turnOf(channel[lane].memory, at)
    channel[lane].take(at)
    channel[lane].release()
    return turn
  }
  const abort = (turn: number) => {
    const { memory } = frames.abort(1, envelopes.get(turn) as Envelope<unknown>, reason)
    aborts.keep(turn, reason, memory, 0)
  }
  return { aborts, take, abort }
}

for (const lane of ['plain', 'ranked'] as const) {
  t.test(`an abort is kept for a turn that has not begun, and for no other (${lane})`, async (t) => {
    const { aborts, take, abort } = lifeWith(lane, 100)
    for (let turn = 1; turn <= 50; turn++) t.equal(take(), turn)
    for (let turn = 1; turn <= 100; turn++) abort(turn)
    t.equal(aborts.size, 50)
    t.equal(aborts.take(50), undefined)
    for (let turn = 51; turn <= 100; turn++) t.equal(aborts.take(turn), reason)
    t.equal(aborts.size, 0)
  })
}

t.test('one of a turn that ran within another one is never kept: it came behind its message', async (t) => {
  const { aborts } = lifeWith('plain', 0)
  const { memory } = new HostFrames(virtualClock()).abort(
    1,
    { turn: 1, ring: 'replies', ringAt: 0, ringEnd: 0x7fff_ffff } as Envelope<unknown>,
    reason,
  )
  aborts.keep(1, reason, memory, 0)
  t.equal(aborts.size, 0)
})

t.test('an abort that comes while its turn begins counts', async (t) => {
  const { aborts, take, abort } = lifeWith('plain', 1)
  aborts.beginning = take()
  abort(1)
  t.equal(aborts.take(1), reason)
})

for (const priority of [0, 1, -1]) {
  for (const length of [1, 20_000, 200_000]) {
    t.test(`a message of priority ${priority} with ${length} bytes withdrawn in the window never begins`, async (t) => {
      const { opened, open } = gate()
      const got: string[] = []
      const team = openTeam(t, {
        async asker(_message, context) {
          await context.send('worker', 'hold')
          await context.sleep(10)
          const withdrawal = new AbortController()
          const options = { priority, signal: withdrawal.signal }
          const asked = context.request('worker', 'x'.repeat(length), options).catch(({ code }) => code)
          await context.send('worker', 'behind', { priority })
          await context.sleep(10)
          withdrawal.abort()
          const code = await asked
          await context.sleep(10)
          open()
          return String(code)
        },
        async worker({ content }) {
          if (content === 'hold') await opened
          got.push(content.slice(0, 6))
        },
      })
      const run = team.execute('go')
      await team.clock.runToIdle()
      t.equal((await run).finalOutput, 'CANCELLED')
      t.same(got, ['hold', 'behind'])
    })
  }
}

// Chains of requests that are longer than a stack is deep: each turn waits for the next one.

const DEPTH = 5_000

/** Two agents that are at such a chain of turns; the first request is the script's. */
function deepChain() {
  const role = { communication: { mailboxCapacity: DEPTH, mailboxBytes: DEPTH * 1_000 } }
  const bare = new BareSupervisor({ ann: () => never, bob: () => never }, [], { roles: { ann: role, bob: role } })
  const { host, run } = bare
  const agents = [host.directory.agent('ann')!, host.directory.agent('bob')!]
  const script = host.directory.byIndex[ORCHESTRATOR_INDEX]!
  let [caller, turn] = [script, 0]
  for (let n = 1; n <= DEPTH; n++) {
    const callee = agents[n % 2]!
    const fields = { sender: caller.index, recipient: callee.index, run: run.index, turn, correlation: n }
    const { memory, bytes } = host.frames.make({ kind: REQUEST, ...fields, content: `${n}`, flags: ASKS })
    host.journal.appendOwned(run, memory, bytes)
    host.admission.message({ sender: caller, run, memory, at: 0 })
    const { envelope } = caller.open.get(n)!
    callee.mailbox.hand(envelope)
    caller = callee
    turn = envelope.turn
  }
  return { host, agents, script }
}

t.test('a chain that is withdrawn at its beginning is withdrawn to its end', async (t) => {
  const { host, agents, script } = deepChain()
  const turns = agents.flatMap(({ mailbox }) => [...mailbox.handed.values()])
  host.cancellation.cancel(script, 1, undefined)
  t.equal(turns.length, DEPTH)
  t.ok(turns.every(({ cancelled }) => cancelled))
  t.ok([script, ...agents].every(({ open }) => open.size === 0))
})
