/** What a protocol is: a script with a name, and its configuration. The runtime knows no more of any strategy. */
import { ConfigurationError, ReplyInvalidError, shown } from '../../errors.ts'
import type { OrchestratorContext } from './context/context.ts'
import type { Schema } from './tool.ts'

/** What a script returns: the answer as text, or with data beside it. */
export type ScriptResult = string | { content: string; structuredData?: unknown }

/** A protocol as the runtime takes it. */
export type Protocol =
  | {
      name: string
      run(orchestrator: OrchestratorContext, query: string): Promise<ScriptResult>
      /** It is the user's own code: nobody can tell what it waits for beside its verbs. */
      foreign?: true
    }
  | { name: string; module: URL | string; config?: object }

/**
 * Your own protocol, with the verbs that the built-in ones use. Source: document 002, 2.2.1. `run` is a closure in the
 * host and must not block; `module` names a module whose default export is `defineProtocol(...)`, and runs in a thread
 * with `config`, which has to be JSON to get there.
 */
export type CustomConfig<N extends string = string> = { strategy: 'custom' } & (
  | { name?: string; run(orchestrator: OrchestratorContext<N>, query: string): Promise<ScriptResult> }
  | { module: URL | string; config?: object }
)

/** What `defineProtocol` takes. */
export interface ProtocolDefinition<Config extends object = object> {
  name: string
  /** Checks what the protocol is configured with; any Standard Schema that answers at once. */
  config?: Schema<unknown, Config>
  run(orchestrator: OrchestratorContext, query: string, config: Config): Promise<string>
}

const brand = Symbol.for('dramatis.protocol') // the thread's bundle brings a copy of this file

/**
 * Defines a protocol with a configuration of its own. Call what it returns for `orchestration`, or export it as the
 * default of a module and name that in `{ strategy: 'custom', module, config }`.
 *
 * @throws {ConfigurationError} when `name` or `run` is missing; the returned function when its config misses the schema.
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
export function defineProtocol<Config extends object>(
  protocol: ProtocolDefinition<Config>,
): (config: Config) => CustomConfig {
  if (typeof protocol?.name !== 'string' || protocol.name === '') {
    throw new ConfigurationError('defineProtocol: "name" is missing; give it a text that names the protocol.', {
      path: 'name',
    })
  }
  if (typeof protocol.run !== 'function') {
    const message = `defineProtocol "${protocol.name}": "run" is missing; give it a function (orchestrator, query, config) => text.`
    throw new ConfigurationError(message, { path: 'run' })
  }
  const configure = (given: Config): CustomConfig => {
    const config = checkedConfig(protocol, given)
    return {
      strategy: 'custom',
      name: protocol.name,
      run: (orchestrator, query) => protocol.run(orchestrator, query, config),
    }
  }
  return Object.assign(configure, { [brand]: protocol })
}

/** The definition behind what `defineProtocol` returned, or undefined if the value did not come from there. */
export function protocolOf(value: unknown): ProtocolDefinition | undefined {
  if (typeof value !== 'function' || !(brand in value)) return undefined
  return isDefinition(value[brand]) ? value[brand] : undefined
}

function isDefinition(value: unknown): value is ProtocolDefinition {
  return typeof value === 'object' && value !== null && 'run' in value && typeof value.run === 'function'
}

/**
 * The configuration as the protocol's schema returns it: with its defaults, of its type. Without a schema, as it came.
 *
 * @param path where the configuration was written, for the error.
 * @throws {ConfigurationError} when it misses the schema, or the schema answers later.
 */
export function checkedConfig<Config extends object>(
  definition: ProtocolDefinition<Config>,
  config: Config,
  path = 'config',
): Config {
  if (definition.config === undefined) return config
  const result = definition.config['~standard'].validate(config)
  if (result instanceof Promise) {
    result.catch(() => {}) // nobody waits for it
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
 * What a script of the user's own returned, if it is a result.
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
