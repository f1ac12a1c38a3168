/**
 * Finds agents that exchange messages without progress, and acts on it: rules 28 to 30. Unless the team asks for more,
 * a run is watched from the moment on at which a model asks somebody. A run of code alone is looked at now and then,
 * since a livelock does not end by itself: so short runs pay nothing, and long ones next to nothing.
 *
 * The ladder: first the agents involved get a notice at their `observe`. Then the protocol should replan; the event
 * tells it. Then the run ends, if models alone are the cause or the team wants that. Each step needs another sign of
 * the same cause, counted from the step before; progress leads back to the start.
 */

import type { Protocol } from '../../actors/definition/protocol.ts'
import {
  END,
  flagsOf,
  HAS_NAME,
  idOf,
  kindOf,
  lengthOf,
  type Memory,
  NOBODY,
  readBody,
  recipientOf,
  senderOf,
  turnOf,
} from '../../mailbox/frame.ts'
import { type DramatisError, LivelockError } from '../../shared/errors.ts'
import type { Reader } from '../host/journal.ts'
import { directoryOf, type RunState } from '../host/run.ts'
import { type Batch, type FrameBlock, LADDER, type LogEntry, livelockAlarm, SEQ_STEP } from '../log/records.ts'
import type { LivelockBounds } from '../settings/agent-settings.ts'
import type { TeamSettings } from '../settings/settings.ts'
import type { Part, Supervisor } from '../supervision/host.ts'
import { deadlock } from './deadlock.ts'
import { type Beholder, LivelockWatch } from './livelock.ts'
import type { Sign } from './livelock-signs.ts'

type FailRun = (run: RunState, error: LivelockError) => void

const livelock =
  (bounds: LivelockBounds, failRun: FailRun): ((host: Supervisor) => Reader) =>
  (host) => {
    const cases = new Map<RunState, Case>()
    /** Checks whether it is time to look at a run of code. A look that has found nothing ends. */
    const isLookedAt = (run: RunState, entry: LogEntry): boolean => {
      if (entry.kind !== 'frames') return cases.has(run)
      run.framesPassed += entry.count
      if (run.framesPassed >= 2 * LOOK && isDue(run.framesPassed)) return true
      if (cases.get(run)?.hasFound === false) cases.delete(run)
      return cases.has(run)
    }
    const turns = new Turns(host)
    const caseOf = (run: RunState): Case => {
      const known = cases.get(run)
      if (known) return known
      for (const { index } of cases.keys()) if (!host.runs.has(index)) cases.delete(run)
      const made = new Case(host, run, turns, bounds, failRun)
      cases.set(run, made)
      return made
    }
    return {
      kinds: ['frames', 'task', 'handoff', 'reassignment', 'blackboard', 'sync'],
      next(batch) {
        for (const entry of batch) {
          if (entry.kind === 'turn.started') continue // it comes with nearly each message, and shows nothing
          const run = host.runs.get(entry.run)
          if (run && !run.ending && (bounds.ofCode || run.askedByModel || isLookedAt(run, entry))) {
            turns.batch = batch
            caseOf(run).show(entry)
          }
          // A blackboard of the whole team belongs to no run: a new entry there is progress for each.
          else if (entry.kind === 'blackboard' && entry.run === 0) for (const each of cases.values()) each.show(entry)
        }
        if (turns.batch !== NONE) turns.forget()
      },
    }
  }

const NONE: Batch = []

/** Limit of signs that are kept: those that progress does not take back are of more and more causes. */
const MOST_SIGNS = 100

/** Frames of a look at a run of code. The first comes after as many again, each later one after twice as many. */
const LOOK = 1_000

function isDue(frames: number): boolean {
  const from = LOOK * 2 ** Math.floor(Math.log2(frames / LOOK))
  return frames - from < LOOK
}

/** Livelock state of one run, with the step of the ladder for each cause. */
class Case implements Beholder {
  readonly #host: Supervisor
  readonly #run: RunState
  readonly #turns: Turns
  readonly #failRun: FailRun
  readonly #watch: LivelockWatch
  readonly #bounds: LivelockBounds
  /** Signs since the last progress, in their order. */
  #signs: readonly Sign[] = []
  #isOver = false

  constructor(host: Supervisor, run: RunState, turns: Turns, bounds: LivelockBounds, failRun: FailRun) {
    this.#host = host
    this.#run = run
    this.#turns = turns
    this.#failRun = failRun
    this.#bounds = bounds
    this.#watch = new LivelockWatch(bounds, this)
  }

  get hasFound(): boolean {
    return this.#signs.length > 0
  }

