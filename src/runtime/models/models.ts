/**
 * The team's models: what stands in `models`, or in the environment where nothing stands there, as clients. Models with the
 * same address and key share a provider: one client, one queue.
 */
import type { ModelClient } from '../../actors/model.ts'
import type { Scheduler } from '../../clock.ts'
import { ConfigurationError } from '../../errors.ts'
import { nearest } from '../../nearest.ts'
import type { ModelsConfig } from '../options.ts'
import type { Redactor } from '../redactor.ts'
import { refusedAs } from '../refused.ts'
import { isAddress } from '../settings-shape-models.ts'
import { isClient, type ResolvedModel } from './client.ts'
import { type Environment, fixedKey, keyOfFunction, keyOfVariable, type ModelKey, NO_KEY } from './model-keys.ts'
import { openaiClient } from './openai-client.ts'
import { hostOf } from './provider.ts'
import { ProviderQueue, queued } from './provider-queue.ts'
import { retries } from './retries.ts'

export interface ModelsContext {
  readonly env: Environment
  readonly clock: Scheduler
  readonly redactor: Redactor
  /** The client that answers without a provider; left out, there is none. */
  rehearsal?(): ModelClient
  /** Told once when that one answers although nobody has asked for it. */
  notice?(text: string): void
}

/** What a name stands for. */
interface Entry extends ResolvedModel {
  /** It has other models, too. */
  readonly hasMore: boolean
}

/** The model of roles that name none. */
const DEFAULT = 'default'
const OPENAI = 'https://api.openai.com/v1'
const NOTICE =
  'no model is configured, so the rehearsal model answers: its words mean nothing. Give the team models, or set OPENAI_API_KEY and DRAMATIS_MODEL.'

export class Models {
  readonly #context: ModelsContext
  readonly #isAskedFor: boolean
  #rehearsing: ModelClient | undefined
  #entries: ReadonlyMap<string, Entry> | undefined
  readonly #providers: { baseURL: string; identity: unknown; client: ModelClient }[] = []

  /**
   * The shape of `models` is checked before. What stands in the environment is not looked at before a model is meant: a team
   * of code alone needs none.
   *
   * @throws ConfigurationError for a key that is not there.
   */
  constructor(models: ModelsConfig | 'rehearsal' | undefined, context: ModelsContext) {
    this.#context = context
    this.#isAskedFor = models === 'rehearsal'
    context.redactor.learn(context.env.OPENAI_API_KEY?.trim())
    if (typeof models === 'object') this.#entries = this.#configured(models)
  }

  /**
   * The model that a role means. `wanted`: the name of an entry, or a model of the default's provider; undefined: the default,
   * which is the entry of that name, else the first. `overrides` of a run say what is meant by such a name instead: another
   * entry, or another model of the same provider. `path` is where it stands, for errors.
   *
   * @throws ConfigurationError if there is no such model.
   */
  resolve(wanted: string | undefined, path: string, overrides: Readonly<Record<string, string>> = {}): ResolvedModel {
    const name = wanted ?? DEFAULT
    const instead = Object.hasOwn(overrides, name) ? overrides[name] : undefined
    if (this.#isRehearsed) return { client: this.#rehearse(), model: instead ?? wanted ?? 'rehearsal' }
    const found = this.#table.get(name) ?? this.#byDefault(wanted, path)
    const { client, model } =
      instead === undefined ? found : (this.#table.get(instead) ?? this.#another(found, instead, path))
    const provider = this.#providers.find((other) => other.client === client)
    if (model !== '') return { client, model, ...(provider && { host: hostOf(provider.baseURL) }) }
    const text = `${path}: which model? Set DRAMATIS_MODEL, or name one in the role's model.`
    throw new ConfigurationError(text, { path, got: 'nothing', accepted: 'the name of a model' })
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

  /** Throws `ConfigurationError` for an override of a run that nobody means, or that means no model. `roles`: what roles mean. */
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
    if (!this.#isAskedFor) this.#context.notice?.(NOTICE)
    this.#rehearsing = this.#context.rehearsal!()
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

  /** Another model of the same provider. A client that was handed in is the models that it is named for. */
  #another({ client, hasMore }: Entry, model: string, path: string): Entry {
    if (hasMore) return { client, model, hasMore }
    const accepted = [...this.#table.keys()].join(', ')
    const text = `${path}: no model of this team is named "${model}"; there are ${accepted}.`
    throw new ConfigurationError(text, { path, got: model, accepted })
  }

  #configured(models: ModelsConfig): Map<string, Entry> {
    const { clock } = this.#context
    return new Map(
      Object.entries(models).map(([name, entry]): [string, Entry] => {
        if (!isClient(entry))
          return [name, { client: this.#clientOf(entry, `models.${name}`), model: entry.model, hasMore: true }]
        return [name, { client: retries(entry, { clock, provider: name }), model: name, hasMore: false }]
      }),
    )
  }

  #fromEnvironment(): Map<string, Entry> {
    const { env } = this.#context
    if (!env.OPENAI_API_KEY?.trim() && !env.OPENAI_BASE_URL?.trim()) return new Map()
    const model = env.DRAMATIS_MODEL?.trim() ?? ''
    return new Map([[DEFAULT, { client: this.#clientOf({}, 'the environment'), model, hasMore: true }]])
  }

  #clientOf({ baseURL, ...entry }: Place, path: string): ModelClient {
    const { env } = this.#context
    const address = (baseURL ?? (env.OPENAI_BASE_URL?.trim() || OPENAI)).replace(/\/+$/, '')
    if (!isAddress(address)) {
      const text = 'OPENAI_BASE_URL: it holds no address; set it to one like http://localhost:11434/v1, or unset it.'
      throw new ConfigurationError(text, { path: 'OPENAI_BASE_URL', got: 'a text that is no address' })
    }
    const key = this.#keyOf({ baseURL, ...entry }, path)
    const known = this.#providers.find((other) => other.baseURL === address && other.identity === key.identity)
    if (known) return known.client
    const client = this.#reach(address, key)
    this.#providers.push({ baseURL: address, identity: key.identity, client })
    return client
  }

  #keyOf({ baseURL, apiKey, apiKeyEnv }: Place, path: string): ModelKey {
    const { env, redactor } = this.#context
    if (apiKeyEnv !== undefined) return keyOfVariable(apiKeyEnv, `${path}.apiKeyEnv`, env, redactor)
    if (typeof apiKey === 'function') return keyOfFunction(apiKey, `${path}.apiKey`, redactor)
    if (apiKey !== undefined) return fixedKey(apiKey, `${path}.apiKey`, `${path}.apiKey`, redactor)
    if (baseURL !== undefined) return NO_KEY // OpenAI's key is for nobody else
    if (env.OPENAI_BASE_URL?.trim() && !env.OPENAI_API_KEY?.trim()) return NO_KEY
    return keyOfVariable('OPENAI_API_KEY', path, env, redactor)
  }

  #reach(baseURL: string, key: ModelKey): ModelClient {
    const { clock, redactor } = this.#context
    const provider = hostOf(baseURL)
    const queue = new ProviderQueue({ clock, provider })
    const client = openaiClient({ baseURL, key, redactor, clock, onHeaders: queue.noteHeaders })
    return retries(queued(client, queue), { clock, provider })
  }
}

type Place = Partial<Exclude<ModelsConfig[string], ModelClient>>
