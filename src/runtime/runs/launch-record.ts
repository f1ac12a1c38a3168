/** The record of a run's launch in a durable log. */
import type { Launched } from '../log/records.ts'
import type { RunState } from '../state/run-state.ts'

/** Returns the record that a later process needs to go on with a run. */
export function launchedOf(
  {
    id,
    query,
    startedAt,
    metadata,
    threadId,
    models,
    budget,
    streams,
    messages,
    output,
    traceHeaders,
    parts,
  }: RunState,
  rest: Pick<Launched, 'timeoutMs' | 'priority' | 'target' | 'own' | 'script'>,
): Launched & { kind: 'run.launched' } {
  const options = {
    ...(threadId !== undefined && { threadId }),
    ...(budget && { budget }),
    ...(streams && { streams }),
    ...(output?.logged && { output: output.logged }),
    ...(messages.length > 0 && { messages }),
    ...(traceHeaders && { traceHeaders }),
    ...(parts && { parts }),
  }
  return { kind: 'run.launched', id, query, startedAt, metadata, models, ...options, ...rest }
}
