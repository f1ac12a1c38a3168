/** What comes again in a sequence: from one key to eight, and how often. */
import t from 'tap'
import { cycleIn, NO_SEQUENCE, type Sequence, withKey } from '../../src/actors/definition/assignment.ts'

const sequenceOf = (keys: string): Sequence => [...keys].reduce((last, key) => withKey(last, key), NO_SEQUENCE)
const cycleOf = (keys: string, least = 3) => cycleIn(sequenceOf(keys), () => least)

t.test('the shortest cycle at the end of a sequence is found, and how often it came', async (t) => {
  t.same(cycleOf('xaaa'), { length: 1, times: 3 })
  t.same(cycleOf('ababab'), { length: 2, times: 3 })
  t.same(cycleOf('xxabcabcabc'), { length: 3, times: 3 })
  t.same(cycleOf('abcdefgh'.repeat(3)), { length: 8, times: 3 })
})

t.test('a cycle that is not whole yet, or was broken, is none', async (t) => {
  t.equal(cycleOf('aa'), undefined)
  t.equal(cycleOf('ababa'), undefined)
  t.equal(cycleOf('aaxaa'), undefined)
  t.equal(cycleOf('abcdefghi'.repeat(4)), undefined, 'of nine')
})

t.test('what is kept does not grow with the sequence', async (t) => {
  const { last, same } = sequenceOf('abc'.repeat(500))
  t.equal(last.length, 8)
  t.equal(same.length, 8)
})
