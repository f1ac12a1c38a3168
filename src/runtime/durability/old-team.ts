/** Fold of what the log has of the team itself: the last value of each fact. */
import type { HostRecord } from '../log/records.ts'

type OfKind<Kind extends HostRecord['kind']> = Extract<HostRecord, { kind: Kind }>

export class OldTeam {
  readonly #shared = new Map<string, OfKind<'shared'>>()

  /** Values of shared state. */
  get shared(): Iterable<OfKind<'shared'>> {
    return this.#shared.values()
  }

  see(record: HostRecord): void {
    if (record.kind === 'shared') this.#shared.set(JSON.stringify([record.scope, record.owner, record.key]), record)
  }
}
