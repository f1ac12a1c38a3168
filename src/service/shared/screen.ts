/** The team whose progress is shown, and the screen for it. */
import type { Team } from '../../index.ts'

/**
 * stdout, for the answer and nothing else. A team file, a protocol given as a closure and their libraries run in this
 * process and may print; what they print is shown elsewhere, so that `dramatis run ... | next` gets the answer alone.
 */

export type Print = (text: string) => void

/** Output of a command: takes the answer, and diverts everything else that is printed. */
export interface Answer {
  /** Resolves when the text has been handed over. */
  write(text: string): Promise<void>
  /** Sets the destination of everything else that is printed, from now on. */
  divertTo(print: Print): void
}

type Done = (error?: Error | null) => void

/** Takes the stdout of this process for good. */
export function takeStdout(): Answer {
  const { stdout, stderr } = process
  const write = stdout.write.bind(stdout)
  let print: Print = (text) => void stderr.write(text)

  stdout.on('error', () => {}) // `write` below reports it
  stdout.write = (chunk: string | Uint8Array, second?: BufferEncoding | Done, third?: Done) => {
    print(typeof chunk === 'string' ? chunk : Buffer.from(chunk).toString())
    const done = typeof second === 'function' ? second : third
    if (done) process.nextTick(done)
    return true
  }
  return {
    write: (text) =>
      new Promise((resolve, reject) => {
        write(text, 'utf8', (error) => {
          // The reader may leave before the end of the answer, as `head` does.
          if (error && !('code' in error && error.code === 'EPIPE')) reject(error)
          else resolve()
        })
      }),
    divertTo: (to) => {
      print = to
    },
  }
}

export type Watched = Pick<Team, 'events' | 'health'>

export type Screen = NodeJS.WritableStream & { isTTY?: boolean; columns?: number; rows?: number }

/** Checks whether lines on the screen can be overwritten. */
export function isTerminal({ isTTY, columns, rows }: Screen, env: NodeJS.ProcessEnv = process.env): boolean {
  const hasRoom = columns !== 0 && rows !== 0 // a recorded session often has 0 of both
  return isTTY === true && hasRoom && env.TERM !== 'dumb'
}

export interface Progress {
  watch(team: Watched): void
  /** Shows a text that is none of the team's events: a line of the log, what somebody printed. */
  readonly print: Print
  /** Shows the last state and leaves the terminal as it was. Twice is fine. */
  end(): void
}
