/**
 * Client for providers that speak OpenAI's Responses API. The client makes one attempt: retries.ts repeats calls,
 * provider-queue.ts delays them. client.ts loads this file with the first call.
 */
import type { OpenAI } from 'openai'
import type { ModelClient, ModelPiece, ModelRequest } from '../../../actors/definition/model.ts'
import type { Provider } from '../provider.ts'
import { type CallSettings, OpenAICaller } from './caller.ts'
import { ResponsesAnswer } from './responses-answer.ts'
import { responsesRequest, warningsOf } from './responses-request.ts'

export class ResponsesClient implements ModelClient {
  readonly #caller: OpenAICaller

  constructor(provider: Provider) {
    this.#caller = new OpenAICaller(provider, 'the Responses API')
  }

  complete(request: ModelRequest): AsyncGenerator<ModelPiece> {
    return this.#caller.call(request, (sdk, settings) => this.#ask(sdk, request, settings))
  }

  async *#ask({ responses }: OpenAI, request: ModelRequest, settings: CallSettings): AsyncGenerator<ModelPiece> {
    const body = responsesRequest(request)
    const answer = new ResponsesAnswer(this.#caller.failedCall(request).asked)
    for (const warning of warningsOf(request)) yield { warning }
    const { response, data } = request.stream
      ? await responses.create({ ...body, stream: true }, settings).withResponse()
      : { response: await responses.create({ ...body, stream: false }, settings).asResponse(), data: undefined }
    for await (const json of this.#caller.jsonOf(response, data, request)) yield* answer.take(json)
    yield* answer.end()
  }
}
