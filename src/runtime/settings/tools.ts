/** Tools of a role, with those of the team: checked, and sorted by where they run. */
import type { AgentRole, ToolReference } from '../../actors/definition/role.ts'
import { type ToolDefinition, toolDefinitionOf, usable } from '../../actors/definition/tool.ts'
import { verbTool } from '../../actors/model/verb-tools.ts'
import { checkNamed, checkUnique } from '../../actors/turn/toolbox.ts'
import {
  type Check,
  flag,
  integer,
  isObject,
  listOf,
  reading,
  refused,
  refusedAs,
  rule,
  shape,
} from '../../shared/checks.ts'
import { moduleFrom } from './module.ts'

/*
 * Decides whether an agent shares its thread with others. Only model agents may: their thread runs no code but the
 * runtime's.
 */

/** 'thread': the agent has a thread for itself. 'shared': it shares one with other model agents. */
export type Isolation = NonNullable<AgentRole['isolation']>

interface Given {
  readonly team: Isolation | undefined
  readonly playedByModel: boolean
  readonly tools: ToolSettings
}

/** Throws for a role that says 'shared' and cannot be. A default of the team holds for the roles that can. */
export function isolationOf(role: AgentRole, path: string, { team = 'thread', ...given }: Given): Isolation {
  const wanted = role.isolation ?? team
  if (wanted === 'thread') return 'thread'
  const reason = whyNotShared(role, path, given)
  if (reason === undefined) return 'shared'
  if (role.isolation === undefined) return 'thread'
  throw refusedAs(
    `${path}.isolation`,
    '"shared"',
    '"thread", or a role whose thread runs no code of yours',
    `Agent "${role.name}" cannot share a thread: ${reason}.`,
  )
}

function whyNotShared(
  { module, env = [], limits = {} }: AgentRole,
  path: string,
  { playedByModel, tools }: Omit<Given, 'team'>,
): string | undefined {
  if (module !== undefined) return `its code runs in it (${path}.module)`
  if (!playedByModel) return 'its code, given as a definition, runs in it'
  const [tool] = tools.modules
  if (tool) return `${tool.option} runs in it (give that isolate: true, or give the tool itself)`
  if (env.length > 0) return `its environment is that of one agent (${path}.env)`
  for (const name of ['maxHeapMb', 'maxExternalMb'] as const)
    if (limits[name] !== undefined) return `its memory cannot be limited for one agent (${path}.limits.${name})`
  return undefined
}

export interface ToolModule {
  readonly option: string
  /** Module of the tool: the href of a file: URL, or a bare specifier. */
  readonly module: string
  readonly export: string
}

export interface IsolatedTool extends ToolModule {
  readonly env: readonly string[]
  /** Heap limit of its thread in MiB; null: Node's own limit. */
  readonly maxHeapMb: number | null
}

export interface ToolSettings {
  /** Tools given inline: they run in the host. */
  readonly inline: readonly { readonly option: string; readonly tool: ToolDefinition }[]
  readonly modules: readonly ToolModule[]
  readonly isolated: readonly IsolatedTool[]
  /** Entries that are only a name: verbs, or tools that are among the others. */
  readonly names: readonly { readonly option: string; readonly name: string }[]
  /** Names that tasks are routed by, beside those of the tools. */
  readonly skills: readonly string[]
}

export interface ToolsOf {
  readonly name: string
  readonly tools: ToolSettings
}

const NO_TOOLS: ToolSettings = { inline: [], modules: [], isolated: [], names: [], skills: [] }

type ToolInModule = Exclude<ToolReference, string | { name: string }>

const MOST_HEAP_MB = 2 ** 20

export const variableName: Check = (value, path) => {
  const accepted = 'the name of an environment variable'
  if (typeof value !== 'string') throw refused(path, value, accepted)
  // Never shows the value: a user that writes NAME=value here has put a secret into it.
  if (value === '' || /[=\0]/.test(value))
    throw refusedAs(path, 'a string that is no name', accepted, 'Give the name alone.')
}

const inModule = {
  module: (value: unknown, path: string) => void moduleFrom(value, path),
  export: rule('the name of an export', (value) => typeof value === 'string' && value !== ''),
  isolate: flag,
  env: listOf(variableName),
  limits: shape<NonNullable<ToolInModule['limits']>>({ maxHeapMb: integer(8, MOST_HEAP_MB) }),
}

const toolInModule = shape<ToolInModule>(inModule, 'module')

