/** Each role has a model of its own, or none: here two that need no key, and an agent of code between them. */
import { defineTeam, type ModelClient } from 'dramatis'

/** Stands for a model: says which one it is. */
const client = (words: string): ModelClient => ({
  async *complete({ agent, model, messages }) {
    yield { text: `${agent}, by the model "${model}": ${words} (${messages.at(-1)?.content})` }
    yield { usage: { inputTokens: 20, outputTokens: 10, totalTokens: 30, calls: 1 } }
  },
})

export default defineTeam({
  agents: [
    { name: 'scout', model: 'quick' },
    { name: 'counter', module: new URL('./agent.ts', import.meta.url), data: { does: 'work' } },
    { name: 'judge', model: 'careful' },
  ],
  orchestration: { strategy: 'parallel' },
  models: { quick: client('Yes.'), careful: client('It depends.') },
})
