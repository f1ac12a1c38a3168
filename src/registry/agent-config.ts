/** `agent_config.yaml`: what holds for every agent that says nothing of its own. Source: document 003, configuration. */
import { existsSync } from 'node:fs'
import type { AgentRole } from '../actors/definition/role.ts'
import { anyObject, integer, shape, text } from '../runtime/checks/checks.ts'
import type { ModelsConfig } from '../runtime/providers/models-config.ts'
import { roleFields, someText } from '../runtime/settings/role-shape.ts'

interface AgentConfig {
  llm?: {
    model?: string
    temperature?: number
    systemPrompt?: string
    maxOutputTokens?: number
    baseURL?: string
    apiKeyEnv?: string
  }
  context?: { historyKeep?: number; maxTokens?: number }
  rounds?: { maxPerSubtask?: number }
}

/** What the file comes to. */
export interface AgentDefaults {
  role: Partial<AgentRole>
  /** Of the strategy 'hierarchical'. */
  historyKeep: number | undefined
  models: ModelsConfig
}

const llmShape = shape<NonNullable<AgentConfig['llm']>>({
  model: someText,
  temperature: roleFields.temperature,
  systemPrompt: text,
  maxOutputTokens: roleFields.maxOutputTokens,
  baseURL: someText,
  apiKeyEnv: someText,
})

const configShape = shape<AgentConfig>({
  llm: (value, path) => {
    llmShape(value, path)
    const { model, baseURL, apiKeyEnv } = value as NonNullable<AgentConfig['llm']>
    if (baseURL !== undefined || apiKeyEnv !== undefined) someText(model, `${path}.model`)
  },
  context: shape<NonNullable<AgentConfig['context']>>({ historyKeep: integer(1), maxTokens: roleFields.maxTokens }),
  rounds: shape<NonNullable<AgentConfig['rounds']>>({ maxPerSubtask: roleFields.maxRounds }),
})

const NAMES = ['agent_config.yaml', 'agent_config.yml']

/** The files that are there: one, if any. */
export function configBeside(file: URL): URL[] {
  return NAMES.map((name) => new URL(name, file)).filter((url) => existsSync(url))
}

/** Throws for the first setting that is wrong, with its path. */
export function agentDefaults(value: unknown): AgentDefaults {
  const given = value ?? {} // an empty file
  anyObject(given, 'agent_config')
  configShape(given, '')
  const { llm = {}, context = {}, rounds = {} } = given as AgentConfig
  const { baseURL, apiKeyEnv, ...settings } = llm
  const { model } = settings
  const isReached = model !== undefined && (baseURL !== undefined || apiKeyEnv !== undefined)
  const role: Partial<AgentRole> = { ...settings }
  if (context.maxTokens !== undefined) role.maxTokens = context.maxTokens
  if (rounds.maxPerSubtask !== undefined) role.maxRounds = rounds.maxPerSubtask
  return {
    role,
    historyKeep: context.historyKeep,
    models: isReached ? { [model]: { model, baseURL, apiKeyEnv } } : {},
  }
}
