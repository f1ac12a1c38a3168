/** Which client a role's model is: the team's `models` by name. */
import type { ModelClient } from '../../actors/model.ts'
import { ConfigurationError } from '../../errors.ts'
import type { ModelsConfig } from '../options.ts'
import { refused, refusedAs } from '../refused.ts'
import { isObject } from '../settings-checks.ts'

/** The name in `models` that stands for all roles that name none. */
export const DEFAULT = 'default'

export type ModelTable = ReadonlyMap<string, ModelClient>

export function modelTable(models: ModelsConfig | 'rehearsal' | undefined): ModelTable {
  return new Map(isObject(models) ? Object.entries(models).filter(isNamedClient) : [])
}

const isNamedClient = (entry: [string, unknown]): entry is [string, ModelClient] => isClient(entry[1])

/** Whether it is a client itself, not a description of where to find one. */
export const isClient = (value: unknown): value is ModelClient =>
  isObject(value) && 'complete' in value && typeof value.complete === 'function'

/** What a team can be told of a role's model before anybody asks for it. */
export class KnownModels {
  readonly #table: ModelTable
  readonly #any: boolean

  /** `any`: a client is at hand that is every model. */
  constructor(table: ModelTable, any: boolean) {
    this.#table = table
    this.#any = any
  }

  /** For a role at `path` that has no code. */
  assertHas(wanted: string | undefined, path: string): void {
    if (this.#any) return
    if (this.#table.size === 0) {
      const advice =
        'A role without code needs a model: give the team one (models: { default: ... }), or the role a module.'
      throw refusedAs(
        `${path}.module`,
        'nothing',
        'the module whose default export is the defineAgent(...) of this role',
        advice,
      )
    }
    const error = noSuchModel(this.#table, wanted, `${path}.model`)
    if (error) throw error
  }
}

/** Why no model has that name, if none has. */
export function noSuchModel(
  table: ModelTable,
  wanted: string | undefined,
  path: string,
): ConfigurationError | undefined {
  if (table.size === 0)
    return new ConfigurationError(`${path}: the team has no model. Give it one: models: { default: ... }.`, { path })
  if (wanted === undefined || table.has(wanted)) return undefined
  const accepted = [...table.keys()].join(', ')
  return new ConfigurationError(`${path}: no model of this team is named "${wanted}"; there are ${accepted}.`, {
    path,
    got: wanted,
    accepted,
  })
}

/** Throws `ConfigurationError` for what a test gives in place of all models and is none. */
export function checkClient(model: unknown, path: string): void {
  if (model !== undefined && !isClient(model)) throw refused(path, model, 'a ModelClient')
}
