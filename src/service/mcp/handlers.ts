/** The route of the Model Context Protocol: each request makes a server of its own for its caller. */
import { ConfigurationError, describe } from '../../shared/errors.ts'
import { HttpError } from '../http/problem.ts'
import { type Handlers, json, type Service } from '../http/tasks.ts'
import { sdk } from './sdk.ts'
import { askTools, serverFor } from './server.ts'

/** @throws ConfigurationError where two tools would have one name. The log says it if the package is missing. */
export function mcpHandlers(service: Service) {
  const { settings, teams: served } = service
  const { mcp: given, logger } = settings
  const teams = served.own.filter(({ name }) => given?.teams.includes(name))
  if (given) assertNames(askTools(teams, given).map(({ name }) => name))
  const loading = given && sdk()
  loading?.catch((error: unknown) => logger.error({ error: describe(error) }, 'no team can be served by MCP'))
  return {
    mcpResource() {
      if (!given?.oauth) throw new HttpError('NOT_FOUND', 'No server of tokens is named here (mcp.oauth).')
      const { resource, authorizationServers } = given.oauth
      return json({ resource, authorization_servers: authorizationServers, bearer_methods_supported: ['header'] })
    },

    async mcp({ request, caller, params: { team: name }, body }) {
      const named = teams.filter((each) => name === undefined || each.name === name)
      if (named.length === 0) throw new HttpError('NOT_FOUND', `There is no team "${name?.slice(0, 255)}" by MCP here.`)
      const loaded = await loading!
      const { url, headers, signal } = request
      const asking = { caller, teams: named, request }
      const { fetch } = loaded.createMcpHandler(serverFor(loaded, service, given!, asking), {
        maxSubscriptions: 0, // tools do not change
        onerror: (error) => logger.debug({ error: describe(error) }, 'a request of MCP was refused'),
      })
      return fetch(new Request(url, { method: 'POST', headers, signal }), { parsedBody: body })
    },
  } satisfies Partial<Handlers>
}

/** @throws ConfigurationError where two tools would have one name. */
export function assertNames(names: readonly string[]): void {
  const twice = names.find((name, at) => names.indexOf(name) < at)
  if (twice === undefined) return
  const text = `mcp: two tools would have the name "${twice}". Serve fewer teams (mcp.teams), or give one another name.`
  throw new ConfigurationError(text, { path: 'mcp.teams', name: twice })
}
