/**
 * Holds the uncommitted state changes of a turn: they are applied at its commit, or discarded if it fails.
 *
 * If another turn of the agent (nested in it, around it, or while it waited for a person) has committed meanwhile, the
 * changes are made again on the new state. So no change is lost, and none is based on an outdated state.
 */
import { enablePatches, freeze, type Patch, produceWithPatches } from 'immer'
import { MAX_CONCURRENCY } from '../../mailbox/channel.ts'
import { jsonIssue } from '../../mailbox/message.ts'
import { ConfigurationError, MessageRejectedError } from '../../shared/errors.ts'
import type { Assignment } from '../definition/assignment.ts'
import { checkFunction, checkName, notJson, wrongArgument } from '../definition/checks.ts'
import type { SharedScope, SharedState } from '../definition/context.ts'
import type { AgentHandlers } from '../definition/definition.ts'
import { handled, quiet } from '../definition/promises.ts'
import { checkBySchema } from '../definition/schema.ts'
import type { Schema } from '../definition/tool.ts'
import { deepFreeze } from './run-views.ts'

enablePatches()

/** The next value of one state, and the patches by which the host repeats the change. */
export interface Draft {
  readonly value: object
  readonly patches: readonly Patch[]
}

/** Makes the next value of a state out of the current one. */
export type Change = (current: object) => Draft

/** An uncommitted draft: the state it is based on, and the changes that led to its value. */
interface OpenDraft extends Draft {
  readonly base: object
  readonly changes: readonly Change[]
}

export class Drafts {
  readonly #open: { state?: OpenDraft; runState?: OpenDraft } = {}

  /**
   * Returns the turn's changes based on the current state; undefined if it changes nothing.
   *
   * @throws the error of a change that is made again.
   */
  of(scope: StateScope, current: object): Draft | undefined {
    const draft = this.#onto(scope, current)
    return draft && draft.patches.length > 0 ? draft : undefined
  }

  /**
   * Changes the current state.
   *
   * @throws MessageRejectedError for a value that is no JSON, with its path; the state is unchanged then.
   */
  change(scope: StateScope, current: object, change: Change): void {
    this.#open[scope] = after(this.#onto(scope, current) ?? unchanged(current), scope, change)
  }

  #onto(scope: StateScope, current: object): OpenDraft | undefined {
    const draft = this.#open[scope]
    if (!draft || draft.base === current) return draft
    const again = draft.changes.reduce((made, change) => after(made, scope, change), unchanged(current))
    this.#open[scope] = again
    return again
  }
}

const unchanged = (base: object): OpenDraft => ({ base, value: base, patches: [], changes: [] })

function after(
  { base, value: before, patches: earlier, changes }: OpenDraft,
  scope: string,
  change: Change,
): OpenDraft {
  const { value, patches } = change(before)
  for (const patch of patches) {
    if (patch.op === 'remove') continue
    const issue = jsonIssue(patch.value, [scope, ...patch.path].join('.'))
    if (issue) throw notJson(issue)
  }
  return { base, value: deepFreeze(value), patches: [...earlier, ...patches], changes: [...changes, change] }
}

export const byRecipe =
  (scope: StateScope, recipe: (draft: object) => void): Change =>
  (current) =>
    changed(scope, current, recipe)

function changed(scope: StateScope, current: object, recipe: (draft: object) => void): Draft {
  checkFunction(recipe, `the recipe of ${scope}`)
  const [value, patches] = produceWithPatches(current, (draft) => {
    const made: unknown = recipe(draft)
    if (!(made instanceof Promise)) return made as void
    handled(made) // the draft is revoked before the recipe continues
    const text = `The recipe of ${scope} is asynchronous; await first, then change ${scope} at once.`
    throw new MessageRejectedError(text, { path: scope })
  })
  if (typeof value !== 'object' || value === null) throw wrongArgument(scope, value, 'an object is needed')
  return { value, patches: patches.map((patch) => repeatable(patch, value)) }
}

const RESERVED: readonly (string | number)[] = ['constructor', '__proto__']

/**
 * Replaces the value of a reserved key as a whole, because immer applies no patch inside of such a key. A word list,
 * for example, can have such keys.
 */
function repeatable(patch: Patch, value: object): Patch {
  const at = patch.path.slice(0, -1).findIndex((key) => RESERVED.includes(key))
  if (at < 0) return patch
  const path = patch.path.slice(0, at + 1)
  return { op: 'replace', path, value: path.reduce<unknown>((inside, key) => Reflect.get(Object(inside), key), value) }
}

export const SHARED_SCOPES: readonly SharedScope[] = ['agent_shared', 'team_shared', 'persistent']

/** Maximum number of attempts of an update. An attempt fails only if another update has succeeded meanwhile. */
const MOST_TRIES = 1_000

/** The host's answer for a key. An unwritten key has version 0 and no value. */
export interface Kept {
  version: number
  value?: unknown
}

/** Result of a write, and the current value. */
export type Written = Kept & { done: boolean }

/** Identifies a state to the host. */
interface Place {
  scope: SharedScope
  owner?: string
}

/** Calls the host. `alike` holds the arguments by which a later attempt recognizes the call. */
type Call = (operation: string, args: object, signal?: AbortSignal, alike?: object) => Promise<unknown>

export class SharedStates {
  readonly #agent: string
  readonly #call: Call
  /** The last update per key. The next update of the same turn waits for it, since both would only conflict. */
  readonly #updates = new Map<string, Promise<unknown>>()

  constructor(agent: string, call: Call) {
    this.#agent = agent
    this.#call = call
  }

