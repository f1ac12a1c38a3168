/** Places of clusters and logs, as the command line has them. */
import type { SeenCluster } from '../../runtime/cluster/cluster-store.ts'
import type { ReadBlocks } from '../../runtime/log/read-entries.ts'
import { isLogHeld } from '../../runtime/store/log-lock.ts'
import { readLog } from '../../runtime/store/log-reader.ts'
import { logFolder } from '../../runtime/views/recorded-runs.ts'
import { environment } from '../../shared/environment.ts'
import { ConfigurationError } from '../../shared/errors.ts'
import { own } from '../../shared/values.ts'

export interface ClusterPlace {
  cluster?: string
  clusterEnv?: string
}

/**
 * Address of a cluster's database: no list of processes shows the value of a variable.
 *
 * @throws ConfigurationError for both, and for a variable that is not set.
 */
export function clusterUrlOf({ cluster, clusterEnv }: ClusterPlace): string | undefined {
  if (clusterEnv === undefined) return cluster
  if (cluster !== undefined)
    throw new ConfigurationError('--cluster and --cluster-env: give one of the two.', { path: 'cluster.url' })
  const url = own(environment(), clusterEnv)
  if (url) return url
  const text = `--cluster-env ${clusterEnv}: there is no such environment variable, or it is empty.`
  throw new ConfigurationError(text, { path: 'cluster.url' })
}

export const isClusterUrl = (text: string): boolean => /^(postgres(ql)?|nats|tls):\/\//.test(text)

const engineAt = (url: string) =>
  /^(nats|tls):/.test(url) ? import('../../jetstream/look.ts') : import('../../postgres/look.ts')

/**
 * Looks at a cluster of an engine; without a name, at the only one that it has.
 *
 * @throws ConfigurationError if the engine knows no such cluster, ClusterUnreachableError
 */
export async function seenCluster(url: string, given?: string): Promise<SeenCluster & { name: string }> {
  const { lookAt } = await engineAt(url)
  const first = await lookAt({ url, name: given ?? 'default' })
  const { names } = first
  const name = given ?? (names.length === 1 ? names[0]! : 'default')
  if (names.includes(name)) return { ...(name === (given ?? 'default') ? first : await lookAt({ url, name })), name }
  const known = names.join(', ') || 'none'
  const what = given === undefined ? 'say which cluster' : `the engine knows no cluster "${given}"`
  throw new ConfigurationError(`--cluster-name: ${what}. There are: ${known}.`, { path: 'cluster-name' })
}

export interface LogAt {
  /** Folder, or URL of the engine of a cluster. */
  log: string
  clusterName?: string
}

/** A log that is only read: that of a folder, or of one shard. */
export interface ReadableLog {
  readonly read: ReadBlocks
  /** True if a process has it. */
  isHeld(): Promise<boolean>
}

/**
 * Returns the logs of a team: one, or those of all shards. `where`: for people.
 *
 * @throws ConfigurationError, ClusterUnreachableError
 */
export async function logsAt(
  { log, clusterName }: LogAt,
  folder: string,
): Promise<{ where: string; logs: readonly ReadableLog[] }> {
  if (!isClusterUrl(log)) {
    if (clusterName !== undefined)
      throw new ConfigurationError('--cluster-name goes with --log <url of the cluster>.', { path: 'cluster-name' })
    const path = logFolder(log, folder)
    return { where: path, logs: [{ read: () => readLog(path), isHeld: () => isLogHeld(path) }] }
  }
  const { name, shards } = await seenCluster(log, clusterName)
  const { readShard } = await engineAt(log)
  const logs = shards.map(({ shard, owner }) => ({
    read: () => readShard({ url: log, name }, shard),
    isHeld: async () => owner !== null,
  }))
  return { where: `cluster "${name}"`, logs }
}
