/** A service that bundlers make one file of. */
import { AgentFailedError, createTeam } from 'dramatis'
import { httpApi } from 'dramatis/http'

const team = createTeam({
  agents: [{ name: 'ann', module: new URL('./faulty.ts', import.meta.url) }],
  orchestration: { strategy: 'sequential' },
})
const api = httpApi({ teams: { desk: team }, authorize: () => ({ id: 'me', may: ['run'] }) })

/** Resolves to the answer of a task that comes over HTTP. */
async function ask(query) {
  const headers = { 'content-type': 'application/json' }
  const body = JSON.stringify({ query })
  const response = await api.fetch(new Request('http://localhost/api/tasks', { method: 'POST', headers, body }))
  return (await response.json()).answer
}

async function main() {
  console.log(await ask('bundle'))
  console.log((await team.execute('fail')).error instanceof AgentFailedError)
  await api.close({ teams: true })
}
void main()
