/**
 * Tools with a thread of their own: a pool for each limit class, and what is known of each tool once a thread has
 * loaded it.
 */

import type { ToolCode } from '../../actors/definition/assignment.ts'
import type { ModelSchema, ToolContext, ToolDefinition } from '../../actors/definition/tool.ts'
import type { ToolTaskResult } from '../../actors/turn/run-tool.ts'
import { plainFrameBytes } from '../../mailbox/frame.ts'
import { nestsTooDeep } from '../../mailbox/json.ts'
import { describe, errorFrom, StartFailedError, TeamClosedError, ToolFailedError } from '../../shared/errors.ts'
import type { HostedSettings } from '../host/agent.ts'
import type { Core } from '../host/core.ts'
import type { LimitWait } from '../logging/limit-notices.ts'
import { fieldsIn, type PrintListener, wordsIn } from '../logging/printed-lines.ts'
import type { IsolatedTool } from '../settings/tools.ts'
import { importFailure, loadable } from '../threads/bundle-cache.ts'
import type { LimitClass, PoolCaller, PoolSize, ToolPool } from './tool-pool.ts'

/** Schema of a tool whose input is checked in its own thread, because the schema itself does not cross threads. */
export const CHECKED_THERE: ModelSchema = {
  '~standard': {
    version: 1,
    vendor: 'dramatis',
    validate: (value) => ({ value }),
    jsonSchema: { input: () => ({}), output: () => ({}) },
  },
}

/** Number of attempts for an idempotent tool whose threads die: as many as a message has before it counts as poison. */
const MOST_ATTEMPTS = 3

type Owner = Pick<HostedSettings, 'info' | 'option' | 'turnTimeoutMs'>

/** The pool of each limit class, of one team or of all that share them. */
export class ToolPools {
  /** Size of each pool. */
  readonly size: PoolSize
  /** Descriptions of tools, by their module as it is bundled now, and by their export. */
  readonly known = new Map<string, Promise<ToolTaskResult>>()
  readonly #pools = new Map<string, Promise<ToolPool>>()

  constructor(size: PoolSize) {
    this.size = size
  }

  of({ env, maxHeapMb }: LimitClass): Promise<ToolPool> {
    const key = JSON.stringify([maxHeapMb, [...env].sort()])
    const pool = this.#pools.get(key) ?? made({ env, maxHeapMb }, this.size)
    this.#pools.set(key, pool)
    return pool
  }

