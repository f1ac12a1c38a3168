/**
 * Coding agents by the Agent Client Protocol: a program that is started here, sessions in it, and prompts in these. The
 * agent edits by itself; what it asks permission for is asked of people. Source: agentclientprotocol.com, version 1.
 */
import { stat } from 'node:fs/promises'
import { ReadableStream, WritableStream } from 'node:stream/web'
import type { ModelPiece } from '../actors/definition/model.ts'
import type { AcpAgent } from '../actors/definition/role-config.ts'
import { isOverIn, systemClock } from '../shared/clock.ts'
import {
  AgentCrashedError,
  AgentFailedError,
  ConfigurationError,
  DramatisError,
  describe,
  OutcomeUnknownError,
  shown,
} from '../shared/errors.ts'
import { unlessAborted } from '../shared/on-abort.ts'
import { visible } from '../shared/text.ts'
import {
  CANCELLED,
  cut,
  DEFAULTS,
  type Fields,
  fieldsOf,
  GoneError,
  type Line,
  LONGEST_TITLE,
  listIn,
  OpenPrompt,
} from './acp-prompt.ts'
import { Program } from './program.ts'
import type { RemotePeer, RemotePrompt } from './role.ts'
import { sdk } from './sdk.ts'

const VERSION = 1
/** Pause before an agent that died in a task is started again for it, for each time that it did. */
const AGAIN_MS = 1_000

const AUTH_REQUIRED = -32_000
const GOES_ON =
  'You were interrupted in the middle of this task. Look at what is done already, then go on with what is left of it.'

const unknown = (agent: string, ended: string, cause: unknown): OutcomeUnknownError => {
  const advice =
    'It may have done its task, or a part of it, so that is not begun again. Say idempotent: true in remote.acp if it may go on.'
  return new OutcomeUnknownError(`${ended}. ${advice}`, { agent }, cause)
}

export class AcpPeer implements RemotePeer {
  readonly #agent: string
  readonly #options: AcpAgent
  readonly #env: () => Readonly<Record<string, string>>
  readonly #who: string
  #line: Promise<Line> | undefined
  #isClosed = false

  /** `env`: returns the variables that the role grants. */
  constructor(agent: string, options: AcpAgent, env: () => Readonly<Record<string, string>>) {
    this.#agent = agent
    this.#options = { ...options }
    this.#env = env
    this.#who = `The program of agent "${agent}" (${visible(options.command)})`
  }

  async ready(): Promise<void> {
    await sdk(`remote.acp of agent "${this.#agent}"`)
    const { cwd } = this.#options
    const folder = await stat(cwd).catch(() => undefined)
    if (folder?.isDirectory()) return
    const text = `remote.acp.cwd of agent "${this.#agent}": ${shown(cwd)} is no folder. Make it first.`
    throw new ConfigurationError(text, { path: 'remote.acp.cwd', got: shown(cwd) })
  }

