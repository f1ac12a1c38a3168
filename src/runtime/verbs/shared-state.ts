/** Host side of `context.shared`: the access rules of each state, and how long each lasts. */

import type { SharedScope } from '../../actors/definition/context/context.ts'
import type { Verb } from '../../actors/definition/trust.ts'
import { type Kept, notTheOwner, SHARED_SCOPES, type Written } from '../../actors/turn/shared-state.ts'
import { LONGEST_KEY } from '../../blackboard/pattern.ts'
import { ConfigurationError, MessageRejectedError, shown } from '../../errors.ts'
import type { Unrecorded } from '../log/records.ts'
import type { AgentDirectory } from '../state/agent-directory.ts'
import type { Cell } from '../state/cell.ts'
import type { Journal } from '../state/journal.ts'
import type { HostCaller, HostVerb } from './host-verb.ts'
import type { PersistentFile } from './persistent-file.ts'
import { StateStore } from './state-store.ts'

interface Needs {
  readonly directory: AgentDirectory
  readonly journal: Pick<Journal, 'keep'>
  /** File of the state 'persistent'; undefined: it is in the log, if the team has one. */
  readonly file: PersistentFile | undefined
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
  readonly #needs: Needs
  readonly #ofTeam = new StateStore()
  readonly #persistent = new StateStore()
  /** Stores by the index of the agent. An agent of the log that is not there yet has its own, too. */
  readonly #ofAgents = new Map<number, StateStore>()

  constructor(needs: Needs) {
    this.#needs = needs
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
    const { file } = this.#needs
    return file && scope === 'persistent' ? file.use(store, read, () => false) : read()
  }

  #update(given: Arguments, caller: HostCaller): Written | Promise<Written> {
    const { ifVersion, value } = given
    const { store, ...place } = this.#storeFor(given, caller, true)
    if (!isVersion(ifVersion)) throw wrong('ifVersion', ifVersion, 'a whole number from 0 on')
    if (value === undefined) throw wrong('value', value, 'a JSON value')
    const key = keyIn(given)
    const { file } = this.#needs
    if (file && place.scope === 'persistent')
      return file.use(
        store,
        () => store.write(key, ifVersion, value),
        ({ done }) => done,
      )
    const written = store.write(key, ifVersion, value)
    if (written.done) this.#needs.journal.keep(undefined, factOf(place, key, written))
    return written
  }

  #storeFor({ scope, owner }: Arguments, caller: HostCaller, writes: boolean): Place & { store: StateStore } {
    if (scope === 'team_shared') return { scope, store: this.#ofTeam }
    if (scope === 'persistent') return { scope, store: this.#persistent }
    if (scope !== 'agent_shared') throw wrong('scope', scope, `one of ${SHARED_SCOPES.join(', ')}`)
    const cell = ownerOf(this.#needs, owner, caller, writes)
    return { scope, owner: cell.index, store: this.#ofAgent(cell.index) }
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
  /** Index of the agent whose own it is. */
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
function ownerOf(needs: Needs, owner: unknown, { cell, run }: HostCaller, writes: boolean): Cell {
  const { isAgent } = cell.settings
  if (owner === undefined && !isAgent) {
    const text = `context.shared: a protocol script has no agent_shared state. Name an agent to read that one's, or use 'team_shared'.`
    throw new ConfigurationError(text, { path: 'context.shared', agent: cell.name })
  }
  const name = owner ?? cell.name
  if (typeof name !== 'string') throw wrong('owner', name, 'the name of an agent')
  const found = needs.directory.cell(name, run)
  if (!found?.settings.isAgent || found.removed) throw needs.directory.unknown(name, run)
  if (found.index === cell.index) return found
  if (writes) throw notTheOwner(cell.name, name)
  if (!isAgent || found.settings.info.sharedWith?.includes(cell.name)) return found
  throw new ConfigurationError(
    `context.shared: agent "${cell.name}" may not read what "${name}" shares (agent_shared): it is not in sharedWith of that role. Add it there, or use 'team_shared'.`,
    { path: 'sharedWith', agent: cell.name, owner: name, accepted: found.settings.info.sharedWith ?? [] },
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
