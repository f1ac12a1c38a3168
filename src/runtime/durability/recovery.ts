/**
 * Puts what the log of an earlier process has into a supervisor: numbers, states, runs, messages, waits, tasks, boards.
 * A turn that was open comes again, with what the log has of it, as after the death of its thread. Runs that do not go
 * on at once stay interrupted, and nothing of them is put in place until they are resumed.
 */
import { ConfigurationError, type DramatisError, describe, UnknownAgentError } from '../../errors.ts'
import type { OnMismatch } from '../../mailbox/envelope.ts'
import type { RunBook } from '../runs/runs.ts'
import type { RunState } from '../state/run-state.ts'
import { MessageRecovery } from './message-recovery.ts'
import type { OldLog } from './old-log.ts'
import type { OldRun } from './old-run.ts'
import type { RestoredOwners, TeamParts } from './restored-owners.ts'
import { RunRecovery } from './run-recovery.ts'
import { restoreLetters, restoreNames, restoreShared, restoreStates } from './team-recovery.ts'

interface Given {
  readonly owners: RestoredOwners
  readonly parts: TeamParts
  readonly book: RunBook
  readonly old: OldLog
  /** Decides about runs whose code has changed. */
  readonly onMismatch: OnMismatch
}

export class Recovery {
  readonly #owners: RestoredOwners
  readonly #parts: TeamParts
  readonly #book: RunBook
  readonly #old: OldLog
  readonly #runs: RunRecovery
  readonly #onMismatch: OnMismatch

  constructor({ owners, parts, book, old, onMismatch }: Given) {
    this.#owners = owners
    this.#parts = parts
    this.#book = book
    this.#old = old
    this.#onMismatch = onMismatch
    this.#runs = new RunRecovery(owners, book, old)
  }

  /**
   * Restores the team, and goes on with the runs that nothing hinders. `byHand`: only with those that a caller has
   * launched again already. Returns the runs that go on, what hinders others, and what keeps agents from being there.
   */
  perform(byHand: boolean): { going: RunState[]; hindrances: DramatisError[]; lacking: DramatisError[] } {
    const runs = this.#runs
    const old = this.#old
    restoreNames(this.#owners, old)
    const lacking = this.#rejoinTeam()
    const open = [...old.runs.values()]
    restoreStates(
      this.#owners,
      old,
      open.map((run) => runs.stateOf(run)),
    )
    restoreShared(this.#owners, old)
    restoreLetters(this.#owners, old)
    for (const callId of old.openTools) this.#owners.tools.interrupted.add(callId)
    const going: OldRun[] = []
    const hindrances: DramatisError[] = []
    for (const run of open) {
      const isWanted = !this.#hasOtherOutput(run) && (!byHand || this.#isLaunched(run))
      const error = isWanted ? this.#hindrance(run) : undefined
      if (isWanted && !error) going.push(run)
      else this.#interrupt(run, error)
      if (error) hindrances.push(error)
    }
    this.#goOn(going, this.#onMismatch)
    return { going: going.map((run) => runs.stateOf(run)), hindrances, lacking }
  }

  /** Puts the agents in place that agents have made for the team. */
  #rejoinTeam(): DramatisError[] {
    const lacking: DramatisError[] = []
    for (const agent of this.#old.team.joined.values())
      try {
        this.#parts.madeAgents.rejoin(undefined, agent)
      } catch (error) {
        const text = `Agent "${agent.name}" was made by an agent, and this team cannot have it any more: ${describe(error)}`
        lacking.push(new ConfigurationError(text, { agent: agent.name }, error))
      }
    return lacking
  }

  /** Puts the agents of a run in place, and starts their threads. */
  #rejoin({ joined }: OldRun, run: RunState): void {
    for (const agent of joined.values()) {
      const cell = this.#parts.madeAgents.rejoin(run, agent)
      for (const each of cell?.instances ?? []) void this.#owners.lifecycle.begin(each)
    }
  }

  #isLaunched({ launched: { id, query } }: OldRun): boolean {
    return this.#book.get(id)?.state.query === query
  }

  /** Checks whether a caller has launched a run again with another schema: it does not go on with that one. */
  #hasOtherOutput({ launched: { id, query, output } }: OldRun): boolean {
    const again = this.#book.get(id)?.state
    return (
      output !== undefined &&
      again?.query === query &&
      again.output !== undefined &&
      again.output.logged?.digest !== output.digest
    )
  }

  /** Leaves a run as the log has it. `error`: what its callers are told. */
  #interrupt(run: OldRun, error: DramatisError | undefined): void {
    const { launched, finished } = run
    const isOver = finished !== undefined || launched.own
    const state = this.#runs.stateOf(run)
    const interruption = {
      hindrance: () => this.#hindrance(run),
      goOn: (onMismatch: OnMismatch) => this.#goOn([run], onMismatch),
    }
    if (finished) this.#runs.end(run, false)
    this.#book.interrupted.take(state, isOver ? undefined : launched, interruption, error)
  }

  /**
   * Returns why the team as it is cannot go on with a run: it lacks an agent that has a message of the run, or cannot
   * have one that was made in it.
   */
  #hindrance(run: OldRun): DramatisError | undefined {
    const { index, launched } = run
    const { names, work } = this.#old
    const { directory } = this.#owners
    const missing = new Set<string>()
    const need = (agent: number) => {
      const known = names.get(agent)
      if (known?.run === 0 && !directory.present(agent)) missing.add(known.name)
    }
    for (const message of work.messages()) if (message.run === index) need(message.recipient)
    if (this.#runs.begins(run)) need(launched.target)
    if (missing.size === 0) return this.#misfit(run)
    const agents = [...missing]
    const text = `Run "${launched.id}" cannot go on: it has work for ${agents.map((name) => `"${name}"`).join(', ')}, and this team has no agent of that name. Nothing of the run is lost: add the agent (team.addAgent) and resume the run, or cancel it.`
    return new UnknownAgentError(text, { agent: agents[0], runId: launched.id, missing: agents })
  }

  #misfit(run: OldRun): DramatisError | undefined {
    for (const agent of run.joined.values())
      try {
        this.#parts.madeAgents.assertFits(this.#runs.stateOf(run), agent)
      } catch (error) {
        const text = `Run "${run.launched.id}" cannot go on: agent "${agent.name}" was made in it, and this team cannot have it. ${describe(error)}`
        return new ConfigurationError(text, { agent: agent.name, runId: run.launched.id }, error)
      }
    return undefined
  }

  /** Puts all that is open in these runs in its place. */
  #goOn(open: readonly OldRun[], onMismatch: OnMismatch): void {
    const runs = this.#runs
    const { work } = this.#old
    const states = new Map(open.map((run) => [run.index, runs.stateOf(run)]))
    for (const run of open) this.#rejoin(run, runs.stateOf(run))
    const messages = new MessageRecovery(this.#owners, this.#old, states, onMismatch)
    for (const message of work.messages()) messages.message(message)
    const settles = new Map(open.map((run) => [run.index, runs.takeUp(run)]))
    for (const wait of work.waits) messages.wait(wait, settles.get(wait.message.run))
    for (const message of work.messages()) messages.deliver(message)
    for (const run of open) runs.fold(run)
    this.#owners.readersRestored(new Set(states.values()))
    messages.giveReceipts()
    messages.judge()
    messages.serveCalls()
    for (const run of open) {
      runs.answer(run, settles.get(run.index))
      runs.windDown(run)
    }
    this.#owners.loop.wake() // the threads may be there already, and idle
  }
}
