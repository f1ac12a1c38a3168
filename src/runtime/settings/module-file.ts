/** The names that one module has before and after it is compiled: `critic.ts` is `critic.js` in what tsc writes. */

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
 * The paths under which a module may be found: as it is named, then under its other endings. A team that says
 * `new URL('./critic.ts', import.meta.url)` so works as it is written and as it is built.
 */
export function namesOfModule(path: string): [string, ...string[]] {
  const ending = /\.\w+$/.exec(path)?.[0] ?? ''
  const stem = path.slice(0, path.length - ending.length)
  return [path, ...(OTHERS[ending] ?? []).map((other) => stem + other)]
}

/** Where nothing was found, as a sentence of an error: `and neither x.js nor x.mjs beside it`. */
export function othersInWords(path: string): string {
  const [, ...others] = namesOfModule(path.slice(Math.max(path.lastIndexOf('/'), path.lastIndexOf('\\')) + 1))
  return others.length === 0 ? '' : `, and none of ${others.join(', ')} beside it`
}
