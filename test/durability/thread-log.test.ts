/** Logs of threads: a task logs what was said in it, however long its thread is, and can be read when older ones are gone. */
import { cpSync } from 'node:fs'
import { join } from 'node:path'
import type { Test } from 'tap'
import t from 'tap'
import { createTeam, type StateManagement } from '../../src/index.ts'
import { compactLog } from '../../src/runtime/durability/log-tools.ts'
import { FileStore } from '../../src/runtime/store/file-store.ts'
import { Dice } from '../dice.ts'
import { copyOf, runsIn } from './damaged-logs.ts'
import { bytesIn, folderOf } from './log-folders.ts'

const silent = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} }
const SMALL = { segmentBytes: 2 ** 14, checkpointBytes: 2 ** 15 }

/** A team of two models that answer with new words. `told`: what it warned of. */
function talkingTeam(t: Test, path: string, keep: StateManagement['keep'], sizes = SMALL) {
  const dice = new Dice(1)
  const words = (count: number) => Array.from({ length: count }, () => dice.upTo(36 ** 6).toString(36)).join(' ')
  const told: string[] = []
  const team = createTeam({
    agents: [
      { name: 'ann', description: 'Answers.' },
      { name: 'bob', description: 'Answers too.' },
    ],
    orchestration: {
      strategy: 'custom',
      async run(context, query) {
        const { content } = await context.request('ann', query)
        if (query.startsWith('wait')) await context.sleep(10 ** 9)
        return (await context.request('bob', `What of this? ${content}`)).content
      },
    },
    models: {
      default: {
        offline: true,
        async *complete() {
          yield { type: 'text', text: words(40) }
        },
      },
    },
    logger: { ...silent, warn: (_, text) => void told.push(text) },
    stateManagement: { store: new FileStore(path, sizes), keep },
  })
  t.teardown(() => team.close())
  const ask = async (runId: string, threadId: string) => {
    const run = team.launch(`${runId}: ${words(20)}`, { runId, threadId })
    await run.result
    return JSON.stringify(run.trace)
  }
  return { team, ask, told }
}

t.test('the 100th task of a thread logs no more than the fifth', async (t) => {
  const path = join(folderOf(t), 'log')
  const { team, ask } = talkingTeam(t, path, { runs: 1_000 }, { segmentBytes: 2 ** 26, checkpointBytes: 2 ** 25 })
  const sizes = [0]
  for (let n = 1; n <= 100; n++) {
    await ask(`task ${n}`, 'talk')
    await team.flush()
    sizes.push(bytesIn(path))
  }
  const logged = (from: number, to: number) => sizes.slice(from + 1, to + 1).map((size, i) => size - sizes[from + i]!)
  const mean = (all: readonly number[]) => all.reduce((sum, each) => sum + each, 0) / all.length
  const [first, last] = [mean(logged(4, 10)), mean(logged(90, 100))]
  t.ok(last < 1.1 * first, `${first} bytes a task at first, ${last} at last`)
  t.ok(Math.max(...logged(4, 100)) < 2 * first, `none of ${logged(4, 100)} logs its thread anew`)
})

/** Opens a log as the next process does, and compares what it has of runs with what the first process had. */
async function readAgain(t: Test, path: string, traces: ReadonlyMap<string, string>) {
  const { team, told } = talkingTeam(t, path, { runs: 1_000 })
  await team.start()
  t.same(told, [])
  let read = 0
  for (const { id, status } of await team.listRuns()) {
    if (status !== 'finished') continue
    const run = team.getRun(id)!
    await run.result
    if (JSON.stringify(run.trace) !== traces.get(id)) t.fail(`${id} is not what it was`)
    read += 1
  }
  await team.close()
  await runsIn(path) // all of it, without its checkpoint
  return read
}

t.test('the last runs of threads are read when those before were forgotten, in any process', async (t) => {
  const path = join(folderOf(t), 'log')
  const { team, ask, told } = talkingTeam(t, path, { runs: 8 })
  const traces = new Map<string, string>()
  let least = 1
  for (let n = 1; n <= 120; n++) {
    const [id, thread] = [`task ${n}`, `talk ${n % 3}`]
    traces.set(id, await ask(id, thread))
    if (n % 30 === 20) team.launch(`wait ${n}`, { runId: `waits ${n}`, threadId: `talk ${n % 3}` })
    if (n % 20 !== 0) continue
    await team.flush()
    const copy = join(folderOf(t), 'log')
    cpSync(path, copy, { recursive: true }) // as a process leaves it that is killed
    const read = await readAgain(t, copy, traces)
    t.ok(read >= 8)
    least = Math.min(least, read / n)
  }
  t.same(told, [])
  t.ok(least < 0.5, 'many were forgotten')
})

t.test('a compaction leaves the runs that it keeps as they were, each time with fewer of them', async (t) => {
  const path = join(folderOf(t), 'log')
  const { team, ask } = talkingTeam(t, path, { runs: 1_000 })
  const traces = new Map<string, string>()
  for (let n = 1; n <= 24; n++) traces.set(`task ${n}`, await ask(`task ${n}`, `talk ${n % 2}`))
  await team.close()
  const whole = await runsIn(path)
  for (const runs of [20, 19, 10, 4, 2, 1]) {
    const store = new FileStore(path, SMALL)
    await compactLog(store, { keep: { runs, days: 30, bytes: 2 ** 30 }, logger: silent })
    await store.close()
    const left = await runsIn(path)
    t.equal(left.size, runs)
    for (const [id, entries] of left) t.same(entries, whole.get(id), id)
    t.equal(await readAgain(t, copyOf(t, path), traces), runs)
  }
})
