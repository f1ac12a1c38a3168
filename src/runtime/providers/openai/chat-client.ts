/**
 * Client for providers that speak OpenAI's chat completions: OpenAI itself, Gemini, Ollama, vLLM, LM Studio, by
 * `baseURL`. The client makes one attempt: retries.ts repeats calls, provider-queue.ts delays them. client.ts
 * loads this file with the first call.
 */
import type { OpenAI } from 'openai'
import type { ModelClient, ModelPiece, ModelRequest } from '../../../actors/definition/model.ts'
import type { Provider } from '../provider.ts'
import { type CallSettings, OpenAICaller } from './caller.ts'
import { ChatAnswer } from './chat-answer.ts'
import { chatRequest, tokensFieldOf } from './chat-request.ts'

export class ChatClient implements ModelClient {
  readonly #provider: Provider
  readonly #caller: OpenAICaller

  constructor(provider: Provider) {
    this.#provider = provider
    this.#caller = new OpenAICaller(provider, 'chat completions')
  }

  complete(request: ModelRequest): AsyncGenerator<ModelPiece> {
    return this.#caller.call(request, (sdk, settings) => this.#ask(sdk, request, settings))
  }

  async *#ask({ chat }: OpenAI, request: ModelRequest, settings: CallSettings): AsyncGenerator<ModelPiece> {
    const { baseURL } = this.#provider
    const origin = `${baseURL} ${request.model}`
    const body = chatRequest(request, origin, tokensFieldOf(new URL(baseURL)))
    const answer = new ChatAnswer(this.#caller.failedCall(request).asked, origin, request.giveBack)
    const streamed = { ...body, stream: true, stream_options: { include_usage: true } } as const
    const { response, data } = request.stream
      ? await chat.completions.create(streamed, settings).withResponse()
      : { response: await chat.completions.create({ ...body, stream: false }, settings).asResponse(), data: undefined }
    for await (const json of this.#caller.jsonOf(response, data, request)) yield* answer.take(json)
    yield* answer.end()
  }
}
