/** Output schema that a caller wants a run's answer to fit. The models of the run get it as JSON schema. */
import { checkBySchema } from '../../actors/definition/schema.ts'
import type { ModelSchema } from '../../actors/definition/tool.ts'
import { jsonIn, jsonSchemaOf } from '../../actors/model/structured-output.ts'
import { ReplyInvalidError } from '../../errors.ts'

export class RunOutput {
  readonly #schema: ModelSchema
  readonly #runId: string
  /** JSON schema of the output. undefined: the schema's library cannot convert it, so models do not get it. */
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

  /** Returns what is wrong with a value; null: nothing. */
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
   * Returns the data of an answer as the schema gives it: from its structured data, or from its text if it has none. A
   * text that does not fit the schema may contain JSON that does.
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
