/**
 * A cluster under faults: processes that own shards, clients that repeat themselves, a nemesis that kills, freezes and
 * restarts by a seed. What it has done is judged from histories alone: what clients were told, and what happened
 * outside of the teams. It knows no engine.
 */
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { MemberSettings } from '../../examples/cluster-demo/member.ts'
import { type Ended, MemberProcess } from '../../examples/cluster-demo/member-process.ts'

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

/** Puts the clock of a process and its threads a day ahead. */
const AHEAD = `data:text/javascript,const now=Date.now,day=864e5;Date.now=()=>now()+day;
Object.defineProperty(performance,'timeOrigin',{value:performance.timeOrigin+day})`

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
    {
      name: 'join',
      async act(member, random) {
        const other = member.twin()
        try {
          await other.run()
          await sleep(500 + random() * 2_500)
          await other.signal('SIGTERM')
        } finally {
          await other.signal('SIGKILL')
        }
      },
    },
    {
      name: 'clock',
      async act(member) {
        await member.signal('SIGKILL')
        await member.run(['--import', AHEAD])
      },
    },
  ]
}

export interface Report {
  /** What clients were told, by run. */
  readonly ends: ReadonlyMap<string, Ended>
  readonly faults: Readonly<Record<string, number>>
  readonly accepted: number
  readonly finished: number
  /** Runs that were told not to have been done for sure, by code. */
  readonly told: Readonly<Record<string, number>>
  /** Errors of runs that failed otherwise than by "it may have been done". */
  readonly failed: readonly string[]
  /** Accepted, and without an end. */
  readonly lost: readonly string[]
  /** Ended otherwise than undisturbed ones. */
  readonly wrong: readonly string[]
  /** Runs to which words were said that were taken, and that do not know them later as they were. */
  readonly forgotten: readonly string[]
  /** Effects that are there twice, or that a finished run lacks. */
  readonly doubled: readonly string[]
  readonly missing: readonly string[]
}

export interface NemesisOptions {
  /** The cluster as each process has it. */
  readonly members: readonly MemberSettings['cluster'][]
  /** For how long there are faults, or how many. */
  readonly seconds?: number
  readonly rounds?: number
  /** Runs a second. */
  readonly rate: number
  readonly seed: number
  readonly faults: readonly Fault[]
  /** Time in ms in which all that was accepted has to end behind the last fault. */
  readonly patienceMs: number
  /**
   * Clients ask for the outcome at the process that accepted, submit nothing again that was accepted, and say nothing.
   */
  readonly once?: boolean
  /** Share of the runs that need two people who agree, and are handed on then. Default: 0. */
  readonly asking?: number
}

