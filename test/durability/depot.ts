/** The depot, a service that is killed: how a test starts it, kills it at a moment, and reads what it has left. */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { v5 } from 'uuid'
import { isFailure } from '../../src/mailbox/codec.ts'
import {
  CALL,
  correlationOf,
  idOf,
  kindOf,
  lengthOf,
  RESULT,
  readBody,
  recipientOf,
  STEP_DONE,
  senderOf,
} from '../../src/mailbox/frame.ts'
import { entriesOf } from '../../src/runtime/log/read-entries.ts'
import { readLog } from '../../src/runtime/store/log-reader.ts'
import type { Dice } from '../dice.ts'

/** When a process dies. Each is counted from its start, but for effects, of which a folder has one count. */
export type Moment =
  | { at: 'write'; nth: number; how: 'before' | 'within' | 'after' }
  | { at: 'line'; nth: number }
  | { at: 'call'; nth: number; how: 'asked' | 'answered' }
  | { at: 'effect'; nth: number }

/** `size`: how much happens in a whole life, about. */
export function momentOf(dice: Dice, size: number, effects: number): Moment {
  const soon = dice.chance(0.25)
  const among = (many: number) => 1 + dice.upTo(soon ? 6 : many)
  switch (dice.pick(['write', 'write', 'line', 'call', 'effect'] as const)) {
    case 'write':
      return { at: 'write', nth: among(40 * size), how: dice.pick(['before', 'within', 'after']) }
    case 'line':
      return { at: 'line', nth: among(80 * size) }
    case 'call':
      return { at: 'call', nth: 1 + dice.upTo(3 * size), how: dice.pick(['asked', 'answered']) }
    case 'effect':
      return { at: 'effect', nth: effects + among(8 * size) }
  }
}

export interface Line {
  event?: string
  pid?: number
  host?: string
  run?: string
  success?: boolean
  finalOutput?: string
  error?: string
}

export interface Incarnation {
  /** What the runs came to, as far as it was printed. */
  results: Map<string, Line>
  /** True if it came to its end by itself. */
  closed: boolean
}

const program = fileURLToPath(new URL('../fixtures/durability/depot.js', import.meta.url))
const preload = new URL('../fixtures/durability/dies-at-write.js', import.meta.url).href

/** Models call this when a call comes, and when it was answered. */
export interface Killer {
  asked: () => void
  answered: () => void
}

export interface Depot {
  readonly folder: string
  readonly baseURL: string
  readonly runs: number
  readonly threads?: number | undefined
  readonly killer: Killer
}

/** Starts the service. */
export function begin(
  t: { teardown(end: () => void): void },
  { folder, baseURL, runs, threads }: Depot,
  more: object = {},
) {
  const env = {
    ...process.env,
    DEPOT_EFFECTS: join(folder, 'effects'),
    ...(threads && { DEPOT_THREADS: String(threads) }),
    ...more,
  }
  const child = spawn(process.execPath, ['--import', preload, program, join(folder, 'log'), baseURL, String(runs)], {
    stdio: ['pipe', 'pipe', 'inherit'],
    env,
  })
  t.teardown(() => child.kill('SIGKILL'))
  return { child, lines: linesOf(child), exited: once(child, 'exit') }
}

async function* linesOf(child: ChildProcess): AsyncGenerator<Line> {
  for await (const line of createInterface(child.stdout!)) yield JSON.parse(line)
}

/** Starts the service, and lets it die at that moment, or come to its end. */
export async function live(
  t: Parameters<typeof begin>[0],
  depot: Depot,
  moment: Moment | undefined,
): Promise<Incarnation> {
  const { child, lines, exited } = begin(t, depot, {
    ...(moment?.at === 'write' && { DIES_AT_WRITE: `${moment.nth} ${moment.how}` }),
    ...(moment?.at === 'effect' && { DEPOT_DIES_AT: String(moment.nth) }),
  })
  let calls = moment?.at === 'call' ? moment.nth : Number.POSITIVE_INFINITY
  const count = (how: 'asked' | 'answered') => () => {
    if (moment?.at === 'call' && moment.how === how && --calls === 0) child.kill('SIGKILL')
  }
  Object.assign(depot.killer, { asked: count('asked'), answered: count('answered') })
  const incarnation = await heard(lines, (line) => {
    if (moment?.at === 'line' && line === moment.nth) child.kill('SIGKILL')
  })
  const [code, signal] = await exited
  if (signal !== 'SIGKILL' && code !== 0) throw new Error(`the service ended with ${code ?? signal}`)
  return incarnation
}

/** Hears a process to its end. `said` is called with the number of each line. */
export async function heard(lines: AsyncIterable<Line>, said = (_line: number) => {}): Promise<Incarnation> {
  const incarnation: Incarnation = { results: new Map(), closed: false }
  let count = 0
  for await (const line of lines) {
    if (line.run !== undefined) incarnation.results.set(line.run, line)
    if (line.event === 'closed') incarnation.closed = true
    said(++count)
  }
  return incarnation
}

const NAMESPACE = '0f7d3a52-6c1e-5b8d-9a47-c2e4f1b86d35'

/** What has an outcome in the log: keys of model calls, and names of steps and tools as the effects have them. */
export async function outcomesOf(folder: string): Promise<Set<string>> {
  const done = new Set<string>()
  if (!existsSync(join(folder, 'log'))) return done
  const calls = new Map<string, string>()
  const [names, runs] = [new Map<number, string>(), new Map<number, string>()]
  for await (const entry of entriesOf(() => readLog(join(folder, 'log')))) {
    if (entry.kind === 'name') names.set(entry.index, entry.name)
    if (entry.kind === 'run.launched') runs.set(entry.run, entry.id)
    if (entry.kind !== 'frames') continue
    const { memory } = entry
    for (let at = entry.from; at < entry.to; at += lengthOf(memory, at)) {
      const kind = kindOf(memory, at)
      if (kind !== CALL && kind !== RESULT && kind !== STEP_DONE) continue
      const { content, data = '{}' } = readBody(memory, at)
      const [runId, caller] = [runs.get(entry.run), names.get(senderOf(memory, at))]
      const call = `${senderOf(memory, at)} ${correlationOf(memory, at)}`
      if (kind === CALL && content === 'model')
        calls.set(call, v5(JSON.stringify([runId, caller, idOf(memory, at)]), NAMESPACE))
      if (kind === CALL && content === 'tool') calls.set(call, `${runId}/weigh-${JSON.parse(data).input.what}`)
      if (isFailure(memory, at)) continue
      if (kind === RESULT) done.add(calls.get(`${recipientOf(memory, at)} ${correlationOf(memory, at)}`) ?? '')
      if (kind === STEP_DONE) done.add(content)
    }
  }
  return done
}

export function effectsIn(folder: string): string[] {
  try {
    return readFileSync(join(folder, 'effects'), 'utf8').split('\n').filter(Boolean)
  } catch {
    return [] // nothing was done yet
  }
}
