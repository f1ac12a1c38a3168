/** What stands in the README and in docs/, for the tests that hold it to the truth. Tests are started in the project's folder. */
import { readFileSync } from 'node:fs'

export const readme = readFileSync('README.md', 'utf8')

/** A block of code. `file` is the name in the comment on its first line. */
export interface Block {
  language: string
  text: string
  file: string | undefined
}

/** The blocks of code of a page in Markdown. */
export const blocksOf = (page: string): Block[] =>
  [...page.matchAll(/^```(\w+)\n([\s\S]*?)^```$/gm)].map(([, language, text]) => ({
    language: language!,
    text: text!,
    file: /^\/\/ ([\w.-]+)\n/.exec(text!)?.[1],
  }))

export const blocks = blocksOf(readme)

/** What stands below a heading, up to the next one of the same depth or above. */
export function section(heading: string): string {
  const depth = heading.indexOf(' ')
  const from = readme.indexOf(`\n${heading}\n`)
  if (from < 0) throw new Error(`README.md has no "${heading}"`)
  const rest = readme.slice(from + heading.length + 2)
  const end = rest.search(new RegExp(`^#{1,${depth}} `, 'm'))
  return end < 0 ? rest : rest.slice(0, end)
}
