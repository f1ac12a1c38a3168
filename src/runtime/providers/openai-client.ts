/**
 * The client of a provider, as a team that may never call one has it: what speaks with the provider (chat-client.ts) is
 * loaded by the first call, since the `openai` package and the schemas of its answers take as long to load as all the
 * rest.
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
