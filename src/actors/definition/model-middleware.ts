import { ConfigurationError, shown } from '../../shared/errors.ts'
import type { ModelClient, ModelPiece, ModelRequest } from './model.ts'

/**
 * Code around each call of a model. `next` makes the call. Middleware can change the request or the pieces of the
 * answer, answer by itself, or refuse: what it throws is the failure of the call. A retried call passes it again.
 */
export type ModelMiddleware = (
  request: ModelRequest,
  next: (request: ModelRequest) => AsyncIterable<ModelPiece>,
) => AsyncIterable<ModelPiece>

/**
 * Puts middleware around a client, the first outermost.
 *
 * @example
 * import { textOf, wrapModel } from 'dramatis/models'
 *
 * const polite = wrapModel(client, async function* (request, next) {
 *   const last = request.messages.at(-1)
 *   const content = `Please: ${textOf(last?.content ?? '')}`
 *   yield* next({ ...request, messages: [...request.messages.slice(0, -1), { role: 'user', content }] })
 * })
 *
 * @throws ConfigurationError if it is no client, or if the middleware is no function.
 */
export function wrapModel(client: ModelClient, middleware: ModelMiddleware | readonly ModelMiddleware[]): ModelClient {
  if (typeof Object(client).complete !== 'function') throw refused('client', client, 'an object with a method complete')
  const layers: readonly ModelMiddleware[] = Array.isArray(middleware) ? middleware : [middleware]
  for (const layer of layers)
    if (typeof layer !== 'function') throw refused('middleware', layer, 'a function, or a list of functions')
  const { rehearsal, offline, provider, modelId } = client
  const innermost: ModelClient['complete'] = (request) => client.complete(request)
  const complete = layers.reduceRight<ModelClient['complete']>(
    (next, layer) => (request) => layer(request, next),
    innermost,
  )
  return {
    ...(rehearsal !== undefined && { rehearsal }),
    ...(offline !== undefined && { offline }),
    ...(provider !== undefined && { provider }),
    ...(modelId !== undefined && { modelId }),
    ...(client.embed && { embed: client.embed.bind(client) }),
    complete,
  }
}

function refused(path: string, value: unknown, accepted: string): ConfigurationError {
  return new ConfigurationError(`wrapModel: ${path} is ${shown(value)}; accepted: ${accepted}.`, {
    path,
    got: shown(value),
    accepted,
  })
}
