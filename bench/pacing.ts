/** Messages at a steady pace, and how busy a thread is meanwhile; the same for the runtime and for the relay. */
import { setTimeout as sleep } from 'node:timers/promises'

export interface Paced {
  /** Messages/s that were reached. */
  rate: number
  /** Share of the time that the host's event loop worked; 0 to 1. */
  busy: number
}

/** What is due is sent once in a millisecond, as far as timers keep to it. */
const TICK_MS = 1
const WARM_UP_MS = 500

/** Keeps to `perSecond` for `forMs`, awaiting each `send`; resolves to the messages/s that were reached. */
export async function pace(send: (i: number) => Promise<void>, perSecond: number, forMs: number): Promise<number> {
  const startedAt = performance.now()
  const passedMs = () => performance.now() - startedAt
  let sent = 0
  while (passedMs() < forMs) {
    const due = (passedMs() / 1_000) * perSecond
    while (sent < due) await send(sent++)
    await sleep(TICK_MS)
  }
  return (sent / passedMs()) * 1_000
}

/** How busy this thread is while others keep the pace; `keepPace` resolves to the messages/s that they reached. */
export async function measureBusy(keepPace: (forMs: number) => Promise<number>, forMs: number): Promise<Paced> {
  await keepPace(WARM_UP_MS)
  const before = performance.eventLoopUtilization()
  const rate = await keepPace(forMs)
  return { rate, busy: performance.eventLoopUtilization(before).utilization }
}
