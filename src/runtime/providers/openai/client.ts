/**
 * Client of a provider that loads chat-client.ts or responses-client.ts on its first call. The `openai` package and the
 * schemas of its answers take as long to load as the rest of the runtime, and a team may never call a provider.
 */
import type { ModelClient, ModelPiece, ModelRequest } from '../../../actors/definition/model.ts'
import type { Api, Provider } from '../provider.ts'

export function openaiClient(provider: Provider, api: Api = 'chat'): ModelClient {
  return new OpenAIClient(provider, api)
}

class OpenAIClient implements ModelClient {
  readonly #provider: Provider
  readonly #api: Api
  #client: ModelClient | undefined

  constructor(provider: Provider, api: Api) {
    this.#provider = provider
    this.#api = api
  }

  async *complete(request: ModelRequest): AsyncGenerator<ModelPiece> {
    request.signal.throwIfAborted()
    const client = await this.#made()
    yield* client.complete(request)
  }

  async #made(): Promise<ModelClient> {
    if (this.#client) return this.#client
    if (this.#api === 'responses') {
      const { ResponsesClient } = await import('./responses-client.ts')
      this.#client ??= new ResponsesClient(this.#provider)
    } else {
      const { ChatClient } = await import('./chat-client.ts')
      this.#client ??= new ChatClient(this.#provider)
    }
    return this.#client
  }
}
