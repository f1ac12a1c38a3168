/** What a run's log gives up because it is full is written over; what somebody still needs of it is not. */
import t from 'tap'
import { type Cast, gate, localTeam } from './teams.ts'

const PIECE = 100_000 // the log copies it; what is larger has memory of its own
const PIECES = 1_000 // a log keeps 64 MiB

t.test('a message that waits all the while its run fills the log comes as it was sent', async (t) => {
  const { opened, open } = gate()
  const got: string[] = []
  const team = localTeam(t, {
    sender: async (_message, context) => {
      const flood = async (count: number) => {
        for (let i = 0; i < count; i++) await context.request('sink', 'x'.repeat(PIECE))
      }
      await context.send('slow', 'message 0')
      await flood(40) // the log's memory grows with it
      for (let i = 1; i < 5; i++) await context.send('slow', `message ${i}`)
      await flood(PIECES)
      open()
      await context.request('slow', 'the last')
    },
    sink: () => {},
    slow: async ({ content }) => {
      got.push(content)
      await opened
    },
  })
  const run = team.launch('go')
  t.ok((await run.result).success, 'the run succeeded')
  t.same(got, ['message 0', 'message 1', 'message 2', 'message 3', 'message 4', 'the last'])
  t.equal(run.messageHistory[0]?.id, 'log.forgotten', 'and the log was full')
})

t.test('what the instances of an agent are at is kept too, and is whole when it dies', async (t) => {
  const { opened, open } = gate()
  const agents: Cast = {
    sender: async (_message, context) => {
      for (const content of ['left', 'right']) {
        for (let i = 0; i < 40; i++) await context.request('sink', 'x'.repeat(PIECE)) // elsewhere in the log's memory
        await context.send('pair', content)
      }
      for (let i = 0; i < PIECES; i++) await context.request('sink', 'x'.repeat(PIECE))
      open()
    },
    sink: () => {},
    pair: async () => {
      await opened
      throw new Error('not today')
    },
  }
  const team = localTeam(t, agents, { roles: { pair: { instances: 2 } } })
  t.ok((await team.execute('go')).success, 'the run succeeded')
  await team.clock.advance(1)
  const dead = team.deadLetters.list().map(({ message }) => message.content)
  t.same(dead.sort(), ['left', 'right'])
})
