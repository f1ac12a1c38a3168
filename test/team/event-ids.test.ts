/** Ids of events: a reader goes on behind one, and is told where it cannot. */
import t from 'tap'
import { defineAgent, type RuntimeEvent } from '../../src/index.ts'
import { pluck } from '../kit/lists.ts'
import { after, all, echo, stage } from './stage.ts'

const typesOf = (events: readonly RuntimeEvent<unknown>[]) => events.map(({ type }) => type)

t.test('a reader goes on behind an id', async (t) => {
  const team = stage(t, { a: echo })
  const run = team.launch('q')
  const events = await all(run.events())
  for (const [at, { seq }] of events.slice(0, -1).entries())
    t.same(await all(run.events({ after: `${team.logName}.${seq}` })), events.slice(at + 1))
})

t.test('who comes back behind the end gets nothing more, whatever turns end later', async (t) => {
  const team = stage(t, { a: after(60_000) })
  const run = team.launch('q')
  await team.clock.advance(5)
  await run.cancel()
  const events = await all(run.events())
  t.equal(events.at(-1)?.type, 'run.finished')
  await team.clock.advance(5)
  const { seq } = events.at(-1)!
  for (const place of [seq, seq + 8, seq + 16]) t.same(await all(run.events({ after: place, follow: false })), [])
  t.same(await all(run.events({ after: seq })), [], 'a reader that follows ends, too')
})

t.test('an id of another log is told as reset, and all events follow', async (t) => {
  const team = stage(t, { a: echo })
  const other = stage(t, { a: echo })
  t.not(team.logName, other.logName, 'two teams with the same seed have two logs')
  const run = team.launch('q')
  const events = await all(run.events())
  const [reset, ...rest] = await all(run.events({ after: `${other.logName}.${events[2]!.seq}` }))
  t.match(reset, { type: 'reset', seq: -1, runId: run.id })
  t.same(rest, events)
})

t.test('an id that the log has not given yet is no place in it', async (t) => {
  const team = stage(t, { a: echo })
  const run = team.launch('q')
  await run.result
  t.equal(typesOf(await all(run.events({ after: `${team.logName}.999999` })))[0], 'reset')
})

t.test('what the log has given up is told as a gap, to who begins and to who is slow', async (t) => {
  const large = 'x'.repeat(2 ** 20)
  const sends = defineAgent({
    async receive(_message, context) {
      for (let i = 0; i < 80; i++) await context.send('b', large)
      return 'sent'
    },
  })
  const team = stage(
    t,
    { a: sends, b: defineAgent({ receive: () => {} }) },
    {
      communication: { mailboxBytes: 2 ** 30 },
      orchestration: { strategy: 'custom', run: async (desk) => (await desk.request('a', 'go')).content },
    },
  )
  const run = team.launch('q')
  const slow = run.events()[Symbol.asyncIterator]()
  const first = await slow.next()
  await run.result
  const seen: RuntimeEvent[] = [first.value]
  for (let next = await slow.next(); !next.done; next = await slow.next()) seen.push(next.value)
  const late = await all(run.events())
  const gaps = seen.filter(({ type }) => type === 'gap')
  t.equal(gaps.length, 1)
  t.equal(late[0]?.type, 'gap')
  t.ok(late[0]?.type === 'gap' && late[0].entries > 10)
  t.same(
    pluck(seen.slice(seen.indexOf(gaps[0]!) + 1), 'seq'),
    pluck(late.slice(1), 'seq'),
    'both go on with the oldest event that is there',
  )
  const seqs = seen.map(({ seq }) => seq)
  t.same(
    seqs,
    [...seqs].sort((a, b) => a - b),
    'seq ascends over the gap',
  )
  t.same(await all(run.events({ after: `${team.logName}.${late[0]?.seq}` })), late.slice(1), 'a gap has an id too')
  t.notOk(typesOf(await all(run.events({ types: ['run.finished'] }))).includes('gap'), 'types leaves it out')
})

for (const after of ['', 'abc', 'abc.', '.5', 'a.b.5', 'abc.1.5', 1.5, Number.NaN, -2, 'abc.99999999999999999999', {}])
  t.test(`${JSON.stringify(after)} is no place in the events`, async (t) => {
    const team = stage(t, { a: echo })
    const run = team.launch('q')
    await t.rejects(all(run.events({ after: after as string })), {
      code: 'CONFIGURATION',
      details: { path: 'after' },
    })
  })
