/** Options of a tool, checked where it is made: a mistake in them is its author's, and never reaches a model. */
import type { z } from 'zod'
import { ConfigurationError } from '../errors.ts'

/** The options with their defaults. Throws `ConfigurationError` with all that is wrong; no value is shown. */
export function checkedOptions<S extends z.ZodType>(tool: string, schema: S, options: unknown): z.output<S> {
  const { success, data, error } = schema.safeParse(options)
  if (success) return data
  const wrong = error.issues
    .map(({ path, message }) => `${[tool, ...path].map(String).join('.')}: ${message}`)
    .join('; ')
  const path = [tool, ...(error.issues[0]?.path ?? [])].map(String).join('.')
  throw new ConfigurationError(`${wrong}. Correct the options of ${tool}.`, { path })
}
