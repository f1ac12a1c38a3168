/**
 * Leaves out keywords of a JSON schema that cannot be checked by. A value that fits the schema fits the rest as well,
 * and the schema itself stays as it is.
 */
import { own } from '../shared/values.ts'

/** An object within a schema, as the fields that it has. */
export type Fields = Readonly<Record<string, unknown>>

/** Objects of a schema, with the fields that they are checked by in place of their own. */
export type Views = ReadonlyMap<object, Fields>

export type LeftOut = (place: string, why: string) => void

/** Keywords that refuse what does not fit the other one: without that one they refuse too much. */
const LEANING: Readonly<Record<string, string>> = {
  properties: 'additionalProperties',
  patternProperties: 'additionalProperties',
  prefixItems: 'items',
}
/** Keywords that refuse a value because it fits what is within them. */
const TURNED = ['not', 'if', 'maxContains', 'oneOf'] as const

export class Leniency {
  readonly views = new Map<object, Fields>()
  readonly #leftOut: LeftOut
  readonly #turned: Fields[] = []

  constructor(leftOut: LeftOut) {
    this.#leftOut = leftOut
  }

  visit(schema: Fields): void {
    if (TURNED.some((key) => Object.hasOwn(schema, key))) this.#turned.push(schema)
  }

  /** Leaves out a keyword of a schema, or only one name of it. */
  leave(schema: Fields, place: string, key: string, why: string, name?: string): void {
    const { [key]: value, [own(LEANING, key) ?? key]: _leaning, ...rest } = this.views.get(schema) ?? schema
    const { [name ?? '']: _name, ...others } = Object(value) as Fields
    this.views.set(schema, name === undefined ? rest : { ...rest, [key]: others })
    this.#leftOut(place, why)
  }

  /** Leaves out also what would refuse a value because of what was left out. Call it after all others. */
  end(): Views {
    if (this.views.size === 0) return this.views
    for (const schema of this.#turned) {
      const { not, if: condition, maxContains, oneOf, ...rest } = this.views.get(schema) ?? schema
      const all = Array.isArray(rest.allOf) ? rest.allOf : []
      this.views.set(schema, oneOf === undefined ? rest : { ...rest, allOf: [...all, { anyOf: oneOf }] })
    }
    return this.views
  }
}
