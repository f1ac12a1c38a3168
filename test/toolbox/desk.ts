/** A team on real threads whose one agent calls tools as it is told, and a file in which tools leave a line for each run. */
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Worker } from 'node:worker_threads'
import { type AgentRole, createTeam, type MultiAgentPattern, type MultiAgentPatternOptions } from '../../src/index.ts'
import { silent } from '../kit/team.ts'

interface Test {
  teardown(end: () => unknown): unknown
}

export const callerModule = new URL('../fixtures/tools/caller.js', import.meta.url)
export const recordModule = new URL('../fixtures/tools/record.js', import.meta.url)
/** One of the modules with tools. */
export const toolModule = (name: string) => new URL(`../fixtures/tools/${name}.js`, import.meta.url)
/** In TypeScript, as it was written. */
export const typedModule = new URL('../../../test/fixtures/tools/typed.ts', import.meta.url)

export interface Call {
  output?: { runs: number; threadId: number } | unknown
  code?: string
  message?: string
}

export function desk(t: Test, tools: AgentRole['tools'], options: Partial<MultiAgentPatternOptions> = {}) {
  const team = createTeam({
    agents: [{ name: 'ann', module: callerModule, tools: tools ?? [] }],
    orchestration: { strategy: 'sequential' },
    threads: { warmSpares: 0 },
    supervision: { backoff: { baseMs: 1, capMs: 1 } },
    logger: silent,
    ...options,
  })
  t.teardown(() => team.close())
  const call = async (tool: string, input: unknown, times = 1): Promise<{ attempt: number; outcomes: Call[] }> => {
    const reply = await team.sendMessage({
      recipient: 'ann',
      content: asked(tool, input, times),
      requiresResponse: true,
    })
    return reply!.structuredData as { attempt: number; outcomes: Call[] }
  }
  return { team, call }
}

/** What the agent is to call. */
export const asked = (tool: string, input: unknown, times = 1): string => JSON.stringify({ tool, input, times })

/** Threads that are alive, of those that are made from now on, in their order. */
export function watchThreads(t: Test): Set<Worker> {
  const alive = new Set<Worker>()
  const made = (worker: Worker) => {
    alive.add(worker)
    worker.once('exit', () => alive.delete(worker))
  }
  process.on('worker', made)
  t.teardown(() => process.off('worker', made))
  return alive
}

/** Resolves when a tool says how far it is. */
export const underWay = (team: MultiAgentPattern<string>) =>
  new Promise<void>((resolve) => {
    team.events.subscribe((event) => void (event.type === 'tool.progress' && resolve()))
  })

/** A file that is gone after the test, its lines, which are keys of calls, and how many it has. */
export function ledger(t: Test): { file: string; keys: () => string[]; runs: () => number } {
  const folder = mkdtempSync(join(tmpdir(), 'dramatis-tools-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  const file = join(folder, 'runs')
  const keys = () => (existsSync(file) ? readFileSync(file, 'utf8').trim().split('\n') : [])
  return { file, keys, runs: () => keys().length }
}
