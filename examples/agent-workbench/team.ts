/**
 * The bench: agents with capabilities, skills and weights under a coordinator, which is the strategy `collaborate`. After
 * document 000, "Multi-Agent Systems in AgentWorkbench".
 */
import type { AgentRole, MultiAgentPatternOptions, Tool } from 'dramatis'
import type { CollaborateConfig } from 'dramatis/protocols'
import { calculator } from 'dramatis/tools'
import { searchTool } from '../lib/search-tool.ts'

export interface BenchOptions {
  /** A SearXNG instance with JSON among its formats; without it the key of SEARCH_KEY. */
  searchUrl?: string | undefined
  models?: MultiAgentPatternOptions['models']
}

/** A tool under the name that tasks call it by: routing looks for it in their text. */
const skill = (name: string, tool: Tool): Tool => ({ ...tool, name })

const style = 'Answer in one line, from what your tool found and nothing else.'

const searcher = (searchUrl: string | undefined, role: Pick<AgentRole, 'name' | 'description' | 'capabilities'>) => ({
  ...role,
  systemPrompt: `You find things out with WebSearch. ${style}`,
  tools: [skill('WebSearch', searchTool(searchUrl))],
})

/** Tasks that nobody takes apart; else the first teammate that a model plays is asked to. */
const WHOLE = { decomposer: false } as const

/** SearchExpert is found by what it can do, CalcBot by the name of its skill. */
export function searchAndSums({ searchUrl, models }: BenchOptions): MultiAgentPatternOptions {
  const expert = searcher(searchUrl, {
    name: 'SearchExpert',
    description: 'Finds info online',
    capabilities: ['search', 'news lookup'],
  })
  const calc = {
    name: 'CalcBot',
    description: 'Performs calculations',
    systemPrompt: `You calculate with MathSkill. ${style}`,
    tools: [skill('MathSkill', calculator)],
  }
  return bench(models, [expert, calc], WHOLE)
}

/** Agents that have an opinion, and how much it counts; null: then the majority decides. */
export function voters(
  { models }: BenchOptions,
  weights: Readonly<Record<string, { weight?: number | null; cares: string }>>,
): MultiAgentPatternOptions {
  const agents = Object.entries(weights).map(([name, { weight, cares }]) => ({
    name,
    ...(weight !== undefined && { weight }),
    systemPrompt: `You care about ${cares}. Choose one of the actions that you are offered. Answer with its name alone, no other word.`,
  }))
  return bench(models, agents, WHOLE)
}

/** Of the trip's team those who are there from the start. `recruit`: how the planner gets others. */
export function travelAgency({ searchUrl, models }: BenchOptions, recruit: Tool): MultiAgentPatternOptions {
  const planner: AgentRole = {
    name: 'Planner',
    description: 'Takes tasks apart',
    systemPrompt:
      'You take tasks apart for the agents of your team. If nobody there can do a part, recruit somebody first. Name the kind of thing in each sub-task: flight, hotel, activities.',
    tools: [recruit],
  }
  const flights = { name: 'FlightFinder', description: 'Finds connections', capabilities: ['flight'] }
  const guide = { name: 'LocalGuide', description: 'Knows what there is to do', capabilities: ['activities'] }
  return bench(models, [planner, searcher(searchUrl, flights), searcher(searchUrl, guide)], { aggregation: 'join' })
}

/** Somebody for hotels, who is not in the team from the start. */
export const hotelScout = ({ searchUrl }: BenchOptions): AgentRole =>
  searcher(searchUrl, { name: 'HotelScout', description: 'Finds hotels', capabilities: ['hotel'] })

function bench(
  models: BenchOptions['models'],
  agents: AgentRole[],
  config: Omit<CollaborateConfig, 'strategy'> = {},
): MultiAgentPatternOptions {
  return { agents, orchestration: { strategy: 'collaborate', ...config }, ...(models && { models }) }
}
