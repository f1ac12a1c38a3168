/** SIGINT and SIGTERM for a service: the first one closes it in good order, the second one leaves at once. */
import { constants } from 'node:os'

export interface Closing {
  /** Resolves at the first signal. */
  readonly begun: Promise<void>
  /** Gives the signals their usual meaning back. */
  stop(): void
}

const SIGNALS = ['SIGINT', 'SIGTERM'] as const

/** Listens until `stop()`. `leave` ends the process. */
export function listenForClosing(leave: (code: number) => void = (code) => process.exit(code)): Closing {
  let isBegun = false
  let begin = () => {}
  const begun = new Promise<void>((resolve) => {
    begin = resolve
  })
  const onSignal = (signal: (typeof SIGNALS)[number]) => {
    if (isBegun) return leave(128 + constants.signals[signal])
    isBegun = true
    begin()
  }
  for (const signal of SIGNALS) process.on(signal, onSignal)
  return {
    begun,
    stop() {
      for (const signal of SIGNALS) process.off(signal, onSignal)
    },
  }
}