const TOOL = 'what defineTool returns, the name of a tool, or { module, export?, isolate? }'
const OF_OTHERS =
  'Write a tool of another library as defineTool({ name, description, input, run }): input is its inputSchema or parameters, run is its execute.'

/** Fields of tools of other libraries; a class of theirs inherits some. */
const THEIRS = [
  'run',
  'execute',
  'invoke',
  'func',
  'function',
  'inputSchema',
  'parameters',
  'schema',
  'description',
] as const

const reference: Check = (value, path) => {
  if (reading(path, () => toolDefinitionOf(value)) || (typeof value === 'string' && value !== '')) return
  if (!isObject(value)) throw refused(path, value, TOOL)
  if (reading(path, () => !('module' in value) && THEIRS.some((field) => field in value)))
    throw refused(path, value, TOOL, OF_OTHERS)
  toolInModule(value, path)
  const { isolate, env, limits } = value as ToolInModule
  if (isolate) return
  const advice = 'It runs in the thread of its agent, and has what that has.'
  if (env) throw refused(`${path}.env`, env, 'nothing without isolate: true', advice)
  if (limits) throw refused(`${path}.limits`, limits, 'nothing without isolate: true', advice)
}

const references = listOf(reference)

export const toolsShape: Check = (value, path) => {
  if (isObject(value)) throw refused(path, value, 'a list of tools', OF_OTHERS) // by their names, as the AI SDK has them
  references(value, path)
}

/** Checks the tools of a role that an agent makes: data alone, and no environment. */
export const spawnToolsShape = listOf((value, path) => {
  if (toolDefinitionOf(value)) throw refused(path, value, 'the name of a tool, or { module, export?, isolate? }')
  reference(value, path)
  const { env } = Object(value) as { env?: unknown }
  if (env !== undefined) throw refused(`${path}.env`, env, 'nothing: a role that an agent makes has no environment')
})

/** Returns the role with the names among its tools as skills, but for verbs: a task may be routed by such a name. */
export function namesAsSkills(role: AgentRole): AgentRole {
  const { tools = [], skills = [] } = role
  const names = tools.flatMap((tool) => (typeof tool === 'string' && !verbTool(tool) ? [tool] : []))
  return names.length === 0 ? role : { ...role, skills: [...skills, ...names] }
}

/** Returns the tools of the role at `path`, after those that all roles share. Throws for two tools of one name. */
export function toolSettings(
  shared: readonly ToolReference[],
  { tools: own = [], skills = [] }: Pick<AgentRole, 'tools' | 'skills'>,
  path: string,
): ToolSettings {
  const given = [
    ...shared.map((tool, i) => ({ tool, option: `tools[${i}]` })),
    ...own.map((tool, i) => ({ tool, option: `${path}.tools[${i}]` })),
  ]
  if (given.length + skills.length === 0) return NO_TOOLS
  const inline = new Map<string, { option: string; tool: ToolDefinition }>()
  const modules: ToolModule[] = []
  const isolated: IsolatedTool[] = []
  const names: { option: string; name: string }[] = []
  for (const { tool, option } of given) {
    const definition = toolDefinitionOf(tool)
    if (definition) {
      const before = inline.get(definition.name)
      if (before?.tool === definition) continue // given to the team and to the role: counts once
      checkUnique(definition.name, option, before?.option)
      inline.set(definition.name, { option, tool: usable(definition, option) })
    } else if (typeof tool !== 'string') addModule(tool as ToolInModule, option)
    else if (!skills.includes(tool)) names.push({ option, name: tool })
  }
  return { inline: [...inline.values()], modules, isolated, names, skills: [...skills] }

  function addModule({ module, export: name = 'default', isolate, env = [], limits }: ToolInModule, option: string) {
    const place = { option, module: moduleFrom(module, `${option}.module`), export: name }
    if (isolate) isolated.push({ ...place, env: [...env], maxHeapMb: limits?.maxHeapMb ?? null })
    else modules.push(place)
  }
}

/** Throws for a name among the tools of a role that no tool, no verb and no skill of the role has. */
export function checkToolNames({ name: agent, tools }: ToolsOf, team: readonly ToolsOf[]): void {
  if (tools.names.length === 0 || tools.modules.length + tools.isolated.length > 0) return // or its thread finds out
  const others = team.filter(({ name }) => name !== agent)
  const owners = new Map(
    others.flatMap(({ name, tools }) => tools.inline.map(({ tool }) => [tool.name, name] as const)),
  )
  checkNamed(
    tools.names,
    tools.inline.map(({ tool }) => tool.name),
    owners,
  )
}
