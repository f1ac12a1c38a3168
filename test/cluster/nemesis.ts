/**
 * A cluster under faults: processes that own shards, clients that repeat themselves, a nemesis that kills, freezes and
 * restarts by a seed. What it has done is judged from histories alone: what clients were told, and what happened
 * outside of the teams. It knows no engine.
 */
import { type ChildProcess, fork } from 'node:child_process'
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'

export interface MemberSettings {
  /** Options of the store, as JSON. */
  readonly store: { readonly url: string; readonly name: string; readonly times: object }
  readonly shards: number
  /** File to which agents append what they do. */
  readonly effects: string
}

export interface Asked {
  readonly number: number
  readonly id: string
  readonly ask: 'submit' | 'outcome' | 'shards'
}

interface Told {
  readonly number?: number
  readonly ready?: boolean
  readonly value?: unknown
  readonly error?: string
}

interface Ended {
  readonly status: 'finished' | 'failed'
  readonly result: { finalOutput: string | null; error: { code: string } | null }
}

const PROGRAM = fileURLToPath(new URL('./member.js', import.meta.url))

/** A process that can be killed, frozen, ended and begun again. */
export class MemberProcess {
  readonly #settings: MemberSettings
  #child: ChildProcess | undefined
  #number = 0
  readonly #waiting = new Map<number, { resolve(value: unknown): void; reject(error: Error): void }>()

  constructor(settings: MemberSettings) {
    this.#settings = settings
  }

