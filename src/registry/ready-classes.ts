/** Classes that an agents.yaml may name without code, unless loadTeam is given one, or a file has it. */

import { dirname, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { AgentRole } from '../actors/definition/role.ts'
import type { Tool } from '../actors/definition/tool.ts'
import { refused } from '../shared/checks.ts'
import { environment } from '../shared/environment.ts'
import { ConfigurationError } from '../shared/errors.ts'
import { own } from '../shared/values.ts'
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
import { createTaskPlan, decomposeTask, markSubtaskComplete } from '../tools/subtasks.ts'
import { type WorkspaceOptions, workspace } from '../tools/workspace.ts'

/** Time limit of each expert of a city desk, in ms. */
export const EXPERT_MS = 10_000

const STYLE = 'Answer in the language of the question, in one or two sentences, with figures and their dates.'

// variables of the environment, which the tools read when they are used
const STOCK_KEY = 'FINANCE_AGENT_STOCK_API_KEY'
const SEARCH_KEY = 'RESEARCH_AGENT_SEARCH_API_KEY'
const SEARCH_ENGINE = 'RESEARCH_AGENT_SEARCH_ENGINE_ID'

type Make = (env: NodeJS.ProcessEnv) => Partial<AgentRole>

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

/** OrchestratorAgent: it plans for the workers, and makes one answer of what they find. */
const PLANNER: Partial<AgentRole> = {
  description: 'plans, and makes one answer of the results',
  systemPrompt:
    'You coordinate. Give each thing that has to be found out, and each that has to be calculated, to the agent for it, as a sub-task of its own. Name its tool and the input of that. In answers name the sources.',
}

const WORKERS: Readonly<Record<string, Make>> = {
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

/** Option `workspace` of an entry: the folder, or the options of `workspace` with a default for the folder. */
export type EntryWorkspace = string | Partial<WorkspaceOptions>

/** The user's time and that of long tasks is no reason to give up. */
const PATIENT = { responseTimeoutMs: 600_000 }

/**
 * Rounds of an orchestrator's turn, to end a model that never answers. `rounds.max_per_subtask` is the executor's: a
 * conversation with many questions to the user is none of its sub-tasks.
 */
const ROUNDS_OF_CONVERSATION = 200

const OrchestratorAgent: Partial<AgentRole> = {
  description: 'talks with the user, plans, and delegates',
  systemPrompt: `You are an orchestrator agent that helps users plan and execute software projects.

Your responsibilities:
1. Understand user requirements through conversation
2. Clarify ambiguous or incomplete requests
3. Break down complex requests into manageable tasks
4. Delegate coding work to the TaskExecutor agent
5. Track progress and report back to the user`,
  tools: ['delegate_to_executor', 'clarify_with_user', createTaskPlan, 'get_executor_status'],
  contextStrategy: { strategy: 'append_until_full', threshold: 0.8, keepRecent: 20 },
  maxRounds: ROUNDS_OF_CONVERSATION,
  communication: PATIENT,
}

const TaskExecutorAgent: Partial<AgentRole> = {
  description: 'writes files and runs commands in its workspace',
  systemPrompt:
    'You do one coding task in your workspace. Take it apart with decompose_task, work on one subtask at a time, run what you wrote, and say mark_subtask_complete when one is done.',
  contextStrategy: { strategy: 'hierarchical' },
  communication: PATIENT,
}

/** The entry that names a class, as far as a class needs it. */
export interface Naming {
  /** Path of the entry, for errors. */
  path: string
  workspace: EntryWorkspace | undefined
  /** System prompt of agent_config.yaml. */
  systemPrompt: string | undefined
  /** Names of the agents that may give tasks to the agent. */
  givers: readonly string[]
  /** True for the supervisor of the strategy `supervisor`, which gives tasks by its plan. */
  plans: boolean
}

export class ReadyClasses {
  readonly #folder: string
  readonly #experts = new Map<string, Partial<AgentRole>>()
  /** Tools by the options of their workspace: a file that is read again has the same tools. */
  readonly #workspaces = new Map<string, Tool[]>()
  readonly #classes: Record<string, (naming: Naming) => Partial<AgentRole>> = {
    OrchestratorAgent: (naming) => withoutFolder(naming.plans ? PLANNER : OrchestratorAgent, naming),
    TaskExecutorAgent: (naming) => this.#executor(naming),
    ...Object.fromEntries(
      Object.entries({ ...CITY_EXPERTS, ...WORKERS }).map(([name, make]) => [
        name,
        (naming: Naming) => withoutFolder(this.#made(name, make), naming),
      ]),
    ),
  }

  /** `file`: the agents.yaml, to which a workspace is relative. */
  constructor(file: URL) {
    this.#folder = dirname(fileURLToPath(file))
  }

  get names(): string[] {
    return Object.keys(this.#classes)
  }

  role(name: string, naming: Naming): Partial<AgentRole> | undefined {
    return own(this.#classes, name)?.(naming)
  }

  /** Asks whoever gives it tasks when its rounds are used up. */
  #executor({ path, workspace, systemPrompt, givers }: Naming): Partial<AgentRole> {
    const [escalateTo, ...others] = givers
    return {
      ...TaskExecutorAgent,
      ...(systemPrompt !== undefined && { systemPrompt }),
      ...(escalateTo !== undefined && others.length === 0 && { escalateTo }),
      tools: [...this.#workspace(workspace, `${path}.workspace`), decomposeTask, markSubtaskComplete],
    }
  }

  /** Returns the expert of that name: the same one each time, so that a file that is read again has the same tools. */
  #made(name: string, make: (env: NodeJS.ProcessEnv) => Partial<AgentRole>): Partial<AgentRole> {
    const expert = this.#experts.get(name) ?? make(environment())
    this.#experts.set(name, expert)
    return expert
  }

  #workspace(given: EntryWorkspace = {}, path: string): Tool[] {
    const { root = 'workspace', ...options } = typeof given === 'string' ? { root: given } : given
    const folder = resolve(this.#folder, root)
    const key = JSON.stringify([folder, options])
    let tools = this.#workspaces.get(key)
    if (!tools) {
      tools = madeAt(path, () => workspace({ root: folder, ...options }))
      this.#workspaces.set(key, tools)
    }
    return tools
  }
}

/** Returns a role that works in no folder. Refuses an entry that names one. */
export function withoutFolder<R>(role: R, { path, workspace }: Naming): R {
  if (workspace === undefined) return role
  throw refused(`${path}.workspace`, workspace, 'nothing', 'Only the ready class TaskExecutorAgent works in a folder.')
}

/** Returns tools for the option at `path`, which an error about their own options then names. */
function madeAt(path: string, make: () => Tool[]): Tool[] {
  try {
    return make()
  } catch (error) {
    if (!(error instanceof ConfigurationError)) throw error
    throw new ConfigurationError(`${path}: ${error.message}`, { path }, error)
  }
}
