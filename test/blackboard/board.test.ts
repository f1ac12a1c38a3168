import t from 'tap'
import { Board } from '../../src/blackboard/board.ts'
import type { WriteOptions } from '../../src/blackboard/entry.ts'
import { MessageRejectedError } from '../../src/shared/errors.ts'
import { pluck } from '../kit/lists.ts'

function startBoard() {
  const board = new Board({
    onCallbackError: (error) => {
      throw error
    },
  })
  let clock = 0
  const write = (key: string, value: unknown = null, options: WriteOptions = {}, author = 'ann', entryType = 'fact') =>
    board.write(author, key, value, entryType, options, ++clock)
  return { board, write }
}

t.test('an entry carries all that its writer said', async (t) => {
  const { board } = startBoard()
  board.write('bob', 'old', 1, 'guess', {}, 10)
  const options = { confidence: 0.5, supersedes: 'old', references: ['paper.3'] }
  board.write('ann', 'new', { rows: 3 }, 'fact', options, 20)
  t.same(board.read('new'), {
    key: 'new',
    value: { rows: 3 },
    author: 'ann',
    timestamp: 20,
    entryType: 'fact',
    confidence: 0.5,
    supersedes: 'old',
    references: ['paper.3'],
    version: 1,
  })
})

t.test('an entry without options is certain and rests on nothing', async (t) => {
  const { write } = startBoard()
  t.match(write('a'), { confidence: 1, supersedes: null, references: [] })
})

t.test('versions count from 1 for each key', async (t) => {
  const { write } = startBoard()
  t.same(pluck([write('a'), write('a'), write('b')], 'version'), [1, 2, 1])
})

t.test('an entry is frozen through and through', async (t) => {
  const { board } = startBoard()
  const value = { list: [{ deep: 1 }] }
  const entry = board.write('ann', 'a', value, 'fact', { references: ['b'] }, 1)
  for (const part of [entry, entry.references, value, value.list, value.list[0]]) t.ok(Object.isFrozen(part))
})

t.test("the writer's list of references stays the writer's own", async (t) => {
  const { write } = startBoard()
  const references = ['b']
  const entry = write('a', 1, { references })
  references.push('c')
  t.same(entry.references, ['b'])
})

t.test('a reference may name a key that is not there yet', async (t) => {
  const { write } = startBoard()
  t.same(write('a', 1, { references: ['later'] }).references, ['later'])
})

t.test('a key that nobody wrote reads as undefined', async (t) => {
  t.equal(startBoard().board.read('nobody'), undefined)
})

t.test('a key may be called like a part of JavaScript', async (t) => {
  const { board, write } = startBoard()
  t.equal(board.read('constructor'), undefined)
  for (const key of ['__proto__', 'constructor']) write(key, key)
  t.same(Object.entries(board.snapshot()), [
    ['__proto__', '__proto__'],
    ['constructor', 'constructor'],
  ])
  t.equal(board.at(1).read('__proto__')?.value, '__proto__')
})

t.test('revision counts the writes and size the keys', async (t) => {
  const { board, write } = startBoard()
  t.same([board.revision, board.size], [0, 0])
  for (const key of ['a', 'a', 'b']) write(key)
  t.same([board.revision, board.size], [3, 2])
})

t.test('query lists entries in the order in which they were last written', async (t) => {
  const { board, write } = startBoard()
  for (const key of ['a', 'b', 'c', 'a']) write(key)
  t.same(pluck(board.query(), 'key'), ['b', 'c', 'a'])
})

t.test('query keeps what equals the filter in every field', async (t) => {
  const { board, write } = startBoard()
  write('a', 1, {}, 'ann', 'fact')
  write('b', 2, {}, 'bob', 'fact')
  write('c', 3, {}, 'bob', 'guess')
  const keys = (filter: object) => board.query(filter).map((entry) => entry.key)
  t.same(keys({ entryType: 'fact' }), ['a', 'b'])
  t.same(keys({ author: 'bob' }), ['b', 'c'])
  t.same(keys({ author: 'bob', entryType: 'fact' }), ['b'])
  t.same(keys({ key: 'c' }), ['c'])
  t.same(keys({ key: 'c', author: 'ann' }), [])
  t.same(keys({ key: 'nobody' }), [])
})

t.test('snapshot gives the newest value of each key', async (t) => {
  const { board, write } = startBoard()
  write('a', 1)
  write('a', { rows: 2 })
  write('b', null)
  t.same(board.snapshot(), { a: { rows: 2 }, b: null })
})

t.test('a superseded entry is left out of query and snapshot', async (t) => {
  const { board, write } = startBoard()
  write('guess', 1)
  write('fact', 2, { supersedes: 'guess' })
  t.same(pluck(board.query(), 'key'), ['fact'])
  t.same(board.snapshot(), { fact: 2 })
})

t.test('a superseded entry can be read, queried by key and found in its history', async (t) => {
  const { board, write } = startBoard()
  write('guess', 1)
  write('fact', 2, { supersedes: 'guess' })
  t.equal(board.read('guess')?.value, 1)
  t.equal(board.query({ key: 'guess' })[0]?.value, 1)
  t.equal(board.getHistory('guess').length, 1)
  t.equal(board.size, 2)
})

