/**
 * Runs one program in a process group of its own, without a shell, and lets nothing of the group outlive the call: at
 * its end, at the deadline, when it is aborted, and when this process exits. On Windows there are no groups: the
 * program alone is ended. What a program moves into another group (`setsid`) is not found.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { systemClock } from '../../clock.ts'
import { onAbort } from '../../on-abort.ts'
import { BoundedOutput } from '../bounded-output.ts'

const KEPT_BYTES = 16 * 1024 // of the head and of the tail of what it prints
const KILL_AFTER_MS = 2_000 // between being asked to end and being ended
const PIPES_OPEN_MS = 500 // for what is on its way in the pipes when the program has ended

export interface Program {
  file: string
  args: string[]
  cwd: string
  env: Record<string, string>
  timeoutMs: number
  signal: AbortSignal
}

export interface Ended {
  code: number | null
  signal: NodeJS.Signals | null
  /** Both streams, in the order in which they came. */
  output: string
  timedOut: boolean
}

const windows = process.platform === 'win32'
const running = new Set<ChildProcess>()

/** Resolves when the program has ended, by itself or not. Rejects when it cannot be started. */
export function runProgram({ file, args, cwd, env, timeoutMs, signal }: Program): Promise<Ended> {
  return new Promise((resolve, reject) => {
    const options = { cwd, env, shell: false, detached: !windows, windowsHide: true }
    const child = spawn(file, args, { ...options, stdio: ['ignore', 'pipe', 'pipe'] })
    const output = new BoundedOutput(KEPT_BYTES)
    let timedOut = false
    watch(child)
    const stop = () => {
      kill(child, 'SIGTERM')
      killing ??= systemClock.timer(KILL_AFTER_MS, () => kill(child, 'SIGKILL'))
    }
    let killing: { cancel(): void } | undefined
    const deadline = systemClock.timer(timeoutMs, () => {
      timedOut = true
      stop()
    })
    const forget = onAbort(signal, stop)
    const settled = () => {
      deadline.cancel()
      killing?.cancel()
      forget()
      unwatch(child)
    }
    for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk: Buffer) => output.add(chunk))
    child.on('error', (error) => {
      settled()
      reject(error)
    })
    child.on('exit', () => {
      kill(child, 'SIGKILL') // what it has left behind in its group
      const pipes = systemClock.timer(PIPES_OPEN_MS, () => {
        for (const stream of [child.stdout, child.stderr]) stream.destroy() // somebody outside the group holds them
      })
      child.on('close', () => pipes.cancel())
    })
    child.on('close', (code, by) => {
      settled()
      resolve({ code, signal: by, output: output.toString(), timedOut })
    })
    if (signal.aborted) stop()
  })
}

function kill(child: ChildProcess, signal: NodeJS.Signals): void {
  if (child.pid === undefined) return
  try {
    if (windows) child.kill(signal)
    else process.kill(-child.pid, signal)
  } catch {
    // nobody is left in the group
  }
}

function watch(child: ChildProcess): void {
  if (running.size === 0) process.on('exit', killAll)
  running.add(child)
}

function unwatch(child: ChildProcess): void {
  running.delete(child)
  if (running.size === 0) process.off('exit', killAll)
}

function killAll(): void {
  for (const child of running) kill(child, 'SIGKILL')
}
