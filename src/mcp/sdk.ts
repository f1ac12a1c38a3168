/** The protocol's own package: an optional peer, so that only who uses it has to install it. */
import { spawn } from 'node:child_process'
import { createRequire } from 'node:module'
import { ConfigurationError, describe } from '../shared/errors.ts'

export type Sdk = Awaited<ReturnType<typeof sdk>>

/** Rejects with `ConfigurationError` where it is not installed. */
export async function sdk() {
  try {
    const [{ Client }, { deserializeMessage, serializeMessage }, http, types] = await Promise.all([
      import('@modelcontextprotocol/sdk/client/index.js'),
      import('@modelcontextprotocol/sdk/shared/stdio.js'),
      import('@modelcontextprotocol/sdk/client/streamableHttp.js'),
      import('@modelcontextprotocol/sdk/types.js'),
    ])
    return {
      Client,
      StreamableHTTPClientTransport: http.StreamableHTTPClientTransport,
      StreamableHTTPError: http.StreamableHTTPError,
      ResultSchema: types.ResultSchema,
      CallToolResultSchema: types.CallToolResultSchema,
      deserializeMessage,
      serializeMessage,
      spawn: process.platform === 'win32' ? itsSpawn() : spawn,
    }
  } catch (error) {
    const text = `mcpTools needs the package @modelcontextprotocol/sdk: npm install @modelcontextprotocol/sdk (${describe(error)}).`
    throw new ConfigurationError(text, { path: '@modelcontextprotocol/sdk' }, error)
  }
}

/** The package's own way to start a program, which finds scripts such as npx.cmd. */
function itsSpawn(): typeof spawn {
  return createRequire(import.meta.resolve('@modelcontextprotocol/sdk/client/stdio.js'))('cross-spawn') as typeof spawn
}
