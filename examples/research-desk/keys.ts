/** Who has which key: by the names of variables, so that no key is in the program, in a message or in a log. */
import type { MultiAgentPatternOptions } from 'dramatis'
import { hasModel } from '../lib/has-model.ts'

type Models = Exclude<MultiAgentPatternOptions['models'], 'rehearsal' | undefined>

const GEMINI = 'https://generativelanguage.googleapis.com/v1beta/openai'
const ORCHESTRATOR = 'ORCHESTRATOR_GEMINI_API_KEY'
const RESEARCH = 'RESEARCH_AGENT_GEMINI_API_KEY'

/** The key of the search service. */
export const SEARCH_KEY = 'RESEARCH_AGENT_SEARCH_API_KEY'

/** What plays each role; undefined where the environment has no model. */
export function modelsFrom({ DRAMATIS_MODEL, ...env }: NodeJS.ProcessEnv): Models | undefined {
  if (env[ORCHESTRATOR]) {
    const gemini = (apiKeyEnv: string) => ({ model: DRAMATIS_MODEL ?? 'gemini-2.5-flash', baseURL: GEMINI, apiKeyEnv })
    return { orchestrator: gemini(ORCHESTRATOR), research: gemini(env[RESEARCH] ? RESEARCH : ORCHESTRATOR) }
  }
  if (!hasModel(env)) return undefined
  const model = {
    model: DRAMATIS_MODEL ?? 'gpt-4.1-mini',
    ...(env.OPENAI_BASE_URL && { baseURL: env.OPENAI_BASE_URL }),
    ...(env.OPENAI_API_KEY && { apiKeyEnv: 'OPENAI_API_KEY' }),
  }
  return { orchestrator: model, research: model }
}
