/** Roles that agents elsewhere play: their options, and what is asked of any protocol by which they are reached. */
import { isAbsolute } from 'node:path'
import type { GivenAnswer } from '../actors/definition/approval.ts'
import type { ModelPiece } from '../actors/definition/model.ts'
import type { AgentRole } from '../actors/definition/role.ts'
import type { A2aAgent, AcpAgent, RemoteAgent } from '../actors/definition/role-config.ts'
import { type ApprovalRule, isPolicy, type Logger, type ToolContext } from '../actors/definition/tool.ts'
import {
  byName,
  type Check,
  flag,
  listOf,
  oneOf,
  refused,
  refusedAs,
  rule,
  shape,
  text,
  wait,
} from '../shared/checks.ts'
import type { AgentCrashedError } from '../shared/errors.ts'

/** Call of a tool by a remote agent. */
export interface RemoteStep {
  /** Names the step within its prompt. */
  readonly id: string
  readonly tool: string
  readonly input: unknown
}

/**
 * Field of the metadata of a message from elsewhere, and as JSON text of those of a run: marks of the turns that wait
 * for its answer, each for the next.
 */
export const PATH = 'dramatis/path'

/** A prompt of a turn, and what the host does for the agent meanwhile. */
export interface RemotePrompt {
  /** The same for each try, also in later processes. */
  readonly id: string
  readonly agent: string
  readonly runId: string
  readonly text: string
  /** Session of an earlier turn; undefined: there is none, or it is not known. */
  readonly session: string | undefined
  /** Last note of an earlier process, or of an earlier try; undefined: the prompt begins. */
  readonly held: unknown
  readonly log: Logger
  /** Aborted when nobody waits for the answer any more. */
  readonly signal: AbortSignal
  /** Says in which session the agent works. */
  inSession(id: string): void
  /** Marks of the turns that wait for the answer, here and elsewhere, for agents that can find themselves in them. */
  readonly path: readonly string[]
  /**
   * Resolves when the note is in the log. From here on the agent may have done something that nobody can find again,
   * unless `mayHaveRun` is false.
   */
  note(state: object, more?: { readonly mayHaveRun: boolean }): Promise<void>
  /** Asks a person. The time of the person counts for no limit, and an answer is there after a restart. */
  ask: ToolContext['ask']
  progress(words: string): void
  began(step: RemoteStep): void
  /** `output`: JSON text. `failed`: why. */
  ended(step: Pick<RemoteStep, 'id'>, how: { output?: string | undefined; failed?: string | undefined }): void
  /**
   * Asks people whether a step may be made. `more`: choices beside yes and no, which are answers of their own. Rejects
   * with `RequestTimeoutError` where nobody answers in time, and when the signal is aborted.
   */
  permit(
    step: RemoteStep,
    asked: { readonly more: readonly string[]; readonly approvers: ApprovalRule },
    signal: AbortSignal,
  ): Promise<GivenAnswer>
  /** The agent is gone with all that it had begun: what plays its role here ends, too, and is restarted. */
  crashed(error: AgentCrashedError): void
}

/** Agent elsewhere that plays a role. */
export interface RemotePeer {
  /** Rejects with `ConfigurationError` where it cannot work here. */
  ready(): Promise<void>
  prompt(prompt: RemotePrompt): AsyncIterable<ModelPiece>
  /** Resolves when nothing of it is left. */
  close(): Promise<void>
}

const someText = rule('a string that is not empty', (value) => typeof value === 'string' && value !== '')

/** A value may be a secret, also one of another type: it is not shown. */
const variable: Check = (value, path) => {
  if (typeof value !== 'string') throw refusedAs(path, 'no text', 'the text of a variable')
}

const acp = shape<AcpAgent>(
  {
    command: someText,
    args: listOf(text),
    cwd: rule('an absolute path', (value) => typeof value === 'string' && isAbsolute(value)),
    env: byName('variables with their texts', variable),
    permissions: rule(
      '"ask", "deny", { by?, groups?, quorum? } or a function',
      (value) =>
        value === 'ask' || value === 'deny' || typeof value === 'function' || (isPolicy(value) && !('when' in value)),
    ),
    mcpServers: listOf(rule('an object', (value) => typeof value === 'object' && value !== null)),
    session: oneOf('run', 'thread'),
    mode: someText,
    idempotent: flag,
    startMs: wait(),
    idleMs: wait(),
    cancelMs: wait(),
  },
  'command',
  'cwd',
)

const webAddress = rule(
  'an http: or https: URL',
  (value) => typeof value === 'string' && /^https?:/.test(value) && URL.canParse(value),
)

const a2a = shape<A2aAgent>(
  {
    url: webAddress,
    auth: (value, path) => {
      if (typeof value !== 'function' && (typeof value !== 'string' || value === ''))
        throw refusedAs(path, 'no token', 'a token, or a function that returns one')
    },
    session: oneOf('run', 'thread'),
    idempotent: flag,
    timeoutMs: wait(),
  },
  'url',
)

const kinds = shape<{ acp?: AcpAgent; a2a?: string | A2aAgent }>({
  acp,
  a2a: (value, path) => (typeof value === 'string' ? webAddress(value, path) : a2a(value, path)),
})

export const remoteShape: Check = (value, path) => {
  kinds(value, path)
  const { length } = Object.keys(Object(value))
  if (length !== 1) throw refusedAs(path, `${length} addresses`, 'one of acp and a2a')
}

/** Returns the name by which people know the agent elsewhere: its origin, or its program. */
export const placeOf = ({ acp, a2a }: RemoteAgent): string =>
  acp ? acp.command : new URL(typeof a2a === 'string' ? a2a : a2a.url).origin

/** Returns whose memory the agent elsewhere has. */
export const sessionOf = ({ acp, a2a }: RemoteAgent): 'run' | 'thread' =>
  (acp ?? (typeof a2a === 'object' ? a2a : {})).session ?? 'run'

/** Fields of a role whose work the agent elsewhere does by itself. */
const ITS_OWN = [
  'module',
  'systemPrompt',
  'model',
  'tools',
  'verbs',
  'output',
  'contextStrategy',
] as const satisfies readonly (keyof AgentRole)[]

/** Throws `ConfigurationError` for a field that the agent elsewhere would know nothing of. */
export function checkRemote(role: AgentRole, path: string): void {
  for (const name of ITS_OWN)
    if (role[name] !== undefined)
      throw refused(`${path}.${name}`, role[name], 'nothing beside remote', 'The agent elsewhere has its own.')
  const isThread = role.remote && sessionOf(role.remote) === 'thread'
  const { instances = 1, concurrency = 1 } = role
  if (instances > 1) throw refused(`${path}.instances`, instances, '1 beside remote', 'Its sessions have one memory.')
  if (isThread && concurrency > 1)
    throw refused(`${path}.concurrency`, concurrency, "1 beside session: 'thread'", 'Its sessions outlive a run.')
}
