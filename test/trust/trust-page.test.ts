/** What docs/explanation/trust.md names is there: each row has tests, by their titles, and the files and titles are those of tests. */
import { existsSync, readFileSync } from 'node:fs'
import t from 'tap'
import { hasTest } from '../test-titles.ts'

const page = readFileSync('docs/explanation/trust.md', 'utf8') // tests are started in the project's folder

/** Links of a text that lead to tests. */
const testsIn = (text: string) =>
  [...text.matchAll(/\[([^\]]+)\]\(\.\.\/\.\.\/(test\/[^)]+)\)/g)].map(([, title, file]) => ({
    title: title!,
    file: file!,
  }))

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
  const missing = testsIn(page).filter(({ file, title }) => !existsSync(file) || !hasTest(file, title))
  t.same(missing, [])
})
