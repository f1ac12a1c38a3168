/** A service that bundlers make one file of. */
import { AgentFailedError, createTeam } from 'dramatis'

const team = createTeam({
  agents: [{ name: 'ann', module: new URL('./faulty.ts', import.meta.url) }],
  orchestration: { strategy: 'sequential' },
})
console.log((await team.execute('bundle')).finalOutput)
console.log((await team.execute('fail')).error instanceof AgentFailedError)
await team.close()
