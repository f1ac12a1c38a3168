/**
 * Addresses of MCP servers, as users give them. Nothing here names the protocol's own package: its declarations need a
 * browser's, and one of them does not compile, so a program that imports `dramatis/mcp` must not read them.
 */

export interface StdioServer {
  command: string
  args?: readonly string[]
  env?: Record<string, string>
  cwd?: string
}

export interface HttpServer {
  url: URL | string
  headers?: Record<string, string>
}

/**
 * Address of a server. Either it is started here: `command` with `args`, in the folder `cwd`, with the environment
 * `env` and nothing else of this process's. Or it is reached by HTTP, with `headers` in each request.
 */
export type McpServer = StdioServer | HttpServer
