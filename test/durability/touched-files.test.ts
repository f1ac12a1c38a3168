/** What others do to the files of a log while a process has it: a rotation of *.log files, a copy put over it, a clean-up. */
import {
  appendFileSync,
  copyFileSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import type { Test } from 'tap'
import t from 'tap'
import { createTeam } from '../../src/index.ts'
import { FileStore } from '../../src/runtime/store/file-store.ts'
import { virtualClock } from '../../src/testing.ts'
import { appendAll, blockOf, contentOf, entriesUpTo } from './blocks.ts'
import { silent } from './damaged-logs.ts'
import { failureOf, folderOf, segmentsOf } from './log-folders.ts'

/** Time within which a log that is not written to notices it. */
const NOTICED_MS = 5_000

const size = (path: string) => statSync(path).size
const deeds: Record<string, { does(path: string): void; says: RegExp }> = {
  'is removed': { does: (path) => rmSync(path), says: /\.log of the log was removed/ },
  'is renamed': { does: (path) => renameSync(path, `${path}.1`), says: /\.log of the log was removed/ },
  'is copied and truncated': {
    does(path) {
      copyFileSync(path, `${path}.1`)
      truncateSync(path)
    },
    says: /\.log of the log was cut: it should have \d+ bytes, and has \d+/,
  },
  'loses its last byte': { does: (path) => truncateSync(path, size(path) - 1), says: /of the log was cut/ },
  'is replaced by a copy': {
    does(path) {
      copyFileSync(path, `${path}.copy`)
      renameSync(`${path}.copy`, path)
    },
    says: /\.log of the log was replaced by another one/,
  },
  'is overwritten with something shorter': { does: (path) => writeFileSync(path, 'hello'), says: /of the log was cut/ },
}

async function opened(t: Test) {
  const folder = folderOf(t)
  const clock = virtualClock()
  const lost: string[] = []
  const onLost = ({ message }: Error) => void lost.push(message)
  const store = new FileStore(folder, { clock, segmentBytes: 1_000, onLost })
  await store.open()
  await appendAll(store, 1, 20) // the second segment is half full
  await store.sync()
  const file = (at: number) => join(folder, segmentsOf(folder).at(at)!)
  return { store, clock, folder, file, lost }
}

for (const [what, { does, says }] of Object.entries(deeds)) {
  t.test(`a segment that ${what} while it is written: the next sync fails`, async (t) => {
    const { store, file, lost } = await opened(t)
    does(file(-1))
    await store.append(blockOf(21)) // the file grows, wherever it goes
    await t.rejects(store.sync(), { code: 'LOG_LOST', message: says })
    await t.rejects(store.append(blockOf(22)), { code: 'LOG_LOST', message: says })
    t.match(lost, [says])
    t.equal(store.state, 'lost')
    await store.close()
  })

  for (const [which, at] of Object.entries({ newest: -1, oldest: 0 }))
    t.test(`the ${which} segment ${what} while nothing is written: it is noticed`, async (t) => {
      const { store, clock, file, lost } = await opened(t)
      await clock.advance(NOTICED_MS)
      does(file(at))
      while (store.state !== 'lost') {
        await clock.advance(NOTICED_MS)
        await new Promise(setImmediate)
      }
      t.match(lost, [says])
      await t.rejects(store.sync(), { code: 'LOG_LOST', message: says })
      await store.close()
    })
}

t.test('bytes that others add to the segment that is written are noticed', async (t) => {
  const { store, file } = await opened(t)
  appendFileSync(file(-1), 'hello')
  await t.rejects(store.sync(), { code: 'LOG_LOST', message: /others write there/ })
  await store.close()
})

t.test('what the log does itself is nothing to notice: new segments, old ones given up, a restart', async (t) => {
  const { store, clock, folder } = await opened(t)
  let isOver = false
  const looks = (async () => {
    while (!isOver) {
      await clock.advance(NOTICED_MS)
      await new Promise(setImmediate)
    }
  })()
  for (let seq = 21; seq <= 200; seq++) {
    const position = await store.append(blockOf(seq))
    if (seq % 3 === 0) await store.sync()
    if (seq % 40 === 0) await store.dropBefore(position)
  }
  await store.close()
  const next = new FileStore(folder, { clock, segmentBytes: 1_000 })
  await next.open()
  await appendAll(next, 201, 230)
  await clock.advance(NOTICED_MS)
  await next.sync()
  isOver = true
  await looks
  const content = await contentOf(next.read())
  t.same(content, entriesUpTo(230).slice(-content.length))
  await next.close()
})

t.test('the team of such a log is not ready, and interrupts its runs', async (t) => {
  const path = join(folderOf(t), 'log')
  const errors: string[] = []
  const team = createTeam({
    agents: [{ name: 'ann', module: new URL('../fixtures/durability/old-log-agent.js', import.meta.url) }],
    orchestration: { strategy: 'custom', run: async (script, query) => (await script.request('ann', query)).content },
    stateManagement: { path, syncMs: 1 },
    logger: { ...silent, error: (_fields: object, text: string) => void errors.push(text) },
  })
  t.teardown(() => team.close())
  await team.execute('step one')
  t.match(team.health(), { ready: true, log: { ok: true } })
  const segment = join(path, segmentsOf(path)[0]!)
  const before = readFileSync(segment)
  truncateSync(segment)
  await failureOf(team.execute('step two')) // the sync comes before its end or after
  while (team.health().ready) await new Promise((resolve) => setTimeout(resolve, 1))
  t.match(team.health(), { ready: false, log: { ok: false } })
  t.match(errors, [/the durable log is lost/])
  await t.rejects(team.execute('step three'), { code: 'LOG_LOST', message: /was cut/ })
  t.ok(before.length > size(segment))
})
