/**
 * Roles that agents elsewhere play. A prompt is a call of a tool that the host runs, so it survives a crash as such a
 * call does, and its words are those of a model, so they are read along, counted and redacted as such.
 */
import { v5 } from 'uuid'
import { questionAbout } from '../../actors/definition/approval.ts'
import type { RemoteAnswer, RemoteRequest } from '../../actors/definition/assignment.ts'
import type { ModelClient } from '../../actors/definition/model.ts'
import { REMOTE, type Verb } from '../../actors/definition/role.ts'
import { notesOf, type ToolContext } from '../../actors/definition/tool.ts'
import { PATH, placeOf, type RemotePeer, type RemotePrompt } from '../../remote/role.ts'
import { environment } from '../../shared/environment.ts'
import { ConfigurationError, DramatisError, ToolFailedError } from '../../shared/errors.ts'
import { digestOf } from '../../shared/random.ts'
import { own, picked } from '../../shared/values.ts'
import type { Agent } from '../host/agent.ts'
import type { Core } from '../host/core.ts'
import type { RunState } from '../host/run.ts'
import { outputField } from '../log/host-frames.ts'
import type { HostCaller, HostVerb } from './calls.ts'
import type { DeadlinePauses } from './deadline-pauses.ts'
import { type GatewayOptions, ModelGateway } from './gateway.ts'
import { type HostTools, threadTool } from './host-tools.ts'
import { type AskPerson, endOf } from './questions.ts'

/** Name of the tool whose calls prompts are. */
const PROMPT = 'prompt'
/** Namespace of the ids of questions that an agent elsewhere asks. */
const QUESTIONS = '0d7c3f4e-2b1f-5c53-9d0a-7a9be1f05a66'

/** Namespace of the ids of prompts. */
const PROMPTS = '6e0b7a3c-51d2-4f0e-8c5b-0d9a1f2e3b4c'

const promptIdOf = ({ run, callId }: HostCaller): string => v5(JSON.stringify([run.id, callId]), PROMPTS)

/** Returns the mark of a prompt. It says nothing to others, and is the same after a restart. */
const markOf = (id: string): string => digestOf([PATH, id]).slice(0, 32)

/** Returns the marks of those who wait for a run: none where the caller has put something else there. */
function pathIn({ metadata }: RunState): string[] {
  try {
    const path: unknown = JSON.parse(own(metadata, PATH) ?? '[]')
    return Array.isArray(path) ? path.filter((mark) => typeof mark === 'string') : []
  } catch {
    return []
  }
}

const protocolOf = ({ settings: { remote } }: Agent): string => (remote?.acp ? 'acp' : 'a2a')

export class Remotes {
  readonly #core: Core
  readonly #tools: HostTools
  readonly #ask: AskPerson
  readonly #pauses: DeadlinePauses
  readonly #peers = new Map<object, Promise<RemotePeer>>()
  /** Prompts that are under way, by their marks. */
  readonly #open = new Map<string, { readonly agent: Agent; readonly run: RunState }>()

  constructor(core: Core, tools: HostTools, ask: AskPerson, pauses: DeadlinePauses) {
    this.#core = core
    this.#tools = tools
    this.#ask = ask
    this.#pauses = pauses
  }

