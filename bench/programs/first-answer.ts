/** The smallest program: one agent, no model, one answer. */
import { createTeam } from 'dramatis'

const team = createTeam({
  agents: [{ name: 'greeter', module: new URL('../agents/greeter.js', import.meta.url) }],
  orchestration: {
    strategy: 'custom',
    run: async (orchestrator, query) => (await orchestrator.request('greeter', query)).content,
  },
})
const result = await team.execute('hello')
if (!result.success) throw result.error
console.log(result.finalOutput)
await team.close()
