/** Values checked by anyone's schema, as long as it is a Standard Schema (standardschema.dev). */
import type { DramatisError } from '../errors.ts'
import type { Schema } from './tool.ts'

/** The value as the schema gives it back; throws what `fail` makes of the issues, one line for all. */
export async function checkBySchema<T>(
  schema: Schema<unknown, T>,
  value: unknown,
  fail: (issues: string) => DramatisError,
): Promise<T> {
  const checked = await schema['~standard'].validate(value)
  if (!checked.issues) return checked.value
  throw fail(checked.issues.map((issue) => `${pathOf(issue.path)}${issue.message}`).join('; '))
}

function pathOf(path: readonly unknown[] | undefined): string {
  if (!path || path.length === 0) return ''
  const keys = path.map((segment) =>
    typeof segment === 'object' && segment !== null && 'key' in segment ? segment.key : segment,
  )
  return `${keys.map(String).join('.')}: `
}
