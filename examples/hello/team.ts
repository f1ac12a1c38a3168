/** The smallest team file: one agent, one strategy. Run it with `npm run -s dramatis -- run examples/hello/team.ts world`. */
import { defineTeam } from 'dramatis'

export default defineTeam({
  agents: [{ name: 'greeter', module: new URL('./greeter.ts', import.meta.url) }],
  orchestration: { strategy: 'sequential' },
})
