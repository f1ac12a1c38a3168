/** Entries of the log as bytes, and logs as others read them. */

import { readdirSync, statSync, truncateSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { type DeadLetter, defineAgent } from '../../src/index.ts'
import type { HostRecord, LogEntry } from '../../src/runtime/log/records.ts'
import { lastSeq } from '../../src/runtime/log/run-log.ts'
import { FileStore } from '../../src/runtime/store/file-store.ts'
import { realFiles } from '../../src/runtime/store/log-files.ts'
import { readLog } from '../../src/runtime/store/log-reader.ts'
import { AgentFailedError, ModelError } from '../../src/shared/errors.ts'
import { message } from '../fixtures/message.ts'
import { OpenTeam, silent } from '../kit/team.ts'
import { contentOf } from '../simulation/invariants.ts'
import { appendAll, contentOf as contentOfBlocks, entriesUpTo } from './blocks.ts'
import { decoded, encoded } from './log-entries.ts'
import { folderOf, segmentsOf } from './log-folders.ts'

// Entries of the log as bytes. That nothing of a whole team's log is lost in them is a part of the simulation.

const numbers = { seq: 8, at: 1_700_000_000_000.25, run: 4_000_000_000 }

t.test('a record comes back with its numbers, its text and what is absent in it', async (t) => {
  const record: HostRecord = { kind: 'run.started', ...numbers, query: 'Grüße, 世界 \ud83d\ude80 \u0000' }
  t.strictSame([...decoded(encoded([record]))], [record])
  const question: HostRecord = { kind: 'question', ...numbers, agent: 'a', questionId: 'q', ask: 'ask', text: '?' }
  t.notOk('choices' in [...decoded(encoded([question]))][0]!)
})

t.test('an error comes back as its class, with details and the stack of its cause', async (t) => {
  const cause = new Error('no paper')
  const error = new AgentFailedError('ann: Error: no paper', { agent: 'ann' }, cause)
  const [read] = decoded(encoded([{ kind: 'run.finished', ...numbers, error }]))
  if (read?.kind !== 'run.finished') return t.fail('another record was read')
  t.type(read.error, AgentFailedError)
  t.match(read.error, { message: error.message, details: { agent: 'ann' } })
  t.match(read.error?.cause, { stack: cause.stack })
  const [well] = decoded(encoded([{ kind: 'run.finished', ...numbers, error: null }]))
  t.match(well, { error: null })
})

t.test('a dead letter comes back with the errors of all its attempts', async (t) => {
  const errors = [new AgentFailedError('once'), new ModelError('twice', { reason: 'timeout' })]
  const letter: DeadLetter = { id: 'm', message, reason: 'failed', errors, at: 2 }
  const [read] = decoded(encoded([{ kind: 'message.dead', ...numbers, letter, bytes: 100 }]))
  if (read?.kind !== 'message.dead') return t.fail('another record was read')
  t.match(read.letter, { id: 'm', message: { content: 'Do.' }, reason: 'failed', at: 2 })
  t.same(
    read.letter.errors.map(({ name, message }) => [name, message]),
    [
      ['AgentFailedError', 'once'],
      ['ModelError', 'twice'],
    ],
  )
})

t.test('bytes that are no entries are refused', async (t) => {
  const bytes = encoded([{ kind: 'run.started', ...numbers, query: 'go' }])
  t.throws(() => [...decoded(bytes.subarray(0, bytes.byteLength - 8))], /ends behind the last of 64 bytes/)
  const unknown = Buffer.from(bytes)
  unknown.writeUInt32LE(9, 0)
  t.throws(() => [...decoded(unknown)], /is of kind 9/)
  t.same([...decoded(new Uint8Array())], [])
})

t.test('the log of a team that was written to a store is read from it again', async (t) => {
  const folder = folderOf(t)
  const store = new FileStore(folder, { segmentBytes: 2_000 })
  await store.open()
  const logged: LogEntry[] = []
  const writes: Promise<number>[] = []
  const team = teamOf()
  team.host.journal.records$.subscribe((batch) => {
    logged.push(...batch)
    const runs = [...new Set(batch.map(({ run }) => run))]
    const [firstSeq, last] = [batch[0]!.seq, lastSeq(batch.at(-1)!)]
    writes.push(store.append({ firstSeq, lastSeq: last, carried: false, runs, entries: encoded(batch) }))
  })
  for (const query of ['Write it.', 'Fail at it.']) {
    const run = team.launch(query)
    await team.clock.runToIdle()
    await run.result
  }
  const closed = team.close()
  await team.clock.runToIdle()
  await closed
  await Promise.all(writes)
  await store.close()
  const again = new FileStore(folder)
  await again.open()
  const read: LogEntry[] = []
  for await (const { entries } of again.read()) read.push(...decoded(entries))
  await again.close()
  const kinds = new Set(logged.map(({ kind }) => kind))
  for (const kind of ['frames', 'run.started', 'agent.status', 'message.dead', 'run.finished'] as const)
    t.ok(kinds.has(kind), kind)
  t.same(read.map(contentOf), logged.map(contentOf))
})

/** The first agent asks the second, or has no time for its answer: then the second fails. */
function teamOf(): OpenTeam {
  const definitions = new Map([
    [
      'lead',
      defineAgent({
        async receive({ content }, context) {
          if (content.startsWith('Write')) return context.request('writer', content)
          await context.send('writer', content)
          return 'Sent.'
        },
      }),
    ],
    [
      'writer',
      defineAgent({
        receive: ({ content }) => {
          if (content.startsWith('Fail')) throw new Error('no paper')
          return 'Written.'
        },
      }),
    ],
  ])
  const agents = [...definitions.keys()].map((name) => ({ name, module: name }))
  return new OpenTeam(
    { agents, orchestration: { strategy: 'sequential', agentOrder: ['lead'] }, logger: silent },
    definitions,
    1,
  )
}

// A log is read while its owner has it, and is not changed by that.

t.test('a reader sees what its owner has written, in order, over several segments', async (t) => {
  const folder = folderOf(t)
  const store = new FileStore(folder, { segmentBytes: 1_000 })
  await store.open()
  await appendAll(store, 1, 30)
  t.ok(segmentsOf(folder).length > 1)
  t.same(await contentOfBlocks(readLog(folder)), entriesUpTo(30))
  await appendAll(store, 31, 40)
  t.same(await contentOfBlocks(readLog(folder)), entriesUpTo(40))
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
  t.same(await contentOfBlocks(readLog(folder)), entriesUpTo(4))
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
  t.same(await contentOfBlocks(readLog(folder, { files: { ...realFiles, read } })), entriesUpTo(5))
  await store.close()
})
