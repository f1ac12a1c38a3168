/** The verbs that ask a model: one call, or the loop of calls and tools. */
import type { Completion, CompletionRequest } from '../definition/model.ts'
import { handled } from '../definition/promises.ts'
import { complete } from '../model/complete.ts'
import { type Background, type Thinking, type ThoughtAloud, thinkAloud } from '../model/think.ts'
import type { ThinkingTurn } from '../model/thinking-turn.ts'
import { SharedVerbs } from './shared-verbs.ts'

export abstract class ModelVerbs extends SharedVerbs {
  /** The turn, as these verbs see it. */
  protected abstract readonly thinking: ThinkingTurn

  complete<T = undefined>(request: CompletionRequest<T>): Promise<Completion<T>> {
    return handled(complete(this.thinking, request))
  }
  think<T = undefined>(request: string | Thinking<T>): Promise<Completion<T>> {
    return handled(thinkAloud(this.thinking, request).then(({ completion }) => completion))
  }
  /** The same with what was said on the way, for the definition that plays roles without code. */
  thinkAloud<T = undefined>(request: Thinking<T>, background: Background): Promise<ThoughtAloud<T>> {
    return handled(thinkAloud(this.thinking, request, background))
  }
}
