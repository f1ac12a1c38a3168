/** Large parts in what a service writes: told by reference, in each message and event that has them. */
import t from 'tap'
import { hashOf } from '../../src/mailbox/stored-parts.ts'
import { toldEvent } from '../../src/runtime/runs/told-events.ts'
import { resultText } from '../../src/service/shared/json-text.ts'
import { localTeam } from '../kit/team.ts'

const large = { type: 'image', data: new Uint8Array(100_000).fill(7), mediaType: 'image/png', name: 'sea.png' } as const
const small = { type: 'image', data: 'data:image/png;base64,AQID' } as const
const told = { type: 'image', mediaType: 'image/png', name: 'sea.png', hash: hashOf(large.data), bytes: 100_000 }

t.test('a result as text has large parts by reference, and small ones whole', async (t) => {
  const team = localTeam(t, {
    ann: async ({ parts }, context) => (await context.request('ben', 'look', { parts })).content,
    ben: () => 'seen',
  })
  const result = await team.execute([{ type: 'text', text: 'look' }, large, small])
  const text = resultText(result)
  const shown = JSON.parse(text).messageHistory.flatMap(({ parts = [] }) => parts)
  t.match(shown, [{ type: 'text' }, told, small, { type: 'text' }, told, small])
  t.ok(text.length < 50_000)
})

t.test('the event of a dead letter has them by reference', async (t) => {
  const team = localTeam(t, {
    ann: async (_message, context) => {
      await context.send('ben', 'look', { parts: [large] })
      return 'sent'
    },
    ben: () => {
      throw new Error('no ink')
    },
  })
  const run = team.launch('go')
  const events: string[] = []
  for await (const event of run.events({ types: ['message.dead'] })) events.push(JSON.stringify(toldEvent(event)))
  t.equal(events.length, 1)
  t.match(events[0], JSON.stringify(told))
  t.ok(events[0]!.length < 10_000)
})
