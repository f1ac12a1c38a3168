/** Calls a real model in a rehearsal: virtual time stands still until it has answered. */
import type { ModelClient, ModelPiece, ModelRequest } from '../../../actors/definition/model.ts'
import { systemClock } from '../../../clock.ts'
import { ModelError } from '../../../errors.ts'
import { onAbort } from '../../../on-abort.ts'
import { endless, MOST_CHARACTERS, piecesOf } from '../../providers/collect.ts'
import { RETRY_POLICY } from '../../providers/retry-policy.ts'
import type { Outside } from './outside.ts'

const BEAT_MS = 1_000

/** Pieces of an answer before its end, and the error with which it failed, if it did. */
interface Told {
  readonly pieces: readonly ModelPiece[]
  readonly failure?: { readonly error: unknown }
}

/**
 * Returns a client that answers in real time. `beat`: called while it works, so that the thread does not look stuck.
 */
export function inRealTime(client: ModelClient, outside: Outside, beat: () => void): ModelClient {
  return {
    async *complete(request) {
      const { pieces, failure } = await outside(told(client, request, beat))
      yield* pieces
      if (failure) throw failure.error
    },
  }
}

async function told(client: ModelClient, request: ModelRequest, beat: () => void): Promise<Told> {
  request.signal.throwIfAborted()
  const pieces: ModelPiece[] = []
  const end = new AbortController()
  const detach = onAbort(request.signal, () => end.abort(request.signal.reason))
  const beats = setInterval(beat, BEAT_MS)
  const { deadlineMs } = RETRY_POLICY
  const late = `The model "${request.model}" has not answered within ${deadlineMs} ms of real time.`
  const deadline = systemClock.timer(deadlineMs, () => end.abort(new ModelError(late, { retryable: false })), true)
  const ended = new Promise<never>((_, reject) => void onAbort(end.signal, () => reject(end.signal.reason)))
  try {
    await Promise.race([ended, read(client, { ...request, clock: systemClock, signal: end.signal }, pieces)])
    return { pieces }
  } catch (error) {
    return { pieces, failure: { error } }
  } finally {
    detach()
    clearInterval(beats)
    deadline.cancel()
  }
}

async function read(client: ModelClient, request: ModelRequest, pieces: ModelPiece[]): Promise<void> {
  let size = 0
  for await (const piece of piecesOf(client, request)) {
    pieces.push(piece)
    const { text } = Object(piece) as { text?: unknown } // a client can be anyone's
    if (typeof text === 'string') size += text.length
    if (size > MOST_CHARACTERS) throw endless()
  }
}
