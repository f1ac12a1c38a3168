/**
 * What a turn has changed in its states: kept apart until it commits, thrown away if it fails. Where another turn of the
 * agent has committed meanwhile (one that ran within it, or that it runs within) its recipes are run again, on what that
 * one left: so no change is lost, and none is made of what no longer stands.
 */
import { enablePatches, type Patch, produceWithPatches } from 'immer'
import { MessageRejectedError } from '../../errors.ts'
import { jsonIssue } from '../../mailbox/message.ts'
import { checkFunction, notJson, wrongArgument } from '../definition/checks.ts'
import { handled } from '../definition/promises.ts'
import type { StateScope } from './state-rules.ts'

enablePatches()

type Recipe = (draft: object) => void

/** The next value of one state, and the patches by which the host repeats the change. */
export interface Draft {
  readonly value: object
  readonly patches: readonly Patch[]
}

/** One that is not committed: what stood when it was made, and how it came of that. */
interface OpenDraft extends Draft {
  readonly base: object
  readonly recipes: readonly Recipe[]
}

export class Drafts {
  readonly #open: { state?: OpenDraft; runState?: OpenDraft } = {}

  /**
   * What the turn makes of `current`, which stands now; undefined where it changes nothing.
   *
   * @throws what a recipe throws that is run again.
   */
  of(scope: StateScope, current: object): Draft | undefined {
    const draft = this.#onto(scope, current)
    return draft && draft.patches.length > 0 ? draft : undefined
  }

  /**
   * Applies a recipe to what stands now.
   *
   * @throws MessageRejectedError for what is no JSON value, with its path; nothing has changed then.
   */
  change(scope: StateScope, current: object, recipe: Recipe): void {
    this.#open[scope] = after(this.#onto(scope, current) ?? unchanged(current), scope, recipe)
  }

  #onto(scope: StateScope, current: object): OpenDraft | undefined {
    const draft = this.#open[scope]
    if (!draft || draft.base === current) return draft
    const again = draft.recipes.reduce((made, recipe) => after(made, scope, recipe), unchanged(current))
    this.#open[scope] = again
    return again
  }
}

const unchanged = (base: object): OpenDraft => ({ base, value: base, patches: [], recipes: [] })

function after(
  { base, value: before, patches: earlier, recipes }: OpenDraft,
  scope: string,
  recipe: Recipe,
): OpenDraft {
  const { value, patches } = changed(scope, before, recipe)
  return { base, value, patches: [...earlier, ...patches], recipes: [...recipes, recipe] }
}

function changed(scope: string, current: object, recipe: Recipe): Draft {
  checkFunction(recipe, `the recipe of ${scope}`)
  const [value, patches] = produceWithPatches(current, (draft) => {
    const made: unknown = recipe(draft)
    if (!(made instanceof Promise)) return made as void
    handled(made) // its draft is gone by the time that it goes on
    const text = `The recipe of ${scope} is asynchronous; await first, then change ${scope} at once.`
    throw new MessageRejectedError(text, { path: scope })
  })
  if (typeof value !== 'object' || value === null) throw wrongArgument(scope, value, 'an object is needed')
  for (const patch of patches) {
    if (patch.op === 'remove') continue
    const issue = jsonIssue(patch.value, [scope, ...patch.path].join('.'))
    if (issue) throw notJson(issue)
  }
  return { value, patches: patches.map((patch) => repeatable(patch, value)) }
}

const RESERVED: readonly (string | number)[] = ['constructor', '__proto__']

/** immer applies no patch to what is inside of such a key, so it is replaced as a whole. A word list can have one. */
function repeatable(patch: Patch, value: object): Patch {
  const at = patch.path.slice(0, -1).findIndex((key) => RESERVED.includes(key))
  if (at < 0) return patch
  const path = patch.path.slice(0, at + 1)
  return { op: 'replace', path, value: path.reduce<unknown>((inside, key) => Reflect.get(Object(inside), key), value) }
}
