/** Turns the text of an agents.yaml into the options of a team. */
import { randomUUID } from 'node:crypto'
import { readFileSync, realpathSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { type OrchestrationConfig, protocolFrom, routesBySkills } from '../protocols/index.ts'
import type { TeamOptions } from '../runtime/settings/options.ts'
import { settingsFrom } from '../runtime/settings/settings.ts'
import { teamFields } from '../runtime/settings/team-shape.ts'
import { anyObject, type Check, type Fields, isObject, refused, shape } from '../shared/checks.ts'
import { ConfigurationError, describe } from '../shared/errors.ts'
import { own } from '../shared/values.ts'
import { type Places, readYaml, refuseCycles } from './read-yaml.ts'
import { CITY_EXPERTS, EXPERT_MS } from './ready-classes.ts'
import {
  type AgentDefaults,
  agentDefaults,
  configBeside,
  moduleAt,
  outputAt,
  rolesFrom,
  type Surroundings,
  toolFrom,
  type WrittenOutput,
  writtenOutput,
} from './roles.ts'

/** Text of an agents.yaml. Reads and writes are synchronous, so nothing can happen between them. */
export interface TextSource {
  /** Returns a value that differs if the text may have changed. */
  stamp(): string
  read(): string
  write(text: string): void
}

export class FileSource implements TextSource {
  readonly #file: URL
  readonly #name: string

  constructor(file: URL, name: string) {
    this.#file = file
    this.#name = name
  }

  stamp(): string {
    return stampOf(this.#file)
  }

  read(): string {
    try {
      return new TextDecoder('utf-8', { fatal: true }).decode(readFileSync(this.#file))
    } catch (error) {
      throw new ConfigurationError(`${this.#name}: ${this.#whyUnread(error)}`, { file: this.#name }, error)
    }
  }

  #whyUnread(error: unknown): string {
    const code = error instanceof Error && 'code' in error ? error.code : undefined
    if (code === 'ENOENT') return `there is no such file (${fileURLToPath(this.#file)}).`
    if (code === 'EISDIR') return 'that is a folder; name the file in it.'
    return `it cannot be read: ${describe(error)}. ${error instanceof TypeError ? 'Save it as UTF-8.' : 'Make it readable.'}`
  }

  /** Replaces the file atomically: another reader gets the complete old text or the complete new one. */
  write(text: string): void {
    let beside: string | undefined
    try {
      const path = realpathSync(this.#file) // for a link, its target
      beside = join(dirname(path), `.${basename(path)}.${randomUUID()}`)
      writeFileSync(beside, text, { flag: 'wx', mode: statSync(path).mode & 0o777 })
      renameSync(beside, path)
    } catch (error) {
      if (beside !== undefined) rmSync(beside, { force: true })
      const words = `${this.#name}: it cannot be written: ${describe(error)}. Make the file and its folder writable.`
      throw new ConfigurationError(words, { file: this.#name }, error)
    }
  }
}

/** Returns a value that differs if a file may have changed; '' if the file does not exist. */
export function stampOf(file: URL): string {
  const found = statSync(file, { throwIfNoEntry: false, bigint: true })
  return found ? [found.ino, found.size, found.mtimeNs, found.ctimeNs].join() : ''
}

export class MemorySource implements TextSource {
  #text: string
  #version = 0

  constructor(text: string) {
    this.#text = text
  }

  stamp(): string {
    return `${this.#version}`
  }

  read(): string {
    return this.#text
  }

  write(text: string): void {
    this.#text = text
    this.#version += 1
  }
}

export type LoadedTeam = TeamOptions & { orchestration: OrchestrationConfig }

type FileOptions = Omit<LoadedTeam, 'agents' | 'logger' | 'clock' | 'registry' | 'resolveFrom' | 'output'> & {
  agents: object
  output?: WrittenOutput
}

const { logger: _logger, clock: _clock, registry: _registry, resolveFrom: _itsFile, ...fields } = teamFields

const fileFields: Fields<FileOptions> = { ...fields, agents: anyObject, output: writtenOutput }

const fileShape: Check = shape(fileFields, 'agents')

export interface ReadTeam {
  team: LoadedTeam
  /** Returns an error about one of the team's options with the place of that option. */
  located(error: ConfigurationError): ConfigurationError
}

/** Returns the team that a text describes. The text is, or will be, the content of the given file. */
export function teamFrom(text: string, name: string, given: Omit<Surroundings, 'defaults'>): ReadTeam {
  const surroundings: Surroundings = { ...given, defaults: defaultsBeside(given.file) }
  const { value, places } = readYaml(text, name)
  let agents: string[] = []
  const read = () => {
    if (value === null)
      throw places.error({ line: 1, column: 1 }, 'the file is empty. Write agents: and below it an entry for each.')
    fileShape(isObject(value) ? withoutCode(value) : value, '')
    const { agents: entries, orchestration, output, tools, ...rest } = value as FileOptions
    agents = Object.keys(entries)
    const { strategy, supervisor } = Object(orchestration) as { strategy?: unknown; supervisor?: unknown }
    const roles = rolesFrom(entries, surroundings, strategy === 'supervisor' ? supervisor : undefined)
    const team: LoadedTeam = {
      ...rest,
      resolveFrom: surroundings.file,
      agents: roles,
      orchestration: inTime(orchestrationFrom(orchestration, agents, surroundings.file), entries, surroundings),
    }
    if (output !== undefined) team.output = outputAt(output, 'output', surroundings.file)
    if (tools) team.tools = tools.map((tool, i) => toolFrom(tool, `tools[${i}]`, surroundings))
    const { models } = surroundings.defaults
    if (Object.keys(models).length > 0 && team.models !== 'rehearsal') team.models = { ...models, ...team.models }
    settingsFrom(team, { modules: new Set(agents), skillsInTools: routesBySkills(team) }) // createTeam checks whether an agent needs code
    protocolFrom(team.orchestration, agents)
    refuseCycles(roles)
    return { team, located: (error: ConfigurationError) => located(error, places, agentsPath) }
  }
  return locating(places, read, agentsPath)

  /** Converts the path of an option: checks of a team's options say `agents[0]`, but the file has the name. */
  function agentsPath(path: string): string {
    return path.replace(/^agents\[(\d+)\]/, (_, at: string) => `agents.${agents[Number(at)]}`)
  }
}

function withoutCode(value: object): object {
  const advice = 'It is code: give it to createTeam, beside what loadTeam returns.'
  for (const key of ['logger', 'clock', 'registry'])
    if (Reflect.has(value, key)) throw refused(key, Reflect.get(value, key), 'nothing', advice)
  return value
}

/** Without an orchestration the query goes to the first agent, which may delegate tasks. */
function orchestrationFrom(given: unknown, agents: readonly string[], file: URL): OrchestrationConfig {
  if (given === undefined) return { strategy: 'sequential', agentOrder: agents.slice(0, 1) }
  if (!isObject(given) || !('module' in given) || typeof given.module !== 'string') return given as OrchestrationConfig
  return { ...given, module: moduleAt(given.module, 'orchestration.module', file) } as OrchestrationConfig
}

/** Returns the orchestration with their time limit if a supervisor's experts are all of its classes. */
function inTime(orchestration: OrchestrationConfig, entries: object, { classes }: Surroundings): OrchestrationConfig {
  if (!isObject(orchestration) || orchestration.strategy !== 'supervisor') return orchestration // refused later
  const isCityExpert = (agent: string) => {
    const { class: name } = Object(own(entries, agent)) as { class?: unknown }
    return typeof name === 'string' && Object.hasOwn(CITY_EXPERTS, name) && !Object.hasOwn(classes, name)
  }
  const { experts, timeoutPerAgentMs } = orchestration
  if (timeoutPerAgentMs !== undefined || !Array.isArray(experts) || !experts.every(isCityExpert)) return orchestration
  return { ...orchestration, timeoutPerAgentMs: EXPERT_MS }
}

function defaultsBeside(file: URL): AgentDefaults {
  const [config, other] = configBeside(file)
  if (!config) return agentDefaults(null)
  const name = basename(fileURLToPath(config))
  if (other) {
    const message = `${name}: beside it is ${basename(fileURLToPath(other))}, and one of the two would count for nothing. Remove it.`
    throw new ConfigurationError(message, { file: name })
  }
  const { value, places } = readYaml(new FileSource(config, name).read(), name)
  return locating(places, () => agentDefaults(value))
}

/** Calls `read` and returns its result. An error that it throws gets the place of the option. */
function locating<T>(places: Places, read: () => T, pathOf?: (path: string) => string): T {
  try {
    return read()
  } catch (error) {
    throw error instanceof ConfigurationError ? located(error, places, pathOf) : error
  }
}

function located(error: ConfigurationError, places: Places, pathOf = (path: string) => path): ConfigurationError {
  const { path } = error.details
  return places.located(error, typeof path === 'string' ? pathOf(path) : undefined)
}
