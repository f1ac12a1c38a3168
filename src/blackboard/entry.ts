/** Entries of a blackboard, and the interface to read and write them. It is the same on the host and in a turn. */
import type { StandardSchemaV1 } from '@standard-schema/spec'

/** Entry: one version of one key. `confidence` is 0 to 1; `version` counts from 1; `timestamp` is epoch ms. */
export interface BlackboardEntry<T = unknown> {
  key: string
  value: T
  author: string
  timestamp: number
  entryType: string
  confidence: number
  /** Key that this entry replaces. */
  supersedes: string | null
  /** Keys of the entries that this entry is based on. */
  references: string[]
  version: number
}

/** Options of a write, besides key, value and type. */
export interface WriteOptions {
  /** Confidence in the entry, from 0 to 1. Default: 1. */
  confidence?: number | undefined
  /** Key that this entry replaces; it must exist. */
  supersedes?: string | undefined
  /** Keys of the entries that this entry is based on; they need not exist yet. */
  references?: readonly string[] | undefined
  /**
   * Version that the key must have; 0 means that the key must not exist. Otherwise the write is rejected, with
   * `details.path` 'ifVersion', the versions `expected` and `actual`, and the `author` of the latter.
   */
  ifVersion?: number | undefined
}

/** Filter that keeps the entries that equal it in each field that it sets. */
export interface QueryFilter {
  entryType?: string | undefined
  author?: string | undefined
  key?: string | undefined
}

/**
 * Shared knowledge: one entry per key, with all its versions. Keys are words separated by dots, with at most 256
 * characters. The blackboard is in the host. A read in a turn is a logged step, so a redelivered turn reads the same
 * values again. Source: document 002, blackboard.
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
   * Returns the newest entry of a key, or undefined. With a schema, the value is what the schema returns for it. A
   * value that does not match rejects with `MessageRejectedError`.
   */
  read<T = unknown>(key: string, schema?: StandardSchemaV1<unknown, T>): Promise<BlackboardEntry<T> | undefined>
  /**
   * Returns the valid entries, in the order in which they were last written; superseded ones only if the filter names
   * their key.
   */
  query(filter?: QueryFilter): Promise<BlackboardEntry[]>
  /**
   * Calls back on each later write whose key matches the pattern. Resolves to a function that ends the subscription.
   *
   * A callback of an agent runs in the agent's thread, between its turns; use no verbs in it. It ends with the run and
   * with its thread: a turn that is tried again subscribes again, and gets later entries alone. `context.subscribe`
   * sends entries to `observe` instead, also after a restart. An agent with `instances` rejects with
   * `ConfigurationError`, because another instance would get the entry.
   */
  subscribe(pattern: string, callback: (entry: BlackboardEntry) => void): Promise<() => void>
  /**
   * Returns the entry of a key as soon as it exists. Rejects with `RequestTimeoutError` after the timeout, by default
   * the team's `globalTimeoutMs`.
   */
  waitFor(
    key: string,
    options?: { timeoutMs?: number | undefined; signal?: AbortSignal | undefined },
  ): Promise<BlackboardEntry>
  /** Returns all versions of a key, the oldest first. */
  getHistory(key: string): Promise<BlackboardEntry[]>
}
