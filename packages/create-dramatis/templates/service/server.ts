/** The team as a service: /api, /v1 of OpenAI, /mcp, probes, and the dashboard. */
import './env.js'
import { once } from 'node:events'
import { createServer } from 'node:http'
import { createTeam } from 'dramatis'
import { bearerToken, httpApi } from 'dramatis/http'
import options from './team.js'

const { HOST = '127.0.0.1', PORT = '4747', TOKEN } = process.env
if (TOKEN === undefined && HOST !== '127.0.0.1') throw new Error(`Set TOKEN: without it anybody at ${HOST} may ask.`)

const team = createTeam(options)
await team.start()
const api = httpApi({
  teams: { editing: team },
  authorize: TOKEN
    ? bearerToken(TOKEN, { id: 'me', may: ['run', 'watch'] })
    : () => ({ id: 'me', may: ['run', 'watch', 'operate'] }),
  allowedHosts: TOKEN ? ['*'] : ['127.0.0.1', 'localhost'],
  dashboard: true,
  mcp: true,
})
const server = createServer(api.node).listen(Number(PORT), HOST)
await once(server, 'listening')
console.log(`The dashboard is at http://127.0.0.1:${PORT}/`)

async function close() {
  await api.close({ drainMs: 20_000, teams: true }) // takes no more tasks, ends and answers those under way
  server.close()
  setTimeout(() => server.closeAllConnections(), 5_000).unref()
}
process.once('SIGTERM', close).once('SIGINT', close)
