/** What a later process says of the runs of earlier ones: the same ids of events, and the same list. */
import { join } from 'node:path'
import t from 'tap'
import type { RuntimeEvent } from '../../src/index.ts'
import { pluck } from '../kit/lists.ts'
import { deskOf, first, type Script } from './desk-team.ts'
import { folderOf } from './log-folders.ts'

const script: Script = async (desk, query) => {
  if (query === 'fails') throw new Error('no')
  if (query === 'ask') return (await desk.request('bob', 'ask really')).content
  return (await desk.request('ann', 'steps of')).content
}

const LONG = 'long '.repeat(100)

t.test('ids of events and the entries of the list are the same in the next process', async (t) => {
  const path = join(folderOf(t), 'log')
  const before = deskOf(t, path, script)
  t.equal(before.logName, undefined, 'the log is not open yet')
  const early = first(before.launch('ask', { runId: 'open' }).events({ after: 'other.5' }), 'reset')
  await first(before.getRun('open')!.events(), 'question')
  t.match(await early, { seq: -1, runId: 'open' }, 'whoever comes before the log is open is told, too')
  const name = before.logName
  t.type(name, 'string')
  await before.execute(LONG, { runId: 'one', threadId: 'talk' })
  await before.execute('fails', { runId: 'two' })
  const events: RuntimeEvent<unknown>[] = []
  for await (const event of before.getRun('one')!.events()) events.push(event)
  const listed = await before.listRuns()
  await before.close()

  const next = deskOf(t, path, script)
  await next.start()
  t.equal(next.logName, name)
  const after = events[Math.floor(events.length / 2)]!.seq
  const late: RuntimeEvent<unknown>[] = []
  for await (const event of next.getRun('one')!.events({ after: `${name}.${after}` })) late.push(event)
  t.same(
    late.map(({ seq, type }) => [seq, type]),
    events.filter(({ seq }) => seq > after).map(({ seq, type }) => [seq, type]),
  )
  const again = await next.listRuns()
  t.match(pluck(again, 'id'), ['two', 'one', 'open'])
  t.same(again.slice(0, 2), listed.slice(0, 2))
  t.match(again[0], { status: 'failed', errorCode: 'AGENT_FAILED', threadId: null })
  t.match(again[1], { status: 'finished', errorCode: null, threadId: 'talk', query: LONG })
  t.match(await next.listRuns({ limit: 1, before: 'two' }), [{ id: 'one', query: LONG }])
})
