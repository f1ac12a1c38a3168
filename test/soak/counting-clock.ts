/** The machine's time, with a count of the timers that are set. */
import { type Scheduler, systemClock } from '../../src/shared/clock.ts'

export function countingClock(): Scheduler & { readonly timers: number } {
  let timers = 0
  return {
    ...systemClock,
    get timers() {
      return timers
    },
    async sleep(ms, signal) {
      timers += 1
      try {
        await systemClock.sleep(ms, signal)
      } finally {
        timers -= 1
      }
    },
    timer(ms, task) {
      timers += 1
      let open = true
      const end = () => {
        if (open) timers -= 1
        open = false
      }
      const timer = systemClock.timer(ms, () => {
        end()
        task()
      })
      return {
        cancel() {
          end()
          timer.cancel()
        },
      }
    },
  }
}
