/** Address of a cluster's database, as the command line has it: no list of processes shows the value of a variable. */
import { environment } from '../../shared/environment.ts'
import { ConfigurationError } from '../../shared/errors.ts'
import { own } from '../../shared/values.ts'

export interface ClusterPlace {
  cluster?: string
  clusterEnv?: string
}

/** @throws ConfigurationError for both, and for a variable that is not set. */
export function clusterUrlOf({ cluster, clusterEnv }: ClusterPlace): string | undefined {
  if (clusterEnv === undefined) return cluster
  if (cluster !== undefined)
    throw new ConfigurationError('--cluster and --cluster-env: give one of the two.', { path: 'cluster.url' })
  const url = own(environment(), clusterEnv)
  if (url) return url
  const text = `--cluster-env ${clusterEnv}: there is no such environment variable, or it is empty.`
  throw new ConfigurationError(text, { path: 'cluster.url' })
}
