/** Each row of docs/explanation/trust.md names the tests that show it, and their files are there. */
import { existsSync, readFileSync } from 'node:fs'
import t from 'tap'

const page = readFileSync('docs/explanation/trust.md', 'utf8') // tests are started in the project's folder

/** Files that a row names in its last cell. */
const testsIn = (row: string) =>
  [
    ...row
      .split('|')
      .at(-2)!
      .matchAll(/`([^`]+)`/g),
  ].map(([, name]) => `test/${name}.test.ts`)

/** Of the tables by actor, without their heads. */
function rows(): string[] {
  const [, ...sections] = page.split(/^## /m)
  return sections.flatMap((section) =>
    section.split('\n').filter((line) => line.startsWith('|') && !/^\| (threat|-)/.test(line)),
  )
}

t.test('each row says what is done, and which tests show it', async (t) => {
  t.ok(rows().length > 40)
  t.same(
    rows().filter((row) => row.split('|').length !== 6 || testsIn(row).length === 0),
    [],
  )
})

t.test('each test is there', async (t) => {
  const missing = rows()
    .flatMap(testsIn)
    .filter((file) => !existsSync(file))
  t.same(missing, [])
})