  async *prompt(prompt: RemotePrompt): AsyncGenerator<ModelPiece> {
    const { signal } = prompt
    let held = sessionIn(prompt.held)
    for (let tries = 1; ; tries += 1) {
      const line = await this.#connected(signal)
      const session = await this.#session(line, held ?? prompt.session, signal)
      prompt.inSession(session)
      await prompt.note({ session })
      signal.throwIfAborted()
      const text = held === undefined ? prompt.text : `${GOES_ON}\n\n${prompt.text}`
      const open = new OpenPrompt(this.#who, prompt, line, session, this.#options)
      try {
        return yield* open.pieces(text)
      } catch (error) {
        if (!(error instanceof GoneError)) throw error
        const ended = `${this.#who} ended while it worked: ${line.program.end}`
        prompt.crashed(new AgentCrashedError(ended, { agent: this.#agent }))
        if (!this.#options.idempotent) throw unknown(this.#agent, ended, error)
        yield { restart: true }
        held = session
        await systemClock.sleep(AGAIN_MS * tries, signal)
      }
    }
  }

  async close(): Promise<void> {
    this.#isClosed = true
    const line = await this.#line?.catch(() => undefined)
    await line?.program.stop()
  }

  async #connected(signal: AbortSignal): Promise<Line> {
    const before = await this.#line?.catch(() => undefined)
    // until it has stopped what was cancelled, nobody knows whether it has to be ended
    if (before) await unlessAborted(signal, Promise.all(before.ending.values()))
    if (before?.isOver) {
      this.#line = undefined
      await before.program.gone
    }
    if (this.#isClosed) throw new AgentFailedError(`${this.#who} is not started any more: the team is closed.`)
    this.#line ??= this.#start()
    const starting = this.#line
    starting.catch(() => {
      if (this.#line === starting) this.#line = undefined
    })
    return unlessAborted(signal, starting)
  }

  async #start(): Promise<Line> {
    const acp = await sdk(`remote.acp of agent "${this.#agent}"`)
    const { command, args = [], cwd, env = {} } = this.#options
    const program = await Program.start({ command, args, cwd, env: { ...this.#env(), ...env } }).catch((error) => {
      throw this.#failed(`cannot be started: ${describe(error)}`, error)
    })
    const asked = new Set<unknown>()
    const line = {
      program,
      prompts: new Map(),
      sessions: new Set(),
      ending: new Map(),
      isOver: false,
    } as unknown as Line
    const stream = {
      readable: ReadableStream.from(heard(line, asked)),
      writable: new WritableStream<object>({
        write(message) {
          const { id, method } = fieldsOf(message)
          if (typeof method === 'string' && id !== undefined) asked.add(id)
          program.write(message)
        },
      }),
    }
    const { requestPermission } = acp.methods.client.session
    const connection = acp
      .client({ name: 'dramatis' })
      .onRequest(
        requestPermission,
        fieldsOf,
        async ({ params, signal }) =>
          (line.prompts.get(String(params.sessionId))?.permit(params, signal) ?? CANCELLED) as never,
      )
      .connect(stream as never)
    connection.signal.addEventListener('abort', () => {
      line.isOver = true
      program.kill('SIGTERM') // nobody hears it any more
    })
    Object.assign(line, {
      ask: async (method: string, params: object) => {
        try {
          return fieldsOf(await connection.agent.request(method, params))
        } catch (error) {
          if (!connection.signal.aborted) throw error
          await program.gone
          throw new GoneError(program.end)
        }
      },
      tell: (method: string, params: object) => void connection.agent.notify(method, params).catch(() => {}),
    })
    try {
      const begun = line.ask(acp.methods.agent.initialize, {
        protocolVersion: VERSION,
        clientCapabilities: {},
        clientInfo: { name: 'dramatis', version: '1' },
      })
      const { protocolVersion, agentCapabilities, authMethods } = await this.#inTime(begun, 'initialize')
      if (protocolVersion !== VERSION)
        throw this.#failed(`speaks version ${shown(protocolVersion)} of the protocol; ${VERSION} is needed`)
      return Object.assign(line, {
        loads: fieldsOf(agentCapabilities).loadSession === true,
        authMethods: listIn(authMethods),
      })
    } catch (error) {
      await program.stop()
      throw error
    }
  }

  /** Returns the session to work in: that one, if the program has it or can load it, else a new one. */
  async #session(line: Line, wanted: string | undefined, signal: AbortSignal): Promise<string> {
    const { cwd, mcpServers = [], mode } = this.#options
    const ask = (method: string, params: object) =>
      this.#inTime(line.ask(method, { cwd, mcpServers, ...params }), method, line.authMethods, signal)
    if (wanted !== undefined) {
      if (line.sessions.has(wanted)) return wanted
      if (line.loads) {
        const loaded = await ask('session/load', { sessionId: wanted }).catch((error: unknown) => {
          if (error instanceof DramatisError && error.details.code === undefined) throw error
        })
        if (loaded) return this.#begun(line, wanted, mode, signal)
      }
    }
    const { sessionId } = await ask('session/new', {})
    if (typeof sessionId !== 'string') throw this.#failed(`opened a session with the id ${shown(sessionId)}`)
    return this.#begun(line, sessionId, mode, signal)
  }

  async #begun(line: Line, sessionId: string, modeId: string | undefined, signal: AbortSignal): Promise<string> {
    if (modeId !== undefined)
      await this.#inTime(line.ask('session/set_mode', { sessionId, modeId }), 'session/set_mode', [], signal)
    line.sessions.add(sessionId)
    return sessionId
  }

  /** Waits for an answer of the handshake. */
  async #inTime(
    answer: Promise<Fields>,
    method: string,
    authMethods: readonly unknown[] = [],
    signal?: AbortSignal,
  ): Promise<Fields> {
    const { startMs = DEFAULTS.startMs } = this.#options
    const done = answer.catch((error: unknown) => {
      if (error instanceof GoneError) throw this.#failed(`ended at ${method}: ${error.message}`, error)
      const { code, message, data } = fieldsOf(error)
      const logins = authMethods.map((each) => fieldsOf(each)).map(({ name, id }) => String(name ?? id))
      const advice =
        code === AUTH_REQUIRED
          ? ` Log in with the program itself (${logins.join(', ') || 'it names no way'}), or grant it a key: env and keys of the role.`
          : ''
      const more = data === undefined ? '' : ` (${cut(JSON.stringify(data), LONGEST_TITLE)})`
      throw this.#failed(`refuses ${method}: ${cut(String(message), LONGEST_TITLE)}${more}.${advice}`, error, code)
    })
    if (!(await isOverIn(startMs, signal ? unlessAborted(signal, done) : done)))
      throw this.#failed(`did not answer ${method} within ${startMs} ms (startMs)`)
    return done
  }

  #failed(what: string, cause?: unknown, code?: unknown): AgentFailedError {
    const details = { agent: this.#agent, ...(code !== undefined && { code }) }
    return new AgentFailedError(`${this.#who} ${what}${/[.)]$/.test(what) ? '' : '.'}`, details, cause)
  }
}

const sessionIn = (held: unknown): string | undefined => {
  const { session } = fieldsOf(held)
  return typeof session === 'string' ? session : undefined
}

/**
 * Yields the messages that the connection is to see: answers to what it has asked, and requests. What the agent says of
 * its work is taken here, in its order.
 */
async function* heard(line: Line, asked: Set<unknown>): AsyncGenerator<Fields> {
  for await (const message of line.program.messages()) {
    const { id, method, params } = message as Fields
    if (method === 'session/update') {
      const { sessionId, update } = fieldsOf(params)
      line.prompts.get(String(sessionId))?.hear(fieldsOf(update))
    } else if (
      typeof method === 'string'
        ? id === undefined || typeof id === 'string' || typeof id === 'number'
        : asked.delete(id)
    )
      yield { ...message, jsonrpc: '2.0' }
  }
}
