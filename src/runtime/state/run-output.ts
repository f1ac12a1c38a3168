/** Output schema that a caller wants a run's answer to fit. The models of the run get it as JSON schema. */
import { checkBySchema } from '../../actors/definition/schema.ts'
import type { ModelSchema } from '../../actors/definition/tool.ts'
import { jsonAmong, jsonSchemaOf } from '../../actors/model/structured-output.ts'
import { ConfigurationError, ReplyInvalidError } from '../../errors.ts'
import { laterSchema } from '../../json-schema/later-schema.ts'
import type { LoggedOutput } from '../log/records.ts'
import { differenceOf, digestOf } from './schema-digest.ts'

export class RunOutput {
  readonly #schema: ModelSchema
  readonly #runId: string
  /** 'log': the code of the schema may check more. 'resumer': the run was begun without one. */
  readonly from: 'launch' | 'log' | 'resumer'
  #logged: LoggedOutput | null | undefined

  constructor(schema: ModelSchema, runId: string, from: RunOutput['from'] = 'launch') {
    this.#schema = schema
    this.#runId = runId
    this.from = from
  }

  /** Returns the output of a run of an earlier process. */
  static ofLog({ jsonSchema }: LoggedOutput, runId: string): RunOutput {
    return new RunOutput(readBack(jsonSchema), runId, 'log')
  }

  /** The output for the durable log. undefined: the schema's library cannot convert it, so models do not get it. */
  get logged(): LoggedOutput | undefined {
    if (this.#logged === undefined) this.#logged = written(this.#schema)
    return this.#logged ?? undefined
  }

  /** Goes on with an output of the log: models are asked in the very words that they were asked in before. */
  goOnFrom(before: LoggedOutput): RunOutput {
    this.#logged = before
    return this
  }

  /** JSON schema of the output, as far as there is one. */
  get jsonSchema(): object | undefined {
    return this.logged?.jsonSchema
  }

  /**
   * Checks a schema that is given again for a run.
   *
   * @throws ConfigurationError if it is not the one with which the run was begun.
   */
  assertIs({ digest, jsonSchema }: Pick<LoggedOutput, 'digest'> & Partial<LoggedOutput>): void {
    if (this.logged?.digest === digest) return
    const at = jsonSchema && (differenceOf(jsonSchema, this.logged?.jsonSchema, '') || '/')
    const where = at ? `: it differs at ${at}` : ''
    const text = `output: run "${this.#runId}" was begun with another schema${where}. Give the same one, or begin another run.`
    throw new ConfigurationError(text, { path: 'output', runId: this.#runId, ...(at && { differsAt: at }) })
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
      const json = jsonAmong(text)
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

/** Returns what the log has of a schema; null if its library cannot write it as JSON schema. */
function written(schema: ModelSchema): LoggedOutput | null {
  try {
    const jsonSchema = jsonSchemaOf(schema)
    return { digest: digestOf(jsonSchema), jsonSchema }
  } catch {
    return null
  }
}

/** Returns the schema that a JSON schema of the log stands for. What cannot be checked by it here is asked for only. */
export const readBack = (jsonSchema: object): ModelSchema => laterSchema(jsonSchema, () => [])
