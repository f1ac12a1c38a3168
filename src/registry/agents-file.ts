/** Registry of a team from an agents.yaml, which is read when it has changed, and written when a type is defined. */

import { fileURLToPath, pathToFileURL } from 'node:url'
import { isDeepStrictEqual } from 'node:util'
import { type Document, isMap, isSeq, parseDocument, type YAMLMap } from 'yaml'
import type { AgentType } from '../actors/definition/context.ts'
import type { AgentRole } from '../actors/definition/role.ts'
import type { Tool } from '../actors/definition/tool.ts'
import type { AgentRegistry } from '../runtime/settings/options.ts'
import { roleShape } from '../runtime/settings/role-shape.ts'
import { anyObject, type Check, isObject, refused, shape } from '../shared/checks.ts'
import { ConfigurationError, shown } from '../shared/errors.ts'
import { OPAQUE } from './read-yaml.ts'
import { ReadyClasses } from './ready-classes.ts'
import { configBeside, type Surroundings } from './roles.ts'
import {
  FileSource,
  type LoadedTeam,
  MemorySource,
  type ReadTeam,
  stampOf,
  type TextSource,
  teamFrom,
} from './team-text.ts'

const GRANTS = ['can_delegate_to', 'canDelegateTo']

/**
 * Returns the text with an entry for that type. `maker`, if it has an entry itself, gets the right to delegate to it.
 *
 * @throws ConfigurationError for a name that is taken, and for a text whose agents cannot be added to.
 */
function withEntry(text: string, { name, ...type }: AgentType, maker: AgentRole | undefined): string {
  const document = parseDocument(text, { uniqueKeys: false, logLevel: 'silent' })
  const agents = document.get('agents', true)
  if (!isMap(agents))
    throw refused('agents', agents, 'entries that stand there themselves', 'Write them out, without an alias.')
  if (agents.has(name)) throw refused('type.name', name, 'a name that no agent has')
  agents.set(document.createNode(name), document.createNode(snakeCased(type), { aliasDuplicateObjects: false }))
  if (maker && agents.has(maker.name)) allow(document, agents, maker, name)
  return written(document, text)
}

function allow(document: Document, agents: YAMLMap, { name, canDelegateTo = [] }: AgentRole, to: string): void {
  const entry = agents.get(name, true)
  const key = isMap(entry) ? (GRANTS.find((each) => entry.has(each)) ?? GRANTS[0]!) : GRANTS[0]!
  const list = isMap(entry) ? entry.get(key, true) : undefined
  if (isSeq(list)) return list.add(document.createNode(to))
  const own = document.createNode([...canDelegateTo, to], { flow: true })
  if (isMap(entry)) entry.set(key, own)
  else agents.set(name, document.createNode({ [key]: own }))
}

