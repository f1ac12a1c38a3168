/** Periods of the calendar of a time zone, each of which begins anew at its boundary. */

export const PERIODS = ['hour', 'day', 'week', 'month'] as const
type PeriodName = (typeof PERIODS)[number]

/** Stretch of time, in epoch ms; `end` is the first moment behind it. */
export interface Span {
  readonly start: number
  readonly end: number
}

const HOUR = 3_600_000
const DAY = 24 * HOUR
/** No zone is further from UTC, and no clock is set by more. */
const FAR = 2 * DAY

/** Longest period of a name, in ms. */
export const LONGEST: Readonly<Record<PeriodName, number>> = {
  hour: 2 * HOUR,
  day: DAY + 2 * HOUR,
  week: 7 * DAY + 2 * HOUR,
  month: 31 * DAY + 2 * HOUR,
}

export function isTimeZone(name: unknown): boolean {
  if (typeof name !== 'string') return false
  try {
    return new Intl.DateTimeFormat('en', { timeZone: name }) !== undefined
  } catch {
    return false
  }
}

export class Calendar {
  readonly #format: Intl.DateTimeFormat
  readonly #period: PeriodName
  #last: Span = { start: 0, end: 0 }

  constructor(period: PeriodName, timeZone = 'UTC') {
    this.#period = period
    this.#format = new Intl.DateTimeFormat('en', {
      timeZone,
      calendar: 'iso8601',
      numberingSystem: 'latn',
      hourCycle: 'h23',
      year: 'numeric',
      month: 'numeric',
      day: 'numeric',
      hour: 'numeric',
      minute: 'numeric',
      second: 'numeric',
    })
  }

  /** Says which period it is that now is. */
  get words(): string {
    return this.#period === 'day' ? 'today' : `this ${this.#period}`
  }

  /** Returns the period in which a moment lies. */
  at(moment: number): Span {
    const { start, end } = this.#last
    if (moment < start || moment >= end) this.#last = this.#find(moment)
    return this.#last
  }

  /** Writes a moment as the clocks of the zone show it, with how far they are from UTC. */
  text(moment: number): string {
    const minutes = Math.round((this.#local(moment) - moment) / 60_000)
    const two = (number: number) => String(Math.trunc(number)).padStart(2, '0')
    const away = Math.abs(minutes)
    const zone = minutes === 0 ? 'Z' : `${minutes < 0 ? '-' : '+'}${two(away / 60)}:${two(away % 60)}`
    return `${new Date(moment + minutes * 60_000).toISOString().slice(0, 19)}${zone}`
  }

  #find(moment: number): Span {
    const local = this.#local(moment)
    if (this.#period === 'hour') {
      const start = moment - (((local % HOUR) + HOUR) % HOUR)
      return { start, end: start + HOUR }
    }
    const date = new Date(local)
    const [year, month, day] = [date.getUTCFullYear(), date.getUTCMonth(), date.getUTCDate()]
    const monday = day - ((date.getUTCDay() + 6) % 7)
    const [from, to] = {
      day: [Date.UTC(year, month, day), Date.UTC(year, month, day + 1)],
      week: [Date.UTC(year, month, monday), Date.UTC(year, month, monday + 7)],
      month: [Date.UTC(year, month, 1), Date.UTC(year, month + 1, 1)],
    }[this.#period]
    return { start: this.#first(from!), end: this.#first(to!) }
  }

  /** Returns the first moment at which clocks show that time or a later one: some midnights do not exist. */
  #first(local: number): number {
    let [before, at] = [local - FAR, local + FAR]
    while (at - before > 1) {
      const middle = Math.floor((before + at) / 2)
      if (this.#local(middle) >= local) at = middle
      else before = middle
    }
    return at
  }

  /** Returns what clocks of the zone show, as if it were UTC, in epoch ms. */
  #local(moment: number): number {
    const fields: Partial<Record<Intl.DateTimeFormatPartTypes, number>> = {}
    for (const { type, value } of this.#format.formatToParts(moment)) fields[type] = Number(value)
    const { year = 0, month = 1, day = 1, hour = 0, minute = 0, second = 0 } = fields
    return Date.UTC(year, month - 1, day, hour, minute, second) + (((moment % 1_000) + 1_000) % 1_000)
  }
}
