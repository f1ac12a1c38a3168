/** The TypeScript of src/, for the tests that hold it to its rules. */
import { readdirSync, readFileSync } from 'node:fs'
import { join, posix, relative, sep } from 'node:path'
import { fileURLToPath } from 'node:url'

export interface SourceFile {
  /** From the repository's root, with forward slashes: `src/mailbox/channel.ts`. */
  path: string
  text: string
}

const root = fileURLToPath(new URL('../../', import.meta.url)) // this runs as dist/test/source-files.js

export const sourceFiles: SourceFile[] = filesIn('src')

export function filesIn(folder: string): SourceFile[] {
  return readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' })
    .filter((name) => /\.tsx?$/.test(name))
    .map((name) => {
      const path = join(root, folder, name)
      return { path: relative(root, path).split(sep).join('/'), text: readFileSync(path, 'utf8') }
    })
    .sort((one, other) => one.path.localeCompare(other.path))
}

// Biome keeps every import and re-export at the start of a line, which no comment is.
const fromClause = /^(?:import|export)\s[^;'"`]*?\bfrom\s*['"]([^'"]+)['"]/gm
const bareImport = /^import\s*['"]([^'"]+)['"]/gm
const importCall = /\bimport\(\s*['"]([^'"]+)['"]/g

/** What a file imports by relative path, type-only and dynamic imports included. */
export function importsOf(file: SourceFile): string[] {
  const code = codeLines(file)
    .map(({ line }) => line)
    .join('\n')
  const found = [fromClause, bareImport, importCall].flatMap((pattern) =>
    [...code.matchAll(pattern)].map((match) => match[1]!),
  )
  const relatives = found.filter((specifier) => specifier.startsWith('.'))
  return [...new Set(relatives.map((specifier) => posix.join(posix.dirname(file.path), specifier)))]
}

/** The lines that are not comments, with their numbers. */
export function codeLines(file: SourceFile): { line: string; number: number }[] {
  let inComment = false
  return file.text.split('\n').flatMap((line, index) => {
    const starts = line.trimStart().startsWith('/*')
    const comment = inComment || starts || line.trimStart().startsWith('//')
    if (inComment || starts) inComment = !line.includes('*/')
    return comment ? [] : [{ line, number: index + 1 }]
  })
}
