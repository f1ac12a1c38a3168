/** The protocol's own package: an optional peer, so that only who serves teams by it has to install it. */
import { ConfigurationError, describe } from '../../shared/errors.ts'

const NAME = '@modelcontextprotocol/server'

export type Sdk = Awaited<ReturnType<typeof sdk>>

/*
 * Each import stands in a block that catches: so a bundler leaves it out where the package is not installed.
 */

/** Rejects with `ConfigurationError` where it is not installed. */
export async function sdk() {
  try {
    return await import('@modelcontextprotocol/server')
  } catch (error) {
    throw missing(error)
  }
}

/** The part of it that speaks over pipes. Rejects with `ConfigurationError` where it is not installed. */
export async function sdkOfPipes() {
  try {
    return await import('@modelcontextprotocol/server/stdio')
  } catch (error) {
    throw missing(error)
  }
}

function missing(error: unknown): ConfigurationError {
  const text = `mcp needs the package ${NAME}: npm install ${NAME} (${describe(error)}).`
  return new ConfigurationError(text, { path: NAME }, error)
}
