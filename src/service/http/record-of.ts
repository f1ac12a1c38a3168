import { z } from 'zod'
import { isObject } from '../../runtime/checks/checks.ts'

/** As z.record with texts as keys, which would leave out a key named `__proto__` without a word. */
export function recordOf<Value>(value: z.ZodType<Value>): z.ZodType<Record<string, Value>> {
  return z
    .custom<Record<string, Value>>(isObject, { error: 'an object is needed', abort: true })
    .superRefine((given, context) => {
      for (const [key, field] of Object.entries(given))
        for (const { message, path } of value.safeParse(field).error?.issues ?? [])
          context.addIssue({ code: 'custom', message, path: [key, ...path] })
    })
    .meta({ ...z.toJSONSchema(z.record(z.string(), value)), $schema: undefined })
}
