/** A door for each process of a cluster before each server of its engine, and what can become of the way through. */
import { setTimeout as sleep } from 'node:timers/promises'
import { CuttingProxy } from '../postgres/cutting-proxy.ts'
import type { Fault } from './nemesis.ts'

export class Doors {
  readonly #all: readonly (readonly CuttingProxy[])[]

  private constructor(all: readonly (readonly CuttingProxy[])[]) {
    this.#all = all
  }

  static async before(ports: readonly number[], processes: number): Promise<Doors> {
    const doors = () => Promise.all(ports.map((port) => CuttingProxy.before(port)))
    return new Doors(await Promise.all(Array.from({ length: processes }, doors)))
  }

  /** Ports of the servers as each process has them. */
  get ports(): readonly (readonly number[])[] {
    return this.#all.map((doors) => doors.map(({ port }) => port))
  }

  close(): void {
    for (const door of this.#all.flat()) door.close()
  }

  /** Faults of the way: from and to a process, or in one direction alone. */
  faults(frozenMs: number): readonly Fault[] {
    const fault = (name: string, shut: (door: CuttingProxy, random: () => number) => void): Fault => ({
      name,
      act: async (_, random) => {
        const doors = this.#all[Math.floor(random() * this.#all.length)]!
        for (const door of doors) if (doors.length === 1 || random() < 0.7) shut(door, random)
        await sleep(frozenMs * (0.5 + random()))
        for (const door of doors) door.lead()
      },
    })
    return [
      fault('cut', (door, random) => (random() < 0.5 ? door.fallSilent() : door.refuse())),
      fault('cut one way', (door, random) => door.fallSilent(random() < 0.5 ? 'to the server' : 'from the server')),
    ]
  }
}
