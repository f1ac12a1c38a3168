import t from 'tap'
import { decodeMessage } from '../../src/mailbox/codec.ts'
import { type DeadLetter, DeadLetterList } from '../../src/mailbox/dead-letters.ts'
import { MailboxFullError } from '../../src/shared/errors.ts'
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
  list.add(added, 64)
  t.same(list.list(), [added])
  t.equal(list.total, 1)
})

t.test('the oldest go when the list is full, and are still counted', async (t) => {
  const list = new DeadLetterList(3)
  for (const id of ['a', 'b', 'c', 'd', 'e']) list.add(letter(id), 64)
  t.same(
    list.list().map(({ id }) => id),
    ['c', 'd', 'e'],
  )
  t.equal(list.total, 5)
  t.equal(list.forgotten, 2)
})

t.test('so they do when the letters are too large together', async (t) => {
  const list = new DeadLetterList(10, 300)
  for (const id of ['a', 'b', 'c', 'd']) list.add(letter(id), 100)
  const ids = () => list.list().map(({ id }) => id)
  t.same(ids(), ['b', 'c', 'd'])
  t.equal(list.forgotten, 1)
  list.add(letter('large'), 1_000)
  t.same(ids(), ['large'], 'the newest stays, whatever its size')
  list.add(letter('e'), 100)
  t.same(ids(), ['e'])
  t.equal(list.forgotten, 5)
})

t.test('a list that was given out is not the list itself', async (t) => {
  const list = new DeadLetterList()
  list.add(letter('a'), 64)
  list.list().pop()
  t.equal(list.list().length, 1)
})

t.test('10,000 are kept', async (t) => {
  const list = new DeadLetterList()
  const one = letter('a')
  for (let i = 0; i < 10_100; i++) list.add({ ...one, id: `${i}` }, 64)
  t.equal(list.list().length, 10_000)
  t.equal(list.total, 10_100)
})

t.test('a letter that was taken out makes room, and is not among the forgotten', async (t) => {
  const list = new DeadLetterList(10, 300)
  for (const id of ['a', 'b', 'c']) list.add(letter(id), 100)
  t.equal(list.get('b')?.id, 'b')
  t.ok(list.delete('b'))
  t.notOk(list.delete('b'))
  list.add(letter('d'), 100)
  t.same([list.list().map(({ id }) => id), list.total, list.forgotten], [['a', 'c', 'd'], 4, 0])
})
