/**
 * Lives and deaths of agents: starts threads, reads what a dead one left, gives its messages back, decides which of them
 * may be tried again. Whether and when a new life begins is the restart policy's to say (parts/restarts.ts).
 */
import { applyPatches, enablePatches, type Patch } from 'immer'
import type { AgentCode, PatchNotice, RosterEntry, RunNotice } from '../actors/assignment.ts'
import { isStep } from '../actors/replay.ts'
import { systemClock } from '../clock.ts'
import {
  AgentCrashedError,
  AgentTerminatedError,
  ConfigurationError,
  type DramatisError,
  describe,
  errorData,
  errorFrom,
  OutcomeUnknownError,
  StartFailedError,
} from '../errors.ts'
import { errorOf } from '../mailbox/codec.ts'
import {
  correlationOf,
  END,
  FAILED,
  flagsOf,
  kindOf,
  lengthOf,
  REFUSED,
  RESPONSE,
  RESULT,
  readBody,
  recipientOf,
  STEP_BEGAN,
  STEP_DONE,
  senderOf,
  stepOf,
  turnOf,
} from '../mailbox/frame.ts'
import type { Envelope } from '../mailbox/mailbox.ts'
import type { Memory } from '../mailbox/memory.ts'
import { CLAIM } from '../mailbox/window.ts'
import { type Cell, Life } from './cell.ts'
import type { Core, LifeCycle } from './core.ts'
import type { OwnFrame } from './host-frames.ts'
import { importFailure } from './import-failure.ts'
import type { RunState } from './run-state.ts'
import type { Thread, ThreadExit } from './thread.ts'

enablePatches()

/** A thread that has not ended that long after it was terminated sits in a native call: it is fenced off and replaced. */
const FENCE_MS = 1_000

export interface Logged {
  memory: Memory
  at: number
  bytes: number
}

export class Lives implements LifeCycle {
  readonly #core: Core
  readonly #waiting = new Map<Cell, { resolve(): void; reject(error: DramatisError): void }[]>()
  /** What a thread becomes when it is given to that agent. */
  codeOf: (cell: Cell) => Promise<AgentCode> = () => Promise.reject(new Error('no code'))
  threadFor: (cell: Cell) => Thread = (cell) => this.#core.spawner.spawn(cell.settings.maxHeapMb)
  roster: () => RosterEntry[] = () => []

  constructor(core: Core) {
    this.#core = core
  }

  // ---- birth

  /** Begins a life. Failures to start go the way of deaths. */
  async begin(cell: Cell): Promise<void> {
    const { clock, team } = this.#core
    const began = clock.monotonic()
    cell.status = cell.epoch === 0 ? 'starting' : 'restarting'
    let code: AgentCode
    try {
      code = await this.codeOf(cell)
    } catch (error) {
      return this.#cannotStart(cell, error as DramatisError)
    }
    if (this.#core.closed || cell.life || cell.stopped) return
    const life = new Life(++cell.epoch, this.threadFor(cell))
    cell.life = life
    this.#listen(cell, life)
    const started = await life.thread.start({
      role: cell.settings.info,
      option: cell.settings.option,
      index: cell.index,
      epoch: life.epoch,
      names: this.#core.names(),
      window: life.window.buffer,
      team: team.buffer,
      state: cell.state === undefined ? undefined : JSON.stringify(cell.state),
      correlation: cell.correlation,
      seed: Math.floor(clock.random() * 2 ** 30),
      env: Object.fromEntries(
        cell.settings.env.flatMap((name) => (process.env[name] === undefined ? [] : [[name, process.env[name]]])),
      ),
      maxMessageBytes: cell.settings.mailbox.maxMessageBytes,
      concurrency: cell.settings.concurrency,
      code,
    })
    if (cell.life !== life) return // it died meanwhile, and that was seen
    if (!started.ok) {
      const error = errorFrom(started.error)
      return this.#failedStart(cell, life, started.importing ? importFailure(cell.settings, code, error) : error)
    }
    if (started.state !== undefined) cell.state = JSON.parse(started.state) as object
    life.ready = true
    cell.startFailures = 0
    cell.status = 'idle'
    this.#core.record(undefined, {
      kind: 'agent.ready',
      agent: cell.name,
      epoch: life.epoch,
      warm: life.thread.warm,
      tookMs: clock.monotonic() - began,
    })
    for (const waiter of this.#waiting.get(cell) ?? []) waiter.resolve()
    this.#waiting.delete(cell)
    this.#core.delivery.touch(cell)
    this.#core.kick()
  }