  /** Rejects with `ConfigurationError` where the agent that plays the role cannot be reached from here. */
  async ready(agent: Agent): Promise<void> {
    return (await this.#peerOf(agent)).ready()
  }

  verbs(options: Omit<GatewayOptions, 'resolve'>): [Verb, HostVerb][] {
    const clients = new Map<string, ModelClient>()
    const gateway = new ModelGateway({
      ...options,
      resolve: (_wanted, { agent, callId }) => ({
        client: clients.get(callId)!,
        model: `${protocolOf(agent)}/${agent.name}`,
      }),
    })
    const prompt = async (caller: HostCaller, request: RemoteRequest, signal: AbortSignal): Promise<RemoteAnswer> => {
      const { text, stream, watched } = request
      const run = async (_input: unknown, context: ToolContext): Promise<RemoteAnswer> => {
        let session = request.session ?? ''
        const inSession = (id: string) => {
          session = id
        }
        const peer = await this.#peerOf(caller.agent)
        const client = { complete: () => peer.prompt(this.#promptOf(caller, request, context, inSession)) }
        clients.set(caller.callId, client)
        const mark = markOf(promptIdOf(caller))
        this.#open.set(mark, caller)
        try {
          const call = { messages: [{ role: 'user' as const, content: text }], stream, watched }
          const answer = await notesOf(context).untimed(() => gateway.call(caller, call, context.signal, caller.say))
          return { text: answer.text, session }
        } finally {
          clients.delete(caller.callId)
          this.#open.delete(mark)
        }
      }
      const { acp, a2a } = caller.agent.settings.remote!
      const { idempotent = false } = acp ?? (typeof a2a === 'object' ? a2a : {})
      const tool = { ...threadTool(PROMPT, { outside: true }), idempotent, run }
      const given = { name: PROMPT, input: { text }, callId: caller.callId }
      try {
        return (await this.#tools.perform(caller, tool, given, signal, { notesFirst: true })) as RemoteAnswer
      } catch (error) {
        // the agent itself has failed, not a tool of it
        throw error instanceof ToolFailedError && error.cause instanceof DramatisError ? error.cause : error
      }
    }
    return [
      [
        REMOTE,
        (args, caller, signal) =>
          this.#pauses.during(caller, () => prompt(caller, args as RemoteRequest, signal), 'model'),
      ],
    ]
  }

  /** Returns the wait of this team that stands in a path, in words: an answer to it could not come before its own. */
  circleIn(path: readonly string[]): string | undefined {
    const at = path.findIndex((mark) => this.#open.has(mark))
    if (at < 0) return undefined
    const { agent, run } = this.#open.get(path[at]!)!
    const way = path.slice(at + 1).map((mark) => mark.slice(0, 8))
    const over = way.length === 0 ? 'nobody else' : way.join(', ')
    return `agent "${agent.name}" of this team waits in run ${run.id} for the agent at ${placeOf(agent.settings.remote!)}, which waits, over ${over}, for this`
  }

  async close(): Promise<void> {
    await Promise.all(Array.from(this.#peers.values(), async (peer) => (await peer).close()))
  }

  /** A protocol is loaded where a role has it. */
  #peerOf({ name, settings: { remote, env } }: Agent): Promise<RemotePeer> {
    if (!remote) throw new ConfigurationError(`Agent "${name}" is played here.`, { path: REMOTE, agent: name })
    const made = async (): Promise<RemotePeer> => {
      const { acp, a2a } = remote
      if (!acp) return new (await import('../../remote/a2a.ts')).A2aPeer(name, a2a)
      return new (await import('../../remote/acp.ts')).AcpPeer(name, acp, () => picked(environment(), env))
    }
    const peer = this.#peers.get(remote) ?? made()
    this.#peers.set(remote, peer)
    return peer
  }

  #promptOf(
    caller: HostCaller,
    { text, session }: RemoteRequest,
    context: ToolContext,
    inSession: RemotePrompt['inSession'],
  ): RemotePrompt {
    const { agent, run, turn, callId } = caller
    const { journal, clock } = this.#core
    const { state, note } = notesOf(context)
    const began = new Map<string, { tool: string; at: number }>()
    const of = (id: string, tool: string) => ({
      agent: agent.name,
      messageId: agent.messageIdOf(turn),
      callId: `${callId} ${id}`,
      tool,
    })
    if (state !== undefined && agent.settings.remote?.acp) this.#withdrawQuestions(run, agent, callId)
    let asked = 0
    return {
      agent: agent.name,
      runId: run.id,
      text,
      session,
      held: state,
      log: context.log,
      signal: context.signal,
      inSession,
      note: (held, { mayHaveRun } = { mayHaveRun: true }) => note(held, mayHaveRun ? { mayHaveRun } : {}),
      id: promptIdOf(caller),
      path: [...pathIn(run), markOf(promptIdOf(caller))],
      ask: context.ask,
      progress: (words) => context.progress(words),
      began: ({ id, tool, input }) => {
        began.set(id, { tool, at: clock.monotonic() })
        journal.record(run, { kind: 'tool.started', ...of(id, tool), input })
      },
      ended: ({ id }, { output, failed }) => {
        const { tool = 'other', at = clock.monotonic() } = began.get(id) ?? {}
        began.delete(id)
        const error = failed === undefined ? null : new ToolFailedError(failed, { tool, agent: agent.name })
        const said = output === undefined ? {} : outputField(JSON.stringify(output))
        journal.record(run, {
          kind: 'tool.finished',
          ...of(id, tool),
          durationMs: clock.monotonic() - at,
          ...said,
          error,
        })
      },
      permit: (step, { more, approvers: { by, groups, quorum } }, signal) => {
        asked += 1
        const call = { tool: step.tool, callId: `${callId} ${step.id}`, input: step.input, inputSchema: {} }
        const id = v5(JSON.stringify([run.id, call.callId, asked, began.size, clock.now()]), QUESTIONS)
        const question = {
          question: questionAbout(agent.name, step.tool, step.input),
          choices: ['yes', 'no', ...more],
          ask: 'approval',
          ...call,
          by,
          groups,
          quorum,
        }
        return this.#ask({ ...caller, ofTool: callId, callId: id }, question, signal, async (input) => {
          if (digestOf(input) !== digestOf(step.input)) throw takesNoInput(agent.name)
        })
      },
      crashed: (error) => agent.incarnation?.kill(this.#core.redactor.fields(error)),
    }
  }

  /** The agent that has asked them is gone: whoever goes on with the prompt asks anew. */
  #withdrawQuestions(run: RunState, { index, name }: Agent, callId: string): void {
    for (const entry of [...run.log.entries(-1, run.log.adopted)]) {
      if (entry.kind !== 'question' || entry.ofTool?.callId !== callId || entry.ofTool.index !== index) continue
      const { questionId } = entry
      if (endOf(run.log.entries(), questionId) !== undefined) continue
      this.#core.journal.record(run, { kind: 'question.closed', agent: name, questionId, how: 'withdrawn' })
    }
  }
}

const takesNoInput = (agent: string): ConfigurationError =>
  new ConfigurationError(
    `answer.input: agent "${agent}" works elsewhere, and takes no other input for its calls. Say no, and why in its next task.`,
    { path: 'answer.input', agent },
  )
