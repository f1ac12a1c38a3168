/**
 * Finds agents that exchange messages without progress, and acts on it: rules 28 to 30. Attached only if the team asks
 * for it, so that other teams pay nothing.
 *
 * The ladder: first the agents involved get a notice at their `observe`. Then the protocol should replan; the event
 * tells it. Then, if the team wants that, the run ends. Each step needs a sign of its own, counted from the step
 * before; progress leads back to the start.
 */

import type { Scheduler } from '../../../clock.ts'
import { LivelockError } from '../../../errors.ts'
import {
  END,
  flagsOf,
  HAS_NAME,
  kindOf,
  lengthOf,
  NOBODY,
  recipientOf,
  senderOf,
  turnOf,
} from '../../../mailbox/frame.ts'
import { readBody } from '../../../mailbox/frame-body.ts'
import { idOf } from '../../../mailbox/frame-id.ts'
import type { Memory } from '../../../mailbox/memory.ts'
import type { HostMessages } from '../../admission/host-messages.ts'
import { LADDER, type LivelockStep, livelockAlarm } from '../../log/livelock-alarm.ts'
import { type Batch, type FrameBlock, type LogEntry, SEQ_STEP } from '../../log/records.ts'
import type { LivelockBounds } from '../../settings/livelock.ts'
import type { AgentDirectory } from '../../state/agent-directory.ts'
import type { Journal } from '../../state/journal.ts'
import type { Reader } from '../../state/reader.ts'
import { directoryOf, type RunState } from '../../state/run-state.ts'
import type { RunTable } from '../../state/run-table.ts'
import { type Beholder, LivelockWatch } from './progress.ts'
import type { Sign } from './signs.ts'

export interface LivelockNeeds {
  readonly clock: Scheduler
  readonly directory: AgentDirectory
  readonly hostMessages: HostMessages
  readonly journal: Journal
  readonly runs: RunTable
}

/** Ends a run with that error. */
type FailRun = (run: RunState, error: LivelockError) => void

export const livelock =
  (bounds: LivelockBounds, failRun: FailRun): ((needs: LivelockNeeds) => Reader) =>
  (needs) => {
    const cases = new Map<RunState, Case>()
    const turns = new Turns(needs)
    const caseOf = (run: RunState): Case => {
      const known = cases.get(run)
      if (known) return known
      for (const { index } of cases.keys()) if (!needs.runs.has(index)) cases.delete(run)
      const made = new Case(needs, run, turns, bounds, failRun)
      cases.set(run, made)
      return made
    }
    return {
      next(batch) {
        turns.look(batch)
        for (const entry of batch) {
          const run = needs.runs.get(entry.run)
          if (run && !run.ending) caseOf(run).show(entry)
          // A blackboard of the whole team belongs to no run: a new entry there is progress for each.
          else if (entry.kind === 'blackboard' && entry.run === 0) for (const each of cases.values()) each.show(entry)
        }
        turns.look([])
      },
    }
  }

/** Livelock state of one run, with its step of the ladder. */
class Case implements Beholder {
  readonly #needs: LivelockNeeds
  readonly #run: RunState
  readonly #turns: Turns
  readonly #failRun: FailRun
  readonly #watch: LivelockWatch
  readonly #steps: readonly LivelockStep[]
  /** Signs since the last progress. */
  #evidence: string[] = []

  constructor(needs: LivelockNeeds, run: RunState, turns: Turns, bounds: LivelockBounds, failRun: FailRun) {
    this.#needs = needs
    this.#run = run
    this.#turns = turns
    this.#failRun = failRun
    this.#steps = bounds.ends ? LADDER : LADDER.filter((step) => step !== 'abort')
    this.#watch = new LivelockWatch(bounds, this)
  }