  #listen(cell: Cell, life: Life): void {
    const { logger } = this.#core
    life.thread.onRing(() => this.#core.kick())
    life.thread.onExit((exit) => this.#exited(cell, life, exit))
    life.thread.onPrint((line) => logger.info({ agent: cell.name }, line))
    life.thread.onForeignPost(() =>
      logger.warn(
        { agent: cell.name },
        'the agent posted to its parent port; that is not how agents talk, and nobody reads it: use context.send',
      ),
    )
  }

  /** Resolves when the agent is ready; rejects when it is stopped. */
  ready(cell: Cell): Promise<void> {
    if (cell.stopped) return Promise.reject(cell.stopped)
    if (cell.life?.ready) return Promise.resolve()
    return new Promise((resolve, reject) => {
      this.#waiting.set(cell, [...(this.#waiting.get(cell) ?? []), { resolve, reject }])
    })
  }

  #giveUpWaiting(cell: Cell, error: DramatisError): void {
    for (const waiter of this.#waiting.get(cell) ?? []) waiter.reject(error)
    this.#waiting.delete(cell)
  }

  async #failedStart(cell: Cell, life: Life, error: DramatisError | Promise<DramatisError>): Promise<void> {
    cell.life = undefined
    life.dismissed = true
    life.thread.terminate()
    this.#cannotStart(cell, await error)
  }

