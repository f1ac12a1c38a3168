/** How far a rehearsal is: one line on a terminal, nothing elsewhere. */
import t from 'tap'
import { countOn } from '../../src/service/rehearsal/job.ts'
import { fakeScreen } from './fake-team.ts'

const terminal = { columns: 80, rows: 24 }

t.test('a terminal shows how many runs were played, and how many are not done', async (t) => {
  const { screen, text } = fakeScreen(terminal)
  const count = await countOn(screen, { TERM: 'xterm' })
  count.show(3, 10, 1)
  t.match(text(), '3 of 10 runs, 1 of them not done')
  count.print('a line that stays\n')
  t.match(text(), /a line that stays\n$/)
  count.end()
  count.end()
})

t.test('a pipe, and a terminal that cannot move its cursor, get what stays alone', async (t) => {
  for (const [size, TERM] of [
    [undefined, 'xterm'],
    [terminal, 'dumb'],
  ] as const) {
    const { screen, text } = fakeScreen(size)
    const count = await countOn(screen, { TERM })
    count.show(3, 10, 1)
    count.print('a line\n')
    count.end()
    t.equal(text(), 'a line\n')
  }
})
