/** Somebody who has installed no engine of a cluster: what it says names the packages. */
import { createTeam } from 'dramatis'

for (const url of ['postgres://127.0.0.1:1/desk', 'nats://127.0.0.1:1']) {
  const agents = [{ name: 'greeter', module: new URL('./greeter.js', import.meta.url) }]
  const team = createTeam({ agents, orchestration: { strategy: 'sequential' }, cluster: { url } })
  await team.start().catch(({ message }) => console.log(message))
}
process.exit()
