/** State that several agents read and change: `context.shared`. Each use is a call to the host and a logged step. */
import { freeze } from 'immer'
import { ConfigurationError, MessageRejectedError } from '../../errors.ts'
import { checkFunction, checkName, wrongArgument } from '../definition/checks.ts'
import type { SharedScope, SharedState } from '../definition/context/context.ts'
import { handled, quiet } from '../definition/promises.ts'
import { checkBySchema } from '../definition/schema.ts'
import type { Schema } from '../definition/tool.ts'

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
