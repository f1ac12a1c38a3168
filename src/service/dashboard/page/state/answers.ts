/** Answers as they are written. A stream that breaks off goes on behind the last piece that came. */
import { type Signal, signal } from '@preact/signals'
import { useEffect } from 'preact/hooks'
import { Slots } from '../../../../slots.ts'
import { lines, Refused } from './service.ts'

const answers = new Map<string, Signal<string>>()
const PAUSE_MS = 1_000
const MOST_KEPT = 100
/** Answers that are read at a time: a browser has six connections to a service, for all its tabs. */
const places = new Slots(2)

/** Returns what has been written of an answer so far. */
export const answerOf = (task: string): string | undefined => answers.get(task)?.value

/** Reads along as long as the component is shown. undefined: nothing is to be read. */
export function useAnswer(task: string | undefined): string | undefined {
  useEffect(() => {
    if (task === undefined) return
    const over = new AbortController()
    void inTurn(task, over.signal)
    return () => over.abort()
  }, [task])
  return task === undefined ? undefined : writtenOf(task).value
}

function writtenOf(task: string): Signal<string> {
  let written = answers.get(task)
  if (!written) {
    written = signal('')
    answers.set(task, written)
    for (const oldest of [...answers.keys()].slice(0, Math.max(0, answers.size - MOST_KEPT))) answers.delete(oldest)
  }
  return written
}

interface Told {
  id?: string
  type: string
  chunk?: string
  final?: boolean
}

/** Reads along when there is a place to. */
async function inTurn(task: string, signal: AbortSignal): Promise<void> {
  const leave = await places.take(signal).catch(() => undefined)
  if (!leave) return // nobody looks any more
  await readAlong(task, signal).finally(leave)
}

async function readAlong(task: string, signal: AbortSignal): Promise<void> {
  const written = writtenOf(task)
  written.value = ''
  let after: string | undefined
  let isOver = false
  while (!signal.aborted) {
    try {
      const query = { deltas: '1', types: 'output.delta,run.finished,run.aborted', after }
      for await (const line of lines(`api/tasks/${encodeURIComponent(task)}/events`, { query, signal })) {
        const { id, type, chunk = '', final } = line as Told
        after = id ?? after
        if (type === 'reset') written.value = ''
        if (type === 'run.finished') isOver = true
        if (type === 'output.delta' && final) written.value += chunk
      }
      if (isOver) return // a service that ends lets go of its streams, too
    } catch (error) {
      if (error instanceof Refused && error.status !== 401 && error.status < 500) return
    }
    await new Promise((resolve) => setTimeout(resolve, PAUSE_MS))
  }
}
