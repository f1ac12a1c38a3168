/** The verbs of the contract that this version does not have: each says so in one clear error. */
import { unavailable } from '../errors.ts'
import type { SharedState } from './context.ts'
import { rejected } from './handled.ts'
import type { Completion } from './model.ts'

export abstract class LaterVerbs {
  shared(_scope: string, _owner?: string): SharedState {
    throw unavailable('context.shared')
  }
  complete<T>(): Promise<Completion<T>> {
    return rejected(unavailable('context.complete'))
  }
  think<T>(): Promise<Completion<T>> {
    return rejected(unavailable('context.think'))
  }
  tool(): Promise<never> {
    return rejected(unavailable('context.tool'))
  }
}
