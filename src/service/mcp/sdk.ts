/** The protocol's own package: an optional peer, so that only who serves teams by it has to install it. */
import { ConfigurationError, describe } from '../../shared/errors.ts'

const NAME = '@modelcontextprotocol/server'

export type Sdk = Awaited<ReturnType<typeof sdk>>

/** Rejects with `ConfigurationError` where it is not installed. */
export async function sdk() {
  try {
    return await import('@modelcontextprotocol/server')
  } catch (error) {
    const text = `mcp needs the package ${NAME}: npm install ${NAME} (${describe(error)}).`
    throw new ConfigurationError(text, { path: NAME }, error)
  }
}

/** The part of it that speaks over pipes. */
export const sdkOfPipes = () => import('@modelcontextprotocol/server/stdio')
