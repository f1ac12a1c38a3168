import { own } from '../../shared/values.ts'

const OTHERS: Readonly<Record<string, readonly string[]>> = {
  '.ts': ['.js', '.mjs', '.cjs'],
  '.tsx': ['.js', '.mjs', '.cjs'],
  '.mts': ['.mjs', '.js'],
  '.cts': ['.cjs', '.js'],
  '.js': ['.ts', '.tsx', '.mjs', '.cjs'],
  '.mjs': ['.mts', '.ts', '.js'],
  '.cjs': ['.cts', '.ts', '.js'],
}

/**
 * Returns the paths under which a module may be found: first the given one, then those with its other endings. So a
 * team that uses `new URL('./critic.ts', import.meta.url)` works both from source and after a build.
 */
export function namesOfModule(path: string): [string, ...string[]] {
  const ending = /\.\w+$/.exec(path)?.[0] ?? ''
  const stem = path.slice(0, path.length - ending.length)
  return [path, ...(own(OTHERS, ending) ?? []).map((other) => stem + other)]
}

/** Returns the other paths as part of an error's sentence: `, and none of x.js, x.mjs beside it`. */
export function othersInWords(path: string): string {
  const [, ...others] = namesOfModule(path.slice(Math.max(path.lastIndexOf('/'), path.lastIndexOf('\\')) + 1))
  return others.length === 0 ? '' : `, and none of ${others.join(', ')} beside it`
}
