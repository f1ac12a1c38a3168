/** The desk as a service: a chat page for a customer of each of two companies, and a page for who approves refunds. */
import { randomUUID } from 'node:crypto'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { createTeam } from 'dramatis'
import { type Caller, httpApi } from 'dramatis/http'
import { modelServers } from './model-servers.ts'
import { desk } from './team.ts'

const people: readonly Caller[] = [
  { id: 'ann', tenant: 'acme', may: ['run'] },
  { id: 'eve', tenant: 'globex', may: ['run'] },
  { id: 'bob', groups: ['finance'], may: ['approve', 'watch'] },
]
const tokens = new Map(people.map((person) => [`${person.id}-${randomUUID()}`, person])) // in place of your login

const { SUPPORT_DESK: folder = '.cache/support-desk', PORT = '4848' } = process.env
const { models, processes } = await modelServers()
const team = createTeam(desk(folder, models))
await team.start() // goes on with what a process before it has left
const api = httpApi({
  teams: { desk: team },
  authorize: ({ headers }) => tokens.get(headers.get('authorization')?.replace('Bearer ', '') ?? '') ?? null,
  dashboard: true,
})
const server = createServer(api.node).listen(Number(PORT), '127.0.0.1', () => {
  const { port } = server.address() as AddressInfo
  for (const [token, { id }] of tokens) console.log(`${id}: http://127.0.0.1:${port}/#token=${token}`)
  if (processes[0])
    console.log(`No OPENAI_API_KEY: two model servers answer by rules. To end one: kill ${processes[0].pid}`)
})
process.once('SIGTERM', () => void api.close({ drainMs: 20_000, teams: true }).then(() => process.exit()))
