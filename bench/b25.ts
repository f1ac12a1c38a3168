/** Takeover in a cluster on PostgreSQL: from the SIGKILL of a process until the others hold all shards. */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { MemberProcess } from '../examples/cluster-demo/member-process.ts'
import { PostgresServer, postgresFolder } from '../examples/cluster-demo/postgres-server.ts'
import { atMost, type Benchmark } from './benchmark.ts'
import { median } from './statistics.ts'

const FIGURE = 'takeover after a kill, over suspectMs'
const ROUNDS = 5
const SHARDS = 16
const SUSPECT_MS = 3_000
const LOOK_MS = 20

export const b25: Benchmark<typeof FIGURE> = {
  id: 'B25',
  question: 'takeover of the shards of a killed process',
  must: { [FIGURE]: atMost(1.5) },
  goal: { [FIGURE]: atMost(1.1) },
  async run() {
    const bin = postgresFolder()
    if (!bin) return { ratios: { [FIGURE]: [] }, details: [], notes: ['PostgreSQL is not installed here'] }
    const folder = mkdtempSync(join(tmpdir(), 'dramatis-bench-'))
    const server = await PostgresServer.start(bin)
    const cluster = { url: server.url, name: 'bench', shards: SHARDS, times: { suspectMs: SUSPECT_MS } }
    const members = [1, 2, 3].map(() => new MemberProcess({ cluster, effects: join(folder, 'effects') }))
    try {
      await Promise.all(members.map((member) => member.run()))
      const tookMs: number[] = []
      for (let round = 0; round < ROUNDS; round++) {
        const victim = members[round % members.length]!
        const others = members.filter((member) => member !== victim)
        await shared(members)
        await victim.signal('SIGKILL')
        const began = performance.now()
        await shared(others)
        tookMs.push(performance.now() - began)
        await victim.run()
      }
      return {
        ratios: { [FIGURE]: tookMs.map((ms) => ms / SUSPECT_MS) },
        details: [{ label: `until two hold ${SHARDS} shards`, value: median(tookMs), unit: 'ms' }],
        notes: [`three processes, suspectMs ${SUSPECT_MS}, beatMs 2,000; no load`],
      }
    } finally {
      await Promise.all(members.map((member) => member.signal('SIGKILL')))
      await server.remove()
      rmSync(folder, { recursive: true, force: true })
    }
  },
}

/** Resolves when these hold all shards, a fair share each. */
async function shared(members: readonly MemberProcess[]): Promise<void> {
  for (;;) {
    const held = (await Promise.all(members.map((member) => member.ask('shards')))) as number[][]
    const share = Math.ceil(SHARDS / members.length)
    if (new Set(held.flat()).size === SHARDS && held.every(({ length }) => length <= share)) return
    await sleep(LOOK_MS)
  }
}
