/**
 * What a thread answers to its start, checked. The agent's code shares the thread with what answers, and can change what it sends or
 * post to the same port: an answer of another shape is a start that failed.
 */
import { z } from 'zod'
import type { Assignment, Started, ToolCode } from '../actors/assignment.ts'
import { type ErrorCode, errorData, StartFailedError } from '../errors.ts'
import { nestsTooDeep } from '../mailbox/json-depth.ts'

/** Of what is said of a failure. */
const LONGEST = 65_536

const text = z.string().transform((found) => found.slice(0, LONGEST))
const names = z.array(z.string()).optional()
const replySchema = z.discriminatedUnion('ok', [
  z.object({ ok: z.literal(true), state: z.string().refine(isState).optional(), tools: names, harmful: names }),
  z.object({
    ok: z.literal(false),
    error: z.object({
      code: z.string(),
      message: text,
      details: z.record(z.string(), z.unknown()).catch({}),
      stack: text.optional(),
    }),
    importing: z.union([z.literal('agent'), z.object({ module: z.string(), export: z.string() })]).optional(),
  }),
])

/** The answer, or a failed start where it is none. */
export function startedIn(reply: unknown, { role, tools }: Assignment): Started {
  const found = replySchema.safeParse(reply)
  if (!found.success) return failed(role.name)
  if (found.data.ok) return { ...found.data, state: found.data.state }
  const { error, importing } = found.data
  const { code, message, details, stack } = error
  return {
    ok: false,
    error: { code: code as ErrorCode, message, details, ...(stack !== undefined && { stack }) },
    ...imported(importing, tools.modules),
  }
}

/** The tool is one that the thread was given: files are read to say more of it. */
function imported(
  importing: 'agent' | { module: string; export: string } | undefined,
  modules: readonly ToolCode[],
): { importing?: 'agent' | ToolCode } {
  if (importing === undefined) return {}
  if (importing === 'agent') return { importing }
  const tool = modules.find(({ module, export: name }) => module === importing.module && name === importing.export)
  return tool ? { importing: tool } : {}
}

function isState(json: string): boolean {
  if (nestsTooDeep(json)) return false
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
