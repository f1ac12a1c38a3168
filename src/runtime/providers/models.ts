/** The team's models by their names, from the option `models`, or without it from the environment. */
import type { ModelClient } from '../../actors/definition/model.ts'
import { modelOptionsOf } from '../../actors/definition/model-options.ts'
import { refusedAs } from '../../shared/checks.ts'
import type { Scheduler } from '../../shared/clock.ts'
import type { Environment } from '../../shared/environment.ts'
import { ConfigurationError } from '../../shared/errors.ts'
import { nearest } from '../../shared/text.ts'
import { own } from '../../shared/values.ts'
import { isSecretName } from '../logging/redactor.ts'
import { type FailoverEntry, ModelList } from './failover.ts'
import { type ClientEntry, isClient, isList, isOffline, type ModelsConfig, type ResolvedModel } from './provider.ts'
import { ProviderClients, type ProviderContext, retries } from './provider-clients.ts'

/**
 * Treatment of models that ask a provider, in a rehearsal. `standIn` answers in their place, and no key is looked for.
 * `reach` wraps the client that makes the request, below its retries, and reports the time that passes there.
 */
export type RehearsedModels = (
  | { readonly standIn: ModelClient }
  | { readonly clock: Scheduler; reach(client: ModelClient): ModelClient }
) & {
  /** Makes a client fail now and then, also one that asks nobody. */
  readonly around?: (client: ModelClient) => ModelClient
}

export interface ModelsContext extends Omit<ProviderContext, 'reached'> {
  rehearsal?(): ModelClient
  /** Called once when the rehearsal model answers without having been asked for, or when tools do not run with it. */
  notice?(text: string): void
  readonly rehearsed?: RehearsedModels
}

interface Entry extends ResolvedModel {
  readonly hasMore: boolean
}

