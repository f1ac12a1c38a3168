/**
 * Three processes share the shards of a team on a PostgreSQL that this program starts. Under load one is killed and one
 * is frozen; what they had goes on at the others. The last line is counted from what happened outside of the team.
 */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { type Ended, MemberProcess } from './member-process.ts'
import { PostgresServer, postgresFolder } from './postgres-server.ts'

const SHARDS = 8
const RUNS_A_SECOND = 5
/** Time in which all that was accepted has to end behind the last fault. */
const PATIENCE_MS = 60_000

const bin = postgresFolder()
if (!bin) {
  console.error('PostgreSQL is not installed here. On Debian and Ubuntu: apt-get install -y postgresql')
  process.exit(1)
}

const folder = mkdtempSync(join(tmpdir(), 'cluster-demo-'))
const effects = join(folder, 'effects')
const server = await PostgresServer.start(bin)
console.log(`PostgreSQL runs on port ${server.port}; three processes join a cluster of ${SHARDS} shards.`)
const settings = { cluster: { url: server.url, name: 'demo', shards: SHARDS }, effects }
const members = [1, 2, 3].map(() => new MemberProcess(settings))
const accepted = new Set<string>()
const ends = new Map<string, Ended>()
let isLoading = true
let isOver = false

async function shardsOf(member: MemberProcess): Promise<number[]> {
  return ((await member.ask('shards').catch(() => [])) as number[]) ?? []
}

/** Resolves when these hold all shards; with the time that it took, in s. */
async function allHeldBy(holders: readonly MemberProcess[]): Promise<string> {
  const began = performance.now()
  while ((await Promise.all(holders.map(shardsOf))).flat().length < SHARDS) await sleep(50)
  return ((performance.now() - began) / 1_000).toFixed(1)
}

/** Asks any process until one answers, as a client behind a balancer does. */
async function insist<T>(ask: (member: MemberProcess) => Promise<unknown>): Promise<T | undefined> {
  while (!isOver) {
    const answer = await ask(members[Math.floor(Math.random() * members.length)]!).catch(() => undefined)
    if (answer !== undefined) return answer as T
    await sleep(200)
  }
}

async function client(id: string): Promise<void> {
  if ((await insist((member) => member.ask('submit', id, 3_000))) !== undefined) accepted.add(id)
  const end = await insist<Ended>((member) => member.ask('outcome', id, 5_000))
  if (end) ends.set(id, end)
}

async function load(): Promise<void> {
  const clients: Promise<void>[] = []
  for (let n = 0; isLoading; n++) {
    clients.push(client(`run ${n}`))
    await sleep(1_000 / RUNS_A_SECOND)
  }
  const giveUp = setTimeout(() => {
    isOver = true
  }, PATIENCE_MS)
  await Promise.all(clients)
  clearTimeout(giveUp)
}

try {
  const [first, second, third] = members as [MemberProcess, MemberProcess, MemberProcess]
  await Promise.all(members.map((member) => member.run()))
  await allHeldBy(members)
  const loaded = load()
  await sleep(3_000)
  console.log('SIGKILL: the first process is gone, with what it was at.')
  await first.signal('SIGKILL')
  const kill = await allHeldBy([second, third])
  console.log(`The others have its shards after ${kill} s. It joins again.`)
  await first.run()
  await sleep(3_000)
  console.log('SIGSTOP: the second process is frozen, and does not know it.')
  await second.signal('SIGSTOP')
  const freeze = await allHeldBy([first, third])
  console.log(`The others have its shards after ${freeze} s. It wakes, and finds that it owns nothing any more.`)
  await second.signal('SIGCONT')
  await sleep(3_000)
  isLoading = false
  await loaded

  const lines = readFileSync(effects, 'utf8').split('\n').filter(Boolean)
  const doubled = lines.length - new Set(lines).size
  const finished = [...ends.values()].filter(({ success }) => success).length
  const unknown = [...ends.values()].filter(({ code }) => code === 'OUTCOME_UNKNOWN').length
  const lost = [...accepted].filter((id) => !ends.has(id)).length
  if (unknown > 0) console.log(`${unknown} were told OUTCOME_UNKNOWN: a step that may not be repeated was under way.`)
  console.log(
    `accepted ${accepted.size}, finished ${finished}, lost ${lost}, doubled ${doubled}, takeover: kill ${kill} s, freeze ${freeze} s`,
  )
  process.exitCode = lost === 0 && doubled === 0 && finished + unknown === accepted.size ? 0 : 1
} finally {
  isOver = true
  await Promise.all(members.map((member) => member.signal('SIGKILL')))
  await server.remove()
  rmSync(folder, { recursive: true, force: true })
}
