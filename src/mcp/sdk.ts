/** The protocol's own package: an optional peer, so that only who uses it has to install it. */
import type { Client } from '@modelcontextprotocol/sdk/client/index.js'
import type { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js'
import type { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import type { AjvJsonSchemaValidator } from '@modelcontextprotocol/sdk/validation/ajv'
import { ConfigurationError, describe } from '../errors.ts'

export interface Sdk {
  Client: typeof Client
  StdioClientTransport: typeof StdioClientTransport
  StreamableHTTPClientTransport: typeof StreamableHTTPClientTransport
  Validator: typeof AjvJsonSchemaValidator
  /** Variables that it gives to a server unless it is told not to. */
  inheritedNames: readonly string[]
}

/** Rejects with `ConfigurationError` where it is not installed. */
export async function sdk(): Promise<Sdk> {
  try {
    const [
      { Client },
      { DEFAULT_INHERITED_ENV_VARS, StdioClientTransport },
      { StreamableHTTPClientTransport },
      validation,
    ] = await Promise.all([
      import('@modelcontextprotocol/sdk/client/index.js'),
      import('@modelcontextprotocol/sdk/client/stdio.js'),
      import('@modelcontextprotocol/sdk/client/streamableHttp.js'),
      import('@modelcontextprotocol/sdk/validation/ajv'),
    ])
    return {
      Client,
      StdioClientTransport,
      StreamableHTTPClientTransport,
      Validator: validation.AjvJsonSchemaValidator,
      inheritedNames: DEFAULT_INHERITED_ENV_VARS,
    }
  } catch (error) {
    const text = `mcpTools needs the package @modelcontextprotocol/sdk: npm install @modelcontextprotocol/sdk (${describe(error)}).`
    throw new ConfigurationError(text, { path: '@modelcontextprotocol/sdk' }, error)
  }
}
