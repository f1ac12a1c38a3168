/** Files of the log that cannot be read or written, or are none: errors name them, and nobody waits for ever. */
import { execFileSync } from 'node:child_process'
import { mkdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { FileStore } from '../../src/runtime/store/file-store.ts'
import { realFiles } from '../../src/runtime/store/log-files.ts'
import { readLog } from '../../src/runtime/store/log-reader.ts'
import { contentOf } from './blocks.ts'
import { failureOf, folderOf, segmentsOf, written } from './log-folders.ts'

const small = { segmentBytes: 1_000 }
const noPipes = process.platform === 'win32' && 'Windows has no named pipes in folders'

t.test('an error while a file is read or written names the file', async (t) => {
  const folder = folderOf(t)
  await written(folder, 50, small)
  const segment = join(folder, segmentsOf(folder)[1]!)
  rmSync(segment)
  mkdirSync(segment) // its reads fail, as those of a disk that is broken
  const named = new RegExp(`illegal operation on a directory, read '.*${segmentsOf(folder)[1]}'`)
  t.match(await failureOf(new FileStore(folder).open()), { code: 'LOG_LOST', message: named })
  t.match(await failureOf(contentOf(readLog(folder))), { code: 'EISDIR', message: named })
  const file = await realFiles.create(join(folder, 'file'))
  await file.close()
  t.match(await failureOf(file.write(new Uint8Array(1), 0)), { message: /'.*file'$/ })
  t.match(await failureOf(file.sync()), { message: /'.*file'$/ })
})

t.test('a pipe in place of a file is refused, and nobody waits at it', { skip: noPipes }, async (t) => {
  const folder = folderOf(t)
  await written(folder, 50, small)
  const segment = join(folder, segmentsOf(folder)[1]!)
  rmSync(segment)
  execFileSync('mkfifo', [segment])
  const named = new RegExp(`not a regular file, open '.*${segmentsOf(folder)[1]}'`)
  t.match(await failureOf(new FileStore(folder).open()), { code: 'LOG_LOST', message: named })
  t.match(await failureOf(contentOf(readLog(folder))), { code: 'EINVAL', message: named })
})
