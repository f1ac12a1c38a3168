import { defineTeam } from 'dramatis'

export default defineTeam({
  agents: [{ name: 'greeter', systemPrompt: 'Greet the user by name, in one friendly sentence.' }],
  orchestration: { strategy: 'sequential' },
})
