/** What a build reads and what it should leave behind. */
import { readdirSync, readFileSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'

export const root = dirname(dirname(fileURLToPath(import.meta.url)))
export const dist = join(root, 'dist')
/** The folders that tsc compiles, as in tsconfig.json. */
export const sourceFolders = ['src', 'test', 'bench', 'examples']
/** Sources of the dashboard's page, which are for browsers. */
export const pageFolder = 'src/service/page'
// programs with an installation of their own; tsconfig.json leaves them out as well
const apart = ['bench/comparisons', 'test/packed']

/** Commands that run no team, and the command line itself: they load what they need and no more. */
export const lightModules = /\bsrc\/service\/(cli|commands\/(answer|log-\w+|questions|replay|runs|trace))\.(ts|js)$/

/** Every file below `folder`, as sorted paths from the repository's root with forward slashes. */
export function filesBelow(folder) {
  const found = []
  const visit = (path) => {
    for (const entry of readdirSync(path, { withFileTypes: true })) {
      const child = join(path, entry.name)
      const name = slashed(relative(root, child))
      if (entry.isDirectory()) {
        if (entry.name !== 'node_modules' && !apart.includes(name)) visit(child)
      } else found.push(name)
    }
  }
  try {
    visit(join(root, folder))
  } catch (error) {
    if (error.code !== 'ENOENT') throw error
  }
  return found.sort()
}

/** The files that take part in a build. */
export const sources = () => sourceFolders.flatMap(filesBelow).filter((name) => !name.endsWith('.md'))

/** A path as it is written in modules, on each system. */
export const slashed = (path) => path.replaceAll('\\', '/')

/** Packages that users install: no bundle of the host has them. */
export function packagesOfUsers() {
  const { dependencies, peerDependencies } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'))
  return Object.keys({ ...dependencies, ...peerDependencies })
}
