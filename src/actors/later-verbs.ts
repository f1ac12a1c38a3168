/** The verbs of the contract that this version does not have: each says so in one clear error. */
import { unavailable } from '../errors.ts'
import type { SharedState } from './context.ts'

export abstract class LaterVerbs {
  shared(_scope: string, _owner?: string): SharedState {
    throw unavailable('context.shared')
  }
}
