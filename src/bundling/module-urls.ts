/** Modules that a source names by `new URL('./critic.ts', import.meta.url)`: agents, tools and protocols among them. */

const MODULE_URL = /\bnew\s+URL\(\s*(['"`])(\.{1,2}\/[^'"`\n$]+\.[cm]?[jt]sx?)\1\s*,\s*import\.meta\.url\s*,?\s*\)/g

export interface ModuleUrl {
  /** Path relative to the source. */
  readonly path: string
  /** The whole expression. */
  readonly text: string
  /** Place of the expression in the source. */
  readonly start: number
}

/** Returns the expressions in their order. */
export function moduleUrlsIn(source: string): ModuleUrl[] {
  return Array.from(source.matchAll(MODULE_URL), ({ 0: text, 2: path, index }) => ({ path: path!, text, start: index }))
}
