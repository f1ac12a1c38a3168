import assert from 'node:assert/strict'
import fc from 'fast-check'
import t from 'tap'
import { Board } from '../../src/blackboard/board.ts'
import type { BlackboardEntry } from '../../src/blackboard/entry.ts'
import { MessageRejectedError } from '../../src/shared/errors.ts'

const startBoard = () => new Board({ onCallbackError: () => {} })

t.test('history has all versions of a key, the oldest first', async (t) => {
  const board = startBoard()
  for (const [at, value] of ['x', 'y', 'z'].entries()) {
    board.write('ann', 'a', value, 'fact', {}, at)
    board.write('bob', 'b', value, 'fact', {}, at)
  }
  t.same(
    board.getHistory('a').map(({ version, value }) => [version, value]),
    [
      [1, 'x'],
      [2, 'y'],
      [3, 'z'],
    ],
  )
})

t.test('a key that nobody wrote has no history', async (t) => {
  t.same(startBoard().getHistory('a'), [])
})

t.test("changing the list of a history does not change the board's", async (t) => {
  const board = startBoard()
  board.write('ann', 'a', 1, 'fact', {}, 1)
  board.getHistory('a').pop()
  t.equal(board.getHistory('a').length, 1)
})

t.test('the board can be read as of any revision', async (t) => {
  const board = startBoard()
  board.write('ann', 'a', 1, 'fact', {}, 1)
  board.write('ann', 'b', 2, 'fact', { supersedes: 'a' }, 2)
  board.write('ann', 'a', 3, 'fact', {}, 3)
  const snapshots = [0, 1, 2, 3].map((revision) => board.at(revision).snapshot())
  t.same(snapshots, [{}, { a: 1 }, { b: 2 }, { b: 2, a: 3 }])
})

t.test('a view of an earlier revision stays as it is while the board goes on', async (t) => {
  const board = startBoard()
  board.write('ann', 'a', 1, 'fact', {}, 1)
  const view = board.at(1)
  board.write('ann', 'a', 2, 'fact', {}, 2)
  t.match([view.revision, view.size, view.read('a')], [1, 1, { value: 1 }])
})

t.test('entries of an earlier revision are the same objects, not copies', async (t) => {
  const board = startBoard()
  const first = board.write('ann', 'a', { large: 'value' }, 'fact', {}, 1)
  board.write('ann', 'a', 2, 'fact', {}, 2)
  t.equal(board.at(1).read('a'), first)
})

t.test('a board of many keys is rebuilt like a small one', async (t) => {
  const board = startBoard()
  const keys = Array.from({ length: 200 }, (_, index) => `k.${index}`)
  for (const key of keys) board.write('ann', key, 1, 'fact', {}, 0)
  for (const key of keys) board.write('ann', key, 2, 'fact', {}, 0)
  for (const revision of [0, 1, 63, 64, 65, 127, 128, 129, 200]) {
    const expected = keys.slice(0, revision).map((key) => `${key} v1`)
    t.same(
      board
        .at(revision)
        .query()
        .map(({ key, version }) => `${key} v${version}`),
      expected,
    )
    t.equal(board.at(revision).size, revision)
  }
})

for (const revision of [-1, 2, 0.5, Number.NaN]) {
  t.test(`there is no revision ${revision} after one write`, async (t) => {
    const board = startBoard()
    board.write('ann', 'a', 1, 'fact', {}, 1)
    t.throws(() => board.at(revision), { code: 'MESSAGE_REJECTED', details: { path: 'revision' } })
  })
}

/** The board as one would write it down naively: all writes again from the start, in plain maps. */
function naive(writes: BlackboardEntry[]) {
  const entries = new Map<string, BlackboardEntry>()
  const superseded = new Set<string>()
  for (const entry of writes) {
    entries.delete(entry.key) // so that the map is in order of the last write
    entries.set(entry.key, entry)
    superseded.delete(entry.key)
    if (entry.supersedes !== null) superseded.add(entry.supersedes)
  }
  return { entries, query: [...entries.values()].filter((entry) => !superseded.has(entry.key)) }
}

const KEYS = ['a', 'b', 'c.d', '__proto__', '1']
const anyKey = fc.constantFrom(...KEYS)
const anyOptions = fc.oneof(
  { weight: 6, arbitrary: fc.record({ references: fc.array(anyKey, { maxLength: 2 }) }) },
  { weight: 3, arbitrary: fc.record({ supersedes: anyKey }) },
  { weight: 1, arbitrary: fc.record({ ifVersion: fc.nat(2) }) },
)
const anyWrite = fc.record({
  author: fc.constantFrom('ann', 'bob'),
  key: anyKey,
  value: fc.jsonValue({ maxDepth: 2 }),
  entryType: fc.constantFrom('fact', 'guess'),
  options: anyOptions,
})

/** A board after random writes, and those of them that it took. What it refused must have left no trace. */
const anyBoard = fc.array(anyWrite, { maxLength: 40 }).map((writes) => {
  const board = startBoard()
  const taken: BlackboardEntry[] = []
  for (const [at, { author, key, value, entryType, options }] of writes.entries()) {
    try {
      taken.push(board.write(author, key, value, entryType, options, at))
    } catch (error) {
      if (!(error instanceof MessageRejectedError)) throw error
    }
  }
  return { board, taken }
})

t.test('history is complete, whatever is written', async () => {
  fc.assert(
    fc.property(anyBoard, ({ board, taken }) => {
      for (const key of KEYS) {
        const expected = taken.filter((entry) => entry.key === key)
        assert.deepEqual(board.getHistory(key), expected)
        assert.deepEqual(
          expected.map((entry) => entry.version),
          [...expected.keys()].map((index) => index + 1),
        )
      }
    }),
  )
})

t.test('the board as of any revision is what the writes up to it make', async () => {
  fc.assert(
    fc.property(anyBoard, ({ board, taken }) => {
      assert.equal(board.revision, taken.length)
      for (let revision = 0; revision <= taken.length; revision++) {
        const view = board.at(revision)
        const { entries, query } = naive(taken.slice(0, revision))
        assert.deepEqual(view.query(), query)
        assert.equal(view.size, entries.size)
        for (const key of KEYS) assert.deepEqual(view.read(key), entries.get(key))
      }
    }),
  )
})
