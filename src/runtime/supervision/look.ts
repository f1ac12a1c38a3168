/**
 * Reads what the threads have written, once: takes the frames in, dispatches what follows from them, and calls the
 * readers of the journal.
 */
import type { OwnScheduler } from '../../clock.ts'
import { HOST_ASLEEP, HOST_CALLED, type TeamMemory } from '../../mailbox/room.ts'
import type { Dispatcher } from '../dispatch/dispatcher.ts'
import type { Gate } from '../dispatch/permits.ts'
import type { AgentDirectory } from '../state/agent-directory.ts'
import type { HostLoop } from '../state/host-loop.ts'
import type { Journal } from '../state/journal.ts'
import type { Ready } from '../state/ready.ts'
import type { Router } from './router.ts'

/**
 * Number of looks in one turn of the event loop, each at a share of what every agent has written. After them timers and
 * sockets come first.
 */
const ROUNDS = 8

interface Needs {
  readonly clock: OwnScheduler
  readonly directory: AgentDirectory
  readonly dispatcher: Dispatcher
  readonly gate: Gate
  readonly journal: Journal
  readonly loop: HostLoop
  readonly ready: Ready
  readonly router: Router
  readonly team: TeamMemory
}

export class Look {
  readonly #needs: Needs

  constructor(needs: Needs) {
    this.#needs = needs
  }

  /** Looks at all agents that have written something. True: there is more. */
  all(): boolean {
    const { clock, dispatcher, gate, journal, loop, ready, team } = this.#needs
    const { words } = team
    try {
      Atomics.store(words, HOST_ASLEEP, 0)
      let more = true
      for (let rounds = 0; more && rounds < ROUNDS && !loop.closed; ) {
        Atomics.store(words, HOST_CALLED, 0)
        while (more && rounds++ < ROUNDS) {
          clock.holdStill()
          more = this.#drain()
          if (more) dispatcher.hurry()
        }
        if (gate.contended.size > 0) gate.reconsider()
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
    const { directory, router, team } = this.#needs
    const words = (directory.cells.length + 31) >> 5
    let more = false
    for (let word = 0; word < words; word++)
      for (let bits = team.takeWriters(word); bits !== 0; bits &= bits - 1) {
        const index = word * 32 + 31 - Math.clz32(bits & -bits)
        let has = false
        for (const cell of directory.livingAt(index)) {
          const { life } = cell
          if (life?.window.outbox.more() && router.drain(cell, life)) has = true
        }
        if (!has) continue
        team.wrote(index)
        more = true
      }
    return more
  }
}
