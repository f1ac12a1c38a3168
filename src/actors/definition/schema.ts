/** Checks values by any schema that is a Standard Schema (standardschema.dev). */
import type { DramatisError } from '../../shared/errors.ts'
import type { Schema } from './tool.ts'

/** More issues would hide the message: a list of 10,000 wrong items has as many issues. */
const MOST_ISSUES = 10

/**
 * Returns the value as the schema returns it. Otherwise throws the error that `fail` makes of the first issues, joined
 * in one line.
 */
export async function checkBySchema<T>(
  schema: Schema<unknown, T>,
  value: unknown,
  fail: (issues: string) => DramatisError,
): Promise<T> {
  const checked = await schema['~standard'].validate(value)
  if (!checked.issues) return checked.value
  const told = checked.issues.slice(0, MOST_ISSUES).map((issue) => `${pathOf(issue.path)}${issue.message}`)
  const more = checked.issues.length - told.length
  throw fail([...told, ...(more > 0 ? [`and ${more} more`] : [])].join('; '))
}

function pathOf(path: readonly unknown[] | undefined): string {
  if (!path || path.length === 0) return ''
  const keys = path.map((segment) =>
    typeof segment === 'object' && segment !== null && 'key' in segment ? segment.key : segment,
  )
  return `${keys.map(String).join('.')}: `
}
