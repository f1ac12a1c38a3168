/**
 * A thread on its way to become an agent: it loads the agent's code, then it starts. An agent that begins has one, and
 * so has an agent that is being reloaded, beside the life that it has.
 */
import type { AgentCode, AssignedTools, Newcomer, Started } from '../../actors/definition/assignment.ts'
import type { Logger } from '../../actors/definition/logger.ts'
import type { Scheduler } from '../../clock.ts'
import { type DramatisError, describe, errorFrom, StartFailedError } from '../../errors.ts'
import type { TeamMemory } from '../../mailbox/room.ts'
import { mostOpenTurns } from '../../mailbox/window.ts'
import type { Redactor } from '../logging/redactor.ts'
import type { AgentDirectory } from '../state/agent-directory.ts'
import type { Cell } from '../state/cell.ts'
import type { HostLoop } from '../state/host-loop.ts'
import type { Journal } from '../state/journal.ts'
import { Life } from '../state/life.ts'
import type { PartStore } from '../state/part-store.ts'
import { importFailure } from '../threads/import-failure.ts'
import { FENCE_MS } from '../threads/thread.ts'
import type { Exits } from './exits.ts'
import type { Provisioning } from './provisioning.ts'
import { assignmentOf, codeAssignmentOf, inTime, listen } from './starting.ts'
import { hasOwnThread, type ThreadPlaces } from './thread-places.ts'

interface Needs {
  readonly journal: Journal
  readonly clock: Scheduler
  readonly directory: AgentDirectory
  readonly exits: Exits
  readonly logger: Logger
  readonly loop: HostLoop
  readonly parts: PartStore
  readonly places: ThreadPlaces
  readonly provisioning: Provisioning
  readonly redactor: Redactor
  readonly team: TeamMemory
}

export class PendingLife {
  readonly life: Life
  /** Rejects when the thread cannot become the agent's life any more: it has ended, or was dropped. */
  readonly lost: Promise<never>
  /** Resolves when the thread is gone. */
  readonly gone: Promise<void>
  /** True once it is the agent's life: what happens to it from then on is handled like for any life. */
  adopted = false
  /** True if it was not the agent's life when it was lost: it cannot be any more. */
  isLost = false
  readonly #needs: Needs
  readonly #cell: Cell
  readonly #code: AgentCode
  readonly #tools: AssignedTools
  #lose: (error: DramatisError) => void = () => {}
  #started: Promise<Started> | undefined
  #hasPlace = false
  /** Names that its thread knows. */
  #names = ''

  constructor(needs: Needs, cell: Cell, code: AgentCode, tools: AssignedTools) {
    this.#needs = needs
    this.#cell = cell
    this.#code = code
    this.#tools = tools
    const { clock, exits, logger, loop, parts, places, provisioning } = needs
    const turns = mostOpenTurns(cell.settings.concurrency)
    const thread = provisioning.threadFor(cell)
    const life = new Life(cell.nextEpoch(), thread, turns, (of) => {
      exits.fence(cell, of)
      if (places.isBounded) clock.timer(FENCE_MS, () => this.#leavePlace(), true) // else it would be taken for ever
    })
    this.life = life
    this.lost = new Promise((_resolve, reject) => {
      this.#lose = reject
    })
    this.lost.catch(() => {})
    thread.onRing(loop.kick.bind(loop))
    thread.givesBytes((hash) => parts.get(hash))
    this.gone = new Promise((resolve) => {
      thread.onExit((exit) => {
        const text = `The new thread of agent "${cell.name}" ended before it took over (exit code ${exit.code}).`
        this.#lost(life.verdict ?? new StartFailedError(text, { agent: cell.name, exitCode: exit.code }, exit.error))
        this.#leavePlace()
        exits.exited(cell, life, exit)
        resolve()
      })
    })
    listen(logger, cell, life)
  }

  /**
   * Makes the thread. Resolves to undefined if nobody wants it any more when there is room for it, or if the agent has
   * no message while all threads are taken. Rejects with `ConfigurationError` for code that cannot be found or bundled,
   * and with whatever keeps the system from a thread. 'beside': the agent has a thread, whose place it takes over.
   */
  static async make(
    needs: Needs,
    cell: Cell,
    isWanted: () => boolean,
    beside?: 'beside',
  ): Promise<PendingLife | undefined> {
    const { places, provisioning } = needs
    const [code, tools] = await Promise.all([provisioning.codeOf(cell), provisioning.toolsOf(cell)])
    if (!isWanted()) return undefined
    const takesPlace = hasOwnThread(cell) && !beside
    const place = takesPlace ? places.take(cell) : undefined
    if (place === false) return undefined
    if (place) await place
    let pending: PendingLife | undefined
    try {
      const room = provisioning.roomFor(cell)
      if (room) await room
      if (isWanted()) pending = new PendingLife(needs, cell, code, tools)
    } finally {
      if (takesPlace && pending) pending.#hasPlace = true
      else if (takesPlace) places.free()
    }
    return pending
  }

  /** Takes a place among the threads of the team, if it has none yet. */
  takePlace(): void {
    if (this.#hasPlace || !hasOwnThread(this.#cell)) return
    this.#hasPlace = true
    this.#needs.places.claim()
  }

  #leavePlace(): void {
    if (!this.#hasPlace) return
    this.#hasPlace = false
    this.#needs.places.free()
  }

  /** Module of the agent, in words; undefined for an agent without one. */
  get module(): string | undefined {
    return 'module' in this.#code && this.#code.module !== '' ? this.#code.shown : undefined
  }

  /** Loads the code and the tools, without a start. */
  load(): Promise<Started> {
    const { clock, redactor } = this.#needs
    const assignment = codeAssignmentOf(this.#cell, this.#code, this.#tools, redactor)
    return inTime(clock, this.#cell, this.life.thread.load(assignment))
  }

  /** Starts the agent with the state that it has now. A second call resolves with the first. */
  start(): Promise<Started> {
    this.#started ??= this.#start()
    return this.#started
  }

  #start(): Promise<Started> {
    const { clock } = this.#needs
    const assignment = assignmentOf(this.#needs, this.#cell, this.life, this.#code, this.#tools)
    this.#names = assignment.names
    return inTime(clock, this.#cell, this.life.thread.start(assignment))
  }

  /** Agents that have joined the team since the start of this one. */
  get newcomers(): Newcomer[] {
    return this.#started ? this.#needs.directory.newcomersTo(this.#names) : []
  }

  /** Returns the error of a start that failed. It reads files for more words, at places that the code has named. */
  async errorOf({ error: data, importing }: Extract<Started, { ok: false }>): Promise<DramatisError> {
    const { name, settings } = this.#cell
    const error = this.#needs.redactor.fields(errorFrom(data))
    const whose = importing === 'agent' ? this.#code : importing
    if (!whose || 'model' in whose) return error
    return importFailure(settings, whose, error).catch((thrown: unknown) => {
      const text = `Agent "${name}" could not be started, nor could it be seen why: ${describe(thrown)}`
      return new StartFailedError(text, { agent: name }, thrown)
    })
  }

  /** Ends the thread, unless it is the agent's life already. */
  drop(error: DramatisError): void {
    if (this.adopted) return
    this.#lost(error)
    this.life.end()
  }

  #lost(error: DramatisError): void {
    this.isLost = !this.adopted
    this.#lose(error)
  }
}
