/** Histories of tasks: the digest of each, folded. Those that are open are asked for again as they go on. */
import { type Signal, signal } from '@preact/signals'
import { useEffect } from 'preact/hooks'
import type { Digest } from '../../../../runtime/digest/digest-line.ts'
import { DigestFold } from '../../../digest/digest-fold.ts'
import { begun, live, version } from './live.ts'
import { lines } from './service.ts'
import { tasks } from './tasks.ts'

export interface RunFold {
  readonly fold: DigestFold
  /** Why it could not be had. */
  readonly failure: string
}

interface Kept {
  readonly found: Signal<RunFold | undefined>
  /** Sum of all that was known of the run when it was asked for. */
  key: string
  isBusy: boolean
  nextAt: number
}

const MOST_KEPT = 24
/** A digest is asked for again after so many times what it took. */
const SHARE = 6
const LEAST_PAUSE_MS = 500

const kept = new Map<string, Kept>()

/** Returns what happened in a task; undefined as long as it is not there. */
export function useRunFold(id: string | undefined): RunFold | undefined {
  version.value
  const key = id === undefined ? '' : keyOf(id)
  useEffect(() => {
    if (id !== undefined) keep(id)
  }, [id, key])
  return id === undefined ? undefined : of(id).found.value
}

/** Returns what happened in a task, as far as it was asked for. */
export const knownFold = (id: string): DigestFold | undefined => of(id).found.value?.fold

function of(id: string): Kept {
  let found = kept.get(id)
  if (!found) {
    found = { found: signal(undefined), key: '', isBusy: false, nextAt: 0 }
    kept.set(id, found)
    for (const oldest of [...kept.keys()].slice(0, Math.max(0, kept.size - MOST_KEPT))) kept.delete(oldest)
  }
  return found
}

/** Names what is known of a run: when it changes, there is more to ask for. */
function keyOf(id: string): string {
  const run = live().runs.get(id)
  const summary = tasks.value.find((task) => task.id === id)
  return `${begun.value} ${run?.messages} ${run?.tokens} ${run?.endedAt} ${run?.status} ${summary?.status}`
}

/** Asks for a task's digest, if there is something new. */
export function keep(id: string): void {
  const entry = of(id)
  const known = entry.found.peek()?.fold
  if (entry.isBusy || known?.runs.get(id)?.endedAt || (known && entry.key === keyOf(id))) return
  const waitMs = entry.nextAt - performance.now()
  entry.isBusy = true
  if (waitMs > 0) setTimeout(() => void load(id, entry), waitMs)
  else void load(id, entry)
}

async function load(id: string, entry: Kept): Promise<void> {
  const beganAt = performance.now()
  entry.key = keyOf(id)
  const fold = new DigestFold()
  let failure = ''
  try {
    for await (const line of lines(`api/tasks/${encodeURIComponent(id)}/trace`, { query: { as: 'digest' } }))
      fold.read(line as Digest)
  } catch (error) {
    failure = error instanceof Error ? error.message : String(error)
  }
  const tookMs = performance.now() - beganAt
  entry.nextAt = performance.now() + Math.max(LEAST_PAUSE_MS, tookMs * SHARE)
  entry.isBusy = false
  entry.found.value = failure === '' || !entry.found.peek() ? { fold, failure } : entry.found.peek()
  if (failure === '' && entry.key !== keyOf(id)) keep(id)
}
