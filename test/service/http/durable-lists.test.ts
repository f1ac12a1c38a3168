/** Lists and look-ups of a served team with a durable log: what they read of it, and what they leave in memory. */
import { join } from 'node:path'
import type { Test } from 'tap'
import t from 'tap'
import { createTeam } from '../../../src/index.ts'
import { FileStore } from '../../../src/runtime/store/file-store.ts'
import { httpApi } from '../../../src/service/api/index.ts'
import { FaultyFiles } from '../../durability/faulty-files.ts'
import { folderOf } from '../../durability/log-folders.ts'
import { silent } from '../../kit/team.ts'
import { callerOf, send } from './stage.ts'

const LONG = 'long '.repeat(200)
const RUNS = 130

/** A service that counts what it reads of the log in the folder. */
function service(t: Test, path: string) {
  const files = new FaultyFiles()
  const team = createTeam({
    agents: [{ name: 'ann', systemPrompt: 'You are never asked.' }],
    orchestration: { strategy: 'custom', name: 'an answer', run: async () => 'answered' },
    models: { default: { offline: true, async *complete() {} } },
    stateManagement: { store: new FileStore(path, { files }) },
    logger: silent,
  })
  const limits = { postsPerSecond: 10_000 }
  const api = httpApi({ teams: { desk: team }, authorize: callerOf, logger: silent, limits })
  const close = async () => {
    await api.close()
    await team.close()
  }
  t.teardown(close)
  const ask = (method: string, path: string, caller: string, body?: unknown) =>
    send(api, method, path, { caller, ...(body !== undefined && { body }) })
  return { team, files, ask, close }
}

/** A log with runs of two callers. Those of bob come last. */
async function logged(t: Test): Promise<string> {
  const path = join(folderOf(t), 'log')
  const before = service(t, path)
  for (let n = 0; n < RUNS; n++)
    await before.team.execute(`${n} ${LONG}`, { runId: `run ${n}`, metadata: { caller: n < RUNS / 2 ? 'ann' : 'bob' } })
  await before.close()
  return path
}

t.test('a list reads nothing of the log, whoever asks for it, and says whose the tasks are', async (t) => {
  const { files, team, ask } = service(t, await logged(t))
  await team.start()
  const read = files.readBytes
  const own = await ask('GET', '/api/tasks?limit=12', 'ann:run')
  const last = RUNS / 2 - 1
  t.equal(own.body.tasks.length, 12)
  t.match(own.body.tasks[0], { id: `run ${last}`, query: `${`${last} ${LONG}`.slice(0, 511)}…`, caller: 'ann' })
  const next = await ask('GET', `/api/tasks?limit=12&before=${encodeURIComponent(own.body.next)}`, 'ann:run')
  t.match(next.body.tasks[0], { id: `run ${last - 12}` })
  const strange = await ask('GET', `/api/tasks?before=${encodeURIComponent(`run ${RUNS - 1}`)}`, 'ann:run')
  t.equal(strange.status, 404, 'the task of another caller is no place in the own list')
  t.equal((await ask('GET', '/api/tasks?limit=1000', 'eve:run,watch')).body.tasks.length, RUNS)
  t.same((await ask('GET', '/api/tasks', 'eve:run')).body, { tasks: [], next: null })
  t.equal((await ask('GET', '/api/tasks/run%201/messages', 'eve:run')).status, 404, 'and what is not hers is not read')
  t.equal((await team.listRuns({ caller: 'bob', limit: 3 })).length, 3)
  t.equal(files.readBytes, read)
})

t.test('runs that were read from the log are let go while the team is idle', async (t) => {
  const { team } = service(t, await logged(t))
  await team.start()
  const first = team.getRun('run 0')!
  t.match(await first.result, { finalOutput: 'answered' })
  t.equal(team.getRun('run 0'), first, 'it stays for a while')
  for (let n = 1; n < RUNS; n++) await team.getRun(`run ${n}`)!.result
  const again = team.getRun('run 0')!
  t.not(again, first, 'it has gone with the next hundred')
  t.match(await again.result, { finalOutput: 'answered' })
})

t.test('all requests that come before the log is open have it read once', async (t) => {
  const path = await logged(t)
  const alone = service(t, path)
  await alone.team.start()
  const once = alone.files.readBytes
  await alone.close()

  const { files, ask } = service(t, path)
  const posts = Array.from({ length: 12 }, (_, n) => ask('POST', '/api/tasks', 'ann:run', { query: `${n} ${LONG}` }))
  const gets = Array.from({ length: 12 }, (_, n) => ask('GET', `/api/tasks/unknown-${n}`, 'ann:run'))
  for (const { status } of await Promise.all(posts)) t.equal(status, 200)
  for (const { status } of await Promise.all(gets)) t.equal(status, 404)
  t.ok(files.readBytes < 1.5 * once, `${files.readBytes} bytes were read, and one opening reads ${once}`)
})