const DEFAULT = 'default'
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
  readonly #clients: ProviderClients

  /** The environment is not read before a model is used, because a team of code agents needs none. */
  constructor(models: ModelsConfig | 'rehearsal' | undefined, context: ModelsContext) {
    this.#context = context
    const { rehearsed } = context
    const around = rehearsed?.around
    if (rehearsed && 'standIn' in rehearsed)
      this.#standIn = around
        ? retries(around(rehearsed.standIn), { clock: context.clock, provider: 'the rehearsal' })
        : rehearsed.standIn
    this.#clients = new ProviderClients({
      ...context,
      ...(rehearsed && 'reach' in rehearsed && { reached: rehearsed }),
      ...(around && { around }),
    })
    this.#isAskedFor = models === 'rehearsal' || (this.#standIn !== undefined && models === undefined)
    context.redactor.learn(context.env.OPENAI_API_KEY?.trim())
    if (typeof models === 'object') this.#entries = this.#entriesOf(models)
  }

  /**
   * Returns the model of a role. `wanted` is the name of an entry, or a model of the default's provider; undefined: the
   * default, which is the entry of that name, else the first. `overrides` of a run replace such a name by another
   * entry, or by another model of the same provider.
   */
  resolve(wanted: string | undefined, path: string, overrides: Readonly<Record<string, string>> = {}): ResolvedModel {
    const name = wanted ?? DEFAULT
    const instead = own(overrides, name)
    if (this.#isRehearsed) return { client: this.#rehearse(), model: instead ?? wanted ?? 'rehearsal' }
    const found = this.#table.get(name) ?? this.#byDefault(wanted, path)
    const { hasMore: _, ...resolved } =
      instead === undefined ? found : (this.#table.get(instead) ?? this.#another(found, instead, path))
    if (resolved.model !== '') return resolved
    const text = `${path}: which model? Set DRAMATIS_MODEL, or name one in the role's model.`
    throw new ConfigurationError(text, { path, got: 'nothing', accepted: 'the name of a model' })
  }

  /** Checks whether the rehearsal model answers in this team. The environment's model is not resolved for it. */
  rehearses(how: 'sometimes' | 'always'): boolean {
    if (!this.#context.rehearsal) return false
    const { env } = this.#context
    if (this.#isAskedFor) return true
    const entries = [...(this.#entries?.values() ?? [])].map(({ client }) => client.rehearsal === true)
    if (entries.length > 0) return how === 'always' ? !entries.includes(false) : entries.includes(true)
    return !isConfigured(env) && env.NODE_ENV !== 'production'
  }

  /** Logs once that the rehearsal model answers, unless it was asked for, and which tools do not run meanwhile. */
  announce(): void {
    if (this.#isAnnounced) return
    this.#isAnnounced = true
    const isUnasked = !this.#isAskedFor && this.#table.size === 0
    const text = [isUnasked ? NOTICE : '', this.simulatedTools()].filter((part) => part !== '').join(' ')
    if (text !== '') this.#context.notice?.(text)
  }

  assertHas(wanted: string | undefined, path: string): void {
    if (this.#isRehearsed) return
    if (this.#table.size > 0) return void this.resolve(wanted, `${path}.model`)
    const advice =
      'A role without code needs a model: give the team one (models: { default: ... }, or OPENAI_API_KEY and DRAMATIS_MODEL in the environment), or the role a module.'
    const accepted = 'the module whose default export is the defineAgent(...) of this role'
    throw refusedAs(`${path}.module`, 'nothing', accepted, advice)
  }

  /** Yields the models that entries and roles name, where they do not only stand for the rehearsal model. */
  *named(roles: readonly (string | undefined)[]): IterableIterator<{ path: string; model: string }> {
    if (!this.#entries || this.#isRehearsed) return
    for (const [name, { list, model, client }] of this.#entries)
      if (!list && !client.rehearsal) yield { path: `models.${name}`, model }
    for (const [i, role] of roles.entries())
      if (role !== undefined && !this.#entries.has(role)) {
        const path = `agents[${i}].model`
        yield { path, model: this.resolve(role, path).model }
      }
  }

  /** Divides what a provider takes at a time among so many processes. */
  divide(processes: number): void {
    this.#clients.divide(processes)
  }

  /** Throws `ConfigurationError` for an override that no role uses, or that names no model. */
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
    throw new ConfigurationError(`${path}: no model of this team is named "${name}". ${advice}`, {
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
    if (!this.#rehearsing) this.announce()
    this.#rehearsing ??= this.#standIn ?? this.#context.rehearsal!()
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
  #another(entry: Entry, model: string, path: string): Entry {
    if (entry.hasMore) return { ...entry, model }
    const accepted = [...this.#table.keys()].join(', ')
    const text = `${path}: no model of this team is named "${model}"; there are ${accepted}.`
    throw new ConfigurationError(text, { path, got: model, accepted })
  }

  /** Makes the lists behind what they name. The order of the entries stays: the first may be the default. */
  #entriesOf(models: ModelsConfig): Map<string, Entry> {
    const made = new Map<string, Entry>()
    for (const [name, entry] of Object.entries(models)) if (!isList(entry)) made.set(name, this.#entryOf(name, entry))
    return new Map(
      Object.entries(models).map(([name, entry]) => [
        name,
        isList(entry) ? this.#listOf(name, entry, made) : made.get(name)!,
      ]),
    )
  }

  #listOf(name: string, entry: FailoverEntry, made: ReadonlyMap<string, Entry>): Entry {
    const all = entry.anyOf.map((each, at) => {
      const found = made.get(each)
      if (found) return { name: each, model: found }
      const accepted = [...made.keys()].join(', ')
      throw refusedAs(`models.${name}.anyOf[${at}]`, `"${each}"`, `the name of an entry that is no list: ${accepted}`)
    })
    const { clock, limits } = this.#context
    return { ...all[0]!.model, hasMore: false, list: new ModelList(name, entry, all, { clock, limits }) }
  }

  #entryOf(name: string, entry: Exclude<ModelsConfig[string], FailoverEntry>): Entry {
    if (isClient(entry)) return this.#ofClient({ client: entry }, name)
    if ('client' in entry) return this.#ofClient(entry, name)
    const reached = this.#standIn ? { client: this.#standIn } : this.#clients.atAddress(entry, `models.${name}`)
    this.#learnHeaders(entry.headers)
    const { model, thinks, giveBack } = entry
    const more = { ...(thinks !== undefined && { thinks }), ...(giveBack && { giveBack }) }
    return { ...reached, model, hasMore: true, options: modelOptionsOf(entry), ...more }
  }

  /** Has the secrets in headers taken out of all that leaves the team, as keys are. */
  #learnHeaders(headers: Readonly<Record<string, string>> = {}): void {
    for (const [name, text] of Object.entries(headers))
      if (isSecretName(name)) for (const secret of [text, text.split(' ').at(-1)]) this.#context.redactor.learn(secret)
  }

  #ofClient(entry: ClientEntry, name: string): Entry {
    const { client, secrets = [], headers, thinks } = entry
    for (const secret of secrets) this.#context.redactor.learn(secret)
    this.#learnHeaders(headers)
    const provider = client.provider ?? name
    const model = entry.model ?? client.modelId ?? name
    const options = modelOptionsOf(entry)
    const standIn = isOffline(client) ? undefined : this.#standIn
    return {
      client: standIn ?? this.#clients.ofClient(entry, provider, `models.${name}`),
      model,
      hasMore: false,
      ...(thinks !== undefined && { thinks }),
      ...(client.provider !== undefined && { provider: client.provider }),
      ...(Object.keys(options).length > 0 && { options }),
    }
  }

  #fromEnvironment(): Map<string, Entry> {
    const { env } = this.#context
    if (!isConfigured(env)) return new Map()
    const model = env.DRAMATIS_MODEL?.trim() ?? ''
    return new Map([[DEFAULT, { ...this.#clients.atAddress({}, 'the environment'), model, hasMore: true }]])
  }
}

export function standingIn(models: ModelsConfig | 'rehearsal' | undefined, env: Environment): string[] {
  if (typeof models === 'object' && models !== null)
    return Object.entries(models).flatMap(([name, entry]) => {
      if (isList(entry)) return []
      const client = isClient(entry) ? entry : 'client' in entry ? entry.client : undefined
      return client && isOffline(client) ? [] : [name]
    })
  return models === undefined && isConfigured(env) ? [DEFAULT] : []
}

const isConfigured = ({ OPENAI_API_KEY, OPENAI_BASE_URL }: Environment): boolean =>
  Boolean(OPENAI_API_KEY?.trim() || OPENAI_BASE_URL?.trim())
