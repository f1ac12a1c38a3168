/** Pages in Markdown, as the tests see them: blocks of code, sections, links. Tests are started in the project's folder. */
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs'
import { posix } from 'node:path'

/** A block of code. */
export interface Block {
  language: string
  text: string
  /** The name in the comment on its first line. */
  file: string | undefined
  /** The block of text that follows it directly: what it prints. */
  output: string | undefined
}

export const read = (path: string): string => readFileSync(path, 'utf8')

/** The Markdown files of a folder and of those below it. */
export const pagesBelow = (folder: string): string[] =>
  readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.md') && !name.includes('node_modules'))
    .map((name) => posix.join(folder, name.replaceAll('\\', '/')))
    .sort()

/** Those of them whose names begin with a letter of that range. */
export const pagesFromTo = (folder: string, first: string, last: string): string[] =>
  pagesBelow(folder).filter((path) => {
    const letter = posix.basename(path)[0]!
    return letter >= first && letter <= last
  })

/** The blocks of code of a page in Markdown. */
export const blocksOf = (text: string): Block[] =>
  [...text.matchAll(/^```(\w+)\n([\s\S]*?)^```$/gm)].map(([whole, language, content], at, all) => ({
    language: language!,
    text: content!,
    file: /^(?:\/\/|#) ([\w.-]+\.\w+)\n/.exec(content!)?.[1],
    output: outputOf(text, whole, all[at + 1]),
  }))

/** The next block, if it is text and nothing but white space stands before it. */
function outputOf(text: string, whole: string, next: RegExpExecArray | undefined): string | undefined {
  if (next?.[1] !== 'text') return undefined
  const between = text.slice(0, next.index)
  return between.endsWith(`${whole}\n\n`) ? next[2] : undefined
}

/** What stands below a heading, up to the next one of the same depth or above. */
export function section(path: string, heading: string): string {
  const text = read(path)
  const depth = heading.indexOf(' ')
  const from = text.indexOf(`\n${heading}\n`)
  if (from < 0) throw new Error(`${path} has no "${heading}"`)
  const rest = text.slice(from + heading.length + 2)
  const end = rest.search(new RegExp(`^#{1,${depth}} `, 'm'))
  return end < 0 ? rest : rest.slice(0, end)
}

/** The anchors of a page's headings, as GitHub makes them. */
function anchorsOf(text: string): string[] {
  const seen = new Map<string, number>()
  return [...withoutCode(text).matchAll(/^#{1,6} (.+)$/gm)].map(([, heading]) => {
    const plain = heading!
      .replaceAll(/\[([^\]]*)\]\([^)]*\)/g, '$1')
      .toLowerCase()
      .replaceAll(/[^\p{L}\p{N} _-]/gu, '')
      .replaceAll(' ', '-')
    const times = seen.get(plain) ?? 0
    seen.set(plain, times + 1)
    return times === 0 ? plain : `${plain}-${times}`
  })
}

const withoutCode = (text: string): string => text.replaceAll(/^```[\s\S]*?^```$/gm, '')

/** The links of a page that lead nowhere: to a file that is not there, or to a heading that its page has not. */
export function brokenLinks(path: string, text = read(path)): string[] {
  const prose = withoutCode(text).replaceAll(/`[^`\n]*`/g, '')
  const links = [...prose.matchAll(/\]\(([^)\s]+)\)|(?:src|srcset|href)="([^"]+)"/g)].map(
    ([, link, source]) => link ?? source!,
  )
  return links
    .filter((link) => !/^[a-z]+:/.test(link))
    .filter((link) => {
      const [file = '', anchor] = link.split('#')
      const target = file === '' ? path : posix.join(posix.dirname(path), file)
      if (!existsSync(target)) return true
      if (anchor === undefined) return false
      return statSync(target).isDirectory() || !anchorsOf(target === path ? text : read(target)).includes(anchor)
    })
}