  async close(): Promise<void> {
    await Promise.all(Array.from(this.#pools.values(), async (pool) => (await pool).close()))
  }
}

export class IsolatedTools {
  readonly #core: Core
  readonly #pools: ToolPools
  readonly #waiting = new Set<LimitWait>()
  #closed = false

  constructor(core: Core, pools: ToolPools) {
    this.#core = core
    this.#pools = pools
    core.limits.watch(() => this.#waiting)
  }

  /**
   * The tool as the host sees it. `maxBytes` of its output; `from`: the folder from which packages are resolved.
   * Rejects with `ConfigurationError` for a module that cannot be loaded, or has no such tool, and with
   * `StartFailedError` for one that takes longer than a start of its agent may.
   */
  async load(tool: IsolatedTool, owner: Owner, maxBytes: number, from: string): Promise<ToolDefinition> {
    const { href, bundled, shown } = await loadable(tool.module, `${tool.option}.module`, { from })
    const code: ToolCode = { module: href, bundled, shown, export: tool.export, option: tool.option }
    if (this.#closed) throw new TeamClosedError('The team was closed while the tools of its agents were loaded.', {})
    const pool = await this.#pools.of(tool)
    const result = await this.#described(pool, code, owner)
    if (!result.ok) {
      const error = errorFrom(result.error)
      throw result.importing ? await importFailure(owner, code, error) : error
    }
    if (!('tool' in result)) throw new ToolFailedError(`${shown} did not say what it is.`, { module: shown })
    return {
      ...result.tool,
      input: CHECKED_THERE,
      needsApproval: () => result.tool.approval,
      run: (input, context) => this.#run(pool, code, input, context, { maxBytes, idempotent: result.tool.idempotent }),
      check: (input, context) => this.#run(pool, code, input, context, { maxBytes, idempotent: true, checkOnly: true }),
    }
  }

  /** Each is loaded once for that, and again when its code has changed, or could not be loaded. */
  #described(pool: ToolPool, code: ToolCode, owner: Owner): Promise<ToolTaskResult> {
    const key = JSON.stringify([code.module, code.export])
    const known = this.#pools.known.get(key)
    if (known) return known
    const described = this.#describe(pool, code, owner)
    this.#pools.known.set(key, described)
    const forget = () => this.#pools.known.delete(key)
    described.then(({ ok }) => ok || forget(), forget)
    return described
  }

  async #describe(pool: ToolPool, code: ToolCode, { info, turnTimeoutMs }: Owner): Promise<ToolTaskResult> {
    const end = new AbortController()
    const late = () => {
      const text = `The module of an isolated tool of agent "${info.name}" did not load within ${turnTimeoutMs} ms: ${code.shown}. Raise limits.turnTimeoutMs, or look at what it waits for.`
      end.abort(new StartFailedError(text, { agent: info.name, path: `${code.option}.module` }))
    }
    const timer = turnTimeoutMs === false ? undefined : this.#core.clock.timer(turnTimeoutMs, late, true)
    const printed = this.#printsOf({ agent: info.name, module: code.shown })
    try {
      return await pool.perform(code, undefined, { signal: end.signal, heard: () => {}, printed })
    } finally {
      timer?.cancel()
    }
  }

  /**
   * Runs the call in a thread. If the thread dies, an idempotent tool runs again in another thread, within the same
   * time limit.
   */
  async #run(
    pool: ToolPool,
    code: ToolCode,
    input: unknown,
    context: ToolContext,
    { maxBytes, idempotent, checkOnly = false }: { maxBytes: number; idempotent: boolean; checkOnly?: boolean },
  ): Promise<unknown> {
    const { agent, runId, caller: askedBy, tenant, idempotencyKey, signal, log } = context
    let attempt = 1
    let wait: LimitWait | undefined
    const caller: PoolCaller = {
      signal,
      waits: () => {
        wait = { option: 'threads.tools', limit: this.#pools.size.threads, runId, agent, since: this.#core.clock.now() }
        this.#waiting.add(wait)
        this.#core.limits.reached(wait, 'calls of isolated tools wait for a thread')
      },
      begins: () => wait && this.#waiting.delete(wait),
      heard: (notice) => {
        if ('progress' in notice) context.progress(notice.progress)
        else log[notice.log](fieldsIn(notice.fields), wordsIn(notice.text))
      },
      again: (died) => {
        if (!idempotent || attempt >= MOST_ATTEMPTS) return false
        attempt += 1
        log.warn(
          { attempt, error: describe(died) },
          'the thread of an isolated tool died; it is idempotent, so it runs again',
        )
        return true
      },
      printed: this.#printsOf({ agent, runId, module: code.shown }),
    }
    const call = { agent, runId, caller: askedBy, tenant, idempotencyKey, input, maxBytes, checkOnly }
    const result = await pool.perform(code, call, caller).finally(() => wait && this.#waiting.delete(wait))
    if (!result.ok) {
      const error = errorFrom(result.error)
      if (!result.importing) throw error
      throw new ToolFailedError(
        `The module of an isolated tool throws when it is imported: ${describe(error)}`,
        {},
        error,
      )
    }
    if (!('output' in result) || result.output === undefined) return undefined
    const bytes = plainFrameBytes('', result.output) // its thread looks as well, where the tool's code can change what looks
    if (bytes > maxBytes)
      throw new ToolFailedError(
        `The isolated tool in ${code.shown} gave ${bytes} bytes; at most ${maxBytes} are taken (communication.maxMessageBytes). Let it return less, or a reference.`,
        { module: code.shown, bytes, limit: maxBytes },
      )
    const text = `The isolated tool in ${code.shown} gave what is no JSON, or is nested more than 1,000 levels deep.`
    if (nestsTooDeep(result.output)) throw new ToolFailedError(text, { module: code.shown })
    try {
      return JSON.parse(result.output)
    } catch (error) {
      throw new ToolFailedError(text, { module: code.shown }, error)
    }
  }

  #printsOf(fields: object): PrintListener {
    return {
      line: (text) => this.#core.logger.info(fields, text),
      flooded: () =>
        this.#core.logger.warn(
          fields,
          'the tool prints more than 10,000 lines or 1 MiB in a second; the rest of that is left out',
        ),
      leftOut: (lines) =>
        this.#core.logger.warn({ ...fields, lines }, `${lines} lines that the tool printed were left out`),
    }
  }

  /** No tool is loaded any more. */
  close(): void {
    this.#closed = true
  }
}

/** Most teams have no isolated tools, and need not wait for what they need. */
async function made(limits: LimitClass, size: PoolSize): Promise<ToolPool> {
  const { ToolPool } = await import('./tool-pool.ts')
  return new ToolPool(limits, size)
}
