/** How the tests of models ask one. */
import type { ModelClient, ModelPiece, ModelRequest } from '../../../src/actors/definition/model.ts'
import { Redactor } from '../../../src/runtime/logging/redactor.ts'
import { fixedKey, type Provider } from '../../../src/runtime/providers/provider.ts'
import { openaiClient } from '../../../src/runtime/providers/provider-clients.ts'
import { systemClock } from '../../../src/shared/clock.ts'
import { ModelError } from '../../../src/shared/errors.ts'

export const KEY = 'test-key-0123456789'

/** A client of that server, without patience. */
export function clientOf(server: { baseURL: string }, more: Partial<Provider> = {}): ModelClient {
  const redactor = new Redactor()
  const key = fixedKey(KEY, 'the variable TEST_KEY', 'models.test', redactor)
  return openaiClient({ baseURL: server.baseURL, key, redactor, clock: systemClock, ...more })
}

export function request(more: Partial<ModelRequest> = {}): ModelRequest {
  return {
    model: 'small',
    messages: [{ role: 'user', content: 'What is the answer to all of it?' }],
    signal: new AbortController().signal,
    ...more,
  }
}

/** Both ways of asking: in one piece, and as a stream. */
export const BOTH = [{ stream: false }, { stream: true }] as const

export async function piecesOf(client: ModelClient, more: Partial<ModelRequest> = {}): Promise<ModelPiece[]> {
  const pieces: ModelPiece[] = []
  for await (const piece of client.complete(request(more))) pieces.push(piece)
  return pieces
}

/** The text of the whole answer. */
export async function textOf(client: ModelClient, more: Partial<ModelRequest> = {}): Promise<string> {
  return (await piecesOf(client, more)).map(({ text = '' }) => text).join('')
}

/** The error that the call ends with. */
export async function errorOf(client: ModelClient, more: Partial<ModelRequest> = {}): Promise<ModelError> {
  const outcome: unknown = await piecesOf(client, more).catch((error: unknown) => error)
  if (outcome instanceof ModelError) return outcome
  throw new Error(`a ModelError was due, and there was ${outcome}`)
}
