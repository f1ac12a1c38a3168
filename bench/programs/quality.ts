/**
 * Questions with known answers, put to one model, to five that vote, and to five that debate (two on each side and a judge).
 *
 *   quality.js <questions> <ms> [model]   with a model: a real one, with the key of OPENAI_API_KEY at OPENAI_BASE_URL
 *
 * Each way has a third of the time. When that is over no further question is asked, and what there is counts.
 */
import { type AgentRole, createTeam, type ModelsConfig, type OrchestrationConfig } from 'dramatis'
import { DEBATE, noisyModel } from '../quality/noisy-model.ts'
import { questionOf, sideIn } from '../quality/questions.ts'

export interface Quality {
  /** Shares of the questions that were answered rightly. */
  alone: number
  vote: number
  debate: number
  /** Questions that were answered until the time ran out. */
  answered: { alone: number; vote: number; debate: number }
  /** Per question. */
  tokens: { alone: number; vote: number; debate: number }
}

const FIVE = ['ada', 'ben', 'cleo', 'dan', 'eva']
const SIMULTANEOUS = 20

const [count = 0, timeMs = 0] = process.argv.slice(2).map(Number)
const [, , model] = process.argv.slice(2)
const models: ModelsConfig = { default: model === undefined ? noisyModel : { model } }

async function ask(
  names: readonly string[],
  orchestration: OrchestrationConfig,
): Promise<{ right: number; tokens: number; answered: number }> {
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
    const results: { isRight: boolean; tokens: number }[] = []
    const until = performance.now() + timeMs / 3
    let next = 0
    const lane = async () => {
      while (next < count && (results.length === 0 || performance.now() < until)) {
        next += 1
        const { text, truth } = questionOf(next)
        const { finalOutput, error, totalTokenUsage } = await team.execute(text)
        if (error) throw error
        results.push({ isRight: sideIn(finalOutput) === truth, tokens: totalTokenUsage.totalTokens })
      }
    }
    await Promise.all(Array.from({ length: SIMULTANEOUS }, lane))
    const answered = results.length
    const sum = (of: (result: (typeof results)[number]) => number) => results.reduce((all, each) => all + of(each), 0)
    return {
      right: sum(({ isRight }) => Number(isRight)) / answered,
      tokens: sum(({ tokens }) => tokens) / answered,
      answered,
    }
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
const answered = { alone: alone.answered, vote: vote.answered, debate: debate.answered }
const quality: Quality = { alone: alone.right, vote: vote.right, debate: debate.right, answered, tokens }
console.log(JSON.stringify(quality))
