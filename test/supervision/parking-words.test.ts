/** Rule 19: the words that say which turns only wait, and the number by which a thread knows that none does. */
import { equal } from 'node:assert/strict'
import fc from 'fast-check'
import t from 'tap'
import { Link } from '../../src/actors/turn/link.ts'
import { Parking } from '../../src/actors/turn/parking.ts'
import { mostOpenTurns, PARKED, parkedWord, SURELY, TAKEN, Window } from '../../src/mailbox/channel.ts'
import { TeamMemory } from '../../src/mailbox/team-memory.ts'
import { virtualClock } from '../../src/testing.ts'

const CONCURRENCY = 2
const acts = ['park', 'unpark', 'regain', 'take', 'give back', 'close', 'shelve', 'unshelve'] as const

/** A turn as the thread and the host see it. */
interface Open {
  readonly run: number
  slot: number
  /** Its word is set. */
  isTold: boolean
  /** The host has taken its permit. */
  isTaken: boolean
  /** It has gone on without a permit. */
  isWithout: boolean
  isShelved: boolean
}

class Play {
  readonly #words = new Window()
  readonly #parking: Parking
  #turns: Open[] = []
  #runs = 0

  constructor() {
    const port = { ring() {}, onRing() {}, scheduler: virtualClock() }
    this.#parking = new Parking(this.#words.words, CONCURRENCY, new Link(this.#words, new TeamMemory(2), port, 1))
  }

  open(): void {
    if (this.#turns.length === mostOpenTurns(CONCURRENCY)) return
    const rest = { isTold: false, isTaken: false, isWithout: false, isShelved: false }
    this.#turns.push({ run: ++this.#runs, slot: this.#parking.open(), ...rest })
  }

  act(act: (typeof acts)[number], which: number): void {
    const turn = this.#turns[which % (this.#turns.length || 1)]
    if (!turn || turn.isShelved !== (act === 'unshelve')) return
    const at = PARKED + turn.slot
    switch (act) {
      case 'park':
        this.#parking.park(turn)
        turn.isTold = true
        return
      case 'unpark':
        this.#goesOn(turn)
        return equal(this.#parking.unpark(turn), !turn.isWithout)
      case 'regain':
        this.#parking.regain(turn)
        this.#goesOn(turn)
        turn.isWithout = false
        return
      case 'take':
        if (turn.isTold && !turn.isTaken) this.#replace(at, parkedWord(turn.run, SURELY), parkedWord(turn.run, TAKEN))
        turn.isTaken = turn.isTold
        return
      case 'give back':
        if (turn.isTaken) this.#replace(at, parkedWord(turn.run, TAKEN), parkedWord(turn.run, SURELY))
        turn.isTaken = false
        return
      case 'close':
        this.#goesOn(turn)
        this.#turns = this.#turns.filter((other) => other !== turn)
        return equal(this.#parking.close(turn), !turn.isWithout)
      case 'shelve':
        this.#parking.shelve(turn)
        Object.assign(turn, { isTold: false, isTaken: false, isWithout: false, isShelved: true })
        return
      case 'unshelve':
        this.#parking.unshelve(turn)
        turn.isShelved = false
        return
    }
  }

  /** Its word is cleared, and tells whether the host has taken its permit meanwhile. */
  #goesOn(turn: Open): void {
    if (turn.isTaken) turn.isWithout = true
    turn.isTold = false
    turn.isTaken = false
  }

  #replace(at: number, word: number, other: number): void {
    equal(Atomics.compareExchange(this.#words.words, at, word, other), word)
  }

  check(): void {
    const told = this.#turns.filter(({ isTold }) => isTold)
    equal(this.#parking.marked, told.length + this.#turns.filter(({ isWithout }) => isWithout).length)
    for (const { run, slot, isTold, isTaken, isShelved } of this.#turns)
      if (!isShelved) equal(this.#words.words[PARKED + slot], isTold ? parkedWord(run, isTaken ? TAKEN : SURELY) : 0)
  }
}

t.test('rule 19: a thread counts its marked turns and those without a permit, whatever the host takes', async () => {
  const step = fc.oneof(fc.constant('open' as const), fc.record({ act: fc.constantFrom(...acts), which: fc.nat(100) }))
  fc.assert(
    fc.property(fc.array(step, { maxLength: 100, size: 'max' }), (steps) => {
      const play = new Play()
      for (const each of steps) {
        if (each === 'open') play.open()
        else play.act(each.act, each.which)
        play.check()
      }
    }),
  )
})