  of(scope: SharedScope, owner?: string): SharedState {
    const place = placeOf(scope, owner)
    return {
      get: <T>(key: string, schema?: Schema<unknown, T>) => handled(this.#get(place, key, schema)),
      update: <T>(key: string, change: (value: T | undefined) => T) => handled(this.#inLine(place, key, change)),
    }
  }

  async #get<T>(place: Place, key: string, schema: Schema<unknown, T> | undefined): Promise<T | undefined> {
    const { value } = (await this.#call('shared.get', { ...place, key })) as Kept
    if (value === undefined || !schema) return freeze(value as T | undefined, true)
    return checkBySchema(schema, value, (issues) => {
      const text = `The value of "${key}" (${place.scope}) does not have the expected shape: ${issues}`
      return new MessageRejectedError(text, { key, scope: place.scope, issues })
    })
  }

  async #inLine<T>(place: Place, key: string, change: (value: T | undefined) => T): Promise<T> {
    checkFunction(change, 'change')
    if (place.owner !== undefined && place.owner !== this.#agent) throw notTheOwner(this.#agent, place.owner)
    const line = JSON.stringify([place.scope, key])
    const mine = (this.#updates.get(line) ?? Promise.resolve()).then(() => this.#update(place, key, change))
    this.#updates.set(line, mine.catch(quiet))
    return mine
  }

  /**
   * Reads the value, changes it, and writes it unless another agent has written meanwhile. A redelivered turn
   * recognizes each of its writes by the version that the write was for. So the change is not made twice, even if it
   * now yields another value.
   */
  async #update<T>(place: Place, key: string, change: (value: T | undefined) => T): Promise<T> {
    // `toUpdate` distinguishes this read from the handler's own reads, so that a redelivered turn finds it in the log.
    let found = (await this.#call('shared.get', { ...place, key, toUpdate: true })) as Kept
    for (let tries = 0; tries < MOST_TRIES; tries++) {
      const value = change(freeze(found.value as T | undefined, true))
      if (value === undefined)
        throw wrongArgument('change(value)', value, 'the new value is needed, null where there is nothing to keep')
      const which = { ...place, key, ifVersion: found.version }
      const answer = (await this.#call('shared.update', { ...which, value }, undefined, which)) as Written
      if (answer.done) return freeze(answer.value as T, true)
      found = answer
    }
    throw new MessageRejectedError(
      `Others changed "${key}" (${place.scope}) before this update ${MOST_TRIES} times in succession. Let fewer agents change one key, or each a key of its own.`,
      { key, scope: place.scope, tries: MOST_TRIES },
    )
  }
}

function placeOf(scope: SharedScope, owner: string | undefined): Place {
  if (!SHARED_SCOPES.includes(scope))
    throw wrongArgument('scope', scope, `one of ${SHARED_SCOPES.join(', ')} is needed`)
  if (owner === undefined) return { scope }
  checkName(owner, 'owner')
  if (scope === 'agent_shared') return { scope, owner }
  throw wrongArgument('owner', owner, `${scope} is nobody's own; leave it out, or use 'agent_shared'`)
}

/** Returns the error for a write to the state of another agent. */
export function notTheOwner(agent: string, owner: string): ConfigurationError {
  const text = `context.shared: agent "${agent}" may not change what is "${owner}"'s (agent_shared): its owner alone does. Ask "${owner}" to, or use 'team_shared'.`
  return new ConfigurationError(text, { path: 'context.shared', agent, owner })
}

/*
 * Defines which states an agent may have. A state is kept in the agent's thread and committed with a turn. If two turns
 * that share a state were open at once, the second would overwrite the changes of the first. Such a use is refused, so
 * that no change is silently lost.
 */

export type StateScope = 'state' | 'runState'

const INITIAL = { state: 'initialState', runState: 'initialRunState' } as const

export class StateRules {
  readonly #agent: string
  readonly #option: string
  readonly #concurrency: number
  readonly #instances: number

  constructor({ role, option, concurrency, instances }: Assignment) {
    this.#agent = role.name
    this.#option = option
    this.#concurrency = concurrency > MAX_CONCURRENCY ? 1 : concurrency // a protocol script keeps its state in its run
    this.#instances = instances
  }

  /**
   * Checks the states that a definition declares.
   *
   * @throws ConfigurationError for a state that the agent may not have.
   */
  check(handlers: AgentHandlers): void {
    for (const scope of ['state', 'runState'] as const)
      if (handlers[INITIAL[scope]] !== undefined) this.assertMay(scope, INITIAL[scope])
  }

  /**
   * Checks a handler's access to a state; `use` names the access.
   *
   * @throws ConfigurationError if the agent may not have that state.
   */
  assertMay(scope: StateScope, use: string): void {
    if (this.#instances > 1) throw this.#refused('instances', this.#instances, use, 'are threads of their own')
    if (scope === 'state' && this.#concurrency > 1)
      throw this.#refused('concurrency', this.#concurrency, use, 'may have turns open at once')
  }

  #refused(option: 'instances' | 'concurrency', got: number, use: string, why: string): ConfigurationError {
    const path = `${this.#option}.${option}`
    const who =
      option === 'instances'
        ? `the ${got} instances of agent "${this.#agent}"`
        : `${got} runs of agent "${this.#agent}"`
    const instead = option === 'instances' ? 'the blackboard' : 'the state of the run (setRunState) or the blackboard'
    return new ConfigurationError(
      `${path}: ${who} ${why}, so they share no state and ${use} is refused. Accepted with it: 1. Or keep what you know on ${instead}.`,
      { path, agent: this.#agent, got, accepted: '1', use },
    )
  }
}
