/**
 * A loop in the host's own thread: the protocol script's, and in tests every agent's. The same loop over the same
 * rings; only bells and death are different.
 */
import type { Assignment, RosterEntry, Started, ToolCode } from '../../actors/definition/assignment.ts'
import { type AgentHandlers, handlersOf } from '../../actors/definition/definition.ts'
import { AgentLoop } from '../../actors/loop/agent-loop.ts'
import { startFailure } from '../../actors/loop/starting.ts'
import { type LoadedTool, Toolbox } from '../../actors/tools/toolbox.ts'
import { ScriptContext } from '../../actors/turn/orchestrator.ts'
import type { Scheduler } from '../../clock.ts'
import { ConfigurationError, errorData, shown } from '../../errors.ts'
import type { Thread, ThreadExit } from './thread.ts'

export interface LocalOptions {
  scheduler: Scheduler
  /** Gives the code that runs here for the agent of that name, in this life of it. */
  handlers(name: string, life: LocalThread): AgentHandlers | Promise<AgentHandlers>
  /** Loads the tools of the agent that stand in modules, into this thread, for this life. None by default. */
  tools?(code: readonly ToolCode[], name: string, life: LocalThread): Promise<LoadedTool[]>
  /** Set for a protocol script: who is in the team now, and in that run. */
  roster?: (run: number) => readonly RosterEntry[]
}

export class LocalThread implements Thread {
  readonly isolated = false
  readonly warm = false
  readonly #options: LocalOptions
  #ring: (() => void) | undefined
  #bell: (() => void) | undefined
  #exit: ((exit: ThreadExit) => void) | undefined
  #loop: AgentLoop | undefined
  readonly #end = new AbortController()

  constructor(options: LocalOptions) {
    this.#options = options
  }

  /** Aborted when this life ends. */
  get ended(): AbortSignal {
    return this.#end.signal
  }

  onRing(listener: () => void): void {
    this.#ring = listener
  }
  onExit(listener: (exit: ThreadExit) => void): void {
    this.#exit = listener
  }
  onPrint(): void {}
  onForeignPost(): void {}
  eventLoop(): undefined {}
  times(): undefined {}
  ring(): void {
    const { scheduler } = this.#options
    scheduler.defer(() => {
      if (!this.ended.aborted) this.#bell?.()
    })
  }

  async start(assignment: Assignment): Promise<Started> {
    const { scheduler, handlers, tools, roster } = this.#options
    const { role } = assignment
    try {
      const code = await handlers(role.name, this)
      const loaded = (await tools?.(assignment.tools.modules, role.name, this)) ?? []
      const toolbox = new Toolbox(assignment.tools, loaded)
      const loop = new AgentLoop(
        assignment,
        code,
        toolbox,
        {
          scheduler,
          ring: () => scheduler.defer(() => this.#ring?.()),
          onRing: (listener) => {
            this.#bell = listener
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
  async stop(): Promise<void> {
    await this.#loop?.stop()
  }
  terminate(): void {
    this.kill({ code: 1, error: undefined })
  }

  /** Ends this life as a crash would: what it had published stays, what it does from now on is written nowhere. */
  kill(exit: ThreadExit): void {
    if (this.ended.aborted) return
    this.#end.abort()
    this.#loop?.link.close()
    this.#options.scheduler.defer(() => this.#exit?.(exit))
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
