/** Boards: their entries, their history, and what they hold as a tree of short lists. */

import assert from 'node:assert/strict'
import fc from 'fast-check'
import { applyPatches, type Draft, enablePatches, produceWithPatches } from 'immer'
import t from 'tap'
import { allOf, Board, countOf, putStanding, Standing, type Standings, standingAt } from '../../src/blackboard/board.ts'
import type { BlackboardEntry, WriteOptions } from '../../src/blackboard/entry.ts'
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

const historyStartBoard = () => new Board({ onCallbackError: () => {} })

t.test('history has all versions of a key, the oldest first', async (t) => {
  const board = historyStartBoard()
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
  t.same(historyStartBoard().getHistory('a'), [])
})

t.test("changing the list of a history does not change the board's", async (t) => {
  const board = historyStartBoard()
  board.write('ann', 'a', 1, 'fact', {}, 1)
  board.getHistory('a').pop()
  t.equal(board.getHistory('a').length, 1)
})

t.test('the board can be read as of any revision', async (t) => {
  const board = historyStartBoard()
  board.write('ann', 'a', 1, 'fact', {}, 1)
  board.write('ann', 'b', 2, 'fact', { supersedes: 'a' }, 2)
  board.write('ann', 'a', 3, 'fact', {}, 3)
  const snapshots = [0, 1, 2, 3].map((revision) => board.at(revision).snapshot())
  t.same(snapshots, [{}, { a: 1 }, { b: 2 }, { b: 2, a: 3 }])
})

t.test('a view of an earlier revision stays as it is while the board goes on', async (t) => {
  const board = historyStartBoard()
  board.write('ann', 'a', 1, 'fact', {}, 1)
  const view = board.at(1)
  board.write('ann', 'a', 2, 'fact', {}, 2)
  t.match([view.revision, view.size, view.read('a')], [1, 1, { value: 1 }])
})

t.test('entries of an earlier revision are the same objects, not copies', async (t) => {
  const board = historyStartBoard()
  const first = board.write('ann', 'a', { large: 'value' }, 'fact', {}, 1)
  board.write('ann', 'a', 2, 'fact', {}, 2)
  t.equal(board.at(1).read('a'), first)
})

t.test('a board of many keys is rebuilt like a small one', async (t) => {
  const board = historyStartBoard()
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
    const board = historyStartBoard()
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
  const board = historyStartBoard()
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

// What a board holds as a tree of short lists: where each key is, and what a write copies.

enablePatches()

const standing = (revision: number) => new Standing({ key: `k.${revision}` } as BlackboardEntry, revision)

/** As many keys, each at the place of its number. */
function filled(keys: number): Standings {
  const standings: Draft<Standings> = []
  for (let slot = 0; slot < keys; slot += 1) putStanding(standings, slot, standing(slot))
  return standings
}

/** Of all lists that are others than before, how much is in them. */
function copied(before: unknown, after: unknown): number {
  if (before === after || !Array.isArray(after)) return 0
  return after.reduce(
    (sum: number, each, at) => sum + copied((before as unknown[] | undefined)?.[at], each),
    after.length,
  )
}

t.test('a write copies little, however many keys there are', async (t) => {
  for (const keys of [1_000, 300_000]) {
    const standings = filled(keys)
    for (const slot of [0, keys / 2, keys]) {
      const [after] = produceWithPatches(standings, (draft) => putStanding(draft, slot, standing(slot)))
      t.ok(copied(standings, after) <= 4 * 32, `${copied(standings, after)} of ${keys} keys, at ${slot}`)
    }
  }
})

// around the places where a list of each level is full
for (const keys of [0, 1, 31, 32, 33, 1_023, 1_024, 1_025, 32_767, 32_768, 32_769])
  t.test(`of ${keys} keys each is at its place, and a write can be taken back`, async (t) => {
    const standings = filled(keys)
    t.equal(countOf(standings), keys)
    t.ok(allOf(standings).every(({ revision }, at) => revision === at))
    t.ok(allOf(standings).every((each, at) => standingAt(standings, at) === each))
    for (const slot of [-1, keys, keys + 1, keys + 40_000]) t.equal(standingAt(standings, slot), undefined)
    const added = standing(keys)
    const [after, , inverse] = produceWithPatches(standings, (draft) => putStanding(draft, keys, added))
    t.equal(standingAt(after, keys), added)
    t.equal(countOf(after), keys + 1)
    const back = applyPatches(after, inverse)
    t.equal(countOf(back), keys)
    t.equal(standingAt(back, keys), undefined)
    t.equal(standingAt(back, keys - 1), standingAt(standings, keys - 1))
  })