  /** Resolves when it has joined. */
  async run(): Promise<void> {
    const child = fork(PROGRAM, [JSON.stringify(this.#settings)], { stdio: ['ignore', 'inherit', 'pipe', 'ipc'] })
    child.stderr?.on('data', (bytes) => {
      if (process.env.DRAMATIS_CLUSTER_LOG) process.stderr.write(bytes)
    })
    this.#child = child
    child.once('exit', () => {
      for (const { reject } of this.#waiting.values()) reject(new Error('the process has ended'))
      this.#waiting.clear()
    })
    await new Promise<void>((resolve, reject) => {
      child.once('exit', () => reject(new Error('the process has ended before it joined')))
      child.on('message', ({ number, ready, value, error }: Told) => {
        if (ready) return resolve()
        const waiting = this.#waiting.get(number!)
        this.#waiting.delete(number!)
        if (error === undefined) waiting?.resolve(value)
        else waiting?.reject(new Error(error))
      })
    })
  }

  async ask(ask: Asked['ask'], id = '', ms = 5_000): Promise<unknown> {
    const number = ++this.#number
    const timeout = new AbortController()
    const answer = new Promise((resolve, reject) => {
      this.#waiting.set(number, { resolve, reject })
      if (!this.#child?.connected || !this.#child.send({ number, id, ask } satisfies Asked))
        reject(new Error('it is not there'))
    })
    try {
      return await Promise.race([
        answer,
        sleep(ms, undefined, { signal: timeout.signal, ref: false }).then(() => {
          throw new Error(`no answer in ${ms} ms`)
        }),
      ])
    } finally {
      timeout.abort()
      this.#waiting.delete(number)
    }
  }

  /** Sends a signal; resolves with SIGKILL and SIGTERM when it has ended. */
  async signal(signal: 'SIGKILL' | 'SIGTERM' | 'SIGSTOP' | 'SIGCONT'): Promise<void> {
    const child = this.#child
    if (!child || child.exitCode !== null || child.signalCode !== null) return
    const ended = new Promise((resolve) => child.once('exit', resolve))
    child.kill(signal)
    if (signal === 'SIGKILL' || signal === 'SIGTERM') await ended
  }
}

/** Numbers from 0 to 1 that a seed repeats. */
export function randomOf(seed: number): () => number {
  let state = seed
  return () => {
    state = (state * 1_103_515_245 + 12_345) % 2 ** 31
    return state / 2 ** 31
  }
}

export interface Fault {
  readonly name: string
  act(member: MemberProcess, random: () => number): Promise<void>
}

/** Faults of processes. An engine has its own beside them. */
export function processFaults(frozenMs: number): readonly Fault[] {
  return [
    {
      name: 'kill',
      async act(member, random) {
        await member.signal('SIGKILL')
        await sleep(500 + random() * 1_500)
        await member.run()
      },
    },
    {
      name: 'freeze',
      async act(member, random) {
        await member.signal('SIGSTOP')
        await sleep(frozenMs * (1.2 + random() / 2))
        await member.signal('SIGCONT')
      },
    },
    {
      name: 'leave',
      async act(member) {
        await member.signal('SIGTERM')
        await member.run()
      },
    },
  ]
}

export interface Report {
  readonly faults: Readonly<Record<string, number>>
  readonly accepted: number
  readonly finished: number
  /** Runs that were told not to have been done for sure, by code. */
  readonly told: Readonly<Record<string, number>>
  /** Accepted, and without an end. */
  readonly lost: readonly string[]
  /** Ended otherwise than undisturbed ones. */
  readonly wrong: readonly string[]
  /** Effects that are there twice, or that a finished run lacks. */
  readonly doubled: readonly string[]
  readonly missing: readonly string[]
}

export interface NemesisOptions {
  readonly store: MemberSettings['store']
  readonly shards: number
  readonly members: number
  readonly seconds: number
  /** Runs a second. */
  readonly rate: number
  readonly seed: number
  readonly faults: readonly Fault[]
  /** Time in ms in which all that was accepted has to end behind the last fault. */
  readonly patienceMs: number
}

export async function underNemesis(options: NemesisOptions): Promise<Report> {
  const { store, shards, seconds, rate, faults, patienceMs } = options
  const folder = mkdtempSync(join(tmpdir(), 'dramatis-nemesis-'))
  const effects = join(folder, 'effects')
  const random = randomOf(options.seed)
  const members = Array.from({ length: options.members }, () => new MemberProcess({ store, shards, effects }))
  const any = () => members[Math.floor(Math.random() * members.length)]!
  const accepted = new Set<string>()
  const ends = new Map<string, Ended>()
  const over = new AbortController()

  const client = async (id: string) => {
    const insist = async <T>(ask: () => Promise<T | undefined>): Promise<T | undefined> => {
      while (!over.signal.aborted) {
        const answer = await ask().catch(() => undefined)
        if (answer !== undefined) return answer
        await sleep(200)
      }
    }
    if (await insist(() => any().ask('submit', id, 3_000))) accepted.add(id)
    const end = await insist(() => any().ask('outcome', id, 4_000) as Promise<Ended | undefined>)
    if (end) ends.set(id, end)
  }

  try {
    await Promise.all(members.map((member) => member.run()))
    const until = Date.now() + seconds * 1_000
    const clients: Promise<void>[] = []
    const load = async () => {
      for (let n = 0; Date.now() < until; n++) {
        clients.push(client(`run ${n}`))
        await sleep(1_000 / rate)
      }
    }
    const done: Record<string, number> = {}
    const nemesis = async () => {
      while (Date.now() < until) {
        const fault = faults[Math.floor(random() * faults.length)]!
        done[fault.name] = (done[fault.name] ?? 0) + 1
        await fault.act(members[Math.floor(random() * members.length)]!, random)
        await sleep(500 + random() * 1_500)
      }
    }
    await Promise.all([load(), nemesis()])
    const timer = setTimeout(() => over.abort(), patienceMs)
    await Promise.all(clients)
    clearTimeout(timer)
    return { faults: done, ...judged(accepted, ends, existsSync(effects) ? readFileSync(effects, 'utf8') : '') }
  } finally {
    over.abort()
    await Promise.all(members.map((member) => member.signal('SIGKILL')))
    rmSync(folder, { recursive: true, force: true })
  }
}

/** The verdict, from what clients were told and what happened outside. */
function judged(
  accepted: ReadonlySet<string>,
  ends: ReadonlyMap<string, Ended>,
  effects: string,
): Omit<Report, 'faults'> {
  const times = new Map<string, number>()
  for (const line of effects.split('\n').filter(Boolean)) times.set(line, (times.get(line) ?? 0) + 1)
  const finished = [...ends].filter(([, { status }]) => status === 'finished')
  const told: Record<string, number> = {}
  for (const { status, result } of ends.values())
    if (status === 'failed') told[result.error?.code ?? 'none'] = (told[result.error?.code ?? 'none'] ?? 0) + 1
  return {
    accepted: accepted.size,
    finished: finished.length,
    told,
    lost: [...accepted].filter((id) => !ends.has(id)),
    wrong: finished.filter(([id, { result }]) => result.finalOutput !== `order ${id}: h1,h2,h3`).map(([id]) => id),
    doubled: [...times].filter(([, count]) => count > 1).map(([line]) => line),
    missing: finished
      .flatMap(([id]) => [`booked order ${id}`, `thanked order ${id}`])
      .filter((line) => !times.has(line)),
  }
}
