/** How long a loop of events had no turn, as its process sees it by a timer, and how long it has worked in that time. */
import { openSync, readSync } from 'node:fs'

const TICK_MS = 5

/** Between two turns of the timer. Times are of the machine's own clock, which all processes share. */
export interface Gap {
  from: number
  to: number
  /** The processor time that the main thread had, in ms. */
  worked: number
  /** What is left without the time that it was ready and had no processor: it worked, or it slept. */
  own: number
}

export const now = (): number => Number(process.hrtime.bigint()) / 1e6

/** The main thread's time on a processor, and its time in the queue for one, in ms. Where no system tells, all time is work. */
function scheduled(): () => { worked: number; queued: number } {
  const buffer = Buffer.alloc(128)
  try {
    const file = openSync(`/proc/self/task/${process.pid}/schedstat`, 'r')
    return () => {
      const [worked, queued] = buffer.toString('latin1', 0, readSync(file, buffer, 0, buffer.length, 0)).split(' ')
      return { worked: Number(worked) / 1e6, queued: Number(queued) / 1e6 }
    }
  } catch {
    return () => ({ worked: now(), queued: 0 })
  }
}

const read = scheduled()

/** Notes each gap of this process in which `longerThan` says so. Returns what ends that. */
export function watchGaps(longerThan: (gap: Gap) => boolean, note: (gap: Gap) => void): () => void {
  let last = { at: now(), ...read() }
  const timer = setInterval(() => {
    const next = { at: now(), ...read() }
    const own = next.at - last.at - TICK_MS - (next.queued - last.queued)
    const gap = { from: last.at, to: next.at, worked: next.worked - last.worked, own }
    last = next
    if (longerThan(gap)) note(gap)
  }, TICK_MS)
  return () => clearInterval(timer)
}
