/** What a log on PostgreSQL, and on JetStream, costs over one in files that is flushed: runs, appends, wake-ups. */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { PostgresServer, postgresFolder } from '../examples/cluster-demo/postgres-server.ts'
import { NatsBrokers, natsServer, WHY_NOT } from '../test/jetstream/nats-brokers.ts'
import { atLeast, type Benchmark, type Detail } from './benchmark.ts'
import { runProgram } from './child.ts'
import type { Measured, Place } from './programs/kept-log.ts'
import { median } from './statistics.ts'

const FIGURE = 'durable runs on PostgreSQL over files'
const ROUNDS = 5
const PLACES: readonly Place[] = ['files', 'postgres', 'jetstream']

export const b26: Benchmark<typeof FIGURE> = {
  id: 'B26',
  question: 'runs of code agents, 32 open, each durable before it is told: on PostgreSQL over files with commit',
  must: { [FIGURE]: atLeast(0.7) },
  goal: { [FIGURE]: atLeast(1) },
  async run() {
    const bin = postgresFolder()
    if (!bin) return { ratios: { [FIGURE]: [] }, details: [], notes: ['PostgreSQL is not installed here'] }
    const folder = mkdtempSync(join(tmpdir(), 'dramatis-bench-'))
    const server = await PostgresServer.start(bin, ['fsync=on'])
    const program = natsServer()
    const brokers = program ? await NatsBrokers.start(program) : undefined
    const rounds: Record<Place, Measured[]> = { files: [], postgres: [], jetstream: [] }
    try {
      for (let round = 0; round < ROUNDS; round++) {
        const measure = async (place: Place, at: string) =>
          rounds[place].push(await runProgram<Measured>('kept-log', [place, at, `bench ${round}`]))
        await measure('files', join(folder, String(round)))
        await measure('postgres', server.url)
        if (brokers) await measure('jetstream', brokers.url)
      }
    } finally {
      await brokers?.remove()
      await server.remove()
      rmSync(folder, { recursive: true, force: true })
    }
    const runs = rounds.files.map(({ runs }, round) => rounds.postgres[round]!.runs / runs)
    return {
      ratios: { [FIGURE]: runs },
      details: PLACES.flatMap((place) => (rounds[place].length > 0 ? detailsOf(place, rounds[place]) : [])),
      notes: [
        'files and PostgreSQL flush each; three brokers of NATS have each in memory of the machine; all share it',
        ...(brokers ? [] : [`JetStream is not measured: ${WHY_NOT}`]),
      ],
    }
  },
}

function detailsOf(place: Place, rounds: readonly Measured[]): Detail[] {
  const middle = (of: (round: Measured) => number) => median(rounds.map(of))
  const woken = place === 'files' ? undefined : middle(({ wokenMs }) => wokenMs) * 1_000
  return [
    { label: `${place}: runs`, value: middle(({ runs }) => runs), unit: '/s' },
    { label: `${place}: 4 KB, one at a time`, value: middle(({ single }) => single), unit: '/s' },
    { label: `${place}: 4 KB, eight writers`, value: middle(({ eight }) => eight), unit: '/s' },
    { label: `${place}: 64 KB, eight writers`, value: middle(({ large }) => large / 16), unit: 'MB/s' },
    ...(woken === undefined
      ? []
      : [{ label: `${place}: another process is told of a task`, value: woken, unit: 'us' as const }]),
  ]
}
