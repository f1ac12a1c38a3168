/** Packages that only some tools need: optional peers, so that only who uses such a tool has to install them. */
import { ConfigurationError, describe } from '../errors.ts'
import { ownRequire } from '../own-files.ts'

/**
 * Throws for a tool whose packages are not all installed where this package is.
 *
 * @throws ConfigurationError that names them, and the command that installs them.
 */
export function needsPackages(tool: string, packages: readonly string[]): void {
  const resolve = ownResolve()
  if (!resolve) return // a bundle that has left this package behind: the start of its first thread says so
  const missing = packages.filter((name) => !isInstalled(name, resolve))
  if (missing.length === 0) return
  const text = `${tool} needs ${missing.join(', ')}, which ${missing.length === 1 ? 'is' : 'are'} not installed: npm install ${missing.join(' ')}`
  throw new ConfigurationError(text, { path: tool, packages: missing })
}

function ownResolve(): NodeJS.RequireResolve | undefined {
  try {
    return ownRequire().resolve
  } catch {
    return undefined
  }
}

function isInstalled(name: string, resolve: NodeJS.RequireResolve): boolean {
  try {
    resolve(name)
    return true
  } catch (error) {
    const { code } = Object(error) as { code?: unknown }
    if (code === 'MODULE_NOT_FOUND') return false
    if (code === 'ERR_PACKAGE_PATH_NOT_EXPORTED') return true // it is there, for `import` alone
    throw new ConfigurationError(`The package ${name} cannot be read: ${describe(error)}.`, { path: name }, error)
  }
}
