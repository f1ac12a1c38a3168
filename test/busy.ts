/** A host whose event loop is busy. */
import { once } from 'node:events'
import { MessageChannel } from 'node:worker_threads'

/** Keeps the event loop busy for that long. */
export function block(ms: number): void {
  const until = performance.now() + ms
  while (performance.now() < until);
}

/** Waits for something that comes at once, while the event loop is busy for `ms`. */
export async function comesWhileBusy(ms: number): Promise<void> {
  const { port1, port2 } = new MessageChannel()
  const came = once(port1, 'message')
  port2.postMessage('came')
  block(ms)
  await came
  port1.close()
}
