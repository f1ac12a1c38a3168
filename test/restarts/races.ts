/** Plays a program of races in virtual time: undisturbed, or until its log has so many entries; then its agent or its process dies. */
import { setTimeout } from 'node:timers/promises'
import { defineAgent, type ModelClient } from '../../src/index.ts'
import { LocalThread } from '../../src/runtime/threads/local-thread.ts'
import { Dice } from '../dice.ts'
import {
  answer,
  type Outside,
  type RaceProgram,
  race,
  raceProgram,
  syncPointsOf,
  wrongIn,
} from '../fixtures/durability/races.ts'
import { takes, takesTool } from '../fixtures/durability/takes.ts'
import { outcomeOf, silent } from '../kit/team.ts'
import { Lives } from './lives.ts'
import type { LivingTeam } from './living-team.ts'

const UNIT_MS = 10
const takesModule = new URL('../fixtures/durability/takes.js', import.meta.url)
const never = () => new Promise<never>(() => {})

export type Dies = 'thread' | 'process'

class Stage {
  readonly paid: string[] = []
  readonly lives: Lives
  /** Number of the process that lives. */
  #process = 0
  /** Number of the racer's thread that lives. */
  #thread = 0
  readonly #asked = new Set<string>()

  constructor(program: RaceProgram) {
    takes.passes = (ms, tool) => this.#outside(tool === 'hosted').passes(ms)
    const others = { receive: answer }
    this.lives = new Lives(
      {
        racer: (_message, context) => race(program, context, this.#outside()),
        echo: defineAgent(others),
        other: defineAgent(others),
        partner: defineAgent(others),
      },
      {
        tools: [takesTool('hosted'), { module: takesModule, export: 'threaded' }],
        enableBlackboard: true,
        models: { default: this.#model() },
        syncPoints: syncPointsOf(program),
        roles: { echo: { concurrency: 32 }, other: { concurrency: 32 }, partner: { concurrency: 32 } },
        communication: { responseTimeoutMs: 3_600_000 },
        logger: silent,
        orchestration: {
          strategy: 'custom',
          run: async (script) => (await script.request('racer', 'go')).content,
        },
      },
    )
  }

  /** What an attempt, or the host, does to the outside: nothing, if its thread or its process is dead. */
  #outside(isHost = false): Outside {
    const [process, thread, { clock }] = [this.#process, this.#thread, this.lives]
    const isDead = () => process !== this.#process || (!isHost && thread !== this.#thread)
    return {
      async passes(ms) {
        await clock.sleep(ms)
        if (isDead()) await never()
      },
      pays: async (what) => {
        if (isDead()) await never()
        this.paid.push(what)
      },
    }
  }

  #model(): ModelClient {
    const stage = this
    return {
      offline: true,
      async *complete({ messages }) {
        const process = stage.#process
        await stage.lives.clock.sleep(Number(String(messages.at(-1)?.content).split(' ')[0]))
        if (process !== stage.#process) await never()
        yield { text: 'said' }
        yield { finishReason: 'stop' }
      },
    }
  }

  async #next(): Promise<LivingTeam> {
    this.#process += 1
    const { lives } = this
    const team = await lives.next()
    const answers = () => {
      for (const { questionId, text } of team.questions()) {
        if (this.#asked.has(questionId)) continue
        this.#asked.add(questionId)
        lives.clock.timer(Number(text.split(' ')[0]), () => {
          team.answer(questionId, 'yes').catch(() => this.#asked.delete(questionId))
        })
      }
    }
    this.#asked.clear()
    team.host.journal.records$.subscribe(answers)
    answers()
    return team
  }

  /** Returns what is wrong with a play in which it dies at that entry, and the number of entries. */
  async play(dies: Dies, at: number): Promise<{ wrong: string[]; entries: number }> {
    let team = await this.#next()
    let entries = 0
    let isDead = false
    team.host.journal.records$.subscribe((batch) => {
      for (const _ of batch) {
        entries += 1
        if (entries !== at) continue
        isDead = true
        if (dies === 'process') this.lives.die()
        else this.#crash(team)
      }
    })
    team.launch('go', { runId: 'one' })
    if (dies === 'process') {
      for (let ms = 0; ms < 2_000 && !isDead; ms++) await this.lives.clock.advance(1)
      if (isDead) {
        team = await this.#next()
        team.launch('go', { runId: 'one' })
      }
    }
    const outcome = outcomeOf(team.getRun('one')!.result)
    for (let i = 0; i < 1_000 && !outcome.settled; i++) {
      // A thread loads its tools in real time.
      const isReady = team.host.directory.agent('racer')?.incarnation?.ready
      await this.lives.clock.advance(isReady ? 1_000 : 1)
      if (!isReady) await setTimeout(1)
    }
    const wrong = outcome.value ? wrongIn(this.paid, outcome.value) : [`it waits: ${JSON.stringify(team.waits())}`]
    const closed = team.close()
    await this.lives.clock.runToIdle()
    await closed
    return { wrong, entries }
  }

  #crash(team: LivingTeam): void {
    const agent = team.host.directory.agent('racer')
    const thread = agent?.incarnation?.thread
    if (!(thread instanceof LocalThread)) return
    this.#thread += 1
    thread.kill({ code: 1, error: undefined, outside: true })
  }
}

export const programOf = (seed: number): RaceProgram => raceProgram(new Dice(seed), UNIT_MS)

/** Plays the program of that seed. `at`: entry of its log at which it dies. */
export const playRaces = (seed: number, dies: Dies, at: number) => new Stage(programOf(seed)).play(dies, at)
