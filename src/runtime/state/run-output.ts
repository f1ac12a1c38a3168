/** What a caller wants of a run's answer: a schema, which its models are told as JSON schema. */
import { checkBySchema } from '../../actors/definition/schema.ts'
import type { ModelSchema } from '../../actors/definition/tool.ts'
import { jsonIn, jsonSchemaOf } from '../../actors/model/structured-output.ts'
import { ReplyInvalidError } from '../../errors.ts'

export class RunOutput {
  readonly #schema: ModelSchema
  readonly #runId: string
  /** undefined: its library cannot say it as JSON schema, so models are not told. */
  readonly jsonSchema: object | undefined

  constructor(schema: ModelSchema, runId: string) {
    this.#schema = schema
    this.#runId = runId
    try {
      this.jsonSchema = jsonSchemaOf(schema)
    } catch {
      this.jsonSchema = undefined
    }
  }

  /** What is wrong with a value; null: nothing. */
  async issuesOf(value: unknown): Promise<string | null> {
    try {
      await this.#check(value)
      return null
    } catch (error) {
      if (error instanceof ReplyInvalidError) return String(error.details.issues)
      throw error
    }
  }

  /**
   * The data of an answer as the schema returns it: its structured data, or its text where it has none; a text that misses the
   * schema may be JSON that does not.
   */
  async dataOf(structured: unknown, text: string): Promise<unknown> {
    if (structured !== undefined && structured !== null) return this.#check(structured)
    try {
      return await this.#check(text)
    } catch (error) {
      const json = jsonIn(text)
      if (!json || !(error instanceof ReplyInvalidError)) throw error
      return this.#check(json.value)
    }
  }

  #check(value: unknown): Promise<unknown> {
    return checkBySchema(this.#schema, value, (issues) => {
      const text = `The answer of run "${this.#runId}" misses its output schema: ${issues}`
      return new ReplyInvalidError(text, { runId: this.#runId, issues })
    })
  }
}
