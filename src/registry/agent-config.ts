/** `agent_config.yaml`: defaults for every agent that does not set its own. Source: document 003, configuration. */
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

/** Defaults that the file gives. */
export interface AgentDefaults {
  role: Partial<AgentRole>
  /** Option of the context strategy 'hierarchical'. */
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

/** Returns the configuration files that exist beside the given file; there should be at most one. */
export function configBeside(file: URL): URL[] {
  return NAMES.map((name) => new URL(name, file)).filter((url) => existsSync(url))
}

/** Returns the defaults of a parsed file. Throws for the first invalid setting, with its path. */
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
