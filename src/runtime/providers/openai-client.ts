/**
 * Client of a provider that loads chat-client.ts on its first call. The `openai` package and the schemas of its answers
 * take as long to load as the rest of the runtime, and a team may never call a provider.
 */
import type { ModelClient, ModelPiece, ModelRequest } from '../../actors/definition/model.ts'
import type { Provider } from './provider.ts'

export function openaiClient(provider: Provider): ModelClient {
  return new OpenAIClient(provider)
}

class OpenAIClient implements ModelClient {
  readonly #provider: Provider
  #client: ModelClient | undefined

  constructor(provider: Provider) {
    this.#provider = provider
  }

  async *complete(request: ModelRequest): AsyncGenerator<ModelPiece> {
    request.signal.throwIfAborted()
    const { ChatClient } = await import('./chat-client.ts')
    this.#client ??= new ChatClient(this.#provider)
    yield* this.#client.complete(request)
  }
}
