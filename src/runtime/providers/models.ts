/**
 * Makes the clients of the team's models from the option `models`, or without it from the environment. Models with the
 * same address and key share a provider: one client, one queue.
 */
import type { ModelClient } from '../../actors/definition/model.ts'
import { modelOptionsOf } from '../../actors/definition/model-options.ts'
import type { Scheduler } from '../../clock.ts'
import { ConfigurationError } from '../../errors.ts'
import { nearest } from '../../nearest.ts'
import { refusedAs } from '../checks/refused.ts'
import type { LimitNotices } from '../logging/limit-notices.ts'
import { isSecretName, type Redactor } from '../logging/redactor.ts'
import type { Environment } from '../logging/secret-variables.ts'
import { isClient, isOffline, type ResolvedModel } from './client.ts'
import { fixedKey, keyOfFunction, keyOfVariable, type ModelKey, NO_KEY } from './model-keys.ts'
import type { AddressEntry, CallLimits, ClientEntry, ModelsConfig } from './models-config.ts'
import { openaiClient } from './openai-client.ts'
import { hostOf, isAddress } from './provider.ts'
import { ProviderQueue, queued } from './provider-queue.ts'
import { retries } from './retries.ts'

/**
 * Treatment of models that ask a provider, in a rehearsal. `standIn` answers in their place, and no key is looked for.
 * `reach` wraps the client that makes the request, below its retries, and reports the time that passes there.
 */
export type RehearsedModels =
  | { readonly standIn: ModelClient }
  | { readonly clock: Scheduler; reach(client: ModelClient): ModelClient }

export interface ModelsContext {
  readonly env: Environment
  readonly clock: Scheduler
  readonly redactor: Redactor
  /** Makes the client that answers without a provider. Default: there is none. */
  rehearsal?(): ModelClient
  /** Called once when the rehearsal model answers without having been asked for, or when tools do not run with it. */
  notice?(text: string): void
  /** Counts and logs calls that wait in the queue of their provider. */
  readonly limits?: LimitNotices
  readonly rehearsed?: RehearsedModels
}

/** Model behind a name. */
interface Entry extends ResolvedModel {
  /** True if the client has other models too. */
  readonly hasMore: boolean
}

/** A provider that models share. `path` names the first model. */
interface Shared extends CallLimits {
  readonly path: string
  readonly client: ModelClient
}

/** A provider at an address. */
interface Reached extends Shared {
  readonly baseURL: string
  readonly identity: unknown
}

/** Name of the model of roles that name none. */
const DEFAULT = 'default'
const OPENAI = 'https://api.openai.com/v1'
const NOTICE =
  'no model is configured, so the rehearsal model answers: its words mean nothing. Give the team models, or set OPENAI_API_KEY and DRAMATIS_MODEL.'

export class Models {
  readonly #context: ModelsContext
  readonly #isAskedFor: boolean
  /** Client in place of all that make requests outside of this process. */
  readonly #standIn: ModelClient | undefined
  /** Returns a sentence about the tools that do not run while the rehearsal model answers; '' if all run. */
  simulatedTools: () => string = () => ''
  #isAnnounced = false
  #rehearsing: ModelClient | undefined
  #entries: ReadonlyMap<string, Entry> | undefined
  readonly #providers: Reached[] = []
  /** Clients of the user's own, by what was given. */
  readonly #given = new Map<ModelClient, Shared>()

  /**
   * Expects `models` in its checked shape. The environment is not read before a model is used, because a team of code
   * agents needs none.
   *
   * @throws ConfigurationError if a key is missing.
   */
  constructor(models: ModelsConfig | 'rehearsal' | undefined, context: ModelsContext) {
    this.#context = context
    const { rehearsed } = context
    if (rehearsed && 'standIn' in rehearsed) this.#standIn = rehearsed.standIn
    this.#isAskedFor = models === 'rehearsal' || (this.#standIn !== undefined && models === undefined)
    context.redactor.learn(context.env.OPENAI_API_KEY?.trim())
    if (typeof models === 'object') this.#entries = this.#configured(models)
  }

