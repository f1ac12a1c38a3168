/**
 * Questions with known answers, put to one model, to five that vote, and to five that debate (two on each side and a judge).
 *
 *   quality.js <questions> [model]     with a model: a real one, with the key of OPENAI_API_KEY at OPENAI_BASE_URL
 */
import { type AgentRole, createTeam, type ModelsConfig, type OrchestrationConfig } from 'dramatis'
import { DEBATE, noisyModel } from '../quality/noisy-model.ts'
import { questionOf, sideIn } from '../quality/questions.ts'

export interface Quality {
  /** Shares of the questions that were answered rightly. */
  alone: number
  vote: number
  debate: number
  /** Per question. */
  tokens: { alone: number; vote: number; debate: number }
}

const FIVE = ['ada', 'ben', 'cleo', 'dan', 'eva']
const SIMULTANEOUS = 20

const [count = 0] = process.argv.slice(2).map(Number)
const [, model] = process.argv.slice(2)
const models: ModelsConfig = { default: model === undefined ? noisyModel : { model } }

async function ask(
  names: readonly string[],
  orchestration: OrchestrationConfig,
): Promise<{ right: number; tokens: number }> {
  const agents: AgentRole[] = names.map((name) => ({ name }))
  const logger = { debug() {}, info() {}, warn() {}, error: console.error }
  const team = createTeam({
    agents,
    models,
    orchestration,
    logger,
    maxConcurrentRuns: SIMULTANEOUS,
    maxQueuedRuns: count,
  })
  try {
    await team.start()
    const results = await Promise.all(
      Array.from({ length: count }, async (_, at) => {
        const { text, truth } = questionOf(at + 1)
        const { finalOutput, error, totalTokenUsage } = await team.execute(text)
        if (error) throw error
        return { isRight: sideIn(finalOutput) === truth, tokens: totalTokenUsage.totalTokens }
      }),
    )
    const sum = (of: (result: (typeof results)[number]) => number) => results.reduce((all, each) => all + of(each), 0)
    return { right: sum(({ isRight }) => Number(isRight)) / count, tokens: sum(({ tokens }) => tokens) / count }
  } finally {
    await team.close()
  }
}

const [judge = '', ...debaters] = FIVE
const alone = await ask([judge], { strategy: 'sequential' })
const vote = await ask(FIVE, { strategy: 'parallel', aggregationStrategy: 'vote' })
const debate = await ask(FIVE, {
  strategy: 'debate',
  debaters: [...debaters],
  judge,
  positions: DEBATE.positions,
  maxRounds: DEBATE.rounds,
})
const tokens = { alone: alone.tokens, vote: vote.tokens, debate: debate.tokens }
const quality: Quality = { alone: alone.right, vote: vote.right, debate: debate.right, tokens }
console.log(JSON.stringify(quality))
