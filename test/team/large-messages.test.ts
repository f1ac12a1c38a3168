/** Messages larger than the rings that they go through: they go in parts. */
import t from 'tap'
import { localTeam } from '../kit/team.ts'

const MIB = 2 ** 20

t.test('an answer larger than the ring of replies arrives', async (t) => {
  const team = localTeam(t, {
    asker: async (_message, context) => `${(await context.request('writer', 'go')).content.length}`,
    writer: () => 'x'.repeat(MIB),
  })
  t.match(await team.execute('go'), { finalOutput: `${MIB}` })
})

t.test('it arrives also while a large message waits for the same agent', async (t) => {
  const team = localTeam(t, {
    asker: async ({ content }, context) =>
      content === 'go' ? `${(await context.request('writer', 'go')).content.length}` : '',
    async writer(_message, context) {
      await context.send('asker', 'y'.repeat(800_000))
      await context.request('other', 'go') // by then the first parts of that message fill the ring of messages
      return 'x'.repeat(MIB)
    },
    other: () => '',
  })
  t.match(await team.execute('go'), { finalOutput: `${MIB}` })
})
