/**
 * A desk that researches: an orchestrator, two researchers who share a queue, and an agent that calculates. After document 001,
 * the "Conceptual Design Document: Multi-Agent System".
 */
import { defineTeam, type MultiAgentPatternOptions } from 'dramatis'
import { calculator, convert, readWebpage, runCode } from 'dramatis/tools'
import { searchTool } from '../lib/search-tool.ts'
import { keylessModel } from './keyless-model.ts'
import { modelsFrom, SEARCH_KEY } from './keys.ts'

export interface DeskOptions {
  /** A SearXNG instance with JSON among its formats; without it the key of RESEARCH_AGENT_SEARCH_API_KEY. */
  searchUrl?: string | undefined
  /** Hosts that are read although they are not public. */
  readable?: string[]
  /** What plays `orchestrator` and `research`. */
  models: NonNullable<MultiAgentPatternOptions['models']>
}

export function researchDesk({ searchUrl, readable = [], models }: DeskOptions) {
  return {
    agents: [
      {
        name: 'OrchestratorAgent',
        description: 'Plans, and makes one answer of the results',
        model: 'orchestrator',
        systemPrompt:
          'You coordinate. Give each fact that has to be found to the ResearchAgent, as a sub-task of its own, and all that has to be calculated to the UtilityAgent. Name the tool of each sub-task, and its input. In answers name the sources.',
      },
      {
        name: 'ResearchAgent',
        description: 'Finds out one thing on the web. Tools: web_search { query }, read_webpage { url }',
        model: 'research',
        systemPrompt:
          'You find out one thing. Search, read the page that is most likely to have it, and answer in one sentence with the address of the page. Give dates as YYYY-MM-DD. Say so if you did not find it.',
        tools: [searchTool(searchUrl, SEARCH_KEY), readWebpage({ allow: readable })],
        instances: 2,
      },
      {
        name: 'UtilityAgent',
        description:
          'Runs one tool, without a model: name it and its input. calculator { expression } of numbers alone; convert { value, from, to }; run_code { code }, JavaScript that finds the results of the sub-tasks it depends on as text in input.results',
        module: new URL('./agents/utility-agent.js', import.meta.url),
        tools: [calculator, convert, runCode],
      },
    ],
    orchestration: {
      strategy: 'supervisor',
      supervisor: 'OrchestratorAgent',
      experts: ['ResearchAgent', 'UtilityAgent'],
      timeoutPerAgentMs: 60_000,
      maxReplans: 1,
    },
    models,
  } satisfies MultiAgentPatternOptions
}

const withoutKey = { orchestrator: keylessModel, research: keylessModel }

/** The desk as a team file: with the models that the environment names, or without a model. */
export default defineTeam(
  researchDesk({ searchUrl: process.env.SEARXNG_URL, models: modelsFrom(process.env) ?? withoutKey }),
)
