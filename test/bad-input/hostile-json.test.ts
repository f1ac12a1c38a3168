/** JSON of a thread that is made to end or to hold the host: nested deep, or large where a line of a log is due. */
import t from 'tap'
import type { RuntimeEvent } from '../../src/index.ts'
import { CALL, END, LOG, REQUEST, SEND } from '../../src/mailbox/frame.ts'
import { where } from '../kit/lists.ts'
import { hostileTeam } from './raw-thread.ts'

const deep = `${'['.repeat(20_000)}${']'.repeat(20_000)}`
const deepObject = `${'{"a":'.repeat(20_000)}1${'}'.repeat(20_000)}`

t.test(
  'JSON that is nested 20,000 levels deep hurts neither host nor who reads the events and the result',
  async (t) => {
    for (const data of [deep, deepObject]) {
      const stage = hostileTeam(t)
      const events: RuntimeEvent[] = []
      stage.team.events.subscribe((event) => void events.push(event))
      await stage.team.start()
      const { run, turn, result } = await stage.turn()
      const fields = { run, turn, data, metadata: data }
      stage.thread.send({ kind: SEND, recipient: stage.index('ann'), content: 'psst', ...fields })
      stage.thread.send({
        kind: REQUEST,
        type: 'request',
        recipient: stage.index('bob'),
        correlation: 5,
        content: 'well?',
        ...fields,
      })
      stage.thread.send({ kind: CALL, correlation: 6, content: 'blackboard.write', run, turn, data })
      stage.thread.send({ kind: CALL, correlation: 7, content: 'tool', run, turn, data })
      stage.thread.send({ kind: LOG, limit: 1, content: 'a line', run, turn, data })
      stage.thread.send({ kind: END, type: 'response', content: 'done', ...fields })
      t.same(await stage.ailments(), [])
      t.match(result.value, { finalOutput: 'done' })
      t.ok(JSON.stringify(result.value).length > 0)
      t.ok(JSON.stringify(events).length > 0)
      t.match(where(stage.heard, 'content', 'psst'), [{ structuredData: null, metadata: {} }])
    }
  },
)

t.test('fields of a log are a plain object and no other JSON, and so are too large ones left out', async (t) => {
  const stage = hostileTeam(t)
  await stage.team.start()
  const { run, turn } = await stage.turn()
  const line = (content: string, data: string) => stage.thread.send({ kind: LOG, limit: 2, content, run, turn, data })
  line('a text', JSON.stringify('x'.repeat(100)))
  line('a list', '[1,2,3]')
  line('an object', '{"a":1}')
  line('a large one', JSON.stringify({ a: 'x'.repeat(100_000) }))
  line('y'.repeat(100_000), '{}')
  await stage.team.clock.advance(0)
  const said = stage.lines.filter((fields) => 'agent' in fields && fields.agent === 'mallory')
  t.strictSame(
    said.map((fields) => Object.keys(fields).sort()),
    [
      ['agent', 'level', 'runId', 'text'],
      ['agent', 'level', 'runId', 'text'],
      ['a', 'agent', 'level', 'runId', 'text'],
      ['agent', 'leftOut', 'level', 'runId', 'text'],
      ['agent', 'level', 'runId', 'text'],
    ],
  )
  t.match(said[4], { text: /^y{65536} \[34464 more\]$/ })
})
