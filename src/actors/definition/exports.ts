/** Reads the exports of a user's module. Every place that imports such a module reads it through `exportsOf`. */

export interface Exports {
  default?: unknown
}

/**
 * Returns the exports as the author wrote them. `import()` gives a CommonJS module as its `default`. If a compiler
 * (`tsc`, Babel, esbuild) produced the CommonJS module, the mark `__esModule` says that the exports are inside
 * `default`.
 */
export function exportsOf(namespace: Exports): Exports {
  return isCompiled(namespace.default) ? namespace.default : namespace
}

/** Does the same for the result of `require`: without the mark, the whole value is the default export. */
export function exportsOfRequired(exported: unknown): Exports {
  return isCompiled(exported) ? exported : { ...Object(exported), default: exported }
}

function isCompiled(exported: unknown): exported is Exports {
  return typeof exported === 'object' && exported !== null && Reflect.get(exported, '__esModule') === true
}
