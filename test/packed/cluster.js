/** Somebody who has installed no engine of a cluster, and nothing of MCP and ACP: what it says names the packages. */
import { createTeam } from 'dramatis'
import { httpApi } from 'dramatis/http'

for (const url of ['postgres://127.0.0.1:1/desk', 'nats://127.0.0.1:1']) {
  const agents = [{ name: 'greeter', module: new URL('./greeter.js', import.meta.url) }]
  const team = createTeam({ agents, orchestration: { strategy: 'sequential' }, cluster: { url } })
  await team.start().catch(({ message }) => console.log(message))
}
const team = createTeam({ agents: [{ name: 'greeter' }], orchestration: { strategy: 'sequential' } })
const api = httpApi({ teams: { desk: team }, authorize: () => ({ id: 'ann', may: ['run'] }), mcp: true })
const headers = { 'content-type': 'application/json' }
console.log(
  await (await api.fetch(new Request('http://localhost/mcp', { method: 'POST', headers, body: '{}' }))).text(),
)
const acp = { command: 'opencode', cwd: process.cwd() }
const coders = createTeam({ agents: [{ name: 'coder', remote: { acp } }], orchestration: { strategy: 'sequential' } })
await coders.start().catch(({ message }) => console.log(message))
process.exit()