  /**
   * Returns the model of a role. `wanted` is the name of an entry, or a model of the default's provider; undefined: the
   * default, which is the entry of that name, else the first. `overrides` of a run replace such a name by another
   * entry, or by another model of the same provider. `path` names the option in errors.
   *
   * @throws ConfigurationError if there is no such model.
   */
  resolve(wanted: string | undefined, path: string, overrides: Readonly<Record<string, string>> = {}): ResolvedModel {
    const name = wanted ?? DEFAULT
    const instead = Object.hasOwn(overrides, name) ? overrides[name] : undefined
    if (this.#isRehearsed) return { client: this.#rehearse(), model: instead ?? wanted ?? 'rehearsal' }
    const found = this.#table.get(name) ?? this.#byDefault(wanted, path)
    const { hasMore: _, ...resolved } =
      instead === undefined ? found : (this.#table.get(instead) ?? this.#another(found, instead, path))
    const reached = this.#providers.find((other) => other.client === resolved.client)
    if (resolved.model !== '') return { ...resolved, ...(reached && { host: hostOf(reached.baseURL) }) }
    const text = `${path}: which model? Set DRAMATIS_MODEL, or name one in the role's model.`
    throw new ConfigurationError(text, { path, got: 'nothing', accepted: 'the name of a model' })
  }

  /**
   * Checks whether the rehearsal model may answer in this team, or always answers. The environment's model is not
   * resolved for it.
   */
  rehearses(how: 'sometimes' | 'always'): boolean {
    if (!this.#context.rehearsal) return false
    const { env } = this.#context
    if (this.#isAskedFor) return true
    const entries = [...(this.#entries?.values() ?? [])].map(({ client }) => client.rehearsal === true)
    if (entries.length > 0) return how === 'always' ? !entries.includes(false) : entries.includes(true)
    return !isConfigured(env) && env.NODE_ENV !== 'production'
  }

  /**
   * Logs once that the rehearsal model answers, unless it was asked for, and which tools do not run meanwhile.
   */
  announce(): void {
    if (this.#isAnnounced) return
    this.#isAnnounced = true
    const isUnasked = !this.#isAskedFor && this.#table.size === 0
    const text = [isUnasked ? NOTICE : '', this.simulatedTools()].filter((part) => part !== '').join(' ')
    if (text !== '') this.#context.notice?.(text)
  }

  /** Throws `ConfigurationError` unless there is a model for the role at `path`, which has no code. */
  assertHas(wanted: string | undefined, path: string): void {
    if (this.#isRehearsed) return
    if (this.#table.size > 0) return void this.resolve(wanted, `${path}.model`)
    const advice =
      'A role without code needs a model: give the team one (models: { default: ... }, or OPENAI_API_KEY and DRAMATIS_MODEL in the environment), or the role a module.'
    const accepted = 'the module whose default export is the defineAgent(...) of this role'
    throw refusedAs(`${path}.module`, 'nothing', accepted, advice)
  }

  /**
   * Throws `ConfigurationError` for an override of a run that no role uses, or that names no model. `roles` are the
   * names that roles use.
   */
  assertOverride(
    name: string,
    overrides: Readonly<Record<string, string>>,
    roles: readonly (string | undefined)[],
  ): void {
    const path = `models.${name}`
    const meant = [...new Set([DEFAULT, ...this.#table.keys(), ...roles.flatMap((role) => role ?? [])])]
    if (meant.includes(name)) return void this.resolve(name === DEFAULT ? undefined : name, path, overrides)
    const near = nearest(name, meant)
    const advice = near === undefined ? `There are ${meant.join(', ')}.` : `Did you mean "${near}"?`
    throw new ConfigurationError(`${path}: nobody means a model of that name. ${advice}`, {
      path,
      got: name,
      accepted: meant,
    })
  }

  get #table(): ReadonlyMap<string, Entry> {
    this.#entries ??= this.#fromEnvironment()
    return this.#entries
  }

  get #isRehearsed(): boolean {
    if (!this.#context.rehearsal) return false
    return this.#isAskedFor || (this.#table.size === 0 && this.#context.env.NODE_ENV !== 'production')
  }

  #rehearse(): ModelClient {
    if (this.#rehearsing) return this.#rehearsing
    this.announce()
    this.#rehearsing = this.#standIn ?? this.#context.rehearsal!()
    return this.#rehearsing
  }

  #byDefault(wanted: string | undefined, path: string): Entry {
    const fallback = this.#table.get(DEFAULT) ?? this.#table.values().next().value
    if (!fallback) {
      const text = `${path}: the team has no model. Give it one: models: { default: ... }, or OPENAI_API_KEY and DRAMATIS_MODEL in the environment.`
      throw new ConfigurationError(text, { path, got: 'no model', accepted: 'models' })
    }
    return wanted === undefined || wanted === DEFAULT ? fallback : this.#another(fallback, wanted, path)
  }

  /** Returns another model of the same provider. A client of the user's own has no other model than its name's. */
  #another({ client, hasMore, options }: Entry, model: string, path: string): Entry {
    if (hasMore) return { client, model, hasMore, ...(options && { options }) }
    const accepted = [...this.#table.keys()].join(', ')
    const text = `${path}: no model of this team is named "${model}"; there are ${accepted}.`
    throw new ConfigurationError(text, { path, got: model, accepted })
  }

  #configured(models: ModelsConfig): Map<string, Entry> {
    return new Map(
      Object.entries(models).map(([name, entry]): [string, Entry] => {
        if (isClient(entry)) return [name, this.#ofClient({ client: entry }, name)]
        if ('client' in entry) return [name, this.#ofClient(entry, name)]
        const client = this.#standIn ?? this.#clientOf(entry, `models.${name}`)
        this.#learnHeaders(entry.headers)
        return [name, { client, model: entry.model, hasMore: true, options: modelOptionsOf(entry) }]
      }),
    )
  }

  /** Has the secrets in headers taken out of all that leaves the team, as keys are. */
  #learnHeaders(headers: Readonly<Record<string, string>> = {}): void {
    for (const [name, text] of Object.entries(headers))
      if (isSecretName(name)) for (const secret of [text, text.split(' ').at(-1)]) this.#context.redactor.learn(secret)
  }

  #ofClient(entry: ClientEntry, name: string): Entry {
    const { client, secrets = [], headers } = entry
    for (const secret of secrets) this.#context.redactor.learn(secret)
    this.#learnHeaders(headers)
    const provider = client.provider ?? name
    const model = entry.model ?? client.modelId ?? name
    const options = modelOptionsOf(entry)
    return {
      client: this.#joined(entry, provider, `models.${name}`),
      model,
      hasMore: false,
      ...(client.provider !== undefined && { provider: client.provider }),
      ...(Object.keys(options).length > 0 && { options }),
    }
  }

  /** Returns the client with its queue and its retries, or the stand-in of a rehearsal. */
  #joined({ client, maxConcurrent, maxRetryAfterMs }: ClientEntry, provider: string, path: string): ModelClient {
    const { clock } = this.#context
    if (isOffline(client)) return retries(client, { clock, provider })
    if (this.#standIn) return this.#standIn
    const known = this.#given.get(client)
    if (known) return sharing(known, maxConcurrent, path, 'client')
    const joined = this.#inQueue(this.#reached(client), provider, { maxConcurrent, maxRetryAfterMs }, path)
    this.#given.set(client, { path, maxConcurrent, client: joined })
    return joined
  }

  #inQueue(client: ModelClient, provider: string, limits: CallLimits, path: string): ModelClient {
    const { clock } = this.#context
    const { maxConcurrent, maxRetryAfterMs } = limits
    const queue = new ProviderQueue({
      clock,
      provider,
      ...(maxConcurrent !== undefined && { maxConcurrent }),
      ...(maxRetryAfterMs !== undefined && { maxRetryAfterMs }),
      onWait: (most) =>
        this.#context.limits?.reached(`${path}.maxConcurrent`, most, `calls of models wait for ${provider}`),
    })
    return retries(queued(client, queue), { clock, provider })
  }

  #reached(client: ModelClient): ModelClient {
    const { rehearsed } = this.#context
    return rehearsed && 'reach' in rehearsed ? rehearsed.reach(client) : client
  }

  #fromEnvironment(): Map<string, Entry> {
    const { env } = this.#context
    if (!isConfigured(env)) return new Map()
    const model = env.DRAMATIS_MODEL?.trim() ?? ''
    return new Map([[DEFAULT, { client: this.#clientOf({}, 'the environment'), model, hasMore: true }]])
  }

  #clientOf({ baseURL, maxConcurrent, maxRetryAfterMs, ...entry }: Place, path: string): ModelClient {
    const { env } = this.#context
    const address = (baseURL ?? (env.OPENAI_BASE_URL?.trim() || OPENAI)).replace(/\/+$/, '')
    if (!isAddress(address)) {
      const text = 'OPENAI_BASE_URL: it holds no address; set it to one like http://localhost:11434/v1, or unset it.'
      throw new ConfigurationError(text, { path: 'OPENAI_BASE_URL', got: 'a text that is no address' })
    }
    const key = this.#keyOf({ baseURL, ...entry }, path)
    const known = this.#providers.find((other) => other.baseURL === address && other.identity === key.identity)
    if (known) return sharing(known, maxConcurrent, path, 'address and key')
    const client = this.#reach(address, key, { maxConcurrent, maxRetryAfterMs }, path)
    this.#providers.push({ baseURL: address, identity: key.identity, path, maxConcurrent, client })
    return client
  }

  #keyOf({ baseURL, apiKey, apiKeyEnv }: Place, path: string): ModelKey {
    const { env, redactor } = this.#context
    if (apiKeyEnv !== undefined) return keyOfVariable(apiKeyEnv, `${path}.apiKeyEnv`, env, redactor)
    if (typeof apiKey === 'function') return keyOfFunction(apiKey, `${path}.apiKey`, redactor)
    if (apiKey !== undefined) return fixedKey(apiKey, `${path}.apiKey`, `${path}.apiKey`, redactor)
    if (baseURL !== undefined) return NO_KEY // no other server may get OpenAI's key
    if (env.OPENAI_BASE_URL?.trim() && !env.OPENAI_API_KEY?.trim()) return NO_KEY
    return keyOfVariable('OPENAI_API_KEY', path, env, redactor)
  }

  #reach(baseURL: string, key: ModelKey, limits: CallLimits, path: string): ModelClient {
    const { clock, redactor, rehearsed } = this.#context
    const theirClock = rehearsed && 'reach' in rehearsed ? rehearsed.clock : clock // dates in real headers are real
    const client = openaiClient({ baseURL, key, redactor, clock: theirClock })
    return this.#inQueue(this.#reached(client), hostOf(baseURL), limits, path)
  }
}

/** Returns the client of an earlier entry. Throws `ConfigurationError` if it has another bound of calls. */
function sharing(known: Shared, maxConcurrent: number | undefined, path: string, what: string): ModelClient {
  if (maxConcurrent === undefined || maxConcurrent === known.maxConcurrent) return known.client
  const advice = `Its calls share a queue with those of ${known.path}, which has the same ${what}: say it there.`
  const accepted = `what ${known.path} says (${known.maxConcurrent ?? 'nothing'})`
  throw refusedAs(`${path}.maxConcurrent`, `${maxConcurrent}`, accepted, advice)
}

type Place = Partial<AddressEntry>

/** Returns the names of the models that a rehearsal replaces: all that make requests outside of this process. */
export function standingIn(models: ModelsConfig | 'rehearsal' | undefined, env: Environment): string[] {
  if (typeof models === 'object' && models !== null)
    return Object.entries(models).flatMap(([name, entry]) => {
      const client = isClient(entry) ? entry : 'client' in entry ? entry.client : undefined
      return client && isOffline(client) ? [] : [name]
    })
  return models === undefined && isConfigured(env) ? [DEFAULT] : []
}

/** Checks whether the environment has the address or the key of a model. */
const isConfigured = ({ OPENAI_API_KEY, OPENAI_BASE_URL }: Environment): boolean =>
  Boolean(OPENAI_API_KEY?.trim() || OPENAI_BASE_URL?.trim())
