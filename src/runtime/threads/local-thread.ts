/**
 * A loop in the host's own thread: the protocol script's, and in tests every agent's. The same loop over the same
 * rings; only wakeups and death are different.
 */
import type { Assignment, CodeAssignment, RosterEntry, Started, ToolCode } from '../../actors/definition/assignment.ts'
import { type AgentHandlers, handlersOf } from '../../actors/definition/definition.ts'
import { AgentLoop, startFailure } from '../../actors/thread/loop.ts'
import { ScriptContext } from '../../actors/turn/orchestrator.ts'
import { type LoadedTool, Toolbox } from '../../actors/turn/toolbox.ts'
import type { Scheduler } from '../../shared/clock.ts'
import { ConfigurationError, errorData, shown } from '../../shared/errors.ts'
import type { StoredBytes, Thread, ThreadExit } from './thread.ts'

export interface LocalOptions {
  scheduler: Scheduler
  /** Gives the code that runs here for the agent of that name, in this incarnation of it. */
  handlers(name: string, thread: LocalThread): AgentHandlers | Promise<AgentHandlers>
  /** Loads the tools of the agent that stand in modules, into this thread, for this incarnation. None by default. */
  tools?(code: readonly ToolCode[], name: string, thread: LocalThread): Promise<LoadedTool[]>
  /** Set for a protocol script: who is in the team now, and in that run. */
  roster?: (run: number) => readonly RosterEntry[]
}

interface Loaded {
  code: AgentHandlers
  toolbox: Toolbox
}

export class LocalThread implements Thread {
  readonly isolated = false
  readonly warm = false
  readonly #options: LocalOptions
  #ring: (() => void) | undefined
  #wakeUp: (() => void) | undefined
  readonly #exits: ((exit: ThreadExit) => void)[] = []
  #loop: AgentLoop | undefined
  #bytesOf: StoredBytes | undefined
  #loaded: Promise<Loaded> | undefined
  readonly #end = new AbortController()

  constructor(options: LocalOptions) {
    this.#options = options
  }

  get ended(): AbortSignal {
    return this.#end.signal
  }

  onWake(listener: () => void): void {
    this.#ring = listener
  }
  onExit(listener: (exit: ThreadExit) => void): void {
    this.#exits.push(listener)
  }
  onPrint(): void {}
  onOwnPost(): void {}
  givesBytes(bytesOf: StoredBytes): void {
    this.#bytesOf = bytesOf
  }
  eventLoop(): undefined {}
  times(): undefined {}
  wake(): void {
    const { scheduler } = this.#options
    scheduler.defer(() => {
      if (!this.ended.aborted) this.#wakeUp?.()
    })
  }

  async load(assignment: CodeAssignment): Promise<Started> {
    try {
      await this.#code(assignment)
      return { ok: true, state: undefined }
    } catch (error) {
      return { ok: false, error: errorData(startFailure(assignment.role.name, error)) }
    }
  }

  #code(assignment: CodeAssignment): Promise<Loaded> {
    this.#loaded ??= this.#loadAll(assignment)
    return this.#loaded
  }

  async #loadAll({ role, tools: assigned }: CodeAssignment): Promise<Loaded> {
    const { handlers, tools } = this.#options
    const code = await handlers(role.name, this)
    const loaded = (await tools?.(assigned.modules, role.name, this)) ?? []
    return { code, toolbox: new Toolbox(assigned, loaded) }
  }

  async start(assignment: Assignment): Promise<Started> {
    const { scheduler, roster } = this.#options
    const { role } = assignment
    try {
      const { code, toolbox } = await this.#code(assignment)
      const loop = new AgentLoop(
        assignment,
        code,
        toolbox,
        {
          scheduler,
          wake: () => scheduler.defer(() => this.#ring?.()),
          bytesOf: (hash) => this.#bytesOf?.(hash),
          onWake: (listener) => {
            this.#wakeUp = listener
          },
        },
        roster && ((turn) => new ScriptContext(turn, () => roster(turn.start.run))),
      )
      this.#loop = loop
      const state = await loop.start(assignment.state)
      scheduler.defer(() => loop.pump())
      return { ok: true, state, tools: toolbox.names, harmful: toolbox.harmful }
    } catch (error) {
      return { ok: false, error: errorData(startFailure(role.name, error)) }
    }
  }
  async isIdle(): Promise<boolean> {
    return this.#loop?.isIdle === true && !this.ended.aborted
  }
  async stop(): Promise<void> {
    await this.#loop?.stop()
  }
  terminate(): void {
    this.kill({ code: 1, error: undefined })
  }

  /**
   * Ends this incarnation as a crash would: what it had published stays, what it does from now on is written nowhere.
   */
  kill(exit: ThreadExit): void {
    if (this.ended.aborted) return
    this.#end.abort()
    this.#loop?.link.close()
    this.#options.scheduler.defer(() => {
      for (const listener of this.#exits) listener(exit)
    })
  }
}

/** A definition's handlers, or the configuration error that it is none. `path` is where it stands. */
export function handlersFrom(definition: unknown, path: string): AgentHandlers {
  const handlers = handlersOf(definition)
  if (handlers) return handlers
  throw new ConfigurationError(`${path}: ${shown(definition)} is no agent; accepted: what defineAgent returns.`, {
    path,
  })
}
