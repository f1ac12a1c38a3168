/**
 * Types and checks of protocols. A protocol is a script with a name and a configuration; the runtime knows nothing else
 * about a strategy.
 */
import { ConfigurationError, ReplyInvalidError, shown } from '../../shared/errors.ts'
import type { OrchestratorContext } from './context.ts'
import type { ModelMessage } from './model.ts'
import { readingFor, type Schema } from './tool.ts'

/** Result of a script: the answer as text, or as text with structured data. */
export type ScriptResult = string | { content: string; structuredData?: unknown }

/** A protocol as the runtime takes it. */
export type Protocol =
  | {
      name: string
      /** `speaker`: agent that the caller of the run, or its thread, wants to speak first. */
      run(orchestrator: OrchestratorContext, query: string, speaker?: string): Promise<ScriptResult>
      /** Set for a script of the user's own: the runtime cannot know what it waits for besides its verbs. */
      foreign?: true
      /** Text of the user's own function, to notice that it has changed. */
      text?: string
    }
  | { name: string; module: URL | string; config?: object }

/**
 * Returns what the next speaker sees of a conversation. It runs in the host, once for each handoff; what it returns is
 * logged. Calls of tools stay with their results.
 */
export type HandoffFilter = (
  messages: readonly ModelMessage[],
  handoff: { readonly from: string; readonly to: string; readonly task: string; readonly summary: string },
) => readonly ModelMessage[]

/**
 * A protocol of your own, with the verbs that the built-in ones use. `run` is a closure in the host and must not block.
 * `module` names a module whose default export is `defineProtocol(...)`. It runs in a worker thread with `config`,
 * which has to be JSON to be passed there.
 */
export type CustomConfig<N extends string = string> = {
  strategy: 'custom'
  /**
   * Maximum depth of nested delegations, from 1 to 8: a task that the script gives is the first. With 1 no agent that
   * has a task delegates. A deeper delegation or handoff rejects with `DelegationRefusedError` and is a dead letter.
   * Default: 8.
   */
  maxDelegationDepth?: number
} & (
  | { name?: string; run(orchestrator: OrchestratorContext<N>, query: string): Promise<ScriptResult> }
  | { module: URL | string; config?: object }
)

/** Options of `defineProtocol`. */
export interface ProtocolDefinition<Config extends object = object, Given extends object = Config> {
  name: string
  /** Schema that checks the protocol's configuration: any Standard Schema that validates synchronously. */
  config?: Schema<Given, Config>
  run(orchestrator: OrchestratorContext, query: string, config: Config): Promise<ScriptResult>
}

const brand = Symbol.for('dramatis.protocol') // registered: the thread has its own copy of this file

/**
 * Defines a protocol with its own configuration. Pass the result of the returned function as `orchestration`. Or export
 * the returned function as the default of a module and name that module in `{ strategy: 'custom', module, config }`.
 * The function takes what the schema takes, so fields that have a default there may be left out; if all may, so may the
 * configuration.
 *
 * @throws {ConfigurationError} when `name` or `run` is missing; the returned function when its config misses the
 * schema.
 *
 * @example
 * const relay = defineProtocol({
 *   name: 'relay',
 *   config: z.object({ laps: z.number().int().positive() }),
 *   async run(orchestrator, query, { laps }) {
 *     let baton = query
 *     for (let lap = 0; lap < laps; lap++) baton = (await orchestrator.request('runner', baton)).content
 *     return baton
 *   },
 * })
 * createTeam({ agents: [{ name: 'runner' }], orchestration: relay({ laps: 3 }) })
 */
export function defineProtocol<Config extends object, Given extends object = Config>(
  protocol: ProtocolDefinition<Config, Given>,
): (...given: object extends Given ? [config?: Given] : [config: Given]) => CustomConfig {
  const { name, run } = readingFor('defineProtocol', 'protocol', () => ({ name: protocol?.name, run: protocol?.run }))
  if (typeof name !== 'string' || name === '') {
    throw new ConfigurationError('defineProtocol: "name" is missing; give it a text that names the protocol.', {
      path: 'name',
    })
  }
  if (typeof run !== 'function') {
    const message = `defineProtocol "${name}": "run" is missing; give it a function (orchestrator, query, config) => text.`
    throw new ConfigurationError(message, { path: 'run' })
  }
  const configure = (given?: Given): CustomConfig => {
    const config = checkedConfig(protocol, given ?? {})
    return {
      strategy: 'custom',
      name: protocol.name,
      run: (orchestrator, query) => protocol.run(orchestrator, query, config),
    }
  }
  return Object.assign(configure, { [brand]: protocol })
}

/** Returns the definition behind a result of `defineProtocol`, or undefined for any other value. */
export function protocolOf(value: unknown): ProtocolDefinition | undefined {
  if (typeof value !== 'function' || !(brand in value)) return undefined
  return isDefinition(value[brand]) ? value[brand] : undefined
}

function isDefinition(value: unknown): value is ProtocolDefinition {
  return typeof value === 'object' && value !== null && 'run' in value && typeof value.run === 'function'
}

/**
 * Returns the configuration as the protocol's schema returns it, typed and with defaults; without a schema, unchanged.
 *
 * @param path place where the configuration was written, for the error.
 * @throws {ConfigurationError} when the configuration misses the schema, or the schema is asynchronous.
 */
export function checkedConfig<Config extends object, Given extends object>(
  definition: ProtocolDefinition<Config, Given>,
  config: object,
  path = 'config',
): Config {
  if (definition.config === undefined) return config as Config // without a schema it is what was given
  const result = definition.config['~standard'].validate(config)
  if (result instanceof Promise) {
    result.catch(() => {}) // avoids an unhandled rejection
    throw new ConfigurationError(
      `${path}: the schema of protocol "${definition.name}" is asynchronous; use one that answers at once.`,
      { path },
    )
  }
  if (result.issues === undefined) return result.value
  const issues = result.issues.map((issue) => ({ path: path + issuePath(issue.path ?? []), message: issue.message }))
  const list = issues.map((issue) => `${issue.path}: ${issue.message}`).join('; ')
  throw new ConfigurationError(`${list} (protocol "${definition.name}").`, { path: issues[0]?.path ?? path, issues })
}

function issuePath(path: readonly (PropertyKey | { readonly key: PropertyKey })[]): string {
  const keys = path.map((part) => (typeof part === 'object' ? part.key : part))
  return keys.map((key) => (typeof key === 'number' ? `[${key}]` : `.${String(key)}`)).join('')
}

/**
 * Checks the value that a user's script returned, and returns it as a result.
 *
 * @throws {ReplyInvalidError} when it is neither a text nor `{ content, structuredData? }`.
 */
export function checkedResult(protocol: string, result: unknown): ScriptResult {
  if (typeof result === 'string') return result
  if (typeof result === 'object' && result !== null && 'content' in result && typeof result.content === 'string') {
    return { content: result.content, structuredData: 'structuredData' in result ? result.structuredData : undefined }
  }
  const message = `Protocol "${protocol}" returned ${shown(result)}; it has to return a text or { content, structuredData? }.`
  throw new ReplyInvalidError(message, { protocol })
}
