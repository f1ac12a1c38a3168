/** A team from `agents.yaml`, with `agent_config.yaml` beside it. Source: document 003, the registry and its configuration. */
import { existsSync, readFileSync } from 'node:fs'
import { basename } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import type { AgentRole } from '../actors/role.ts'
import type { Tool } from '../actors/tool.ts'
import { ConfigurationError, describe, shown } from '../errors.ts'
import { type OrchestrationConfig, protocolFrom } from '../protocols/index.ts'
import type { TeamOptions } from '../runtime/options.ts'
import { refused } from '../runtime/refused.ts'
import { settingsFrom } from '../runtime/settings.ts'
import { anyObject, type Check, type Fields, isObject, shape } from '../runtime/settings-checks.ts'
import { roleShape } from '../runtime/settings-shape-role.ts'
import { teamFields } from '../runtime/settings-shape-team.ts'
import { type AgentDefaults, agentDefaults } from './agent-config.ts'
import { refuseCycles } from './cycles.ts'
import { moduleAt } from './modules.ts'
import type { Places } from './places.ts'
import { readYaml } from './read-yaml.ts'
import { rolesFrom, type Surroundings, toolFrom } from './roles.ts'

/** What a file cannot hold. */
export interface LoadOptions {
  agents?: Record<string, AgentRole>
  tools?: Tool[]
}

/** What `createTeam` takes. */
export type LoadedTeam = TeamOptions & { orchestration: OrchestrationConfig }

type FileOptions = Omit<LoadedTeam, 'agents' | 'logger' | 'clock'> & { agents: object }

const { logger: _code, clock: _codeToo, ...fields } = teamFields

const fileFields: Fields<FileOptions> = { ...fields, agents: anyObject }

const fileShape: Check = shape(fileFields, 'agents')

const CONFIG_NAMES = ['agent_config.yaml', 'agent_config.yml']

/**
 * Reads a team from a file, whose name in errors is `shownAs`: else as it was given.
 *
 * @throws ConfigurationError with file, line and column of what is wrong in it.
 */
export function loadTeamFrom(path: string | URL, options: LoadOptions = {}, shownAs?: string): LoadedTeam {
  const file = fileAt(path)
  const { agents = {}, tools = [] } = checked(options)
  const name = shownAs ?? (typeof path === 'string' ? path : fileURLToPath(path))
  return teamFrom(textOf(file, name), name, {
    file,
    classes: agents,
    tools: new Map(tools.map((tool) => [tool.name, tool])),
    defaults: defaultsBeside(file),
  })
}

/** The team that a text describes which is, or is to be, that file's. */
function teamFrom(text: string, name: string, surroundings: Surroundings): LoadedTeam {
  const { value, places } = readYaml(text, name)
  let agents: string[] = []
  return locating(places, agentsPath, () => {
    if (value === null)
      throw places.error({ line: 1, column: 1 }, 'the file is empty. Write agents: and below it an entry for each.')
    fileShape(isObject(value) ? withoutCode(value) : value, '')
    const { agents: entries, orchestration, tools, ...rest } = value as FileOptions
    agents = Object.keys(entries)
    const roles = rolesFrom(entries, surroundings)
    const team: LoadedTeam = {
      ...rest,
      agents: roles,
      orchestration: orchestrationFrom(orchestration, agents, surroundings.file),
    }
    if (tools) team.tools = tools.map((tool, i) => toolFrom(tool, `tools[${i}]`, surroundings))
    const { models } = surroundings.defaults
    if (Object.keys(models).length > 0 && team.models !== 'rehearsal') team.models = { ...models, ...team.models }
    settingsFrom(team, { modules: new Set(agents) }) // whether an agent needs code is for who makes the team to say
    protocolFrom(team.orchestration, agents)
    refuseCycles(roles)
    return team
  })

  /** Checks of a team's options say `agents[0]`, where a file has the name. */
  function agentsPath(path: string): string {
    return path.replace(/^agents\[(\d+)\]/, (_, at: string) => `agents.${agents[Number(at)]}`)
  }
}

function withoutCode(value: object): object {
  for (const key of ['logger', 'clock'])
    if (key in value)
      throw refused(
        key,
        Reflect.get(value, key),
        'nothing',
        'It is code: give it to createTeam, beside what loadTeam returns.',
      )
  return value
}

/** Without one the query goes to the first agent, who gives tasks to others as it sees fit: document 003's orchestrator. */
function orchestrationFrom(given: unknown, agents: readonly string[], file: URL): OrchestrationConfig {
  if (given === undefined) return { strategy: 'sequential', agentOrder: agents.slice(0, 1) }
  if (!isObject(given) || !('module' in given) || typeof given.module !== 'string') return given as OrchestrationConfig
  return { ...given, module: moduleAt(given.module, 'orchestration.module', file) } as OrchestrationConfig
}

function defaultsBeside(file: URL): AgentDefaults {
  const found = CONFIG_NAMES.map((name) => new URL(name, file)).filter((url) => existsSync(url))
  const [config, other] = found
  if (!config) return agentDefaults(null)
  const name = basename(fileURLToPath(config))
  if (other) {
    const message = `${name}: beside it is ${basename(fileURLToPath(other))}, and one of the two would count for nothing. Remove it.`
    throw new ConfigurationError(message, { file: name })
  }
  const { value, places } = readYaml(textOf(config, name), name)
  return locating(
    places,
    (path) => path,
    () => agentDefaults(value),
  )
}

/** What it gives; the error that it throws with the place of the option. */
function locating<T>(places: Places, pathOf: (path: string) => string, read: () => T): T {
  try {
    return read()
  } catch (error) {
    if (!(error instanceof ConfigurationError)) throw error
    const { path } = error.details
    throw places.located(error, typeof path === 'string' ? pathOf(path) : undefined)
  }
}

function fileAt(path: string | URL): URL {
  const given: unknown = path
  const accepted = 'the path of an agents.yaml, or its file: URL'
  if (typeof given === 'string' && given !== '' && !given.includes('\0')) return pathToFileURL(given)
  if (given instanceof URL && given.protocol === 'file:') return given
  throw refused('path', given, accepted)
}

function textOf(file: URL, name: string): string {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(readFileSync(file))
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? error.code : undefined
    if (code === 'ENOENT')
      throw new ConfigurationError(`${name}: there is no such file (${fileURLToPath(file)}).`, { file: name }, error)
    if (code === 'EISDIR')
      throw new ConfigurationError(`${name}: that is a folder; name the file in it.`, { file: name }, error)
    const advice = error instanceof TypeError ? 'Save it as UTF-8.' : 'Make it readable.'
    throw new ConfigurationError(`${name}: it cannot be read: ${describe(error)}. ${advice}`, { file: name }, error)
  }
}

const classOf: Check = (value, path) => roleShape(value, path)

function checked(options: LoadOptions): LoadOptions {
  shape<LoadOptions>({
    agents: (agents, path) => {
      anyObject(agents, path)
      for (const [name, role] of Object.entries(agents as object)) classOf(role, `${path}.${name}`)
    },
    tools: (tools, path) => {
      if (!Array.isArray(tools)) throw refused(path, tools, 'a list of tools')
      const first = new Set<unknown>()
      for (const [i, tool] of tools.entries()) {
        const name: unknown = Object(tool).name
        if (typeof name !== 'string' || first.has(name))
          throw refused(`${path}[${i}]`, tool, `a tool of its own name, from defineTool; the name is ${shown(name)}`)
        first.add(name)
      }
    },
  })(options, 'options')
  return options
}
