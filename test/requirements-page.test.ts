/** docs/project/requirements.md has each requirement once, and what it names is there: tests, commands and pages. */

import { existsSync, readFileSync } from 'node:fs'
import { posix } from 'node:path'
import t from 'tap'
import { pluck } from './kit/lists.ts'

const page = readFileSync('docs/project/requirements.md', 'utf8') // tests are started in the project's folder
const { scripts } = JSON.parse(readFileSync('package.json', 'utf8')) as { scripts: Record<string, string> }

const numbered = (letter: string, last: number) => Array.from({ length: last }, (_, i) => `${letter}${i + 1}`)
const ROWS = [...numbered('W', 9), ...numbered('Q', 8), ...numbered('P', 31), ...numbered('J', 10), ...numbered('S', 7)]

interface Row {
  row: string
  names: string[]
}

const inCode = (text: string) => [...text.matchAll(/`([^`]+)`/g)].map(([, name]) => name!)

/** What the items of the list name as what shows them. */
const items = (text: string): Row[] =>
  [...text.matchAll(/^- \*\*(\w\d+)\*\*: (.+(?:\n(?!- ).+)*)/gm)].map(([, row, item]) => ({
    row: row!,
    names: inCode(item!.replaceAll(/\s+/g, ' ').split('Shown by ')[1] ?? ''),
  }))

/** What the tables name: a file with its fields in the first cell, or what shows a failure in the last one. */
const cells = (text: string): Row[] =>
  text
    .split('\n')
    .filter((line) => /^\| (?!failure|file|-)/.test(line))
    .map((line) => {
      const [first = '', ...others] = line.split('|').slice(1, -1)
      return { row: first.trim(), names: inCode(first.includes('`') ? first : (others.at(-1) ?? '')) }
    })

const shownIn = (text: string): Row[] => [...items(text), ...cells(text)]

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
  t.same(pluck(items(page), 'row'), ROWS)
})

t.test('each row names tests or commands, which are there', async (t) => {
  t.ok(shownIn(page).flatMap(({ names }) => names).length > 250)
  t.same(bare(page), [])
  t.same(missing(page), [])
})

t.test('what is gone is found, and so is a row that nothing shows', async (t) => {
  const gone = ['routing/rout', 'npm run -s deskless', 'npm run bench -- b0', 'dramatis run examples/none.ts']
  const named = gone.map((name) => `\`${name}\``).join(',\n  ')
  const text = `- **W1**: asks.\n  Shown by ${named}.\n- **W2**: asks for \`this\`.\n\n| \`routing/none\` | \`name\` |\n| a crash | |`
  t.same(missing(text), [...gone, 'routing/none'])
  t.same(bare(text), ['W2', 'a crash'])
})

t.test('each page that it links to is there', async (t) => {
  const files = [...page.matchAll(/\]\(([^)#]+)/g)].map(([, link]) => posix.join('docs/project', link!))
  t.ok(files.length > 2)
  t.same(
    files.filter((file) => !existsSync(file)),
    [],
  )
})
