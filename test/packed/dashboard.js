// The dashboard of the installed package: its page, its code and its style are there.
import { createTeam } from 'dramatis'
import { httpApi } from 'dramatis/http'

const team = createTeam({
  agents: [{ name: 'greeter', module: new URL('./greeter.js', import.meta.url) }],
  orchestration: { strategy: 'sequential' },
})
const api = httpApi({ teams: { team }, authorize: () => ({ id: 'me', may: ['watch'] }), dashboard: true })
for (const [name, path] of [
  ['page', '/'],
  ['script', '/page.js'],
  ['style', '/page.css'],
]) {
  const { status, headers } = await api.fetch(new Request(`http://localhost${path}`))
  console.log(name, status, headers.get('content-type').replace(/;.*/, ''))
}
await api.close({ teams: true })