  /** Rule 11: what is wrong with the code is final at once, anything else at the second time. */
  #cannotStart(cell: Cell, error: DramatisError): void {
    cell.startFailures += 1
    if (!(error instanceof ConfigurationError) && cell.startFailures < 2) {
      void this.begin(cell)
      return
    }
    const final =
      error instanceof ConfigurationError
        ? error
        : new StartFailedError(
            `Agent "${cell.name}" failed twice while it started: ${error.message}`,
            { agent: cell.name },
            error.cause ?? error,
          )
    this.stopForGood(cell, final)
  }

  // ---- death

  /** Ends a life because of what the agent did (or did not do). */
  kill(cell: Cell, verdict: DramatisError): void {
    const { life } = cell
    if (!life || life.verdict) return
    life.verdict = verdict
    life.thread.terminate()
    this.#core.clock.timer(FENCE_MS, () => {
      if (cell.life === life) this.#exited(cell, life, { code: -1, error: undefined })
    })
  }

  #exited(cell: Cell, life: Life, exit: ThreadExit): void {
    if (cell.life !== life || life.dismissed) return
    while (this.#core.router.drain(cell, life, Number.MAX_SAFE_INTEGER)); // first what it had published
    cell.life = undefined
    this.#returnClaim(life)
    const error = life.verdict ?? crashError(cell.name, exit)
    if (!life.ready) return this.#cannotStart(cell, error)
    this.#giveBack(cell, life, error, fingerprint(exit, error))
    if (cell.mailbox.handed.size === 0) this.#releaseAll(cell)
    this.#core.record(undefined, {
      kind: 'agent.exited',
      agent: cell.name,
      index: cell.index,
      epoch: life.epoch,
      error,
      fault: true,
    })
    this.#core.kick()
  }

  #releaseAll(cell: Cell): void {
    for (const run of this.#core.runs.values()) this.#core.gate.release(run, cell)
  }

  /** A thread that died between claiming room and using it left the claim behind. */
  #returnClaim({ window, lastTurn, lastStep }: Life): void {
    const recipient = window.words[CLAIM]! - 1
    if (recipient < 0 || (window.words[CLAIM + 2] === lastTurn && window.words[CLAIM + 3] === lastStep)) return
    const callee = this.#core.cells[recipient]
    if (callee) this.#core.router.freed(callee, window.words[CLAIM + 1]!)
  }

  /** Rules 6 and 7: what was under way comes again, at the front, unless it may not. */
  #giveBack(cell: Cell, life: Life, error: DramatisError, print: string | null): void {
    const handed = [...cell.mailbox.handed.values()]
    const begun = handed.filter((envelope) => life.begun(envelope))
    const untouched = handed.filter((envelope) => !life.begun(envelope))
    const alone = begun.length === 1
    const again = begun.filter((envelope) => {
      const fate = this.#fateOf(cell, life, envelope, error, print, alone)
      if (!fate) return true
      this.#bury(cell, envelope, fate.reason, fate.error)
      return false
    })
    for (const envelope of again) {
      envelope.attempt += 1
      envelope.announced = false
      envelope.startedAt = -1
      if (!alone) cell.suspects.add(envelope)
    }
    for (const envelope of untouched) envelope.announced = false
    const dead = untouched.filter((envelope) => envelope.cancelled)
    for (const envelope of dead) this.#bury(cell, envelope, 'cancelled', error)
    cell.mailbox.giveBack(
      again,
      untouched.filter((envelope) => !envelope.cancelled),
    )
  }

  #fateOf(
    cell: Cell,
    life: Life,
    envelope: Envelope<RunState>,
    error: DramatisError,
    print: string | null,
    alone: boolean,
  ): { reason: 'cancelled' | 'poison' | 'failed'; error: DramatisError } | undefined {
    if (envelope.cancelled || envelope.run.ending) return { reason: 'cancelled', error }
    if (envelope.run.log.forgottenTo >= envelope.handedSeq) {
      const unknown = new OutcomeUnknownError(
        `Agent "${cell.name}" died in a turn so long that the log had to forget how it began, so it is not run again. Use shorter turns.`,
        { agent: cell.name },
        error,
      )
      return { reason: 'failed', error: unknown }
    }
    const step = this.#unknownStep(cell, envelope)
    if (step) {
      const unknown = new OutcomeUnknownError(
        `Agent "${cell.name}" died while its step "${step}" was under way: it may have happened, or not, so it is not run again. Mark the step { idempotent: true } if it may.`,
        { agent: cell.name, step },
        error,
      )
      return { reason: 'failed', error: unknown }
    }
    envelope.deaths ??= []
    const { deaths } = envelope
    deaths.push({ error: errorData(error), epoch: life.epoch, alone, fingerprint: print })
    const charged = deaths.filter((death) => death.alone)
    const same = print !== null && charged.filter((death) => death.fingerprint === print).length >= 2
    if (charged.length < cell.settings.supervision.poisonAttempts && !same) return undefined
    const epochs = new Set(deaths.map((death) => death.epoch))
    cell.restartTimes = cell.restartTimes.filter(({ epoch }) => !epochs.has(epoch))
    const poison = new AgentCrashedError(
      `Agent "${cell.name}" died ${charged.length} times on this message, ${same ? 'in the same way' : 'which is as often as it may'}; it is not tried again. The last time: ${error.message}`,
      {
        agent: cell.name,
        attempts: envelope.attempt,
        deaths: deaths.map((death) => ({ epoch: death.epoch, message: death.error.message })),
      },
      error.cause ?? error,
    )
    return { reason: 'poison', error: poison }
  }

  /** The message leaves the mailbox dead; its sender, if it waits, is told. */
  #bury(
    cell: Cell,
    envelope: Envelope<RunState>,
    reason: 'cancelled' | 'poison' | 'failed' | 'stopped',
    error: DramatisError,
  ): void {
    const { router } = this.#core
    cell.mailbox.discard(envelope)
    cell.suspects.delete(envelope)
    const request = router.requestOf(envelope)
    const errors = reason === 'poison' ? (envelope.deaths ?? []).map((death) => errorFrom(death.error)) : [error]
    router.drop(envelope, reason, errors)
    if (request) router.answerWithError(request, error)
    this.#withdrawRequests(cell, envelope)
    router.freed(cell, envelope.bytes)
  }

  /** What a turn that will not go on was waiting for is wanted by nobody any more. */
  #withdrawRequests(cell: Cell, envelope: Envelope<RunState>): void {
    for (const request of [...cell.open.values()]) {
      if (request.turn === envelope.turn) this.#core.router.cancel(cell, request.correlation, undefined)
    }
  }

  // ---- redelivery

  /** What the log has of the earlier attempts of a turn, as one frame. */
  replayOf(cell: Cell, envelope: Envelope<RunState>): OwnFrame | undefined {
    const logged = this.#loggedSteps(cell, envelope)
    return logged.length === 0 ? undefined : this.#core.frames.replay(envelope.turn, logged)
  }

  #loggedSteps(cell: Cell, envelope: Envelope<RunState>): Logged[] {
    const steps: Logged[] = []
    const waits = new Set<number>()
    for (const entry of envelope.run.log.entries()) {
      if (entry.kind !== 'frames') continue
      const { memory } = entry
      for (let at = entry.from; at < entry.to; at += lengthOf(memory, at)) {
        const kind = kindOf(memory, at)
        const answers = kind === END || kind === RESPONSE || kind === RESULT || kind === REFUSED
        const mine = answers
          ? recipientOf(memory, at) === cell.index && waits.has(correlationOf(memory, at))
          : senderOf(memory, at) === cell.index && turnOf(memory, at) === envelope.turn && isStep(kind)
        if (!mine) continue
        if (!answers && correlationOf(memory, at) !== 0) waits.add(correlationOf(memory, at))
        steps.push({ memory, at, bytes: lengthOf(memory, at) })
      }
    }
    return steps
  }

  /** A step that ran in the dead thread itself, had begun, is not logged as finished, and may not run twice. */
  #unknownStep(cell: Cell, envelope: Envelope<RunState>): string | undefined {
    const begun = new Map<number, string>()
    for (const { memory, at } of this.#loggedSteps(cell, envelope)) {
      const kind = kindOf(memory, at)
      if (kind === STEP_BEGAN && flagsOf(memory, at) & FAILED)
        begun.set(stepOf(memory, at), readBody(memory, at).content)
      if (kind === STEP_DONE) begun.delete(stepOf(memory, at))
    }
    return begun.values().next().value
  }

  /** Rule 0: a handler that threw has failed; by option its turn is tried again, in this life or in a new one. */
  tryAgain(cell: Cell, envelope: Envelope<RunState>, memory: Memory, at: number): boolean {
    const { onHandlerError, poisonAttempts } = cell.settings.supervision
    if (onHandlerError === 'fail' || envelope.cancelled || envelope.run.ending || envelope.attempt >= poisonAttempts)
      return false
    const error = errorOf(memory, at)
    if (error.code !== 'AGENT_FAILED') return false
    if (onHandlerError === 'restart') {
      this.kill(cell, error)
      // The turn has ended, but not in a commit: the death gives it back like any other.
      return true
    }
    envelope.attempt += 1
    envelope.announced = false
    envelope.startedAt = -1
    cell.mailbox.giveBack([envelope], [])
    if (cell.mailbox.handed.size === 0) this.#core.gate.release(envelope.run, cell)
    this.#core.delivery.touch(cell)
    return true
  }

  /** A turn that was told to stop has `stopGraceMs`; then it costs its thread. */
  killAfterGrace(cell: Cell, envelope: Envelope<RunState>): void {
    const { life } = cell
    const { stopGraceMs } = cell.settings.supervision
    // A script in the host's own thread shares its loop with those of all other runs, and is left alone.
    if (!life || !(life.thread.isolated || cell.settings.counted)) return
    this.#core.clock.timer(stopGraceMs, () => {
      if (cell.life !== life || cell.mailbox.handed.get(envelope.turn) !== envelope || !life.begun(envelope)) return
      this.kill(
        cell,
        new AgentCrashedError(
          `Agent "${cell.name}" went on for ${stopGraceMs} ms after its turn was cancelled, so its thread was ended. Watch context.signal in long handlers.`,
          { agent: cell.name, stopGraceMs },
        ),
      )
    })
  }

  // ---- state

  applyPatch(cell: Cell, run: RunState, notice: PatchNotice): void {
    const patches = notice.patches as Patch[]
    if (notice.scope === 'agent') cell.state = applyPatches(cell.state ?? {}, patches)
    else run.states.set(cell.index, applyPatches(run.states.get(cell.index) ?? (notice.base as object), patches))
  }

  runNotice(cell: Cell, run: RunState): OwnFrame {
    const state = run.states.get(cell.index)
    const notice: RunNotice = {
      metadata: { ...run.metadata },
      ...(run.threadId !== undefined && { threadId: run.threadId }),
      ...(state !== undefined && { runState: JSON.stringify(state) }),
      ...(!cell.settings.counted && { roster: this.roster() }),
    }
    return this.#core.frames.runNotice(run.index, run.id, notice)
  }

  // ---- stop

  /** Rule 8: no life any more; what is queued becomes dead letters, and who waits is told. */
  stopForGood(cell: Cell, error: DramatisError): void {
    cell.stopped = error
    cell.status = 'failed'
    this.#core.team.close(cell.index)
    this.#giveUpWaiting(cell, error)
    const gone = new AgentTerminatedError(
      `Agent "${cell.name}" is stopped: ${error.message}`,
      { agent: cell.name },
      error.cause ?? error,
    )
    const { parked } = cell.mailbox
    for (const envelope of [...cell.mailbox.queued(), ...cell.mailbox.handed.values()])
      this.#bury(cell, envelope, 'stopped', gone)
    for (let envelope = parked.shift(); envelope; envelope = parked.shift()) {
      const request = this.#core.router.requestOf(envelope)
      this.#core.router.drop(envelope, 'stopped', [gone])
      if (request) this.#core.router.answerWithError(request, gone)
      else this.#core.router.refuseParked(envelope, gone)
    }
    this.#core.record(undefined, { kind: 'agent.status', agent: cell.name, status: 'failed', epoch: cell.epoch })
    this.#core.kick()
  }

  /** An agent that was stopped for good is tried again. */
  revive(cell: Cell): void {
    if (!cell.stopped || this.#core.closed) return
    cell.stopped = undefined
    cell.startFailures = 0
    cell.restartTimes = []
    this.#core.team.open(cell.index, cell.settings.mailbox.capacity, cell.settings.mailbox.bytes)
    void this.begin(cell)
  }

  /** Rule 12: abort signal, grace, then terminate. */
  async end(cell: Cell): Promise<void> {
    const { life } = cell
    cell.stopped ??= new AgentTerminatedError(`The team is closed.`, { agent: cell.name })
    this.#giveUpWaiting(cell, cell.stopped)
    if (!life) {
      cell.status = 'stopped'
      return
    }
    const grace = new AbortController()
    const gone = new Promise<void>((resolve) => life.thread.onExit(() => resolve()))
    const asked = life.ready ? life.thread.stop().catch((error) => this.#stopFailed(cell, error)) : Promise.resolve()
    // Code in the host's own thread stops in real time, whatever clock the team has.
    const clock = life.thread.isolated ? this.#core.clock : systemClock
    await Promise.race([asked, gone, clock.sleep(cell.settings.supervision.stopGraceMs, grace.signal).catch(() => {})])
    while (this.#core.router.drain(cell, life));
    grace.abort()
    life.dismissed = true
    cell.life = undefined
    cell.status = 'stopped'
    life.thread.terminate()
    const fence = new AbortController()
    await Promise.race([gone, this.#core.clock.sleep(FENCE_MS, fence.signal).catch(() => {})])
    fence.abort()
  }

  #stopFailed(cell: Cell, error: unknown): void {
    this.#core.logger.error({ agent: cell.name, error: describe(error) }, 'the stop hook of the agent threw')
  }
}

function crashError(agent: string, { code, error }: ThreadExit): AgentCrashedError {
  if (code === -1)
    return new AgentCrashedError(`The thread of agent "${agent}" did not end when it was told to; it was fenced off.`, {
      agent,
    })
  if (!error)
    return new AgentCrashedError(
      `The thread of agent "${agent}" ended with exit code ${code} (process.exit, or ended from outside).`,
      { agent, exitCode: code },
    )
  const memory = 'code' in error && error.code === 'ERR_WORKER_OUT_OF_MEMORY'
  const why = memory
    ? 'ran out of memory (limits.maxHeapMb)'
    : `threw outside of a turn: ${error.name}: ${error.message}`
  return new AgentCrashedError(`The thread of agent "${agent}" ${why}`, { agent, exitCode: code }, error)
}

/** What tells the same death again from another one. */
function fingerprint({ code, error, outside }: ThreadExit, verdict: DramatisError): string | null {
  if (outside) return null
  if (error) return `${error.name}: ${error.message}\n${error.stack?.split('\n')[1] ?? ''}`
  if (code === -1 || verdict.code !== 'AGENT_CRASHED') return verdict.message
  return `${code}: ${verdict.message}`
}
