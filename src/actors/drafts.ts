/** What a turn has changed in its states: kept apart until it commits, thrown away if it fails. */
import { enablePatches, type Patch, produceWithPatches } from 'immer'
import { MessageRejectedError } from '../errors.ts'
import { jsonIssue } from '../mailbox/message.ts'
import { handled } from './handled.ts'
import { notJson } from './outbox.ts'
import { checkFunction, wrongArgument } from './verb-checks.ts'

enablePatches()

/** The next value of one state, and the patches by which the host repeats the change. */
export interface Draft {
  value: object
  patches: Patch[]
}

export class Drafts {
  state: Draft | undefined
  runState: Draft | undefined

  /**
   * Applies a recipe to what stands now.
   *
   * @throws MessageRejectedError for what is no JSON value, with its path; nothing has changed then.
   */
  change(scope: 'state' | 'runState', current: object, recipe: (draft: object) => void): void {
    const earlier = this[scope]
    const { value, patches } = changed(scope, earlier?.value ?? current, recipe)
    if (patches.length > 0) this[scope] = { value, patches: earlier ? [...earlier.patches, ...patches] : patches }
  }
}

function changed(scope: string, current: object, recipe: (draft: object) => void): Draft {
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
