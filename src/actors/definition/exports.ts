/** What a user's module exports. Every place that imports one reads it through `exportsOf`. */

export interface Exports {
  default?: unknown
}

/**
 * The exports as the author wrote them. `import()` gives a CommonJS module as its `default`; where a compiler made it one
 * (`tsc`, Babel, esbuild), the mark `__esModule` says that the exports are within.
 */
export function exportsOf(namespace: Exports): Exports {
  return isCompiled(namespace.default) ? namespace.default : namespace
}

/** The same for what `require` gives: without the mark, all of it is the default export. */
export function exportsOfRequired(exported: unknown): Exports {
  return isCompiled(exported) ? exported : { ...Object(exported), default: exported }
}

function isCompiled(exported: unknown): exported is Exports {
  return typeof exported === 'object' && exported !== null && Reflect.get(exported, '__esModule') === true
}
