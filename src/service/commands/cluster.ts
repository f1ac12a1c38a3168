/** `dramatis cluster status | shards | drain`: the processes of a team, from outside. */
import { checkAddress, keyOf, PEER_HEADER, PEER_PATH } from '../../runtime/cluster/address.ts'
import { Peers } from '../../runtime/cluster/peers.ts'
import { ConfigurationError, describe } from '../../shared/errors.ts'
import { type ClusterPlace, clusterUrlOf, seenCluster } from '../shared/cluster-url.ts'
import { EXIT } from '../shared/failure.ts'
import { loadEnv } from '../shared/load-team-file.ts'
import type { Surroundings } from './run.ts'

export interface ClusterFlags extends ClusterPlace {
  clusterName: string
  clusterSecretEnv?: string
  json?: boolean
}

const DRAIN_MS = 10_000
const EMPTY = Buffer.from('null')

const look = (flags: ClusterFlags) => seenCluster(urlIn(flags), flags.clusterName)

/** @throws ConfigurationError */
function urlIn(flags: ClusterPlace): string {
  const url = clusterUrlOf(flags)
  if (url !== undefined) return url
  const text =
    '--cluster-env: name an environment variable with the URL of the PostgreSQL, or the NATS, of the cluster.'
  throw new ConfigurationError(text, { path: 'cluster.url' })
}

export async function clusterStatus(flags: ClusterFlags, { answer, folder }: Surroundings): Promise<number> {
  loadEnv(folder)
  const { members, shards } = await look(flags)
  if (flags.json) await answer.write(`${JSON.stringify(members)}\n`)
  else {
    const rows = members.map(({ id, host, pid, address = '-', version = '-', shards: held }) => {
      return [id, host, String(pid), address, version, String(held.length)]
    })
    await answer.write(table([['NODE', 'HOST', 'PID', 'ADDRESS', 'VERSION', 'SHARDS'], ...rows]))
    const free = shards.filter(({ owner }) => owner === null).length
    await answer.write(`${shards.length} shards, ${free} without an owner\n`)
  }
  return EXIT.done
}

export async function clusterShards(flags: ClusterFlags, { answer, folder }: Surroundings): Promise<number> {
  loadEnv(folder)
  const { shards } = await look(flags)
  if (flags.json) await answer.write(`${JSON.stringify(shards)}\n`)
  else {
    const rows = shards.map(({ shard, owner, incarnation, open, bytes }) => {
      return [String(shard), owner ?? '-', String(open), String(bytes), String(incarnation)]
    })
    await answer.write(table([['SHARD', 'NODE', 'OPEN TASKS', 'LOG BYTES', 'TAKEN'], ...rows]))
  }
  return EXIT.done
}

/** Rejects with `ConfigurationError` if no such process is there, or if it cannot be asked. */
export async function clusterDrain(
  node: string,
  flags: ClusterFlags,
  { answer, folder }: Surroundings,
): Promise<number> {
  loadEnv(folder)
  const { clusterName: name, clusterSecretEnv: secretEnv } = flags
  const url = urlIn(flags)
  const options = { url, name, ...(secretEnv !== undefined && { secretEnv }) }
  const peers = new Peers(keyOf(options), () => Date.now())
  const { members } = await look(flags)
  const found = members.filter(({ id }) => id.startsWith(node))
  const [member] = found
  if (!member || found.length > 1) {
    const known = members.map(({ id }) => id).join(', ') || 'none'
    const text = `${node}: ${found.length} processes of the cluster have an id that begins so. There are: ${known}.`
    throw new ConfigurationError(text, { path: 'node' })
  }
  const { id, address, host, pid } = member
  if (address === undefined)
    throw new ConfigurationError(`${node}: process ${pid} on ${host} has no address; send it SIGTERM.`, {
      path: 'node',
    })
  checkAddress(address, options)
  const path = `${PEER_PATH}drain`
  const mark = peers.sign(id, { method: 'POST', path, body: EMPTY }, {})
  const response = await fetch(`${address.replace(/\/$/, '')}${path}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', [PEER_HEADER]: mark },
    body: EMPTY,
    redirect: 'error',
    signal: AbortSignal.timeout(DRAIN_MS),
  }).catch((error: unknown) => {
    const text = `${node}: process ${pid} on ${host} cannot be reached at ${address}: ${describe(error)}.`
    throw new ConfigurationError(text, { path: 'node' }, error)
  })
  if (!response.ok) {
    const { detail = '' } = Object(await response.json().catch(() => ({}))) as { detail?: string }
    throw new ConfigurationError(`${node}: process ${pid} on ${host} refuses: ${detail}`, { path: 'node' })
  }
  await answer.write(`Process ${pid} on ${host} gives its shards over, and ends.\n`)
  return EXIT.done
}

function table(rows: readonly (readonly string[])[]): string {
  const widths = rows[0]!.map((_, column) => Math.max(...rows.map((row) => row[column]!.length)))
  const lines = rows.map((row) =>
    row
      .map((cell, column) => cell.padEnd(widths[column]!))
      .join('  ')
      .trimEnd(),
  )
  return `${lines.join('\n')}\n`
}
