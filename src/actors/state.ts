/** How a turn changes state: a recipe on a draft, and the patches by which the host repeats the change. */
import { enablePatches, type Patch, produceWithPatches } from 'immer'
import { MessageRejectedError } from '../errors.ts'
import { jsonIssue } from '../mailbox/message.ts'
import { checkFunction, wrongArgument } from './arguments.ts'
import { handled } from './handled.ts'
import { notJson } from './outbox.ts'

enablePatches()

/**
 * The state after the recipe, and what has changed. `path` names the state in errors.
 *
 * @throws MessageRejectedError for what is no JSON value, with its path; nothing has changed then.
 */
export function changed(state: object, recipe: (draft: object) => void, path: string): [next: object, Patch[]] {
  checkFunction(recipe, `the recipe of ${path}`)
  const [next, patches] = produceWithPatches(state, (draft) => {
    const made: unknown = recipe(draft)
    if (!(made instanceof Promise)) return made as void
    handled(made) // its draft is gone by the time that it goes on
    throw new MessageRejectedError(`The recipe of ${path} is asynchronous; await first, then change ${path} at once.`, {
      path,
    })
  })
  if (typeof next !== 'object' || next === null) throw wrongArgument(path, next, 'an object is needed')
  for (const patch of patches) {
    if (patch.op === 'remove') continue
    const issue = jsonIssue(patch.value, [path, ...patch.path].join('.'))
    if (issue) throw notJson(issue)
  }
  return [next, patches.map((patch) => repeatable(patch, next))]
}

const RESERVED: readonly (string | number)[] = ['constructor', '__proto__']

/** immer applies no patch to what is inside of such a key, so it is replaced as a whole. A word list can have one. */
function repeatable(patch: Patch, next: object): Patch {
  const at = patch.path.slice(0, -1).findIndex((key) => RESERVED.includes(key))
  if (at < 0) return patch
  const path = patch.path.slice(0, at + 1)
  return { op: 'replace', path, value: path.reduce<unknown>((value, key) => Reflect.get(Object(value), key), next) }
}