/** Writes the document in the style of its author, as far as that can be detected. */
function written(document: Document, before: string): string {
  const [, indent = '  '] = /^( {1,9})\S/m.exec(before) ?? []
  const text = document.toString({
    lineWidth: 0,
    indent: indent.length,
    flowCollectionPadding: /[[{] \S/.test(before),
  })
  return before.includes('\r\n') ? text.replaceAll(/\r?\n/g, '\r\n') : text
}

/** Returns options with their keys in snake_case, as in documents. */
function snakeCased(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(snakeCased)
  if (!isObject(value)) return value
  const fields = Object.entries(value).map(([key, field]) => [
    key.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`),
    OPAQUE.has(key) ? field : snakeCased(field),
  ])
  return Object.fromEntries(fields)
}

/** Source of a team's text, its name in errors, and what the text is resolved against. */
export interface Home extends Omit<Surroundings, 'defaults'> {
  source: TextSource
  name: string
}

class AgentsFile implements AgentRegistry {
  readonly loaded: readonly AgentRole[]
  readonly team: LoadedTeam
  readonly located: (error: ConfigurationError) => ConfigurationError
  readonly #home: Home
  #stamp: string
  /** Last text that was valid. */
  #text: string
  #roles: readonly AgentRole[]
  #error: unknown

  constructor(home: Home) {
    this.#home = home
    this.#stamp = this.#stampNow()
    this.#text = home.source.read()
    const { team, located } = this.#parsed(this.#text)
    this.team = team
    this.located = located
    this.loaded = team.agents
    this.#roles = team.agents
  }

  read(): readonly AgentRole[] {
    const stamp = this.#stampNow()
    if (stamp !== this.#stamp) {
      this.#stamp = stamp
      this.#error = undefined
      try {
        const text = this.#home.source.read()
        this.#roles = this.#parsed(text).team.agents
        this.#text = text
      } catch (error) {
        this.#error = error
      }
    }
    if (this.#error) throw this.#error
    return this.#roles
  }

  check(type: AgentType, maker: string | null): AgentRole {
    return this.#with(type, maker).role
  }

  save(type: AgentType, maker: string | null): void {
    this.#home.source.write(this.#with(type, maker).text) // based on the current text
  }

  rehearsed(): AgentRegistry {
    return new AgentsFile({ ...this.#home, source: new MemorySource(this.#text) })
  }

  #stampNow(): string {
    const { source, file } = this.#home
    return [source.stamp(), ...configBeside(file).map(stampOf)].join(' ')
  }

  #parsed(text: string): ReadTeam {
    return teamFrom(text, this.#home.name, this.#home)
  }

  #with(type: AgentType, maker: string | null): { text: string; role: AgentRole } {
    const before = this.#home.source.read()
    const roles = this.#parsed(before).team.agents
    const giver = roles.find(({ name }) => name === maker)
    const text = withEntry(before, type, giver)
    const { agents } = this.#asDefined(text, type.name)
    const role = agents.find(({ name }) => name === type.name)
    const others = agents.filter((other) => other !== role)
    if (!role || !isDeepStrictEqual(withoutGrants(others, maker), withoutGrants(roles, maker)))
      throw new ConfigurationError(
        `type: the entry of "${maker}" in ${this.#home.name} shares its content with another one, which would change too. Write it out, without an alias.`,
        { path: 'type', file: this.#home.name },
      )
    return { text, role }
  }

  /**
   * Parses a text that has the new entry. Its errors have no line and column, because the user never sees that text.
   */
  #asDefined(text: string, name: string): LoadedTeam {
    try {
      return this.#parsed(text).team
    } catch (error) {
      if (!(error instanceof ConfigurationError)) throw error
      const { line, column, file, ...details } = error.details
      const words = error.message.replace(`${file}:${line}:${column}: `, '')
      throw new ConfigurationError(`type: "${name}" cannot be defined: ${words}`, details, error.cause)
    }
  }
}

const withoutGrants = (roles: readonly AgentRole[], maker: string | null) =>
  roles.map((role) => (role.name === maker ? { ...role, canDelegateTo: [] } : role))

/* Loads a team from `agents.yaml`, with `agent_config.yaml` beside it. */

/** Options that a file cannot contain. */
export interface LoadOptions {
  agents?: Record<string, AgentRole>
  tools?: readonly Tool[]
}

/**
 * Reads a team from a file. `shownAs` is the name of the file in errors. Default: the path as given.
 *
 * @throws ConfigurationError with file, line and column of what is wrong in the file.
 */
export function loadTeamFrom(path: string | URL, options: LoadOptions = {}, shownAs?: string): LoadedTeam {
  const file = fileAt(path)
  const { agents = {}, tools = [] } = checked(options)
  const name = shownAs ?? (typeof path === 'string' ? path : fileURLToPath(path))
  const registry = new AgentsFile({
    source: new FileSource(file, name),
    name,
    file,
    classes: agents,
    ready: new ReadyClasses(file),
    tools: new Map(tools.map((tool) => [tool.name, tool])),
  })
  return { ...registry.team, registry }
}

function fileAt(path: string | URL): URL {
  const given: unknown = path
  const accepted = 'the path of an agents.yaml, or its file: URL'
  if (typeof given === 'string' && given !== '' && !given.includes('\0')) return pathToFileURL(given)
  if (given instanceof URL && given.protocol === 'file:') return given
  throw refused('path', given, accepted)
}

function checked(options: LoadOptions): LoadOptions {
  const role: Check = roleShape
  shape<LoadOptions>({
    agents: (agents, path) => {
      anyObject(agents, path)
      for (const [name, given] of Object.entries(agents as object)) role(given, `${path}.${name}`)
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
