/** Host side of `context.shared`: the access rules of each state, and how long each lasts. */

import { mkdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises'
import { dirname } from 'node:path'
import type { SharedScope } from '../../actors/definition/context.ts'
import type { Verb } from '../../actors/definition/role.ts'
import { type Kept, notTheOwner, SHARED_SCOPES, type Written } from '../../actors/turn/state.ts'
import { LONGEST_KEY } from '../../blackboard/entry.ts'
import { isObject } from '../../shared/checks.ts'
import { ConfigurationError, DramatisError, describe, MessageRejectedError, shown } from '../../shared/errors.ts'
import type { Agent } from '../host/agent.ts'
import type { Core } from '../host/core.ts'
import type { Unrecorded } from '../log/records.ts'
import { whileLocked } from '../store/log-lock.ts'
import type { HostCaller, HostVerb } from './calls.ts'

const VERSION = 1

class PersistentFile {
  readonly #path: string
  /** Describes the file as it was when this last read or wrote it. */
  #seen = ''
  #last: Promise<unknown> = Promise.resolve()

  constructor(path: string) {
    this.#path = path
  }

  /**
   * Calls `act` when the store has what the file has, also what another process wrote there. With `hasChanged` no other
   * process of this machine writes meanwhile, and the file is written if `act` has changed the store. Calls run one
   * after the other. If the file cannot be written, the store does not keep the change either.
   *
   * Rejects with `ConfigurationError` for a file that cannot be read or written, or is of another kind.
   */
  use<T>(store: StateStore, act: () => T, hasChanged?: (result: T) => boolean): Promise<T> {
    const use = async () => {
      await this.#load(store)
      const result = act()
      if (hasChanged?.(result)) await this.#save(store)
      return result
    }
    const used = this.#last.then(hasChanged ? () => this.#alone(use) : use)
    this.#last = used.catch(() => {})
    return used
  }

  async #alone<T>(use: () => Promise<T>): Promise<T> {
    try {
      await mkdir(dirname(this.#path), { recursive: true })
      this.#seen = '' // a stamp may come again within one tick of the file system's clock
      return await whileLocked(this.#path, use)
    } catch (error) {
      throw error instanceof DramatisError ? error : this.#fault('written', error)
    }
  }

  async #load(store: StateStore): Promise<void> {
    try {
      const now = await this.#stamp()
      if (now === this.#seen) return
      store.replace(now === ABSENT ? [] : valuesIn(await readFile(this.#path, 'utf8')))
      this.#seen = now
    } catch (error) {
      throw this.#fault('read', error)
    }
  }

  /** Writes beside the file and puts that in its place: the file is never half written. */
  async #save(store: StateStore): Promise<void> {
    const beside = `${this.#path}.${process.pid}.tmp`
    try {
      const values = Object.fromEntries(store.entries())
      await writeFile(beside, `${JSON.stringify({ version: VERSION, values })}\n`, { mode: 0o600, flush: true })
      await rename(beside, this.#path)
      this.#seen = await this.#stamp()
    } catch (error) {
      this.#seen = '' // the next use reads what the file has
      await rm(beside, { force: true }).catch(() => {})
      throw this.#fault('written', error)
    }
  }

  async #stamp(): Promise<string> {
    try {
      const { ino, mtimeNs, size } = await stat(this.#path, { bigint: true })
      return `${ino} ${mtimeNs} ${size}`
    } catch (error) {
      if (Object(error).code === 'ENOENT') return ABSENT
      throw error
    }
  }

  #fault(what: 'read' | 'written', cause: unknown): ConfigurationError {
    const text = `persistentFile: ${this.#path} cannot be ${what}: ${describe(cause)}. Name another file, or mend this one.`
    return new ConfigurationError(text, { path: 'persistentFile', file: this.#path }, cause)
  }
}

const ABSENT = 'absent'

/** Returns the values of a file. Throws for a text that is none of this kind. */
function valuesIn(text: string): [key: string, kept: Kept][] {
  const { version, values } = Object(JSON.parse(text)) as { version?: unknown; values?: unknown }
  if (version !== VERSION || !isObject(values)) throw new Error(`it has no values of version ${VERSION}`)
  return Object.entries(values).map(([key, kept]) => {
    const { version: writes, value }: Partial<Kept> = Object(kept)
    if (!Number.isSafeInteger(writes) || value === undefined) throw new Error(`its value of "${key}" has no version`)
    return [key, { version: Number(writes), value }]
  })
}

/** Limit on the keys of a store, because keys are never removed. */
const MOST_KEYS = 10_000

/** Store of values by keys. Each value has the number of its writes (`version`). */
export class StateStore {
  readonly #kept = new Map<string, Kept>()

  read(key: string): Kept {
    return this.#kept.get(key) ?? { version: 0 }
  }

  /**
   * Writes the value if the key is at version `ifVersion`. Returns what the store has afterwards.
   *
   * @throws {MessageRejectedError} for a key more than there is room for.
   */
  write(key: string, ifVersion: number, value: unknown): Written {
    const kept = this.#kept.get(key)
    const { version } = kept ?? { version: 0 }
    if (version !== ifVersion) return { ...kept, version, done: false }
    if (!kept && this.#kept.size >= MOST_KEYS)
      throw new MessageRejectedError(
        `A shared state has up to ${MOST_KEYS} keys, and this one has them all: "${key}" was not written. Keep several values under one key.`,
        { path: 'key', key, keys: MOST_KEYS },
      )
    const next = { version: version + 1, value }
    this.#kept.set(key, next)
    return { ...next, done: true }
  }

  /** Puts a value in place that was written in an earlier process. */
  restore(key: string, kept: Kept): void {
    this.#kept.set(key, kept)
  }

  /** Puts all values in place that another store has. */
  replace(values: Iterable<[key: string, kept: Kept]>): void {
    this.#kept.clear()
    for (const [key, kept] of values) this.#kept.set(key, kept)
  }

  entries(): Iterable<[key: string, kept: Kept]> {
    return this.#kept
  }
}

/** Arguments from a thread: they can be anything. */
interface Arguments {
  scope?: unknown
  owner?: unknown
  key?: unknown
  ifVersion?: unknown
  value?: unknown
}

export class SharedStates {
  readonly #core: Core
  /** File of the state 'persistent'; undefined: it is in the log, if the team has one. */
  readonly #file: PersistentFile | undefined
  readonly #ofTeam = new StateStore()
  readonly #persistent = new StateStore()
  /** Stores by the index of the agent. An agent of the log that is not there yet has its own, too. */
  readonly #ofAgents = new Map<number, StateStore>()

  constructor(core: Core, file: string | undefined) {
    this.#core = core
    this.#file = file === undefined ? undefined : new PersistentFile(file)
  }

  get verbs(): [operation: Verb, verb: HostVerb][] {
    return [
      ['shared.get', (args, caller) => this.#read(args as Arguments, caller)],
      ['shared.update', (args, caller) => this.#update(args as Arguments, caller)],
    ]
  }

  #read(given: Arguments, caller: HostCaller): Kept | Promise<Kept> {
    const { scope, store } = this.#storeFor(given, caller, false)
    const key = keyIn(given)
    const read = () => store.read(key)
    return this.#file && scope === 'persistent' ? this.#file.use(store, read) : read()
  }

  #update(given: Arguments, caller: HostCaller): Written | Promise<Written> {
    const { ifVersion, value } = given
    const { store, ...place } = this.#storeFor(given, caller, true)
    if (!isVersion(ifVersion)) throw wrong('ifVersion', ifVersion, 'a whole number from 0 on')
    if (value === undefined) throw wrong('value', value, 'a JSON value')
    const key = keyIn(given)
    if (this.#file && place.scope === 'persistent')
      return this.#file.use(
        store,
        () => store.write(key, ifVersion, value),
        ({ done }) => done,
      )
    const written = store.write(key, ifVersion, value)
    if (written.done) this.#core.journal.keep(undefined, factOf(place, key, written))
    return written
  }

  #storeFor({ scope, owner }: Arguments, caller: HostCaller, writes: boolean): Place & { store: StateStore } {
    if (scope === 'team_shared') return { scope, store: this.#ofTeam }
    if (scope === 'persistent') return { scope, store: this.#persistent }
    if (scope !== 'agent_shared') throw wrong('scope', scope, `one of ${SHARED_SCOPES.join(', ')}`)
    const agent = ownerOf(this.#core, owner, caller, writes)
    return { scope, owner: agent.index, store: this.#ofAgent(agent.index) }
  }

  #ofAgent(owner: number): StateStore {
    const store = this.#ofAgents.get(owner) ?? new StateStore()
    this.#ofAgents.set(owner, store)
    return store
  }

  /** Forgets what an agent has shared that has left: the next one in its place has none of it. */
  forget(owner: number): void {
    this.#ofAgents.delete(owner)
  }

  /** Puts a value in place that was written in an earlier process. */
  restore({ scope, owner, key, version, value }: Omit<SharedFact, 'kind'>): void {
    if (scope === 'team_shared') this.#ofTeam.restore(key, { version, value })
    else if (scope === 'persistent') this.#persistent.restore(key, { version, value })
    else if (owner !== undefined) this.#ofAgent(owner).restore(key, { version, value })
  }

  /** Yields every value, as the durable log has it. */
  *facts(): Iterable<SharedFact> {
    for (const [key, kept] of this.#ofTeam.entries()) yield factOf({ scope: 'team_shared' }, key, kept)
    for (const [key, kept] of this.#persistent.entries()) yield factOf({ scope: 'persistent' }, key, kept)
    for (const [owner, store] of this.#ofAgents)
      for (const [key, kept] of store.entries()) yield factOf({ scope: 'agent_shared', owner }, key, kept)
  }
}

interface Place {
  readonly scope: SharedScope
  readonly owner?: number
}

type SharedFact = Extract<Unrecorded, { kind: 'shared' }>

const factOf = (place: Place, key: string, { version, value }: Kept): SharedFact => ({
  kind: 'shared',
  ...place,
  key,
  version,
  value,
})

/** Returns the agent that owns the state. Throws if this caller may not use it. */
function ownerOf({ directory }: Core, owner: unknown, { agent, run }: HostCaller, writes: boolean): Agent {
  const { isAgent } = agent.settings
  if (owner === undefined && !isAgent) {
    const text = `context.shared: a protocol script has no agent_shared state. Name an agent to read that one's, or use 'team_shared'.`
    throw new ConfigurationError(text, { path: 'context.shared', agent: agent.name })
  }
  const name = owner ?? agent.name
  if (typeof name !== 'string') throw wrong('owner', name, 'the name of an agent')
  const found = directory.agent(name, run)
  if (!found?.settings.isAgent || found.removed) throw directory.unknown(name, run)
  if (found.index === agent.index) return found
  if (writes) throw notTheOwner(agent.name, name)
  if (!isAgent || found.settings.info.sharedWith?.includes(agent.name)) return found
  throw new ConfigurationError(
    `context.shared: agent "${agent.name}" may not read what "${name}" shares (agent_shared): it is not in sharedWith of that role. Add it there, or use 'team_shared'.`,
    { path: 'sharedWith', agent: agent.name, owner: name, accepted: found.settings.info.sharedWith ?? [] },
  )
}

function keyIn({ key }: Arguments): string {
  if (typeof key === 'string' && key !== '' && key.length <= LONGEST_KEY) return key
  throw wrong('key', key, `a string of 1 to ${LONGEST_KEY} characters`)
}

const isVersion = (value: unknown): value is number => Number.isSafeInteger(value) && Number(value) >= 0

function wrong(path: string, got: unknown, needed: string): MessageRejectedError {
  return new MessageRejectedError(`context.shared: ${path} is ${shown(got)}; ${needed} is needed.`, {
    path,
    got: shown(got),
  })
}
