/** What a line of the digest is made with: tables of the rows that came, and the numbers of messages by their ids. */
import t from 'tap'
import { LineTable } from '../../src/runtime/digest/line-table.ts'
import { RecentNumbers } from '../../src/runtime/digest/recent-numbers.ts'

t.test('a table has the rows that were written, whether they are more or fewer than before', async (t) => {
  const table = new LineTable('n', 'at')
  for (const rows of [3, 5, 2, 2_500, 1, 4]) {
    for (let row = 0; row < rows; row++) {
      table.columns.n[row] = row
      table.columns.at[row] = row * 2
      table.rows += 1
    }
    const taken = table.take()!
    t.same(
      taken.n,
      Array.from({ length: rows }, (_, row) => row),
    )
    t.same(
      taken.at,
      Array.from({ length: rows }, (_, row) => row * 2),
    )
  }
  t.equal(table.take(), undefined, 'a table without rows is none')
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
