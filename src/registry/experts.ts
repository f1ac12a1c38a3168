/**
 * Experts that an agents.yaml may name as classes: those of document 004, and the workers of document 001. Keys stand
 * in variables of the environment, which the tools read when they are used.
 */
import type { AgentRole } from '../actors/definition/role.ts'
import {
  calculator,
  convert,
  exchangeRate,
  readWebpage,
  runCode,
  sights,
  stockPrice,
  type WebSearchOptions,
  weather,
  webSearch,
} from '../tools/index.ts'

/** Time limit of each expert of document 004, in ms. */
export const EXPERT_MS = 10_000

const STYLE = 'Answer in the language of the question, in one or two sentences, with figures and their dates.'

const STOCK_KEY = 'FINANCE_AGENT_STOCK_API_KEY'
const SEARCH_KEY = 'RESEARCH_AGENT_SEARCH_API_KEY'
const SEARCH_ENGINE = 'RESEARCH_AGENT_SEARCH_ENGINE_ID'

type Make = (env: NodeJS.ProcessEnv) => Partial<AgentRole>

/** Classes of document 004. */
export const CITY_EXPERTS: Readonly<Record<string, Make>> = {
  WeatherAgent: () => ({
    description: 'weather now, and for some days',
    systemPrompt: `You know the weather by your tool alone. ${STYLE}`,
    tools: [weather()],
  }),
  FinanceAgent: (env) => ({
    description: 'exchange rates and share prices',
    systemPrompt: `You know rates and prices by your tools alone. The shares of TSMC are TSM in New York. ${STYLE}`,
    tools: [exchangeRate(), stockPrice(env[STOCK_KEY] ? { apiKeyEnv: STOCK_KEY } : {})],
  }),
  TravelAgent: () => ({
    description: 'what to do and see in a city, by its weather and its sights',
    systemPrompt: `You plan days in a city. Look at its weather and its sights first, and name the sources of what you say about sights. ${STYLE}`,
    tools: [weather(), sights],
  }),
  GeneralAgent: () => ({ description: 'small talk, and all that nobody else does', systemPrompt: STYLE }),
}

/** OrchestratorAgent of document 001: it plans for the workers, and makes one answer of what they find. */
export const PLANNER: Partial<AgentRole> = {
  description: 'plans, and makes one answer of the results',
  systemPrompt:
    'You coordinate. Give each thing that has to be found out, and each that has to be calculated, to the agent for it, as a sub-task of its own. Name its tool and the input of that. In answers name the sources.',
}

/** Classes of document 001. */
export const WORKERS: Readonly<Record<string, Make>> = {
  ResearchAgent: (env) => ({
    description: 'finds out one thing on the web. Tools: web_search { query }, read_webpage { url }',
    systemPrompt:
      'You find out one thing. Search, read the page that is most likely to have it, and answer in one sentence with the address of the page. Give dates as YYYY-MM-DD. Say so if you did not find it.',
    tools: [webSearch(searchIn(env)), readWebpage()],
  }),
  UtilityAgent: () => ({
    description:
      'calculates, converts units and data, runs JavaScript. Tools: calculator { expression } of numbers alone, convert { value, from, to }, run_code { code }',
    systemPrompt: 'You calculate and convert by your tools alone, and answer with the result.',
    tools: [calculator, convert, runCode],
  }),
}

/** An instance of SearXNG where there is one, else a service that takes a key: Google with an engine, Brave without. */
function searchIn({ SEARXNG_URL, [SEARCH_ENGINE]: engineId }: NodeJS.ProcessEnv): WebSearchOptions {
  if (SEARXNG_URL) return { provider: 'searxng', baseURL: SEARXNG_URL }
  return { apiKeyEnv: SEARCH_KEY, ...(engineId && { engineId }) }
}
