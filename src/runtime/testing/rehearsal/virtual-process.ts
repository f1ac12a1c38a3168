/**
 * `process`, `performance` and `console` of a sandbox. They show one agent with the clock of the run, not the machine.
 */
import { Console } from 'node:console'
import { EventEmitter } from 'node:events'
import { Writable } from 'node:stream'
import type { Scheduler } from '../../../clock.ts'
import type { Timers } from './timers.ts'

/** Error that ends the code that called `process.exit`. It is not reported, since the agent's thread has ended. */
class ExitError extends Error {}

/** Calls `write` with each whole line. */
function lines(write: (line: string) => void): Writable {
  let rest = ''
  return new Writable({
    decodeStrings: false,
    write(chunk: string | Buffer, _encoding, done) {
      const parts = `${rest}${String(chunk)}`.split('\n')
      rest = parts.pop() ?? ''
      for (const part of parts) write(part)
      done()
    },
  })
}

interface Surroundings {
  clock: Scheduler
  timers: Timers
  env: Readonly<Record<string, string | undefined>>
  print(line: string): void
  exit(code: number): void
}

export function virtualProcess({ clock, timers, env, print, exit }: Surroundings): object {
  const { version, versions, arch, platform, release, execPath } = process
  const nanoseconds = () => BigInt(Math.round(clock.monotonic() * 1e6))
  const hrtime = (before: [number, number] = [0, 0]) => {
    const since = nanoseconds() - (BigInt(before[0]) * 1_000_000_000n + BigInt(before[1]))
    return [Number(since / 1_000_000_000n), Number(since % 1_000_000_000n)]
  }
  return Object.assign(new EventEmitter(), {
    version,
    versions: { ...versions },
    release: { ...release },
    arch,
    platform,
    execPath,
    argv: [execPath],
    execArgv: [],
    pid: 1,
    title: 'rehearsal',
    env: { ...env },
    exitCode: undefined,
    stdout: lines(print),
    stderr: lines(print),
    cwd: () => process.cwd(),
    uptime: () => clock.monotonic() / 1_000,
    hrtime: Object.assign(hrtime, { bigint: nanoseconds }),
    nextTick: (task: (...args: unknown[]) => void, ...args: unknown[]) =>
      process.nextTick(timers.guarded(task), ...args),
    memoryUsage: Object.assign(() => ({ rss: 0, heapTotal: 0, heapUsed: 0, external: 0, arrayBuffers: 0 }), {
      rss: () => 0,
    }),
    emitWarning: (warning: unknown) => print(`warning: ${String(warning)}`),
    exit(code = 0) {
      exit(Number(code))
      throw new ExitError('process.exit')
    },
    abort() {
      exit(134)
      throw new ExitError('process.abort')
    },
  })
}

export function virtualPerformance(clock: Scheduler): object {
  const now = () => clock.monotonic()
  return {
    now,
    timeOrigin: clock.now() - clock.monotonic(),
    mark: (name: string) => ({ name, entryType: 'mark', startTime: now(), duration: 0 }),
    measure: (name: string) => ({ name, entryType: 'measure', startTime: 0, duration: now() }),
    clearMarks() {},
    clearMeasures() {},
    getEntries: () => [],
    getEntriesByName: () => [],
    getEntriesByType: () => [],
    timerify: <T>(task: T) => task,
    eventLoopUtilization: () => ({ idle: 0, active: 0, utilization: 0 }),
    toJSON: () => ({ timeOrigin: clock.now() - clock.monotonic() }),
  }
}

export function virtualConsole(print: (line: string) => void): Console {
  return new Console({ stdout: lines(print), stderr: lines(print) })
}
