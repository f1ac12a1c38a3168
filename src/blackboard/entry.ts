/** What stands on a blackboard, and how code reads and writes it. The same interface on the host and in a turn. */
import type { StandardSchemaV1 } from '@standard-schema/spec'

/** One version of one key. `confidence` is 0 to 1; `version` counts from 1; `timestamp` is epoch ms. */
export interface BlackboardEntry<T = unknown> {
  key: string
  value: T
  author: string
  timestamp: number
  entryType: string
  confidence: number
  /** The key that this entry replaces. */
  supersedes: string | null
  /** The keys that this entry rests on. */
  references: string[]
  version: number
}

export interface WriteOptions {
  /** 0 to 1; 1. */
  confidence?: number
  supersedes?: string
  references?: string[]
  /** Refuses the write unless the key is at this version; 0 means that it must not exist. */
  ifVersion?: number
}

export interface QueryFilter {
  entryType?: string
  author?: string
  key?: string
}

/** Kept in the host. A read in a turn is a logged step, so a redelivered turn reads what it read. */
export interface Blackboard {
  write<T>(key: string, value: T, entryType: string, options?: WriteOptions): Promise<BlackboardEntry<T>>
  read<T = unknown>(key: string, schema?: StandardSchemaV1<unknown, T>): Promise<BlackboardEntry<T> | undefined>
  query(filter?: QueryFilter): Promise<BlackboardEntry[]>
  /** On the host; in a thread use `context.subscribe`. Resolves to a function that ends the subscription. */
  subscribe(pattern: string, callback: (entry: BlackboardEntry) => void): Promise<() => void>
  waitFor(key: string, options?: { timeoutMs?: number; signal?: AbortSignal }): Promise<BlackboardEntry>
  getHistory(key: string): Promise<BlackboardEntry[]>
}
