/** State of the team now: the digest of the service, folded. */
import { signal } from '@preact/signals'
import type { Digest } from '../../runtime/views/digest-line.ts'
import { DigestFold } from '../digest/digest-fold.ts'
import { isUnknown, lines, Refused } from './service.ts'

/** Rows that the page keeps of what it has seen live. What is older is asked for, task by task. */
const MOST_ROWS = 200_000
const FIRST_PAUSE_MS = 500
const LONGEST_PAUSE_MS = 8_000
const RATE_MS = 5_000

/** 'refused': the caller may not watch. */
export type Connection = 'connecting' | 'live' | 'lost' | 'refused'

export const connection = signal<Connection>('connecting')
/** Grows when the state below has changed; whoever shows it reads it. */
export const version = signal(0)
/** Grows when the connection was begun anew: lists that were asked for may be out of date. */
export const begun = signal(0)
/** Words of the service, if it refuses to be watched now. */
export const refusal = signal('')
/** Sentence about what is not as it was; empty if all is well. */
export const notice = signal('')
/** Epoch ms at the service, told twice a second. */
export const now = signal(Date.now())

let fold = new DigestFold({ mostRows: MOST_ROWS })
let skewMs = 0
/** Time at which the connection began: of earlier runs only a part was seen. */
let watchedSince = 0
let over = new AbortController()

/** Returns the state of the team. It changes in place. */
export const live = (): DigestFold => fold

export const serviceTime = (): number => Date.now() + skewMs

setInterval(() => {
  now.value = serviceTime()
}, 500)

export function watch(team: string): void {
  over.abort()
  over = new AbortController()
  fold = new DigestFold({ mostRows: MOST_ROWS })
  notice.value = ''
  connection.value = 'connecting'
  version.value += 1
  void watching(team, over.signal)
}

async function watching(team: string, signal: AbortSignal): Promise<void> {
  let pauseMs = FIRST_PAUSE_MS
  while (!signal.aborted) {
    refusal.value = ''
    try {
      for await (const line of lines('api/watch', { query: { team }, signal })) {
        if (signal.aborted) return
        read(line as Digest)
        pauseMs = FIRST_PAUSE_MS
      }
    } catch (error) {
      if (signal.aborted) return
      if (error instanceof Refused) refusal.value = error.message
      if (error instanceof Refused && error.status === 403) {
        connection.value = 'refused'
        return
      }
    }
    if (signal.aborted) return
    connection.value = 'lost'
    await pause(pauseMs, signal)
    while (isUnknown.value && !signal.aborted) await pause(FIRST_PAUSE_MS, signal)
    pauseMs = Math.min(pauseMs * 2, LONGEST_PAUSE_MS)
  }
}

const pause = (ms: number, signal: AbortSignal): Promise<void> =>
  new Promise((resolve) => {
    const timer = setTimeout(resolve, ms)
    signal.addEventListener('abort', () => resolve(clearTimeout(timer)), { once: true })
  })

function read(line: Digest): void {
  if (line.snapshot) begin(line)
  fold.read(line)
  if (line.snapshot) {
    connection.value = 'live'
    begun.value += 1
  }
  tell()
}

/** A log of another name is that of another process: what was known is void. */
function begin({ at, snapshot, processes }: Digest): void {
  skewMs = at - Date.now()
  watchedSince = at
  const isOther = fold.lines > 0 && fold.log !== snapshot!.log
  if (isOther) {
    fold = new DigestFold({ mostRows: MOST_ROWS })
    notice.value = 'The service was restarted. What is shown is its new state.'
  } else if (fold.lines > 0 && connection.value === 'live' && processes) {
    notice.value = 'A part of the team is in another process now. Figures are right; open a task to see all of it.'
  } else if (fold.lines > 0) {
    notice.value = 'The connection was cut for a while. Figures are right again; open a task to see all of it.'
  }
}

let isTold = false

/** Has what is shown drawn anew, once a frame. A page that nobody sees has no frames. */
function tell(): void {
  if (isTold) return
  isTold = true
  const done = () => {
    isTold = false
    version.value += 1
  }
  if (document.hidden) setTimeout(done, 200)
  else requestAnimationFrame(done)
}

export const since = (): number => watchedSince || serviceTime()

/** Returns the messages of a run; undefined for a run of which only a part was seen. */
export function messagesOf(run: string): number | undefined {
  const found = fold.runs.get(run)
  return found && found.startedAt >= watchedSince ? found.messages : undefined
}

export function messageRate(): number {
  const { at } = fold.messages.columns
  const since = serviceTime() - RATE_MS
  return (at.length - at.countUpTo(since)) / (RATE_MS / 1_000)
}
