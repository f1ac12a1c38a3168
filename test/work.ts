/**
 * Counts what code touches, without a clock: letters of texts that are searched, compared or copied, and entries of lists, maps
 * and sets that are gone through. Work on text that grows piece by piece shows in it as the square of the pieces.
 */

const TEXTS = ['endsWith', 'indexOf', 'includes', 'search', 'split', 'replaceAll', 'at'] as const
const LISTS = ['find', 'findLast', 'some', 'every', 'filter', 'map', 'indexOf', 'includes', 'shift', 'join'] as const
const WALKS = ['values', 'keys', 'entries', Symbol.iterator] as const

/** Resolves to the number of letters and entries that were touched until `work` was over. */
export async function workOf(work: () => Promise<void>): Promise<number> {
  let touched = 0
  const add = (count: number) => {
    touched += count
  }
  const undo = [
    ...TEXTS.map((name) => counted(String.prototype, name, (text: string) => add(text.length))),
    counted(String.prototype, 'slice', (text: string, from?: number, to?: number) =>
      add(Math.abs((to ?? text.length) - (from ?? 0))),
    ),
    counted(String.prototype, 'startsWith', (_text: string, begin: string) => add(begin.length)),
    ...LISTS.map((name) => counted(Array.prototype, name, (list: unknown[]) => add(list.length))),
    ...WALKS.map((name) => counted(Map.prototype, name, ({ size }: Map<unknown, unknown>) => add(size))),
    ...WALKS.map((name) => counted(Set.prototype, name, ({ size }: Set<unknown>) => add(size))),
    counted(Object, 'entries', (_object: typeof Object, of: object) => add(Object.keys(of).length)),
    counted(JSON, 'parse', (_json: typeof JSON, text: string) => add(text.length)),
  ]
  try {
    await work()
    return touched
  } finally {
    for (const each of undo) each()
  }
}

/** Calls `count` with the receiver and the arguments of each call. Returns what undoes that. */
function counted<Of, Given extends unknown[]>(
  owner: object,
  name: string | symbol,
  count: (of: Of, ...given: Given) => void,
): () => void {
  const own = Object.getOwnPropertyDescriptor(owner, name)!
  const original: (...given: unknown[]) => unknown = own.value
  const value = function (this: Of, ...given: Given) {
    count(this, ...given)
    return Reflect.apply(original, this, given)
  }
  Object.defineProperty(owner, name, { ...own, value })
  return () => void Object.defineProperty(owner, name, own)
}
