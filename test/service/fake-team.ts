/** A team that does nothing by itself: its events and its health are what a test says. */
import { PassThrough } from 'node:stream'
import { Subject } from 'rxjs'
import type { Health, RuntimeEvent } from '../../src/index.ts'
import type { Surroundings } from '../../src/service/commands/run.ts'
import type { Screen } from '../../src/service/shared/screen.ts'

type AgentHealth = Health['agents'][string]
type Fields<E> = E extends RuntimeEvent ? Omit<E, 'seq' | 'at' | 'runId'> : never

export function fakeTeam(agents: Record<string, Partial<AgentHealth>> = {}) {
  const events = new Subject<RuntimeEvent>()
  const health: Health = {
    live: true,
    ready: true,
    draining: false,
    agents: Object.fromEntries(Object.entries(agents).map(([name, given]) => [name, agentHealth(given)])),
    runs: { running: 1, queued: 0 },
    deadLetters: 0,
    deadLettersForgotten: 0,
    sharedMemoryRepairs: 0,
    log: { ok: true, lagMs: 0 },
  }
  return { events, health: () => health }
}

export function agentHealth(given: Partial<AgentHealth> = {}): AgentHealth {
  return { status: 'idle', queued: 0, inFlight: 0, restarts: 0, lastBeatMs: 0, staleFrames: 0, turns: [], ...given }
}

export function runtimeEvent(fields: Fields<RuntimeEvent>): RuntimeEvent {
  return { seq: 0, at: 0, runId: 'run', ...fields }
}

/** A stream that keeps what is written to it. */
export function fakeScreen(terminal?: { columns: number; rows: number }): { screen: Screen; text: () => string } {
  const stream = new PassThrough()
  let text = ''
  stream.on('data', (chunk: Buffer) => {
    text += chunk.toString()
  })
  return { screen: terminal ? Object.assign(stream, { isTTY: true, ...terminal }) : stream, text: () => text }
}

/** Where a command runs, with what it writes kept. */
export function fakeSurroundings(): { surroundings: Surroundings; stdout: () => string; stderr: () => string } {
  const { screen, text } = fakeScreen()
  let stdout = ''
  const answer: Surroundings['answer'] = {
    async write(part) {
      stdout += part
    },
    divertTo() {},
  }
  return {
    surroundings: { answer, stderr: screen, stdin: new PassThrough(), folder: process.cwd() },
    stdout: () => stdout,
    stderr: text,
  }
}
