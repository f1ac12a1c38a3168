/** Starts and closes a team. All agents start together and once, by `start` or by the first run, and end in order. */
import { encodeData } from '../../actors/definition/checks.ts'
import { type AgentTask, CONTEXT, type TaskInput } from '../../actors/definition/task.ts'
import { doneTask, messageOptions, offerOf } from '../../actors/turn/delegate.ts'
import { decodeMessage, errorOf, isFailure } from '../../mailbox/codec.ts'
import type { Memory } from '../../mailbox/frame.ts'
import { pause, shape } from '../../shared/checks.ts'
import { RunAbortedError, StartFailedError, TeamClosedError } from '../../shared/errors.ts'
import type { TeamLog } from '../durability/team-log.ts'
import type { Agent } from '../host/agent.ts'
import { ORCHESTRATOR_INDEX } from '../host/directory.ts'
import { unknownStep } from '../host/journal.ts'
import type { RunBook } from '../runs/runs.ts'
import type { Supervisor } from '../supervision/host.ts'
import { hasOwnThread } from '../supervision/pending-incarnation.ts'

export function delegateTask(
  supervisor: Supervisor,
  runs: RunBook,
  from: Agent,
  to: Agent,
  input: TaskInput,
  context?: unknown,
): Promise<AgentTask> {
  const offer = offerOf(to.name, input, null) // checks the input before a run is made for it
  const added = encodeData(context, 'context')
  const { structuredData, priority } = messageOptions(offer)
  return new Promise((resolve, reject) => {
    const settle = (memory: Memory, at: number) => {
      if (isFailure(memory, at)) reject(errorOf(memory, at))
      else resolve(doneTask(offer, decodeMessage(memory, at, supervisor.names)))
    }
    const question = {
      type: 'delegate' as const,
      content: offer.description,
      data: JSON.stringify(structuredData),
      ...(added !== undefined && { metadata: `{"${CONTEXT}":${added}}` }),
      ...(priority !== undefined && { priority }),
    }
    supervisor.hostMessages.ask({ target: to, run: runs.ownRun(undefined), question, settle, sender: from })
  })
}

const AT_ONCE = 64

/** How a team is closed. */
export interface CloseOptions {
  /** How long runs under way, and work that messages from outside have caused, may continue; new runs are refused. */
  drainMs?: number
  /**
   * With a durable log: how long steps and tools that are under way and may not be repeated may continue, behind
   * `drainMs`. No other begins meanwhile: the next process begins it.
   */
  stepsMs?: number
}

const closeOptions = shape<CloseOptions>({ drainMs: pause, stepsMs: pause })

export class TeamLife {
  readonly #supervisor: Supervisor
  readonly #runs: RunBook
  readonly #log: TeamLog | undefined
  /** False where other teams have the same threads: nothing begins then before it is needed. */
  readonly #closesThreads: boolean
  #started: Promise<void> | undefined
  #startFailed = false
  #closed: Promise<void> | undefined

  constructor(supervisor: Supervisor, runs: RunBook, log: TeamLog | undefined, closesThreads: boolean) {
    this.#closesThreads = closesThreads
    this.#supervisor = supervisor
    this.#runs = runs
    this.#log = log
  }

  /** True if agents that join the team are started at once. */
  get hasBegun(): boolean {
    return this.#started !== undefined
  }

