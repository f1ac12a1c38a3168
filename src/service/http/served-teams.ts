/** The teams that are served, by name. */
import type { Team } from '../../index.ts'
import type { HttpSettings } from './options.ts'
import { Prices } from './prices.ts'
import { HttpError } from './problem.ts'
import type { ServedTeam } from './task-view.ts'

export class ServedTeams {
  readonly #teams: ReadonlyMap<string, Team>
  readonly #prices: Prices | undefined
  readonly #approveOwn: boolean

  constructor({ teams, prices, approveOwn }: Pick<HttpSettings, 'teams' | 'prices' | 'approveOwn'>) {
    this.#teams = teams
    this.#approveOwn = approveOwn
    this.#prices = prices && new Prices(prices)
  }

  get all(): ServedTeam[] {
    return Array.from(this.#teams, (each) => this.#served(...each))
  }

  #served(name: string, team: Team): ServedTeam {
    return { name, team, prices: this.#prices, approveOwn: this.#approveOwn }
  }

  /**
   * Returns the team of that name, or the first one where none is named.
   *
   * @throws HttpError if there is none.
   */
  named(name: string | undefined): ServedTeam {
    if (name === undefined) return this.all[0]!
    const team = this.#teams.get(name)
    if (team) return this.#served(name, team)
    const known = [...this.#teams.keys()].join(', ')
    throw new HttpError('NOT_FOUND', `team: there is no team "${name.slice(0, 255)}" here; there are ${known}.`)
  }
}
