/**
 * Loads a team from `agents.yaml`, with `agent_config.yaml` beside it. Source: document 003, the registry and its
 * configuration.
 */
import { fileURLToPath, pathToFileURL } from 'node:url'
import type { AgentRole } from '../actors/definition/role.ts'
import type { Tool } from '../actors/definition/tool.ts'
import { shown } from '../errors.ts'
import { anyObject, type Check, shape } from '../runtime/checks/checks.ts'
import { refused } from '../runtime/checks/refused.ts'
import { roleShape } from '../runtime/settings/role-shape.ts'
import { AgentsFile } from './agents-file.ts'
import { ReadyClasses } from './ready-classes.ts'
import type { LoadedTeam } from './team-text.ts'
import { FileSource } from './text-source.ts'

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
