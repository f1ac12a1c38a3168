/** The protocol's own package: an optional peer, so that only who uses it has to install it. */
import { spawn } from 'node:child_process'
import { createRequire } from 'node:module'
import { ConfigurationError, describe } from '../shared/errors.ts'

export type Sdk = Awaited<ReturnType<typeof sdk>>

/** Rejects with `ConfigurationError` where it is not installed. */
export async function sdk() {
  try {
    const its = await import('@modelcontextprotocol/client')
    return { ...its, spawn: process.platform === 'win32' ? itsSpawn() : spawn }
  } catch (error) {
    const text = `mcpTools needs the package @modelcontextprotocol/client: npm install @modelcontextprotocol/client (${describe(error)}).`
    throw new ConfigurationError(text, { path: '@modelcontextprotocol/client' }, error)
  }
}

/** The package's own way to start a program, which finds scripts such as npx.cmd. */
function itsSpawn(): typeof spawn {
  return createRequire(import.meta.resolve('@modelcontextprotocol/client/stdio'))('cross-spawn') as typeof spawn
}
