import type { ModelClient, ModelPiece, ModelRequest } from '../actors/definition/model.ts'
import { isObject } from '../shared/checks.ts'
import { ConfigurationError, shown } from '../shared/errors.ts'
import { onAbort } from '../shared/on-abort.ts'
import { failedCall, failureOf, headersOf, SdkAnswer } from './answer.ts'
import { callOptionsOf } from './call-options.ts'
import type { AiSdkModel, CallableModel, CallOptions, PartStream, TakesUrl } from './prompt.ts'

/**
 * Makes a client of a language model of the AI SDK, for `models`: Anthropic, Gemini, Bedrock, Mistral, Ollama, and
 * whatever else has a provider package. Models of versions 3 and 4 of the provider specification are accepted.
 *
 * @example
 * import { anthropic } from '@ai-sdk/anthropic'
 * import { createTeam } from 'dramatis'
 * import { fromAiSdk } from 'dramatis/ai-sdk'
 *
 * const team = createTeam({
 *   agents: [{ name: 'writer', systemPrompt: 'You write.' }],
 *   orchestration: { strategy: 'sequential' },
 *   models: { default: fromAiSdk(anthropic('claude-sonnet-4-5')) },
 * })
 *
 * @throws ConfigurationError if it is no such model.
 */
export function fromAiSdk(model: AiSdkModel): ModelClient {
  check(model)
  const { provider, modelId } = model
  return { provider, modelId, complete: (request) => complete(model as CallableModel, request) }
}

const ACCEPTED = 'a language model of the AI SDK, specification version v3 or v4'

function check(model: unknown): void {
  const { specificationVersion, provider, modelId, doGenerate, doStream } = Object(model) as Record<string, unknown>
  const refuse = (got: string, advice: string): never => {
    const message = `fromAiSdk: got ${got}; accepted: ${ACCEPTED}. ${advice}`
    throw new ConfigurationError(message, { path: 'model', got, accepted: ACCEPTED })
  }
  const advice = "Give what a provider package makes of a model's name: anthropic('claude-sonnet-4-5')."
  if (!isObject(model) && typeof model !== 'function') refuse(shown(model), advice)
  if (specificationVersion !== 'v3' && specificationVersion !== 'v4')
    refuse(`specification version ${shown(specificationVersion)}`, 'Update its package, or this one.')
  if (typeof provider !== 'string' || typeof modelId !== 'string')
    refuse('a model without provider and modelId', advice)
  if (typeof doGenerate !== 'function' || typeof doStream !== 'function')
    refuse('a model without doGenerate and doStream', advice)
}

async function* complete(model: CallableModel, request: ModelRequest): AsyncGenerator<ModelPiece> {
  const { signal } = request
  signal.throwIfAborted()
  const left = new AbortController()
  const detach = onAbort(signal, () => left.abort(signal.reason))
  const call = failedCall({ provider: model.provider, model: request.model }, request)
  try {
    const { options, warnings } = callOptionsOf(request, model, await takesUrl(model))
    for (const warning of warnings) yield { warning }
    const answer = new SdkAnswer(call, request.stream === true)
    yield* answerTo(request, model, { ...options, abortSignal: left.signal }, answer)
    yield* answer.end()
  } catch (thrown) {
    signal.throwIfAborted()
    const { responseHeaders } = Object(thrown) as { responseHeaders?: unknown }
    if (responseHeaders) request.onHeaders?.(headersOf(responseHeaders))
    throw failureOf(thrown, call)
  } finally {
    detach()
    left.abort() // a body that nobody has read would keep its socket
  }
}

async function* answerTo(request: ModelRequest, model: CallableModel, options: CallOptions, answer: SdkAnswer) {
  if (!request.stream) {
    const generated = await model.doGenerate(options)
    request.onHeaders?.(headersOf(generated.response?.headers))
    yield* answer.takeWhole({ ...generated }, options.responseFormat !== undefined)
    return
  }
  const { stream, response } = await model.doStream(options)
  request.onHeaders?.(headersOf(response?.headers))
  for await (const part of partsOf(stream)) yield* answer.take(part)
}

async function takesUrl(model: CallableModel): Promise<TakesUrl> {
  const supported = Object.entries((await model.supportedUrls) ?? {})
  const isOneOf = (url: string, urls: readonly RegExp[]) => urls.some((known) => new RegExp(known).test(url))
  return (url, mediaType) =>
    supported.some(([pattern, urls]) => fits(mediaType, pattern) && isOneOf(url.toLowerCase(), urls))
}

/** Checks whether a media type fits a pattern: a whole type, one kind of it, or any. */
function fits(mediaType: string, pattern: string): boolean {
  if (pattern === '*' || pattern === '*/*') return true
  const [kind] = pattern.split('/')
  return pattern === mediaType || (pattern.endsWith('/*') && mediaType.startsWith(`${kind}/`))
}

/** Yields the parts of a stream, and cancels it if the caller leaves before its end. */
async function* partsOf(stream: PartStream): AsyncGenerator<unknown> {
  const reader = stream.getReader()
  let isOver = false
  try {
    for (;;) {
      const { done, value } = await reader.read()
      isOver = done
      if (done) return
      yield value
    }
  } finally {
    if (!isOver) reader.cancel().catch(() => {}) // the call is over; a failure of its stream concerns nobody
  }
}

/**
 * `dramatis/ai-sdk`: language models of the AI SDK as models of a team. No package of the AI SDK is imported here: the
 * user brings the provider packages.
 */
export type { AiSdkModel } from './prompt.ts'
