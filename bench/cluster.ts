/** Processes of a cluster: what several of them do of runs, and what a request with a key to another of them takes. */
import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import pg from 'pg'
import { PostgresServer, postgresFolder } from '../examples/cluster-demo/postgres-server.ts'
import { shardOf } from '../src/runtime/cluster/carrier.ts'
import { atLeast, atMost, type Benchmark, type Measurement } from './benchmark.ts'
import type { Order } from './programs/cluster-member.ts'
import { median } from './statistics.ts'

const PROGRAM = fileURLToPath(new URL('./programs/cluster-member.js', import.meta.url))
const ROUNDS = 3
const RUNS = 2_000
const OPEN = 32
/** Runs of each process before it counts: a process that has done few compiles still. */
const WARM_UP = 3_000
const SHARDS = 6
const REQUESTS = 100

class Member {
  readonly #child: ChildProcess

  private constructor(child: ChildProcess) {
    this.#child = child
  }

  static async start(settings: object): Promise<Member> {
    const child = fork(PROGRAM, [JSON.stringify(settings)])
    await once(child, 'message')
    return new Member(child)
  }

  async do(order: Order): Promise<unknown> {
    const answer = once(this.#child, 'message')
    this.#child.send(order)
    const [{ value, error }] = (await answer) as [{ value?: unknown; error?: string }]
    if (error !== undefined) throw new Error(error)
    return value
  }

  async end(): Promise<void> {
    this.#child.kill('SIGKILL')
    await once(this.#child, 'exit')
  }
}

/** Members that have all shards, each its share. */
async function membersOf(url: string, name: string, count: number): Promise<Member[]> {
  const members = await Promise.all(Array.from({ length: count }, () => Member.start({ url, name })))
  const held = async () => Promise.all(members.map(async (member) => (await member.do({ shards: true })) as number[]))
  while ((await held()).some((shards) => shards.length !== SHARDS / count)) await sleep(50)
  return members
}

/** Runs a second of all members together. */
async function rateOf(members: readonly Member[], prefix: string): Promise<number> {
  const each = (count: number, what: string) =>
    Promise.all(
      members.map((member, at) =>
        member.do({
          runs: {
            count: Math.ceil(count / members.length),
            open: Math.ceil(OPEN / members.length),
            prefix: `${prefix} ${what} ${at}`,
          },
        }),
      ),
    )
  await each(WARM_UP * members.length, 'warm')
  const times = (await each(RUNS, 'run')) as number[]
  return RUNS / (Math.max(...times) / 1_000)
}

async function withServer<Figure extends string>(
  figures: readonly Figure[],
  measure: (server: PostgresServer, folder: string) => Promise<Measurement<Figure>>,
): Promise<Measurement<Figure>> {
  const bin = postgresFolder()
  if (!bin) {
    const ratios = Object.fromEntries(figures.map((figure) => [figure, []])) as unknown as Record<Figure, number[]>
    return { ratios, details: [], notes: ['no PostgreSQL is installed here'] }
  }
  const folder = mkdtempSync(join(tmpdir(), 'dramatis-bench-'))
  const server = await PostgresServer.start(bin)
  try {
    return await measure(server, folder)
  } finally {
    await server.remove()
    rmSync(folder, { recursive: true, force: true })
  }
}

const RATES = ['1 process over one with files', '2 processes over it', '3 processes over it'] as const

export const b27: Benchmark<(typeof RATES)[number]> = {
  id: 'B27',
  question: `runs a second of a durable team, ${OPEN} open: processes on one PostgreSQL over one process with files`,
  must: { [RATES[0]]: atLeast(0.5), [RATES[1]]: atLeast(0.9), [RATES[2]]: atLeast(1.2) },
  goal: { [RATES[0]]: atLeast(0.7), [RATES[1]]: atLeast(1.2), [RATES[2]]: atLeast(1.5) },
  run: () =>
    withServer(RATES, async (server, folder) => {
      const ratios: Record<(typeof RATES)[number], number[]> = { [RATES[0]]: [], [RATES[1]]: [], [RATES[2]]: [] }
      const files: number[] = []
      for (let round = 0; round < ROUNDS; round++) {
        const alone = await Member.start({ name: 'files', log: join(folder, `log ${round}`) })
        const rate = await rateOf([alone], `files ${round}`)
        files.push(rate)
        await alone.end()
        for (const [at, figure] of RATES.entries()) {
          const members = await membersOf(server.url, `bench ${round} ${at}`, at + 1)
          ratios[figure].push((await rateOf(members, `round ${round}`)) / rate)
          await Promise.all(members.map((member) => member.end()))
        }
      }
      return {
        ratios,
        details: [],
        notes: [`one process with files did ${Math.round(median(files))} runs a second`],
      }
    }),
}

const KEYED = 'request with a key to another process over a bare NOTIFY there and back'

export const b28: Benchmark<typeof KEYED> = {
  id: 'B28',
  question: 'a request with a key to another process: durable there, and answered by a notice; p50',
  must: { [KEYED]: atMost(4) },
  goal: { [KEYED]: atMost(3) },
  run: () =>
    withServer([KEYED], async (server) => {
      const [one, two] = (await membersOf(server.url, 'keyed', 2)) as [Member, Member]
      await two.do({ answers: true })
      const [mine, theirs] = [await one.do({ shards: true }), await two.do({ shards: true })] as [number[], number[]]
      const all = Array.from({ length: 5_000 }, (_, n) => `key ${n}`)
      const keys = all.filter((key) => theirs.includes(shardOf(key, SHARDS)))
      const own = all.find((key) => mine.includes(shardOf(key, SHARDS)))!
      const client = new pg.Client(server.url)
      await client.connect()
      await client.query('listen bare_back')
      const asked: number[] = []
      const bare: number[] = []
      for (let round = 0; round <= ROUNDS; round++) {
        const some = keys.slice(round * REQUESTS, (round + 1) * REQUESTS)
        const us = (await one.do({ keys: [own, ...some] })) as number[]
        const there: number[] = []
        for (let n = 0; n < REQUESTS; n++) there.push(await bareUs(client))
        if (round === 0) continue // the code was cold
        asked.push(median(us.slice(1)))
        bare.push(median(there))
      }
      await client.end()
      await Promise.all([one.end(), two.end()])
      return {
        ratios: { [KEYED]: asked.map((us, at) => us / bare[at]!) },
        details: [
          { label: 'a request with a key', value: median(asked), unit: 'us' },
          { label: 'a bare NOTIFY there and back', value: median(bare), unit: 'us' },
        ],
      }
    }),
}

/** Time of a notice to the other process and of its answer. */
async function bareUs(client: pg.Client): Promise<number> {
  const since = performance.now()
  const back = once(client, 'notification')
  await client.query("select pg_notify('bare_to', 'x')")
  await back
  return (performance.now() - since) * 1_000
}
