/** Roles that agents elsewhere play: their options, and what is asked of any protocol by which they are reached. */
import { isAbsolute } from 'node:path'
import type { GivenAnswer } from '../actors/definition/approval.ts'
import type { ModelPiece } from '../actors/definition/model.ts'
import type { AgentRole } from '../actors/definition/role.ts'
import type { AcpAgent, RemoteAgent } from '../actors/definition/role-config.ts'
import { type ApprovalRule, isPolicy, type Logger } from '../actors/definition/tool.ts'
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

/** A prompt of a turn, and what the host does for the agent meanwhile. */
export interface RemotePrompt {
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
  /** Resolves when the note is in the log. From here on the agent may have done something. */
  note(state: object): Promise<void>
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

export const remoteShape: Check = shape<RemoteAgent>({ acp }, 'acp')

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
  const isThread = role.remote?.acp.session === 'thread'
  const { instances = 1, concurrency = 1 } = role
  if (instances > 1) throw refused(`${path}.instances`, instances, '1 beside remote', 'Its sessions have one memory.')
  if (isThread && concurrency > 1)
    throw refused(`${path}.concurrency`, concurrency, "1 beside session: 'thread'", 'Its sessions outlive a run.')
}
