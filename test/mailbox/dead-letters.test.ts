import t from 'tap'
import { MailboxFullError } from '../../src/errors.ts'
import { decodeMessage } from '../../src/mailbox/codec.ts'
import { type DeadLetter, DeadLetterList } from '../../src/mailbox/dead-letters.ts'
import { directory, frameOf } from './frames.ts'

const letter = (id: string): DeadLetter => ({
  id,
  message: decodeMessage(frameOf({ content: id }).memory, 0, directory),
  reason: 'rejected',
  errors: [new MailboxFullError('full')],
  at: 1,
})

t.test('a dead letter is listed as it was added', async (t) => {
  const list = new DeadLetterList()
  const added = letter('a')
  list.add(added)
  t.same(list.list(), [added])
  t.equal(list.total, 1)
})

t.test('the oldest go when the list is full, and are still counted', async (t) => {
  const list = new DeadLetterList(3)
  for (const id of ['a', 'b', 'c', 'd', 'e']) list.add(letter(id))
  t.same(
    list.list().map(({ id }) => id),
    ['c', 'd', 'e'],
  )
  t.equal(list.total, 5)
})

t.test('a list that was given out is not the list itself', async (t) => {
  const list = new DeadLetterList()
  list.add(letter('a'))
  list.list().pop()
  t.equal(list.list().length, 1)
})

t.test('10,000 are kept', async (t) => {
  const list = new DeadLetterList()
  const one = letter('a')
  for (let i = 0; i < 10_100; i++) list.add(one)
  t.equal(list.list().length, 10_000)
  t.equal(list.total, 10_100)
})