  show(entry: LogEntry): void {
    if (this.#isOver) return
    if (entry.kind === 'frames') this.#frames(entry)
    else if (entry.kind === 'task') this.#watch.task(entry.task, entry.previous === null)
    else if (entry.kind === 'handoff' || entry.kind === 'reassignment') {
      const source = this.#host.directory.agent(entry.from, this.#run)
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

  readonly isModel = (index: number): boolean => this.#host.directory.byIndex[index]?.settings.playedByModel ?? false

  name(index: number): string {
    return directoryOf(this.#run, this.#host.directory).name(index)
  }

  recipientOf(memory: Memory, at: number): number {
    const index = recipientOf(memory, at)
    if (index !== NOBODY || !(flagsOf(memory, at) & HAS_NAME)) return index
    return this.#host.directory.agent(readBody(memory, at).name!, this.#run)?.index ?? NOBODY
  }

  messageOf(agent: number, turn: number): string | undefined {
    return this.#turns.messageOf(agent, turn)
  }

  progress(): void {
    if (this.#signs.length > 0) this.#signs = this.#signs.filter(({ lasts }) => lasts)
  }

  // ---- the ladder

  found(sign: Sign): void {
    const { agents, evidence: found, cause, ofModels } = sign
    const { ends } = this.#bounds
    // A team that lets any livelock end its runs has them ended by three signs of any causes.
    const before = ends === 'all' ? this.#signs : this.#signs.filter((other) => other.cause === cause)
    const step = LADDER[before.length]
    const mayEnd = ends === 'all' || (ends === 'models' && ofModels)
    if (!step || (step === 'abort' && !mayEnd)) return
    this.#watch.begin()
    this.#signs = [...this.#signs, sign].slice(-MOST_SIGNS)
    const evidence = [...before, sign].map((each) => each.evidence)
    this.#host.journal.record(this.#run, { kind: 'alarm', ...livelockAlarm(step, agents, evidence) })
    if (step === 'notice') this.#tell(agents, found)
    else if (step === 'abort') this.#abort(evidence)
  }

  #tell(agents: readonly string[], evidence: string): void {
    for (const name of agents) {
      const agent = this.#host.directory.agent(name, this.#run)
      if (!agent?.settings.isAgent || agent.gone || agent.removed) continue
      const content = `No progress: ${evidence}. Do something else, or say why you cannot go on.`
      this.#host.hostMessages.report(this.#run, agent.index, content, { event: 'livelock', evidence: [evidence] })
    }
  }

  /** Ends the run, but not at once: other parts must still see the records that led here. */
  #abort(evidence: readonly string[]): void {
    const { id } = this.#run
    this.#isOver = true
    const error = new LivelockError(
      `Run "${id}" is busy without progress. Those involved were told, then the protocol had time to replan; nothing new has come since. The signs: ${evidence.join('; ')}. Let the agents decide on another way when an answer comes again, mark repetition that is meant with polling: true, or raise the bounds of supervision.livelock.`,
      { runId: id, evidence, skipped: { 'tie-breaker': 'no protocol of this version has one' } },
    )
    this.#host.clock.defer(() => this.#failRun(this.#run, error))
  }
}

/** Finds the message of a turn: in the mailbox, or for a turn that has ended in its END frame. */
class Turns {
  readonly #host: Supervisor
  /** Records that are shown now. */
  batch: Batch = NONE
  /** Message ids by agent and turn. */
  #ended: Map<string, string> | undefined

  constructor(host: Supervisor) {
    this.#host = host
  }

  forget(): void {
    this.batch = NONE
    this.#ended = undefined
  }

  messageOf(agent: number, turn: number): string | undefined {
    const envelope = this.#host.directory.byIndex[agent]?.holderOf(turn)?.mailbox.handed.get(turn)
    if (envelope) return idOf(envelope.memory, envelope.at)
    this.#ended ??= endedIn(this.batch)
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

interface Kit {
  readonly settings: TeamSettings
  readonly protocol: Protocol
  fail(run: RunState, error: DramatisError): void
}

/** Returns the part of a detector; undefined where the team has turned it off. */
type Detector = (kit: Kit) => Part | undefined

const DETECTORS: readonly Detector[] = [
  ({ settings, protocol }) =>
    settings.deadlock === false ? undefined : deadlock(settings.deadlock, settings.confirmMs, 'foreign' in protocol),
  ({ settings, fail }) => (settings.livelock === false ? undefined : livelock(settings.livelock, fail)),
]

export const detectorsOf = (kit: Kit): Part[] => DETECTORS.flatMap((detector) => detector(kit) ?? [])
