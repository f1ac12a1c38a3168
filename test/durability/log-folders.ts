/** Folders with logs: how tests make them, damage them and look into them. */
import { mkdtempSync, readdirSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Test } from 'tap'
import { FileStore, type FileStoreOptions } from '../../src/runtime/store/file-store.ts'
import { blockOf, contentOf } from './blocks.ts'

export function folderOf(t: Test): string {
  const folder = mkdtempSync(join(tmpdir(), 'dramatis-log-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  return folder
}

export function segmentsOf(folder: string): string[] {
  return readdirSync(folder)
    .filter((name) => name.endsWith('.log'))
    .sort()
}

export async function written(folder: string, blocks: number, options: FileStoreOptions = {}, syncEach = false) {
  const store = new FileStore(folder, options)
  await store.open()
  for (let seq = 1; seq <= blocks; seq++) {
    await store.append(blockOf(seq))
    if (syncEach) await store.sync()
  }
  await store.close()
}

export async function reopened(folder: string) {
  const store = new FileStore(folder)
  const { lastSeq, cut } = await store.open()
  try {
    return { lastSeq, cut, content: await contentOf(store.read()) }
  } finally {
    await store.close()
  }
}

/** The error that it ends with, or undefined where it succeeds. */
export function failureOf(promise: Promise<unknown>): Promise<unknown> {
  return promise.then(
    () => undefined,
    (error: unknown) => error,
  )
}

/** Bytes of the files in a folder. */
export const bytesIn = (folder: string): number =>
  readdirSync(folder).reduce((sum, name) => sum + statSync(join(folder, name)).size, 0)
