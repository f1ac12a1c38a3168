/**
 * Checks the reply of a thread to its start. The agent's code shares the thread with the code that replies, and can
 * change the reply or post to the same port. A reply of another shape is a failed start.
 */
import type { CodeAssignment, Started, ToolCode } from '../../actors/definition/assignment.ts'
import { errorData, StartFailedError } from '../../errors.ts'
import { nestsTooDeep } from '../../mailbox/json-depth.ts'
import { errorIn } from '../log/thread-error.ts'

/** The answer, or a failed start where it is none. */
export function startedIn(reply: unknown, { role, tools }: CodeAssignment): Started {
  const { ok, error, importing } = Object(reply) as Record<string, unknown>
  if (ok === true) return beganIn(Object(reply)) ?? failed(role.name)
  const found = ok === false ? errorIn(error) : undefined
  const whose = importedIn(importing, tools.modules)
  return found && whose ? { ok: false, error: found, ...whose } : failed(role.name)
}

function beganIn({ state, tools, harmful }: Record<string, unknown>): Started | undefined {
  const isOne = (state === undefined || isState(state)) && isNames(tools) && isNames(harmful)
  return isOne ? { ok: true, state, ...(tools && { tools }), ...(harmful && { harmful }) } : undefined
}

const isNames = (names: unknown): names is string[] | undefined =>
  names === undefined || (Array.isArray(names) && names.every((name) => typeof name === 'string'))

/**
 * The tool is one that the thread was given: files are read to say more of it. undefined: it names nothing that can be.
 */
function importedIn(importing: unknown, modules: readonly ToolCode[]): { importing?: 'agent' | ToolCode } | undefined {
  if (importing === undefined) return {}
  if (importing === 'agent') return { importing }
  const { module: file, export: name } = Object(importing) as Record<string, unknown>
  if (typeof file !== 'string' || typeof name !== 'string') return undefined
  const tool = modules.find((known) => known.module === file && known.export === name)
  return tool ? { importing: tool } : {}
}

function isState(json: unknown): json is string {
  if (typeof json !== 'string' || nestsTooDeep(json)) return false
  try {
    const state: unknown = JSON.parse(json)
    return typeof state === 'object' && state !== null
  } catch {
    return false
  }
}

function failed(agent: string): Started {
  const words = `The thread of agent "${agent}" answered its start with what the runtime does not know. Its module, or a package that it imports, writes to the runtime's own port, or changes how Node posts messages: it must leave both alone.`
  return { ok: false, error: errorData(new StartFailedError(words, { agent })) }
}
