/** docs/project/requirements.md has each requirement once, and what it names is there: tests, commands and pages. */
import { existsSync, readFileSync } from 'node:fs'
import { posix } from 'node:path'
import t from 'tap'

const page = readFileSync('docs/project/requirements.md', 'utf8') // tests are started in the project's folder
const { scripts } = JSON.parse(readFileSync('package.json', 'utf8')) as { scripts: Record<string, string> }

const numbered = (letter: string, last: number) => Array.from({ length: last }, (_, i) => `${letter}${i + 1}`)
const ROWS = [...numbered('W', 9), ...numbered('Q', 8), ...numbered('P', 31), ...numbered('J', 10), ...numbered('S', 7)]

/** What tables name in code in the cell that says what shows a row: the last one, or the first where files have fields. */
function shownIn(text: string): { row: string; names: string[] }[] {
  const lines = text.split('\n').filter((line) => /^\| (?!id |field|fail|file|-)/.test(line))
  return lines.map((line) => {
    const cells = line.split('|').slice(1, -1)
    const cell = cells[0]!.includes('`') ? cells[0]! : cells.at(-1)!
    return { row: cells[0]!.trim(), names: [...cell.matchAll(/`([^`]+)`/g)].map(([, name]) => name!) }
  })
}

/** Whether a stranger can run what a row names: a test by its file, a script, a benchmark, a team with the CLI. */
function isThere(name: string): boolean {
  const [, script, benchmark] = /^npm (?:run (?:-s )?)?([\w-]+)(?: -- (\w+))?$/.exec(name) ?? []
  if (script) return script in scripts && (benchmark === undefined || existsSync(`bench/${benchmark}.ts`))
  const [, team] = /^dramatis run (\S+)/.exec(name) ?? []
  return existsSync(team ?? `test/${name}.test.ts`)
}

const missing = (text: string) => shownIn(text).flatMap(({ names }) => names.filter((name) => !isThere(name)))
const bare = (text: string) => shownIn(text).flatMap(({ row, names }) => (names.length === 0 ? [row] : []))

t.test('each row is there once, in order', async (t) => {
  t.same(
    shownIn(page).flatMap(({ row }) => (/^[A-Z]\d+$/.test(row) ? [row] : [])),
    ROWS,
  )
})

t.test('each row names tests or commands, which are there', async (t) => {
  t.ok(shownIn(page).flatMap(({ names }) => names).length > 250)
  t.same(bare(page), [])
  t.same(missing(page), [])
})

t.test('what is gone is found, and so is a row that nothing shows', async (t) => {
  const gone = ['`routing/rout`', '`npm run -s deskless`', '`npm run bench -- b0`', '`dramatis run examples/none.ts`']
  const text = `| W1 | asks | ${gone.join(', ')} |\n| \`routing/none\` | \`name\` | |\n| W2 | asks for \`this\` | |`
  t.same(missing(text), [...gone.map((name) => name.slice(1, -1)), 'routing/none'])
  t.same(bare(text), ['W2'])
})

t.test('each page that it links to is there', async (t) => {
  const files = [...page.matchAll(/\]\(([^)#]+)/g)].map(([, link]) => posix.join('docs/project', link!))
  t.ok(files.length > 2)
  t.same(
    files.filter((file) => !existsSync(file)),
    [],
  )
})
