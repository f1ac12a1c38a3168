/** What a line of the digest is made with: tables of the rows that came, and the numbers of messages by their ids. */
import t from 'tap'
import { LineTable, RecentNumbers } from '../../src/runtime/views/line-table.ts'
import { listsOf } from '../../src/service/digest/columns.ts'
import { seededRandom } from '../../src/shared/random.ts'

/** Returns the columns of a table with that many rows, as they stand in a line. */
function written<Name extends string>(table: LineTable<Name>, rows: number, row: (at: number) => Record<Name, number>) {
  for (let at = 0; at < rows; at++) {
    const place = table.add()
    for (const [name, value] of Object.entries<number>(row(at))) table.first[name as Name][place] = value
  }
  return table.take()
}

t.test('a table has the rows that were written, whether they are more or fewer than before', async (t) => {
  const table = new LineTable(['odd', 'same', 'mixed'])
  const random = seededRandom([1, 2, 3, 4])
  for (const rows of [3, 5, 2, 2_500, 9_000, 1, 4, 700]) {
    const mixed = Array.from({ length: rows }, () => Math.floor(random() * 3 - 1) * 2 ** 31)
    const line = written(table, rows, (at) => ({ odd: at * 2 + 1, same: 7, mixed: mixed[at]! | 0 }))!
    t.equal(line.rows, rows)
    const lists = listsOf(JSON.parse(JSON.stringify(line)) as typeof line)
    const odd = Array.from({ length: rows }, (_, at) => at * 2 + 1)
    t.same(lists, { odd, same: odd.map(() => 7), mixed: mixed.map((value) => value | 0) })
  }
  t.equal(table.take(), undefined, 'a table without rows is none')
})

t.test('what goes on by equal steps is told in short', async (t) => {
  const table = new LineTable(['n', 'at', 'turn', 'bytes'])
  const line = written(table, 1_000, (row) => ({
    n: row < 600 ? row : 2_000 - 2 * row,
    at: Math.floor(row / 250),
    turn: 9,
    bytes: (row * row) % 97,
  }))!
  t.match(line, {
    rows: 1_000,
    n: { runs: [0, 1, 600, 800, -2, 400] },
    at: { runs: [0, 0, 250, 1, 0, 250, 2, 0, 250, 3, 0, 250] },
    turn: 9,
  })
  t.equal((line.bytes as number[]).length, 1_000, 'what would be longer so is a list')
})

t.test('stretches of rows are as their rows', async (t) => {
  const table = new LineTable(['n', 'at'])
  const random = seededRandom([4, 3, 2, 1])
  for (let lines = 0; lines < 200; lines++) {
    const [n, at]: [number[], number[]] = [[], []]
    const stretches = 1 + Math.floor(random() * 40)
    for (let stretch = 0; stretch < stretches; stretch++) {
      const rows = 1 + Math.floor(random() * (lines % 2 ? 3 : 30))
      const step = rows === 1 ? 0 : Math.floor(random() * 3) - 1
      const first = Math.floor(random() * 4)
      const place = table.add()
      table.first.n[place] = first
      if (rows > 1) table.steps.n[table.lengthen(rows)] = step
      table.first.at[place] = -(first & 1)
      for (let row = 0; row < rows; row++) {
        n.push(first + row * step)
        at.push(-(first & 1))
      }
    }
    t.equal(table.rows, n.length)
    const line = table.take()!
    t.same(listsOf(JSON.parse(JSON.stringify(line)) as typeof line), { n, at })
    t.ok(JSON.stringify(line).length <= JSON.stringify({ rows: n.length, n, at }).length, 'and shorter, if anything')
  }
})

t.test('a number that needs more than 32 bits is in the line as it is', async (t) => {
  const thirtyDays = -30 * 24 * 3_600_000
  const line = written(new LineTable(['start']), 3_000, (row) => ({ start: row % 1_450 === 1 ? thirtyDays : 5 * row }))!
  const start = Array.from({ length: 3_000 }, (_, row) => (row % 1_450 === 1 ? thirtyDays : 5 * row))
  t.same(listsOf(line), { start })
})

t.test('numbers of many sources are found by their ids, and the oldest are forgotten first', async (t) => {
  const numbers = new RecentNumbers()
  t.equal(numbers.get(0, 0, 0), -1)
  let number = 0
  for (let serial = 0; serial < 5_000; serial++)
    for (let source = 1; source <= 4; source++) numbers.set(serial, -serial, source << 14, number++)
  for (let serial = 0; serial < 5_000; serial += 7)
    for (let source = 1; source <= 4; source++)
      t.equal(numbers.get(serial, -serial, source << 14), serial * 4 + source - 1)
  for (let serial = 5_000; serial < 50_000; serial++) numbers.set(serial, -serial, 1 << 14, number++)
  t.equal(numbers.get(0, 0, 2 << 14), -1, 'it is forgotten')
  t.equal(numbers.get(49_999, -49_999, 1 << 14), number - 1)
})
