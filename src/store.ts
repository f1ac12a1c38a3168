/** For who brings a store of a team's log, or an engine for a cluster: the contracts, and their tests. */
export type {
  ClusterKeep,
  ClusterMember,
  ClusterNotice,
  ClusterStore,
  ClusterTask,
  ClusterTimes,
  ClusterView,
  NewMember,
  ShardLog,
  TakenTask,
  TaskOutcome,
  TaskState,
} from './runtime/cluster/cluster-store.ts'
export { clusterStoreContract } from './runtime/cluster/contract.ts'
export { type ContractTest, logStoreContract } from './runtime/store/contract.ts'
export type {
  Block,
  Checkpoint,
  LogState,
  LogStore,
  OpenedLog,
  Position,
  ReadOptions,
  StoredBlock,
} from './runtime/store/log-files.ts'
