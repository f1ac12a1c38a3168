/** The first program of someone who installed the package, in JavaScript. */
import { createTeam } from 'dramatis'

const team = createTeam({
  agents: [{ name: 'greeter', module: new URL('./greeter.js', import.meta.url) }],
  orchestration: { strategy: 'sequential' },
})
const result = await team.execute('world')
console.log(result.success ? result.finalOutput : result.error.message)
await team.close()
