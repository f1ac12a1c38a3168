import { defineTeam } from 'dramatis'

export default defineTeam({
  agents: [
    { name: 'counter', description: 'counts words', module: new URL('./counter.js', import.meta.url) },
    { name: 'editor', description: 'shortens texts', systemPrompt: 'Shorten the text. Say how many words are left.' },
  ],
  orchestration: { strategy: 'sequential', agentOrder: ['counter', 'editor'] },
})
