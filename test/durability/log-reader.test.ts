/** A log is read while its owner has it, and is not changed by that. */
import { readdirSync, statSync, truncateSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { FileStore } from '../../src/runtime/store/file-store.ts'
import { realFiles } from '../../src/runtime/store/log-files.ts'
import { readLog } from '../../src/runtime/store/log-reader.ts'
import { appendAll, contentOf, entriesUpTo } from './blocks.ts'
import { folderOf, segmentsOf } from './log-folders.ts'

t.test('a reader sees what its owner has written, in order, over several segments', async (t) => {
  const folder = folderOf(t)
  const store = new FileStore(folder, { segmentBytes: 1_000 })
  await store.open()
  await appendAll(store, 1, 30)
  t.ok(segmentsOf(folder).length > 1)
  t.same(await contentOf(readLog(folder)), entriesUpTo(30))
  await appendAll(store, 31, 40)
  t.same(await contentOf(readLog(folder)), entriesUpTo(40))
  await store.close()
})

t.test('a reader leaves an unfinished block alone', async (t) => {
  const folder = folderOf(t)
  const store = new FileStore(folder)
  await store.open()
  await appendAll(store, 1, 5)
  await store.close()
  const [segment] = segmentsOf(folder)
  const path = join(folder, segment!)
  truncateSync(path, statSync(path).size - 8)
  const [before, size] = [readdirSync(folder), statSync(path).size]
  t.same(await contentOf(readLog(folder)), entriesUpTo(4))
  t.same([readdirSync(folder), statSync(path).size], [before, size])
})

t.test('a reader sees a block whole that its owner had not ended at first', async (t) => {
  const folder = folderOf(t)
  const store = new FileStore(folder)
  await store.open()
  await appendAll(store, 1, 5)
  const [segment] = segmentsOf(folder)
  let reads = 0
  const read = async (path: string, from?: number, bytes?: number) => {
    const found = await realFiles.read(path, from, bytes)
    return path.endsWith(segment!) && reads++ === 0 ? found.subarray(0, found.length - 8) : found
  }
  t.same(await contentOf(readLog(folder, { files: { ...realFiles, read } })), entriesUpTo(5))
  await store.close()
})
