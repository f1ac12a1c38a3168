/** Rule 18: a dead letter is kept, and can be sent again or thrown away. */
import t from 'tap'
import { defineAgent } from '../../src/actors/definition/definition.ts'
import type { TypedMessage } from '../../src/mailbox/message.ts'
import { leftovers, watchAccounts } from './accounts.ts'
import { ask, gate, localTeam, never, type OpenTeam, openTeam, outcomeOf } from './teams.ts'

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
  const found = watchAccounts(team.host)
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
  t.same([found, leftovers(team.host)], [[], []])
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

t.test(
  'rule 18: replay goes into the run of the letter while that is under way, else into one of its own',
  async (t) => {
    const { state, heard, definition } = worker()
    const { opened, open } = gate()
    const team = openTeam(
      t,
      { worker: definition },
      {
        orchestration: {
          strategy: 'custom',
          async run(script) {
            await script.send('worker', 'note')
            await opened
            return ''
          },
        },
      },
    )
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
    t.same(leftovers(team.host), [])
  },
)

t.test('rule 18: a request is sent again as a message that nobody waits for', async (t) => {
  const { state, heard, definition } = worker()
  const team = openTeam(t, { worker: definition }, { communication: { queueTimeoutMs: 10 } })
  state.fails = false
  await team.start()
  for (let i = 0; i < 2; i++) {
    team.crash('worker')
    await team.clock.advance(0)
  }
  const asked = outcomeOf(ask(team, 'worker', 'why'))
  await team.clock.advance(10)
  t.equal(asked.error?.code, 'MESSAGE_EXPIRED')
  await team.clock.runToIdle()
  await team.deadLetters.replay(only(team))
  await team.clock.advance(0)
  t.match(heard, [{ content: 'why', requiresResponse: false }])
  t.same(leftovers(team.host), [])
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
  const team = openTeam(
    t,
    {
      worker: defineAgent({
        start() {
          if (!mayStart) throw new Error('not now')
        },
        receive: () => never,
      }),
    },
    { communication: { mailboxCapacity: 1, overflow: 'reject' } },
  )
  const found = watchAccounts(team.host)
  await team.sendMessage({ recipient: 'worker', content: 'first' })
  await t.rejects(team.sendMessage({ recipient: 'worker', content: 'second' }))
  const [letter] = team.deadLetters.list()
  const events: string[] = []
  await team.clock.advance(0)
  team.events.subscribe(({ type }) => events.push(type))
  await t.rejects(team.deadLetters.replay(letter!.id), { code: 'MAILBOX_FULL' })
  t.same(team.deadLetters.list(), [letter])
  mayStart = false
  team.crash('worker')
  await team.clock.advance(0)
  await t.rejects(team.deadLetters.replay(letter!.id), { code: 'AGENT_TERMINATED' })
  t.same(contents(team), ['second', 'first'])
  t.equal(events.filter((type) => type === 'message.dead').length, 1, 'the first, when its agent was stopped')
  t.same(found, [])
})

t.test('rule 18: a letter that waits for room stays, and is not sent twice meanwhile', async (t) => {
  const team = openTeam(
    t,
    {
      worker(message) {
        if (message.content === 'busy') return never
        throw new Error('no')
      },
    },
    { communication: { mailboxCapacity: 1 }, supervision: { maxRestarts: 0 } },
  )
  const found = watchAccounts(team.host)
  await team.sendMessage({ recipient: 'worker', content: 'note' })
  await team.clock.advance(0)
  await team.sendMessage({ recipient: 'worker', content: 'busy' })
  const id = only(team)
  const again = outcomeOf(team.deadLetters.replay(id))
  await team.clock.advance(0)
  t.notOk(again.settled)
  await t.rejects(team.deadLetters.replay(id), { code: 'MESSAGE_REJECTED', message: /it is being sent again/ })
  team.crash('worker') // which stops it
  await team.clock.advance(0)
  t.equal(again.error?.code, 'AGENT_TERMINATED')
  t.same(contents(team), ['note', 'busy'])
  t.same(found, [])
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
  const team = localTeam(t, { worker: definition })
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
  const team = localTeam(t, { worker: definition })
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
  const { memory } = frames.make({ kind: 1, recipient: team.host.directory.cell('worker')!.index, run: run.index })
  for (const reason of ['expired', 'late'] as const) team.host.journal.deadLetter(run, memory, 0, reason, [])
  t.equal(new Set(deadLetters.list().map(({ id }) => id)).size, 2)
})
