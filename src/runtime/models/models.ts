/**
 * The team's models: what stands in `models`, or in the environment where nothing stands there, as clients. Models with the
 * same address and key share a provider: one client, one queue.
 */
import type { ModelClient } from '../../actors/model.ts'
import type { Scheduler } from '../../clock.ts'
import { ConfigurationError } from '../../errors.ts'
import type { ModelsConfig } from '../options.ts'
import type { Redactor } from '../redactor.ts'
import { isAddress } from '../settings-shape-models.ts'
import { type Environment, fixedKey, keyOfFunction, keyOfVariable, type ModelKey, NO_KEY } from './model-keys.ts'
import { hostOf, openaiClient } from './openai-client.ts'
import { ProviderQueue, queued } from './provider-queue.ts'
import { retries } from './retries.ts'

/** A client, and what it calls the model. */
export interface ResolvedModel {
  readonly client: ModelClient
  readonly model: string
}

export interface ModelsContext {
  readonly env: Environment
  readonly clock: Scheduler
  readonly redactor: Redactor
  /** The client that answers without a provider. */
  rehearsal(): ModelClient
  /** Told once when that one answers although nobody has asked for it. */
  notice(text: string): void
}

/** The model of roles that name none. */
const DEFAULT = 'default'
const OPENAI = 'https://api.openai.com/v1'
const NOTICE =
  'no model is configured, so the rehearsal model answers: its words mean nothing. Give the team models, or set OPENAI_API_KEY and DRAMATIS_MODEL.'

export class Models {
  readonly #context: ModelsContext
  readonly #isRehearsal: boolean
  #entries: ReadonlyMap<string, ResolvedModel> | undefined
  readonly #providers: { baseURL: string; identity: unknown; client: ModelClient }[] = []
  #rehearsing: ModelClient | undefined

  /**
   * The shape of `models` is checked before. What stands in the environment is not looked at before a model is meant: a team
   * of code alone needs none.
   *
   * @throws ConfigurationError for a key that is not there.
   */
  constructor(models: ModelsConfig | 'rehearsal' | undefined, context: ModelsContext) {
    this.#context = context
    this.#isRehearsal = models === 'rehearsal'
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
  resolve(wanted: string | undefined, overrides: Readonly<Record<string, string>> = {}, path = 'model'): ResolvedModel {
    const name = wanted ?? DEFAULT
    const instead = Object.hasOwn(overrides, name) ? overrides[name] : undefined
    if (this.#isRehearsed) return { client: this.#rehearse(), model: instead ?? wanted ?? 'rehearsal' }
    const found = this.#table.get(name) ?? this.#byDefault(wanted, path)
    const other = instead === undefined ? found : this.#table.get(instead)
    const meant = other ?? { client: found.client, model: instead ?? '' }
    if (meant.model !== '') return meant
    const text = `${path}: which model? Set DRAMATIS_MODEL, or name one in the role's model.`
    throw new ConfigurationError(text, { path, got: 'nothing', accepted: 'the name of a model' })
  }

  get #table(): ReadonlyMap<string, ResolvedModel> {
    this.#entries ??= this.#fromEnvironment()
    return this.#entries
  }

  get #isRehearsed(): boolean {
    return this.#isRehearsal || (this.#table.size === 0 && this.#context.env.NODE_ENV !== 'production')
  }

  #byDefault(wanted: string | undefined, path: string): ResolvedModel {
    const fallback = this.#table.get(DEFAULT) ?? this.#table.values().next().value
    if (!fallback) {
      const text = `${path}: there is no model, and with NODE_ENV=production none is rehearsed. Give the team models, or set OPENAI_API_KEY and DRAMATIS_MODEL.`
      throw new ConfigurationError(text, { path, got: 'no model', accepted: 'models' })
    }
    return { client: fallback.client, model: wanted ?? fallback.model }
  }

  #rehearse(): ModelClient {
    if (this.#rehearsing) return this.#rehearsing
    if (!this.#isRehearsal) this.#context.notice(NOTICE)
    this.#rehearsing = this.#context.rehearsal()
    return this.#rehearsing
  }

  #configured(models: ModelsConfig): Map<string, ResolvedModel> {
    const { clock } = this.#context
    return new Map(
      Object.entries(models).map(([name, entry]) => {
        if ('complete' in entry) return [name, { client: retries(entry, { clock, provider: name }), model: name }]
        return [name, { client: this.#clientOf(entry, `models.${name}`), model: entry.model }]
      }),
    )
  }

  #fromEnvironment(): Map<string, ResolvedModel> {
    const { env } = this.#context
    if (!env.OPENAI_API_KEY?.trim() && !env.OPENAI_BASE_URL?.trim()) return new Map()
    const model = env.DRAMATIS_MODEL?.trim() ?? ''
    return new Map([[DEFAULT, { client: this.#clientOf({}, 'the environment'), model }]])
  }

  #clientOf({ baseURL, ...entry }: Entry, path: string): ModelClient {
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

  #keyOf({ baseURL, apiKey, apiKeyEnv }: Entry, path: string): ModelKey {
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

type Entry = Partial<Exclude<ModelsConfig[string], ModelClient>>
