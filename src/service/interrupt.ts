/** Ctrl-C: the first one ends the run in good order, the second one leaves at once. */
import { EXIT } from './failure.ts'

export interface Interrupt {
  /** Aborted by the first Ctrl-C. */
  readonly signal: AbortSignal
  /** Gives Ctrl-C its usual meaning back. */
  stop(): void
}

/** Listens until `stop()`. `say` tells the user what goes on; `leave` ends the process. */
export function listenForInterrupt(
  say: (text: string) => void,
  leave: (code: number) => void = (code) => process.exit(code),
): Interrupt {
  const controller = new AbortController()
  const onSignal = () => {
    if (controller.signal.aborted) return leave(EXIT.interrupted)
    say('Interrupted: closing the team. Ctrl-C again leaves at once.\n')
    controller.abort(new Error('interrupted from the keyboard'))
  }
  process.on('SIGINT', onSignal)
  return { signal: controller.signal, stop: () => void process.off('SIGINT', onSignal) }
}

/** Resolves like `work`, unless the signal is aborted first; then it rejects with the signal's reason. */
export async function unlessAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  let stop = () => {}
  const aborted = new Promise<never>((_, reject) => {
    stop = () => reject(signal.reason)
    if (signal.aborted) stop()
    signal.addEventListener('abort', stop, { once: true })
  })
  try {
    return await Promise.race([work, aborted])
  } finally {
    signal.removeEventListener('abort', stop)
  }
}
