/** The desk as a service: a page for customers and staff at /, the chat at /api/chat, approvals at /api/tasks. */
import './env.js'
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { ConfigurationError, createTeam } from 'dramatis'
import { bearerToken, httpApi } from 'dramatis/http'
import options from './team.js'

const { PORT = '4747', ANN_TOKEN = randomUUID(), STAFF_TOKEN = randomUUID() } = process.env
for (const [name, token] of Object.entries({ ANN_TOKEN, STAFF_TOKEN }))
  if (token.length < 16) throw new ConfigurationError(`${name}: give it at least 16 characters.`)
// In place of your login. A customer talks; the staff sees what is asked, and approves refunds.
const ann = bearerToken(ANN_TOKEN, { id: 'ann', may: ['run'] })
const staff = bearerToken(STAFF_TOKEN, { id: 'sam', may: ['approve', 'watch'] })

const team = createTeam(options)
await team.start() // goes on with what a process before it has left
const api = httpApi({
  teams: { desk: team },
  authorize: async (request) => (await ann(request)) ?? (await staff(request)),
})
const page = readFileSync('index.html')
const server = createServer((request, response) => {
  if (request.url === '/') response.writeHead(200, { 'content-type': 'text/html; charset=utf-8' }).end(page)
  else void api.node(request, response)
}).listen(Number(PORT), '127.0.0.1')
await once(server, 'listening')
console.log(`A customer: http://127.0.0.1:${PORT}/#${ANN_TOKEN}\nThe staff:  http://127.0.0.1:${PORT}/#${STAFF_TOKEN}`)
console.log(`To try a crash: kill -9 ${process.pid}`)

async function close() {
  await api.close({ drainMs: 20_000, teams: true })
  server.close()
  setTimeout(() => server.closeAllConnections(), 5_000).unref()
}
process.once('SIGTERM', close).once('SIGINT', close)