  show(entry: LogEntry): void {
    if (this.#evidence.length === LADDER.length) return // it is about to end
    if (entry.kind === 'frames') this.#frames(entry)
    else if (entry.kind === 'task') this.#watch.task(entry.task, entry.previous === null)
    else if (entry.kind === 'handoff' || entry.kind === 'reassignment') {
      const source = this.#needs.directory.cell(entry.from, this.#run)
      if (source && entry.step === 'requested') this.#watch.handsOff(source.index, entry.turn)
    } else if (entry.kind === 'blackboard') {
      const { key, entryType, value } = entry.entry
      this.#watch.saw('blackboard', key, entryType, JSON.stringify(value))
    } else if (entry.kind === 'sync' && !entry.result.timedOut) {
      this.#watch.begin()
      this.progress()
    }
  }

  #frames({ memory, from, to, seq }: FrameBlock): void {
    for (let at = from, place = seq; at < to; at += lengthOf(memory, at), place += SEQ_STEP)
      this.#watch.frame(memory, at, place)
  }

  // ---- for the watch

  isModel(index: number): boolean {
    return this.#needs.directory.cells[index]?.settings.playedByModel ?? false
  }

  name(index: number): string {
    return directoryOf(this.#run, this.#needs.directory).name(index)
  }

  recipientOf(memory: Memory, at: number): number {
    const index = recipientOf(memory, at)
    if (index !== NOBODY || !(flagsOf(memory, at) & HAS_NAME)) return index
    return this.#needs.directory.cell(readBody(memory, at).name!, this.#run)?.index ?? NOBODY
  }

  messageOf(agent: number, turn: number): string | undefined {
    return this.#turns.messageOf(agent, turn)
  }

  progress(): void {
    this.#evidence = []
  }

  // ---- the ladder

  found({ agents, evidence: found }: Sign): void {
    const step = this.#steps[this.#evidence.length]
    if (!step) return
    this.#watch.begin()
    this.#evidence = [...this.#evidence, found]
    const evidence = this.#evidence
    this.#needs.journal.record(this.#run, { kind: 'alarm', ...livelockAlarm(step, agents, evidence) })
    if (step === 'notice') this.#tell(agents, found)
    else if (step === 'abort') this.#abort()
  }

  #tell(agents: readonly string[], evidence: string): void {
    for (const name of agents) {
      const cell = this.#needs.directory.cell(name, this.#run)
      if (!cell?.settings.isAgent || cell.gone || cell.removed) continue
      const content = `No progress: ${evidence}. Do something else, or say why you cannot go on.`
      this.#needs.hostMessages.report(this.#run, cell.index, content, { event: 'livelock', evidence: [evidence] })
    }
  }

  /** Ends the run, but not at once: other parts must still see the records that led here. */
  #abort(): void {
    const { id } = this.#run
    const evidence = this.#evidence
    const error = new LivelockError(
      `Run "${id}" is busy without progress. Those involved were told, then the protocol had time to replan; nothing new has come since. The signs: ${evidence.join('; ')}. Let the agents decide on another way when an answer comes again, mark repetition that is meant with polling: true, or raise the bounds of supervision.livelock.`,
      { runId: id, evidence, skipped: { 'tie-breaker': 'no protocol of this version has one' } },
    )
    this.#needs.clock.defer(() => this.#failRun(this.#run, error))
  }
}

/** Finds the message of a turn: in the mailbox, or for a turn that has ended in its END frame. */
class Turns {
  readonly #needs: LivelockNeeds
  #batch: Batch = []
  /** Message ids by agent and turn. */
  #ended: Map<string, string> | undefined

  constructor(needs: LivelockNeeds) {
    this.#needs = needs
  }

  look(batch: Batch): void {
    this.#batch = batch
    this.#ended = undefined
  }

  messageOf(agent: number, turn: number): string | undefined {
    const envelope = this.#needs.directory.cells[agent]?.holderOf(turn)?.mailbox.handed.get(turn)
    if (envelope) return idOf(envelope.memory, envelope.at)
    this.#ended ??= endedIn(this.#batch)
    return this.#ended.get(`${agent} ${turn}`)
  }
}

function endedIn(batch: Batch): Map<string, string> {
  const ended = new Map<string, string>()
  for (const entry of batch) {
    if (entry.kind !== 'frames') continue
    const { memory, from, to } = entry
    for (let at = from; at < to; at += lengthOf(memory, at))
      if (kindOf(memory, at) === END) ended.set(`${senderOf(memory, at)} ${turnOf(memory, at)}`, idOf(memory, at))
  }
  return ended
}
