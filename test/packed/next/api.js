/** A team in a site of Next: its agent is named by a path from the folder of the project. */
import { join } from 'node:path'
import { createTeam } from 'dramatis'
import { httpApi } from 'dramatis/http'

const team = createTeam({
  agents: [{ name: 'greeter', module: join(process.cwd(), 'agents/greeter.ts') }],
  orchestration: { strategy: 'sequential' },
})

export const api = httpApi({
  teams: { desk: team },
  basePath: '/agents',
  authorize: () => ({ id: 'me', may: ['run'] }),
})