t.test('a superseded key that is written anew holds again', async (t) => {
  const { board, write } = startBoard()
  write('guess', 1)
  write('fact', 2, { supersedes: 'guess' })
  write('guess', 3)
  t.same(board.snapshot(), { fact: 2, guess: 3 })
})

t.test('a superseded entry stays out when the one that replaced it is rewritten', async (t) => {
  const { board, write } = startBoard()
  write('guess', 1)
  write('fact', 2, { supersedes: 'guess' })
  write('fact', 3)
  t.same(board.snapshot(), { fact: 3 })
})

t.test('of two entries that supersede each other the newer holds', async (t) => {
  const { board, write } = startBoard()
  write('a', 1)
  write('b', 2, { supersedes: 'a' })
  write('a', 3, { supersedes: 'b' })
  t.same(board.snapshot(), { a: 3 })
})

t.test('an entry cannot supersede itself', async (t) => {
  const { write } = startBoard()
  write('a')
  t.throws(() => write('a', 1, { supersedes: 'a' }), { code: 'MESSAGE_REJECTED', details: { path: 'supersedes' } })
})

t.test('an entry cannot supersede a key that nobody wrote', async (t) => {
  const { write } = startBoard()
  t.throws(() => write('a', 1, { supersedes: 'nobody' }), { message: '"a" cannot supersede "nobody": there is no' })
})

t.test('a write at the expected version is taken', async (t) => {
  const { write } = startBoard()
  t.equal(write('a', 1, { ifVersion: 0 }).version, 1)
  t.equal(write('a', 2, { ifVersion: 1 }).version, 2)
})

t.test('a stale write is refused with both versions and who wrote the newer one', async (t) => {
  const { board, write } = startBoard()
  write('a', 1, {}, 'ann')
  write('a', 2, {}, 'bob')
  t.throws(() => write('a', 3, { ifVersion: 1 }, 'ann'), {
    code: 'MESSAGE_REJECTED',
    message: '"a" is at version 2, written by "bob"; "ann" expected version 1. Read it again and decide anew.',
    details: { key: 'a', expected: 1, actual: 2, author: 'bob' },
  })
  t.equal(board.read('a')?.value, 2)
})

t.test('a write that wants the key to be new is refused when it is there', async (t) => {
  const { write } = startBoard()
  write('a')
  t.throws(() => write('a', 1, { ifVersion: 0 }), { code: 'MESSAGE_REJECTED', details: { expected: 0, actual: 1 } })
})

t.test('a write that expects a version of a key that nobody wrote is refused', async (t) => {
  const { write } = startBoard()
  t.throws(() => write('a', 1, { ifVersion: 2 }), {
    code: 'MESSAGE_REJECTED',
    details: { expected: 2, actual: 0, author: null },
  })
})

t.test('a refused write leaves no trace', async (t) => {
  const { board, write } = startBoard()
  const seen: string[] = []
  board.subscribe('**', (entry) => seen.push(entry.key))
  t.throws(() => write('a', 1, { ifVersion: 7 }), MessageRejectedError)
  t.same([board.revision, board.size, board.getHistory('a'), seen], [0, 0, [], []])
})

t.test('a key of 256 characters is taken', async (t) => {
  t.equal(startBoard().write('k'.repeat(256)).version, 1)
})

// As JSON from outside has them, where no compiler has looked.
const slips: [string, { key?: string; entryType?: string; options?: string }][] = [
  ['key', { key: '""' }],
  ['key', { key: '7' }],
  ['key', { key: JSON.stringify('k'.repeat(257)) }],
  ['entryType', { entryType: '""' }],
  ['entryType', { entryType: 'null' }],
  ['confidence', { options: '{ "confidence": 1.01 }' }],
  ['confidence', { options: '{ "confidence": -0.1 }' }],
  ['confidence', { options: '{ "confidence": "1" }' }],
  ['references', { options: '{ "references": "b" }' }],
  ['references[1]', { options: '{ "references": ["b", 7] }' }],
  ['supersedes', { options: '{ "supersedes": 7 }' }],
  ['ifVersion', { options: '{ "ifVersion": 0.5 }' }],
  ['ifVersion', { options: '{ "ifVersion": -1 }' }],
  ['ifVersion', { options: '{ "ifVersion": "1" }' }],
]
for (const [path, { key = '"a"', entryType = '"fact"', options = '{}' }] of slips) {
  t.test(`a wrong ${path} is refused: ${[key, entryType, options].join(', ').slice(0, 50)}`, async (t) => {
    const { board } = startBoard()
    const write = () => board.write('ann', JSON.parse(key), 1, JSON.parse(entryType), JSON.parse(options), 1)
    t.throws(write, { code: 'MESSAGE_REJECTED', message: / must be /, details: { path } })
  })
}

t.test('a confidence that is no number is refused', async (t) => {
  t.throws(() => startBoard().write('a', 1, { confidence: Number.NaN }), {
    message: 'The confidence of "a" must be a number from 0 to 1, not NaN.',
  })
})
