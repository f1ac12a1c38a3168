/** What a run's log gives up because it is full is written over; what somebody still needs of it is not. */
import t from 'tap'
import { localTeam } from './teams.ts'

const PIECE = 100_000 // the log copies it; what is larger has memory of its own
const PIECES = 1_000 // a log keeps 64 MiB

t.test('a message that waits all the while its run fills the log comes as it was sent', async (t) => {
  let open = () => {}
  const opened = new Promise<void>((resolve) => {
    open = resolve
  })
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