  start(): Promise<void> {
    if (this.#runs.closing) return Promise.reject(closedError())
    if (!this.#started) {
      this.#started = this.#runs.holds.until(this.#startAll())
      this.#started.catch(() => {
        this.#startFailed = true // a caller that does not await start() gets the error from the first run
      })
    }
    return this.#started
  }

  /** Tries the start again, because the reason why it failed may be gone. */
  reconsiderStart(): void {
    if (!this.#startFailed) return
    this.#startFailed = false
    this.#started = undefined
  }

  /** Resolves after the start, even if an agent could not start: only a caller that uses that agent gets an error. */
  async whenStarted(): Promise<void> {
    await this.start().catch((error: unknown) => {
      if (!(error instanceof StartFailedError)) throw error
    })
  }

  /**
   * Resolves when the durable log has been read, if the team has one: until then nobody knows its runs. Starts the team
   * for that, unless it is closed.
   */
  async untilRead(): Promise<void> {
    if (!this.#log || this.#runs.closing) return
    this.start().catch(() => {}) // the log may have been read all the same
    await this.#log.open()
  }

  async #startAll(): Promise<void> {
    const { lifecycle, directory, places, provisioning } = this.#supervisor
    try {
      await this.#log?.open()
    } catch (error) {
      this.#started = undefined // a log that cannot be taken may be free a moment later
      throw error
    }
    const living = directory.actors.slice(ORCHESTRATOR_INDEX).filter((agent) => !agent.removed && !agent.run)
    const agents = living.filter(hasOwnThread)
    const registered = agents.length > places.max || !this.#closesThreads ? this.#register(agents) : undefined
    if (!registered) provisioning.expect(living.filter((agent) => agent.beginnings === 0 && !agent.stopped))
    const outcomes = await Promise.allSettled(
      living.map(
        async (agent) =>
          registered?.get(agent) ??
          Promise.all([agent.beginnings > 0 || agent.stopped || lifecycle.begin(agent), lifecycle.ready(agent)]),
      ),
    )
    this.#supervisor.stagedStart.start()
    for (const [at, outcome] of outcomes.entries())
      if (outcome.status === 'rejected' && !living[at]!.removed) throw outcome.reason
  }

  /** Looks for the code of agents that begin with their first message: there are more than may have a thread. */
  #register(agents: readonly Agent[]): Map<Agent, Promise<void>> {
    const { lifecycle } = this.#supervisor
    const lines: Promise<void>[] = []
    const registered = new Map<Agent, Promise<void>>()
    for (const [at, agent] of agents.entries()) {
      if (agent.beginnings > 0 || agent.stopped || agent.passivated) continue
      const before = lines[at % AT_ONCE] ?? Promise.resolve()
      const own = before.then(() => lifecycle.register(agent))
      lines[at % AT_ONCE] = own.catch(() => {})
      registered.set(agent, own)
    }
    return registered
  }

  assertOpen(): void {
    if (this.#runs.closing) throw closedError()
  }

  close(options: CloseOptions): Promise<void> {
    try {
      closeOptions(options, '')
    } catch (error) {
      return Promise.reject(error)
    }
    this.#closed ??= this.#runs.holds.until(this.#close(options))
    return this.#closed
  }

  async #close({ drainMs = 0, stepsMs = 0 }: CloseOptions): Promise<void> {
    const { clock } = this.#supervisor
    this.#runs.closing = true
    this.#runs.isDraining = drainMs > 0
    if (drainMs > 0) {
      const drained = new AbortController()
      await Promise.race([this.#runs.drain.drained(), clock.sleep(drainMs, drained.signal).catch(() => {})])
      drained.abort()
    }
    if (this.#log && stepsMs > 0) await this.#untilStepsEnd(stepsMs)
    await this.#log?.seal() // what is aborted now goes on in a later process
    try {
      await this.#end()
    } finally {
      await this.#log?.close() // another process has the turns from now on: no thread may work on them any more
    }
    this.#runs.isDraining = false
    this.#runs.holds.over()
  }

  /** Waits for what a later process could not go on with, and lets none begin any more. */
  async #untilStepsEnd(ms: number): Promise<void> {
    const late = new AbortController()
    const timer = this.#supervisor.clock.timer(ms, () => late.abort(), true)
    this.#supervisor.isHandingOver = true
    while (this.#runs.endings.lost === undefined && !late.signal.aborted && isInStep(this.#supervisor))
      await this.#runs.drain.nextRecords(late.signal)
    timer.cancel()
  }

  async #end(): Promise<void> {
    const { directory, lifecycle, pools, remotes, tools, spawner } = this.#supervisor
    this.#runs.endings.abortAll(new RunAbortedError('The team was closed.', { reason: 'close' }))
    await this.#runs.drain.quiet()
    for (const agent of [...directory.byIndex].slice(ORCHESTRATOR_INDEX).reverse()) await lifecycle.endAll(agent)
    tools.close()
    await remotes.close()
    if (this.#closesThreads) await Promise.all([spawner.close(), pools.close()])
    this.#runs.line.room.leave(this.#runs.line)
    this.#supervisor.close()
  }
}

const isInStep = ({ directory, tools }: Supervisor): boolean =>
  tools.isUnrepeatable ||
  directory.living.some((agent) => [...agent.mailbox.handed.all()].some((envelope) => unknownStep(agent, envelope)))

const closedError = () => new TeamClosedError('The team is closed; make a new one with createTeam.', {})
