/** Moments of the wall clock: each comes once, however the clock is set, and whichever process goes on. */
import t from 'tap'
import { DueTimes } from '../../src/runtime/host/due-times.ts'
import type { Timer } from '../../src/shared/clock.ts'
import { Dice } from '../../src/shared/random.ts'

/** A machine whose wall clock can be set; its timers go by another one. */
class Machine {
  #mono = 0
  #ahead = 1e12
  #timers: { at: number; act: () => void }[] = []
  looks = 0

  now = () => this.#mono + this.#ahead
  timer = (ms: number, act: () => void): Timer => {
    const timer = { at: this.#mono + ms, act }
    this.#timers.push(timer)
    return { cancel: () => this.#timers.splice(this.#timers.indexOf(timer) >>> 0, 1) }
  }

  jump(ms: number): void {
    this.#ahead += ms
  }

  die(): void {
    this.#timers = []
  }

  pass(ms: number): void {
    const until = this.#mono + ms
    for (;;) {
      const [next] = this.#timers.filter(({ at }) => at <= until).sort((a, b) => a.at - b.at)
      if (!next) break
      this.#timers.splice(this.#timers.indexOf(next), 1)
      this.#mono = Math.max(this.#mono, next.at)
      this.looks += 1
      next.act()
    }
    this.#mono = until
  }
}

const HOUR = 3_600_000
const SEEDS = 10_000

t.test('each is met once under clocks that jump by an hour and processes that die', async (t) => {
  for (let seed = 0; seed < SEEDS; seed++) {
    const dice = new Dice(seed, 'jumps')
    const machine = new Machine()
    /** What the log has: when each is due, and which have come. */
    const asked = new Map<number, number>()
    const come = new Map<number, number>()
    let dues = new DueTimes(machine)
    const timers = new Map<number, Timer>()
    const put = (id: number, at: number) => {
      timers.set(
        id,
        dues.add(at, () => {
          if (machine.now() < at) throw new Error(`seed ${seed}: ${id} comes too early`)
          come.set(id, (come.get(id) ?? 0) + 1)
        }),
      )
    }
    for (let step = 0; step < 20; step++) {
      if (dice.chance(0.5)) {
        const at = machine.now() + dice.upTo(2 * HOUR)
        asked.set(step, at)
        put(step, at)
      }
      if (dice.chance(0.3)) machine.jump(dice.upTo(2 * HOUR) - HOUR)
      if (dice.chance(0.1)) {
        machine.die()
        dues = new DueTimes(machine)
        for (const [id, at] of asked) if (!come.has(id)) put(id, at)
      }
      if (dice.chance(0.1)) {
        const [id] = [...asked.keys()].filter((each) => !come.has(each))
        if (id !== undefined) {
          timers.get(id)!.cancel()
          asked.delete(id)
        }
      }
      machine.pass(dice.upTo(HOUR))
      const late = [...asked].filter(([id, at]) => !come.has(id) && at < machine.now() - 61_000)
      machine.pass(60_000)
      for (const [id] of late) if (!come.has(id)) throw new Error(`seed ${seed}: ${id} is late`)
    }
    machine.pass(6 * HOUR)
    for (const id of asked.keys()) if (come.get(id) !== 1) throw new Error(`seed ${seed}: ${id}, ${come.get(id)} times`)
    if (come.size !== asked.size) throw new Error(`seed ${seed}: one came that was given up`)
  }
  t.pass(`${SEEDS} seeds`)
})

t.test('nothing is looked at while nothing is due, and moments come in their order', async (t) => {
  const machine = new Machine()
  const dues = new DueTimes(machine)
  machine.pass(HOUR)
  t.equal(machine.looks, 0)
  const order: string[] = []
  const at = machine.now() + 1_000
  for (const [name, ms] of [
    ['c', 20],
    ['a', 10],
    ['d', 20],
    ['b', 10],
  ] as const)
    dues.add(at + ms, () => order.push(name))
  dues.add(at - 5_000, () => order.push('past'))
  t.same(order, [])
  machine.pass(0)
  t.same(order, ['past'])
  machine.pass(2_000)
  t.same(order, ['past', 'a', 'b', 'c', 'd'])
  machine.pass(HOUR)
  t.ok(machine.looks <= 5)
})
