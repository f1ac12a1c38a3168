/** Host side of `context.shared`: the access rules of each state, and how long each lasts. */
import type { Verb } from '../../actors/definition/trust.ts'
import { notTheOwner, SHARED_SCOPES } from '../../actors/turn/shared-state.ts'
import { LONGEST_KEY } from '../../blackboard/pattern.ts'
import { ConfigurationError, MessageRejectedError, shown } from '../../errors.ts'
import type { AgentDirectory } from '../state/agent-directory.ts'
import type { Cell } from '../state/cell.ts'
import type { HostCaller, HostVerb } from './host-verb.ts'
import { MemoryStore, type StateStore } from './state-store.ts'

interface Needs {
  readonly directory: AgentDirectory
}

/** Arguments from a thread: they can be anything. */
interface Arguments {
  scope?: unknown
  owner?: unknown
  key?: unknown
  ifVersion?: unknown
  value?: unknown
}

/** Returns the verbs of a team. `persistent` is kept in the same place as the team's log. */
export function sharedStateVerbs(needs: Needs, persistent: StateStore): [operation: Verb, verb: HostVerb][] {
  const ofTeam = new MemoryStore()
  /** Stores by agent. An agent that is added again under an old name has none of the old agent's values. */
  const ofAgents = new WeakMap<Cell, StateStore>()

  const ofAgent = (owner: Cell) => {
    const store = ofAgents.get(owner) ?? new MemoryStore()
    ofAgents.set(owner, store)
    return store
  }

  const storeFor = ({ scope, owner }: Arguments, caller: HostCaller, writes: boolean): StateStore => {
    if (scope === 'team_shared') return ofTeam
    if (scope === 'persistent') return persistent
    if (scope === 'agent_shared') return ofAgent(ownerOf(needs, owner, caller, writes))
    throw wrong('scope', scope, `one of ${SHARED_SCOPES.join(', ')}`)
  }

  return [
    [
      'shared.get',
      async (args, caller) => {
        const given = args as Arguments
        return storeFor(given, caller, false).read(keyIn(given))
      },
    ],
    [
      'shared.update',
      async (args, caller) => {
        const given = args as Arguments
        const { ifVersion, value } = given
        const store = storeFor(given, caller, true)
        if (!isVersion(ifVersion)) throw wrong('ifVersion', ifVersion, 'a whole number from 0 on')
        if (value === undefined) throw wrong('value', value, 'a JSON value')
        return store.write(keyIn(given), ifVersion, value)
      },
    ],
  ]
}

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
