/** What a turn has changed in its states: kept apart until it commits, thrown away if it fails. */
import { enablePatches, type Patch, produceWithPatches } from 'immer'
import { checkPatches } from './verb-checks.ts'

enablePatches()

/** The next value of one state, and the patches that lead there. */
export interface Draft {
  value: object
  patches: Patch[]
}

export class Drafts {
  state: Draft | undefined
  runState: Draft | undefined

  /** Applies a recipe to what stands now. Throws, and changes nothing, if the result is no JSON value. */
  change(scope: 'state' | 'runState', current: object, recipe: (draft: object) => void): void {
    const earlier = this[scope]
    const [value, patches] = produceWithPatches(earlier?.value ?? current, recipe)
    checkPatches(patches, scope)
    if (patches.length > 0) this[scope] = { value, patches: earlier ? [...earlier.patches, ...patches] : patches }
  }
}
