/** What docs/project/requirements.md names is there: its rows, the files of its links, and the titles of tests below them. */
import { existsSync, readFileSync } from 'node:fs'
import { posix } from 'node:path'
import t from 'tap'
import { hasTest } from './test-titles.ts'

const page = readFileSync('docs/project/requirements.md', 'utf8') // tests are started in the project's folder

const numbered = (letter: string, last: number) => Array.from({ length: last }, (_, i) => `${letter}${i + 1}`)
const ROWS = [...numbered('W', 9), ...numbered('Q', 8), ...numbered('P', 31), ...numbered('J', 10), ...numbered('S', 7)]

interface Named {
  file: string
  title: string
}

/** A title stands in an item below that of its file, or in the cell after it. */
function named(): Named[] {
  let file = ''
  return page.split('\n').flatMap((line) => {
    file = /\]\(\.\.\/\.\.\/(test\/[^)#]+)\)/.exec(line)?.[1] ?? (line.startsWith('  - ') ? file : '')
    const title = /^ {2}- (.+)$/.exec(line)?.[1] ?? /^\|.*\) +\| (.+?) *\|$/.exec(line)?.[1]
    return title === undefined ? [] : [{ file, title }]
  })
}

t.test('each row is there once, in order', async (t) => {
  t.same(
    [...page.matchAll(/^### ([A-Z]\d+)\. /gm)].map(([, id]) => id),
    ROWS,
  )
})

t.test('each row says what shows it, or that nothing does', async (t) => {
  const rows = page.split(/^###? /m).filter((text) => /^[A-Z]\d+\. /.test(text))
  const bare = rows.filter((text) => !/\]\(\.\.\/\.\.\/(test|examples)\/|^Not (yet|in this version)/m.test(text))
  t.same(bare, [])
})

t.test('each file is there', async (t) => {
  const files = [...page.matchAll(/\]\(([^)#]+)/g)].map(([, link]) => posix.join('docs/project', link!))
  t.ok(files.length > 100)
  t.same(
    files.filter((file) => !existsSync(file)),
    [],
  )
})

t.test('each command is there', async (t) => {
  const { scripts } = JSON.parse(readFileSync('package.json', 'utf8')) as { scripts: Record<string, string> }
  const commands = [...page.matchAll(/`npm run (?:-s )?([\w-]+)(?: -- (\w+))?/g)]
  t.ok(commands.length > 1)
  for (const [command, script, benchmark] of commands) {
    t.ok(scripts[script!], command)
    if (script === 'bench') t.ok(existsSync(`bench/${benchmark}.ts`), command)
  }
})

t.test('each test is there', async (t) => {
  const tests = named()
  t.ok(tests.length > 200)
  t.same(
    tests.filter(({ file, title }) => file === '' || !hasTest(file, title)),
    [],
  )
})

t.test('a title that is cut short, or of another file, is found out', async (t) => {
  const [one] = named()
  t.ok(hasTest(one!.file, one!.title))
  t.notOk(hasTest(one!.file, one!.title.slice(0, -1)))
  t.notOk(hasTest('test/nearest.test.ts', one!.title))
})
