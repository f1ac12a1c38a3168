/** A team in virtual time whose process dies when a test says so, and the next one on its log. */
import type { AgentDefinition } from '../../src/actors/definition/definition.ts'
import { defineAgent, type MultiAgentPatternOptions } from '../../src/index.ts'
import { SteppedClock } from '../../src/runtime/testing/virtual-clock.ts'
import { Dice } from '../dice.ts'
import { type Cast, silent } from '../kit/team.ts'
import { LivingTeam } from './living-team.ts'
import { Disk, MortalStore } from './mortal-store.ts'

type Options = Partial<Omit<MultiAgentPatternOptions, 'agents' | 'clock' | 'stateManagement'>>

export class Lives {
  readonly disk = new Disk()
  readonly #roles: MultiAgentPatternOptions['agents']
  readonly #definitions: ReadonlyMap<string, AgentDefinition>
  readonly #options: Options
  readonly #keptBytes: number | undefined
  #store: MortalStore | undefined
  #clock = new SteppedClock(1, 0)

  /** `later`: agents that are added while it runs. `keptBytes`: of the log of a run, in memory. */
  constructor(
    cast: Cast,
    options: Options & { roles?: Readonly<Record<string, object>>; later?: Cast; keptBytes?: number },
  ) {
    const { roles = {}, later = {}, keptBytes, ...rest } = options
    this.#keptBytes = keptBytes
    this.#options = rest
    this.#roles = Object.keys(cast).map((name) => ({ name, ...roles[name] }))
    this.#definitions = new Map(
      Object.entries({ ...cast, ...later }).map(([name, each]) => [
        name,
        typeof each === 'function' ? defineAgent({ receive: each }) : each,
      ]),
    )
  }

  get clock(): SteppedClock {
    return this.#clock
  }

  /** Nothing of the process gets to the log any more. */
  die(): void {
    this.#store?.die()
  }

  /** The process dies, with what the log has by now, and another one takes the log, `asleepMs` later. */
  async next({
    asleepMs = 0,
    segmentBytes,
    add = [],
    options = {},
    ...state
  }: {
    resume?: 'start' | 'manual'
    asleepMs?: number
    keep?: { runs: number }
    /** Size of the parts in which the log gives up space. By default it gives up none. */
    segmentBytes?: number
    /** Names of agents that the program of this process has too. */
    add?: string[]
    /** Options of this process. */
    options?: Options
  } = {}): Promise<LivingTeam> {
    this.#store?.die()
    const clock = new SteppedClock(1, this.#clock.now() + asleepMs)
    const store = new MortalStore(this.disk, clock, new Dice(1), segmentBytes)
    this.#clock = clock
    this.#store = store
    const team = new LivingTeam(
      {
        logger: silent,
        orchestration: { strategy: 'sequential' },
        ...this.#options,
        ...options,
        agents: [...this.#roles, ...add.map((name) => ({ name }))],
        clock,
        stateManagement: { path: 'memory', ...state },
      },
      {
        definitions: this.#definitions,
        realTools: true,
        newStore: () => store,
        ...(this.#keptBytes && { keptBytes: this.#keptBytes }),
      },
    )
    let isStarted = false
    const started = team.start().then(() => {
      isStarted = true
    })
    while (!isStarted) await Promise.race([started, clock.advance(10)])
    await clock.advance(100)
    return team
  }
}
