/** JSON schemas of strangers that are read when they first check: most of them never do. */
import type { ModelSchema } from '../actors/definition/tool.ts'
import type { Issue } from './check.ts'
import type { LeftOut } from './leniency.ts'

/** Returns a schema that checks as `foreignSchema` does. `refused` makes issues of a refusal; none: any value fits. */
export function laterSchema(
  jsonSchema: object,
  refused: (error: unknown) => readonly Issue[],
  leftOut?: LeftOut,
): ModelSchema {
  let read: Promise<ModelSchema> | undefined
  const json = () => ({ ...jsonSchema })
  return {
    '~standard': {
      version: 1,
      vendor: 'dramatis',
      jsonSchema: { input: json, output: json },
      async validate(value) {
        read ??= import('./foreign-schema.ts').then(({ foreignSchema }) => foreignSchema(jsonSchema, leftOut))
        const schema = await read.catch(refused)
        if ('~standard' in schema) return schema['~standard'].validate(value)
        return schema.length === 0 ? { value } : { issues: schema }
      },
    },
  }
}
