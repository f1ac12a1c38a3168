/** Process groups of programs that are started here (`detached`): nothing of a group outlives its program, or us. */
import type { ChildProcess } from 'node:child_process'

const running = new Set<ChildProcess>()
const endAll = () => {
  for (const child of running) killGroup(child, 'SIGKILL')
}

/** Ends what a program has started when it has exited, and all of its group with this process. */
export function keepGroup(child: ChildProcess): void {
  if (child.pid === undefined) return // it could not be started
  if (running.size === 0) process.once('exit', endAll)
  running.add(child)
  child.once('exit', () => {
    running.delete(child)
    if (running.size === 0) process.removeListener('exit', endAll)
    killGroup(child, 'SIGKILL')
  })
}

export function killGroup(child: ChildProcess, signal: 'SIGTERM' | 'SIGKILL'): void {
  if (child.pid === undefined) return
  try {
    if (process.platform === 'win32') child.kill(signal)
    else process.kill(-child.pid, signal)
  } catch {
    // nobody is left
  }
}