export async function underNemesis(options: NemesisOptions): Promise<Report> {
  const { seconds = Number.POSITIVE_INFINITY, rounds = Number.POSITIVE_INFINITY, rate, faults, patienceMs } = options
  const folder = mkdtempSync(join(tmpdir(), 'dramatis-nemesis-'))
  const effects = join(folder, 'effects')
  const random = randomOf(options.seed)
  const members = options.members.map((cluster) => new MemberProcess({ cluster, effects }))
  const any = () => members[Math.floor(Math.random() * members.length)]!
  const accepted = new Set<string>()
  const ends = new Map<string, Ended>()
  const forgotten: string[] = []
  const over = new AbortController()

  const client = async (id: string) => {
    const insist = async <T>(ask: () => Promise<T | undefined>): Promise<T | undefined> => {
      while (!over.signal.aborted) {
        const answer = await ask().catch(() => undefined)
        if (answer !== undefined) return answer
        await sleep(200)
      }
    }
    const say = (run: string) =>
      insist(() => any().ask('say', run, 4_000).catch(unknown)) as Promise<{ at?: number | null } | undefined>
    /** People look again and again, at any process, until the run has its end. */
    const agree = async (run: string) => {
      await any().ask('agree', run, 4_000)
      return ends.has(run) || undefined
    }
    let owner = any()
    const submit = async () => {
      const asked = any()
      const shard = await asked.ask('submit', id, 3_000)
      owner = asked
      return shard
    }
    if ((await insist(submit)) !== undefined) accepted.add(id)
    if (id.endsWith('asks')) void insist(() => agree(id))
    const speaks = !options.once && Math.random() < SPOKEN
    const said = speaks ? await say(id) : undefined
    const end = await insist(() => (options.once ? owner : any()).ask('outcome', id, 4_000).catch(unknown))
    if (end) ends.set(id, end as Ended)
    const again = said && end ? await say(id) : undefined
    if (said?.at && again?.at !== undefined && again.at !== said.at) forgotten.push(id)
  }

  try {
    await Promise.all(members.map((member) => member.run()))
    const until = Date.now() + seconds * 1_000
    const clients: Promise<void>[] = []
    let isLoading = true
    const load = async () => {
      for (let n = 0; isLoading; n++) {
        clients.push(client(`run ${n}${Math.random() < (options.asking ?? 0) ? ' asks' : ''}`))
        await sleep(1_000 / rate)
      }
    }
    const done: Record<string, number> = {}
    const nemesis = async () => {
      for (let round = 0; round < rounds && Date.now() < until; round++) {
        const fault = faults[Math.floor(random() * faults.length)]!
        done[fault.name] = (done[fault.name] ?? 0) + 1
        await fault.act(members[Math.floor(random() * members.length)]!, random)
        await sleep(500 + random() * 1_500)
      }
      isLoading = false
    }
    await Promise.all([load(), nemesis()])
    const timer = setTimeout(() => over.abort(), patienceMs)
    await Promise.all(clients)
    clearTimeout(timer)
    return {
      faults: done,
      ends,
      forgotten,
      ...judged(accepted, ends, existsSync(effects) ? readFileSync(effects, 'utf8') : ''),
    }
  } finally {
    over.abort()
    await Promise.all(members.map((member) => member.signal('SIGKILL')))
    rmSync(folder, { recursive: true, force: true })
  }
}

/** Share of the runs to which their clients say something. */
const SPOKEN = 0.2

/** A client that is told that nobody knows its run has been told. */
function unknown(error: Error): Ended {
  if (!error.message.startsWith('UnknownRunError')) throw error
  return { success: false, finalOutput: null, code: 'UNKNOWN_RUN', message: error.message }
}

/** The verdict, from what clients were told and what happened outside. */
function judged(
  accepted: ReadonlySet<string>,
  ends: ReadonlyMap<string, Ended>,
  effects: string,
): Omit<Report, 'faults' | 'ends' | 'forgotten'> {
  const times = new Map<string, number>()
  for (const line of effects.split('\n').filter(Boolean)) times.set(line, (times.get(line) ?? 0) + 1)
  const finished = [...ends].filter(([, { success }]) => success)
  const told: Record<string, number> = {}
  for (const { code } of ends.values()) if (code) told[code] = (told[code] ?? 0) + 1
  return {
    accepted: accepted.size,
    finished: finished.length,
    told,
    failed: [...ends].flatMap(([id, { code, message }]) =>
      code && code !== 'OUTCOME_UNKNOWN' ? [`${id}: ${code}: ${message}`] : [],
    ),
    lost: [...accepted].filter((id) => !ends.has(id)),
    wrong: finished.filter(([id, { finalOutput }]) => finalOutput !== `order ${id}: h1,h2,h3`).map(([id]) => id),
    doubled: [...times].filter(([, count]) => count > 1).map(([line]) => line),
    missing: finished
      .flatMap(([id]) =>
        ['booked', 'thanked', ...(id.endsWith('asks') ? ['paid'] : [])].map((what) => `${what} order ${id}`),
      )
      .filter((line) => !times.has(line)),
  }
}
