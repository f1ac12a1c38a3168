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

/** What a write says beside key, value and type. */
export interface WriteOptions {
  /** 0 to 1; 1. */
  confidence?: number
  /** The key that this entry replaces; it must exist. */
  supersedes?: string
  /** The keys that this entry rests on; they need not exist yet. */
  references?: string[]
  /** Refuses the write unless the key is at this version; 0 means that it must not exist. */
  ifVersion?: number
}

/** Keeps the entries that equal it in each field that it states. */
export interface QueryFilter {
  entryType?: string
  author?: string
  key?: string
}

/**
 * Shared knowledge: one entry a key, with all its versions. Keys are words with dots between them, at most 256 characters.
 * Kept in the host. A read in a turn is a logged step, so a redelivered turn reads what it read.
 * Source: document 002, blackboard.
 *
 * @example
 * await context.blackboard.write('finding.rain', { mm: 55.9 }, 'finding', { confidence: 0.99 })
 * const findings = await context.blackboard.query({ entryType: 'finding' })
 */
export interface Blackboard {
  /**
   * Writes the next version of a key. Rejects with `MessageRejectedError` for a wrong key or value, or a stale
   * `ifVersion`.
   */
  write<T>(key: string, value: T, entryType: string, options?: WriteOptions): Promise<BlackboardEntry<T>>
  /**
   * The newest entry of a key, or undefined. With a schema: its value as the schema returns it; `MessageRejectedError`
   * if it misses it.
   */
  read<T = unknown>(key: string, schema?: StandardSchemaV1<unknown, T>): Promise<BlackboardEntry<T> | undefined>
  /** The entries that hold, in the order in which they were last written; superseded ones only by their key. */
  query(filter?: QueryFilter): Promise<BlackboardEntry[]>
  /**
   * On the host, also for a script there; in a thread use `context.subscribe`. Resolves to a function that ends the
   * subscription.
   */
  subscribe(pattern: string, callback: (entry: BlackboardEntry) => void): Promise<() => void>
  /**
   * The entry of a key, as soon as it is there. Rejects with `RequestTimeoutError`; by default after the team's
   * `globalTimeoutMs`.
   */
  waitFor(key: string, options?: { timeoutMs?: number; signal?: AbortSignal }): Promise<BlackboardEntry>
  /** All versions of a key, the oldest first. */
  getHistory(key: string): Promise<BlackboardEntry[]>
}
