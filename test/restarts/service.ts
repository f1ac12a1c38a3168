/** What a service does beside running its programs: it sends messages from outside, and resumes runs by hand. */
import type { MultiAgentPattern } from '../../src/team.ts'
import type { Dice } from '../dice.ts'

/** Message from outside. The service sends it again to the next process, until one has taken it. */
export interface Posted {
  readonly at: number
  readonly to: string
  readonly path: string
  /** It waits for the answer; otherwise until the message is accepted. */
  readonly asks: boolean
  /** Number of processes that were given it. */
  sent: number
  accepted: boolean
}

export const postedTo = (dice: Dice, agents: readonly string[], count: number): Posted[] =>
  Array.from({ length: count }, (_, n) => ({
    at: dice.upTo(120),
    to: dice.pick(agents),
    path: `outside${n}`,
    asks: dice.chance(0.5),
    sent: 0,
    accepted: false,
  }))

/** The service, as long as one process of its team lives. */
export class Service {
  readonly #team: MultiAgentPattern<string>
  readonly #isDead: () => boolean
  readonly #isLost: () => boolean
  readonly #problem: (what: string) => void
  readonly #given = new Set<Posted>()
  /** 'held': its runs go on when the service says so. */
  #state: 'held' | 'resuming' | 'goes on'

  constructor(
    team: MultiAgentPattern<string>,
    isDead: () => boolean,
    isLost: () => boolean,
    problem: (what: string) => void,
    resumesByHand: boolean,
  ) {
    this.#team = team
    this.#isDead = isDead
    this.#isLost = isLost
    this.#problem = problem
    this.#state = resumesByHand ? 'held' : 'goes on'
  }

  /** What it is told about failures is no answer: the next process is asked again. */
  get #isOver(): boolean {
    return this.#isDead() || this.#isLost()
  }

  /** All runs of earlier processes go on. */
  get goesOn(): boolean {
    return this.#state === 'goes on'
  }

  /** Resumes one run, or all of them. */
  resume(dice: Dice, runIds: readonly string[]): void {
    if (this.#state !== 'held') return
    const runId = dice.chance(0.3) ? dice.pick(runIds) : undefined
    if (runId !== undefined) {
      if (this.#team.getRun(runId)?.status === 'interrupted') void this.#team.resume(runId).catch(() => {})
      return
    }
    this.#state = 'resuming'
    this.#team.resumePending().then(
      () => {
        this.#state = 'goes on'
      },
      (error: unknown) => this.#isOver || this.#problem(`its runs are not resumed: ${error}`),
    )
  }

  /** Sends what is due, once to each process. `mayFail`: agents may be stopped, fail or be full. */
  post(posted: readonly Posted[], now: number, mayFail: boolean): void {
    for (const each of posted) {
      if (each.at > now || each.accepted || this.#given.has(each)) continue
      this.#given.add(each)
      each.sent += 1
      const { to: recipient, path: content, asks: requiresResponse } = each
      this.#team.sendMessage({ recipient, content, requiresResponse }).then(
        () => {
          if (!this.#isDead()) each.accepted = true
        },
        (error: unknown) => {
          if (this.#isOver) return
          if (mayFail) each.accepted = true
          else this.#problem(`${content} from outside: ${error}`)
        },
      )
    }
  }
}
