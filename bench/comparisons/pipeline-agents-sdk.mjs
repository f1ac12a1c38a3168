// A pipeline of agents of the OpenAI Agents SDK with a model that answers at once, run after run: what one step costs, in us.
import { Agent, Runner, Usage } from '@openai/agents-core'

const TEXT = 'pass it on'
const [steps, runs, before] = process.argv.slice(2).map(Number)

const model = {
  async getResponse({ input }) {
    const text = typeof input === 'string' ? input : input.at(-1).content
    const content = [{ type: 'output_text', text }]
    return {
      usage: new Usage(),
      output: [{ id: 'answer', type: 'message', role: 'assistant', status: 'completed', content }],
    }
  },
}
const agents = Array.from({ length: steps }, (_, i) => new Agent({ name: `stage-${i + 1}`, instructions: '', model }))
const runner = new Runner({ tracingDisabled: true })

async function run() {
  let text = TEXT
  for (const agent of agents) text = (await runner.run(agent, text)).finalOutput
  if (text !== TEXT) throw new Error(`The pipeline answered ${text}.`)
}

for (let i = 0; i < before; i++) await run()
const startedAt = performance.now()
for (let i = 0; i < runs; i++) await run()
console.log(JSON.stringify({ usPerStep: ((performance.now() - startedAt) * 1_000) / runs / steps }))
