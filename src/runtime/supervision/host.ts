/**
 * The host of a team: it reads what the threads have written, once, takes the frames in, dispatches what follows from
 * them, and calls the readers of the journal.
 */

import type { Logger } from '../../actors/definition/tool.ts'
import { HOST_ASLEEP, HOST_CALLED } from '../../mailbox/team-memory.ts'
import { type DramatisError, describe } from '../../shared/errors.ts'
import type { Agent } from '../host/agent.ts'
import type { Journal, Reader } from '../host/journal.ts'
import type { RunState } from '../host/run.ts'
import type { Batch, LogEntry } from '../log/records.ts'
import type { Spawner } from '../threads/thread.ts'
import { Exits } from './exits.ts'
import { Lifecycle } from './lifecycle.ts'
import { Owners, type OwnersOptions } from './owners.ts'
import { Passivation } from './passivation.ts'
import { ThreadPlaces } from './pending-incarnation.ts'
import { Router } from './router.ts'

/**
 * Readers of a team's journal. Each gets only batches with a kind of record that it handles. A reader that throws is
 * reported, and the others continue.
 */
export class Readers {
  readonly #journal: Journal
  readonly #logger: Logger
  /** `kinds` of records and of frames, as bits. */
  readonly #all: { readonly reader: Reader; readonly kinds: number; readonly frames: number }[] = []

  constructor(journal: Journal, logger: Logger) {
    this.#journal = journal
    this.#logger = logger
    journal.readWith(this.#next.bind(this))
  }

  /** Adds a reader: from now on it gets the batches that concern it. */
  add(reader: Reader): void {
    const { kinds, frames = ALL } = reader
    const records = kinds?.reduce((bits, kind) => (kind === 'frames' ? bits : bits | bitOf(kind)), 0)
    this.#all.push({ reader, kinds: records ?? ALL, frames: !kinds || kinds.includes('frames') ? frames : 0 })
  }

  /** `seen`: kinds of the frames in the batch. */
  #next(batch: Batch, seen: number): void {
    let present = 0
    for (const { kind } of batch) if (kind !== 'frames') present |= bitOf(kind)
    for (const each of this.#all) {
      if (((each.kinds & present) | (each.frames & seen)) === 0 || each.reader.isIdle) continue
      try {
        each.reader.next(batch)
      } catch (error) {
        this.#logger.error({ error: describe(error) }, 'a part of the supervisor threw; the others go on')
      }
    }
  }

  overdue(run: RunState): void {
    for (const { reader } of this.#all) reader.overdue?.(run)
  }

  restored(runs: ReadonlySet<RunState>): void {
    for (const { reader } of this.#all) reader.restored?.(runs)
  }

  close(): void {
    this.#journal.readWith(undefined)
    for (const { reader } of this.#all) reader.close?.()
  }
}

const ALL = ~0
const BITS = new Map<LogEntry['kind'], number>()
const MOST_BITS = 31

/**
 * Returns a bit for each kind of record, so that the kinds of a batch are one number. The last kinds share one: who
 * gets a batch by it still has to look.
 */
function bitOf(kind: LogEntry['kind']): number {
  let bit = BITS.get(kind)
  if (bit === undefined) {
    bit = 1 << Math.min(BITS.size, MOST_BITS)
    BITS.set(kind, bit)
  }
  return bit
}

/**
 * Makes a reader of the journal out of the owners that it needs. If a part is left out, only its own work is missing.
 */
export type Part = (owners: Supervisor) => Reader

export interface SupervisorOptions extends OwnersOptions {
  spawner: Spawner
  /** Places of the agents' threads, if several teams share them. */
  places?: ThreadPlaces
  parts: readonly Part[]
}

/**
 * Number of looks in one turn of the event loop, each at a share of what every agent has written. After them timers and
 * sockets come first.
 */
const ROUNDS = 8

export class Supervisor extends Owners<SupervisorOptions> {
  readonly spawner = this.options.spawner
  readonly router = new Router(this)
  readonly exits = new Exits(this, this.router)
  readonly places = this.options.places ?? new ThreadPlaces(this.threads.max, this.clock)
  readonly lifecycle = new Lifecycle(this, this.exits, this.places, this.router)
  readonly passivation: Passivation = new Passivation(this, this.lifecycle, this.places, this.threads.idleMs)
  readonly #readers = new Readers(this.journal, this.logger)

  constructor(options: SupervisorOptions) {
    super(options)
    this.places.teams.add(this.passivation)
    for (const part of options.parts) this.attach(part)
    this.#readers.add(this.stagedStart)
    if (this.places.isBounded || this.threads.idleMs !== false) this.#readers.add(this.passivation)
  }

  /** Adds a part: from now on its reader gets every record. */
  attach(part: Part): void {
    this.#readers.add(part(this))
  }

  awaken(agents: readonly Agent[]): void {
    this.passivation.awaken(agents)
  }

  cannotStart(agent: Agent, error: DramatisError, blameless: boolean): void {
    this.lifecycle.cannotStart(agent, error, blameless)
  }

  overdue(run: RunState): void {
    this.#readers.overdue(run)
  }

  /** Notifies the readers that these runs of an earlier process were put in place. */
  readersRestored(runs: ReadonlySet<RunState>): void {
    this.#readers.restored(runs)
  }

  protected poll(): boolean {
    const { clock, dispatcher, permits, journal, ready } = this
    const { words } = this.team
    try {
      Atomics.store(words, HOST_ASLEEP, 0)
      let more = true
      for (let rounds = 0; more && rounds < ROUNDS && !this.loop.closed; ) {
        Atomics.store(words, HOST_CALLED, 0)
        while (more && rounds++ < ROUNDS) {
          clock.holdStill()
          more = this.#drain()
          if (more) dispatcher.hurry()
        }
        if (permits.contended.size > 0) permits.reconsider()
        do {
          if (ready.marked.size + dispatcher.cramped.size > 0) dispatcher.flush()
          if (journal.hasNews) journal.tell()
        } while (journal.hasNews || ready.marked.size > 0)
        if (more) continue
        // Announces sleep, then looks again: something may have come in between.
        Atomics.store(words, HOST_ASLEEP, 1)
        more = Atomics.load(words, HOST_CALLED) !== 0 || (dispatcher.cramped.size > 0 && dispatcher.roomAgain())
        if (more) Atomics.store(words, HOST_ASLEEP, 0)
      }
      return more
    } finally {
      clock.runOn()
    }
  }

  /** Takes a share of what each agent has written. True: some agent has more. */
  #drain(): boolean {
    const { directory, team } = this
    const words = (directory.byIndex.length + 31) >> 5
    let more = false
    for (let word = 0; word < words; word++)
      for (let bits = team.takeWriters(word); bits !== 0; bits &= bits - 1) {
        const index = word * 32 + 31 - Math.clz32(bits & -bits)
        let has = false
        for (const agent of directory.livingAt(index)) {
          const { incarnation } = agent
          if (incarnation?.channel.outbox.more() && this.router.drain(agent, incarnation)) has = true
        }
        if (!has) continue
        team.wrote(index)
        more = true
      }
    return more
  }

  /** Closes the host after all threads have ended: nothing is left that could wake the process. */
  close(): void {
    this.journal.tell()
    this.loop.closed = true
    this.#readers.close()
    this.clock.cancelTimers()
    this.places.teams.delete(this.passivation)
    this.journal.close()
  }
}
