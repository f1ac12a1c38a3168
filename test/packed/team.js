/** A team file for the command line, and the class of an error from an agent. */
import { DramatisError, defineTeam } from 'dramatis'

export default defineTeam({
  agents: [{ name: 'greeter', module: new URL('./greeter.js', import.meta.url) }],
  orchestration: {
    strategy: 'custom',
    run: async (orchestrator, query) => {
      const lost = await orchestrator.request('nobody', query).catch((error) => error)
      if (!(lost instanceof DramatisError)) throw new Error('an error of another copy of dramatis')
      return (await orchestrator.request('greeter', query)).content
    },
  },
})
