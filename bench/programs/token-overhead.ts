/**
 * Four steps of writing, done by four agents one after the other with all that was said before, and by one agent that is asked
 * for one step after the other: tokens of both.
 */
import { createTeam, type ModelClient, type MultiAgentPatternOptions } from 'dramatis'
import { countPrompt, countTokens } from '../../src/actors/model/tokens.ts'

export interface TokenOverhead {
  team: number
  alone: number
}

const QUERY = 'Create a guide explaining how to use Docker Compose.'
const STEPS = {
  researcher: 'Gather what a reader has to know, with sources.',
  architect: 'Lay out the sections of the guide.',
  writer: 'Write the guide.',
  editor: 'Improve its clarity and correctness.',
}
/** An answer of the length that such a step has. */
const ANSWER = Array.from({ length: 60 }, (_, i) => `Sentence ${i + 1} says something.`).join(' ')

const model: ModelClient = {
  rehearsal: true,
  async *complete(request) {
    const [inputTokens, outputTokens] = [countPrompt(request), countTokens(ANSWER)]
    yield { text: ANSWER }
    yield {
      usage: { inputTokens, outputTokens, totalTokens: inputTokens + outputTokens, calls: 1 },
      finishReason: 'stop',
    }
  },
}

async function tokensOf(options: Pick<MultiAgentPatternOptions, 'agents' | 'orchestration'>): Promise<number> {
  const logger = { debug() {}, info() {}, warn() {}, error: console.error }
  const team = createTeam({ ...options, models: { default: model }, logger })
  try {
    const { error, totalTokenUsage } = await team.execute(QUERY)
    if (error) throw error
    return totalTokenUsage.totalTokens
  } finally {
    await team.close()
  }
}

const steps = Object.entries(STEPS)
const overhead: TokenOverhead = {
  team: await tokensOf({
    agents: steps.map(([name, task]) => ({ name, systemPrompt: `You are the ${name} of a team of writers. ${task}` })),
    orchestration: { strategy: 'sequential', passFullContext: true },
  }),
  alone: await tokensOf({
    agents: [{ name: 'author', systemPrompt: 'You write guides, step by step.' }],
    orchestration: {
      strategy: 'custom',
      async run(script, query) {
        let said = query
        for (const [step, task] of steps.entries()) {
          const [, what] = task
          said = (await script.request('author', step === 0 ? `${query}\n\n${what}` : what)).content
        }
        return said
      },
    },
  }),
}
console.log(JSON.stringify(overhead))
