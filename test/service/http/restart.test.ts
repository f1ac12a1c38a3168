/** What a caller has over HTTP survives a restart; lists and keys of a team with a durable log. */

import { join } from 'node:path'
import t, { type Test } from 'tap'
import { createTeam, type MultiAgentPatternOptions, type StateManagement } from '../../../src/index.ts'
import { compactLog } from '../../../src/runtime/durability/log-tools.ts'
import { FileStore } from '../../../src/runtime/store/file-store.ts'
import { httpApi } from '../../../src/service/api/index.ts'
import { FaultyFiles } from '../../durability/faulty-files.ts'
import { anotherThread, HeldStore } from '../../durability/held-store.ts'
import { folderOf } from '../../durability/log-folders.ts'
import { MemoryDisk, MemoryStore } from '../../durability/memory-store.ts'
import { silent } from '../../kit/team.ts'
import { callerOf, EVERYTHING, type Sent, send } from './stage.ts'

// What a caller has over HTTP survives a restart of the service, in a team with a durable log.

const module = new URL('../../fixtures/cli/patient-agent.js', import.meta.url)
const logger = { debug() {}, info() {}, warn() {}, error() {} }

t.test('ids of events, keys and owners of tasks are the same after a restart', async (t) => {
  const path = folderOf(t)
  const key = { 'idempotency-key': 'k' }
  const first = service({ path })
  const begun = await first.ask('POST', '/api/tasks', { body: { query: '1' }, headers: key })
  t.equal(begun.status, 200)
  const at = `/api/tasks/${begun.body.id}`
  const ids = idsIn(await first.ask('GET', `${at}/events`))
  await first.close()

  const second = service({ path })
  t.teardown(() => second.close())
  await second.team.start()
  const early = await second.ask('POST', '/api/tasks', { body: { query: '1', priority: 9 }, headers: key })
  t.equal(early.status, 422, 'a wrong body that comes first is refused, and spoils nothing')
  const again = await second.ask('POST', '/api/tasks', { body: { query: '1' }, headers: key })
  t.equal(again.body.id, begun.body.id)
  t.equal(again.headers.get('idempotency-replayed'), 'true')
  const other = await second.ask('POST', '/api/tasks', { body: { query: '2' }, headers: key })
  t.equal(other.status, 422, 'the log knows the query of the key')
  const another = { query: '1', metadata: { of: 'another' } }
  const differs = await second.ask('POST', '/api/tasks', { body: another, headers: key })
  t.match(differs, { status: 422, body: { detail: /this key was sent with another body/ } }, 'and all of its body')
  t.match((await second.ask('GET', at)).body, { status: 'finished', answer: 'after 1 ms', team: 'desk' })
  t.equal((await second.ask('GET', at, { caller: 'bob:run' })).status, 404)
  t.equal((await second.ask('GET', '/api/tasks')).body.tasks.length, 1)
  t.same((await second.ask('GET', '/api/tasks', { caller: 'bob:run' })).body.tasks, [])
  const goesOn = (id: string) => second.ask('GET', `${at}/events`, { headers: { 'last-event-id': id } })
  t.same(idsIn(await goesOn(ids[3]!)), ids.slice(4))
  t.equal((await goesOn(ids.at(-1)!)).status, 204)
})

t.test('a response is retrieved after a restart, unless it was not to be stored', async (t) => {
  const path = folderOf(t)
  const first = service({ path })
  const before = await first.ask('POST', '/v1/responses', { body: { model: 'desk', input: '1' } })
  const more = { model: 'desk', input: '1', previous_response_id: before.body.id }
  const asked = await first.ask('POST', '/v1/responses', { body: more })
  const lost = await first.ask('POST', '/v1/responses', { body: { ...more, store: false } })
  t.equal(lost.status, 200)
  await first.close()

  const second = service({ path })
  t.teardown(() => second.close())
  t.match(await second.ask('GET', `/v1/responses/${asked.body.id}`), { status: 200, body: asked.body })
  t.equal((await second.ask('GET', `/v1/responses/${lost.body.id}`)).status, 404)
})

t.test('a service whose team has not started knows the tasks of its durable log', async (t) => {
  const path = folderOf(t)
  const headers = { 'idempotency-key': 'k' }
  const first = service({ path })
  const { body } = await first.ask('POST', '/api/tasks', { body: { query: '1' }, headers })
  await first.close()

  for (const asked of ['tasks', `tasks/${body.id}`, 'key'] as const) {
    const { ask, close } = service({ path })
    if (asked === 'key') {
      const other = { query: '1', metadata: { of: 'another' } }
      t.equal((await ask('POST', '/api/tasks', { body: other, headers })).status, 422)
    } else {
      const told = (await ask('GET', `/api/${asked}`)).body
      t.match(asked === 'tasks' ? told.tasks : [told], [{ id: body.id, status: 'finished' }])
    }
    await close()
  }
})

t.test('that a task is cancelled, and that a dead letter is gone, is said when the log has it', async (t) => {
  const { store, team, ask } = await holdable(t)
  const { body } = await ask('POST', '/api/tasks', { body: { query: '60000' }, headers: { prefer: 'respond-async' } })
  const died = new Promise<string>((resolve) => {
    team.events.subscribe((event) => event.type === 'message.dead' && resolve(event.letter.id))
  })
  await team.sendMessage({ recipient: 'sink', content: '200' }) // it cannot handle it
  const letter = await died
  await team.flush()
  for (const [path, status] of [
    [`/api/tasks/${body.id}`, 202],
    [`/api/dead-letters/${letter}`, 204],
  ] as const) {
    const isHeld = store.hold()
    let isAnswered = false
    const answer = ask('DELETE', path, { caller: EVERYTHING }).finally(() => {
      isAnswered = true
    })
    await isHeld
    await anotherThread()
    t.notOk(isAnswered, 'a process that died now would not know of it')
    store.release()
    t.equal((await answer).status, status)
  }
})

for (const [path, asked, frames] of [
  ['/api/tasks', { query: '1' }, /event: task\n.*event: run.finished/s],
  ['/v1/responses', { model: 'desk', input: '1', stream: true }, /response.created.*response.completed/s],
] as const)
  t.test(`a stream of ${path} names its task when the log has it`, async (t) => {
    const { store, team, api } = await holdable(t)
    await team.flush()
    const isHeld = store.hold()
    let isAnswered = false
    const headers = { accept: 'text/event-stream', 'content-type': 'application/json', 'x-caller': EVERYTHING }
    const begun = new Request(`http://localhost${path}`, { method: 'POST', headers, body: JSON.stringify(asked) })
    const answer = api.fetch(begun).finally(() => {
      isAnswered = true
    })
    await isHeld
    await anotherThread()
    t.notOk(isAnswered, 'a later process would not have it')
    store.release()
    t.match(await (await answer).text(), frames)
  })

t.test('a question is named when the log has it', async (t) => {
  const { store, team, ask } = await holdable(t)
  await team.flush()
  const isHeld = store.hold()
  const asked = new Promise<void>((resolve) => {
    team.events.subscribe(({ type }) => type === 'question' && resolve())
  })
  const { id } = team.launch('Really?', { metadata: { caller: 'me' } })
  await Promise.all([isHeld, asked])
  const isAnswered: boolean[] = []
  const answers = ['/api/questions', `/api/tasks/${id}`].map((path) =>
    ask('GET', path, { caller: EVERYTHING }).finally(() => isAnswered.push(true)),
  )
  await anotherThread()
  t.same(isAnswered, [], 'a process that died now would not ask again')
  store.release()
  for (const { body } of await Promise.all(answers)) t.match(body.questions, [{ text: 'Really?', taskId: id }])
})

t.test('who watches a team sees a question when the log has it', async (t) => {
  const { store, team, api } = await holdable(t)
  await team.flush()
  const headers = { accept: 'application/x-ndjson', 'x-caller': EVERYTHING }
  const { body } = await api.fetch(new Request('http://localhost/api/watch', { headers }))
  let seen = ''
  const read = (async () => {
    for await (const chunk of body!.pipeThrough(new TextDecoderStream())) {
      seen += chunk
      if (/"type":"question"/.test(seen)) return
    }
  })()
  const inProcess = (async () => {
    for await (const { facts = [] } of team.watch()) if (facts.some(({ type }) => type === 'question')) return
  })()
  while (!seen.includes('snapshot')) await anotherThread()
  const isHeld = store.hold()
  team.launch('Really?')
  await Promise.all([isHeld, inProcess])
  await anotherThread()
  t.notMatch(seen, /"type":"question"/, 'a process that died now would not ask again')
  store.release()
  await read
  t.match(seen, /"type":"question"/)
})

t.test('a task whose end is not in the log yet when it is cancelled has that end', async (t) => {
  const { store, team, ask } = await holdable(t)
  await team.flush()
  const isHeld = store.hold()
  const answered = new Promise<void>((resolve) => {
    team.events.subscribe((event) => {
      if (event.type === 'turn.finished' && event.agent === '$orchestrator') resolve()
    })
  })
  const { id } = team.launch('1', { metadata: { caller: 'ann' } })
  await Promise.all([isHeld, answered])
  await anotherThread()
  const cancelled = ask('DELETE', `/api/tasks/${id}`)
  await anotherThread()
  store.release()
  t.match(await cancelled, { status: 200, body: { status: 'finished', answer: 'after 1 ms' } })
})

t.test('a task that is to be resumed by hand is shown, watched and cancelled', async (t) => {
  const path = folderOf(t)
  const first = service({ path })
  const { body } = await first.ask('POST', '/api/tasks', {
    body: { query: '60000' },
    headers: { prefer: 'respond-async' },
  })
  await first.close()

  const second = service({ path, resume: 'manual' })
  t.teardown(() => second.close())
  await second.team.start()
  const at = `/api/tasks/${body.id}`
  const shown = { status: 'interrupted', endedAt: null, answer: null, error: null }
  t.match(await second.ask('GET', at), { status: 200, body: shown })
  t.match((await second.ask('GET', '/api/tasks')).body.tasks, [{ id: body.id, status: 'interrupted' }])
  t.equal((await second.ask('GET', `${at}/contributions`)).status, 409)
  const watching = second.ask('GET', `${at}/events`)
  t.equal((await second.ask('DELETE', at)).status, 202)
  t.match((await watching).body, /event: run.finished/)
  t.match((await second.ask('GET', `${at}?wait=30`)).body, { status: 'aborted' })
})

t.test('a stream of an interrupted task is not said to be over: it goes on when the task does', async (t) => {
  const path = folderOf(t)
  const first = service({ path })
  const works = new Promise<void>((resolve) => {
    first.team.events.subscribe((event) => {
      if (event.type === 'agent.status' && event.agent === 'patient' && event.status === 'running') resolve()
    })
  })
  const { body } = await first.ask('POST', '/api/tasks', {
    body: { query: '60000' },
    headers: { prefer: 'respond-async' },
  })
  await works
  await first.team.flush()
  await first.close()

  const second = service({ path }, []) // without the agent that has the message
  t.teardown(() => second.close())
  await second.team.start()
  const at = `/api/tasks/${body.id}`
  t.match((await second.ask('GET', at)).body, { status: 'interrupted', error: { code: 'UNKNOWN_AGENT' } })
  const seen = idsIn(await second.ask('GET', `${at}/events`))
  const rest = await second.ask('GET', `${at}/events`, { headers: { 'last-event-id': seen.at(-1)! } })
  t.equal(rest.status, 200)
  t.same(idsIn(rest), [])
})

function service(stateManagement: StateManagement, patients = ['patient']) {
  const team = createTeam({
    agents: [
      ...patients.map((name) => ({ name, module })),
      { name: 'sink', module: new URL('../../fixtures/soak/sink.js', import.meta.url) },
    ],
    orchestration: {
      strategy: 'custom',
      run: async (desk, query) =>
        query.endsWith('?') ? desk.ask(query) : (await desk.request('patient', query)).content,
    },
    stateManagement,
    supervision: { stopGraceMs: 0 },
    logger,
  })
  const api = httpApi({ teams: { desk: team }, authorize: callerOf, logger })
  const ask = (method: string, at: string, options: Parameters<typeof send>[3] = {}): Promise<Sent> =>
    send(api, method, at, { caller: 'ann:run', ...options })
  return { team, api, ask, close: () => api.close({ teams: true }) }
}

/** A service whose team has begun, with a store that can be held. */
async function holdable(t: Test) {
  const store = new HeldStore('write_behind')
  const { close, ...begun } = service({ store })
  t.teardown(() => close())
  t.teardown(() => store.release())
  await begun.team.start()
  return { store, ...begun }
}

const idsIn = ({ body }: Sent): string[] => [...body.matchAll(/^id: (.+)$/gm)].map(([, id]: string[]) => id!)

// Lists and look-ups of a served team with a durable log: what they read of it, and what they leave in memory.

const LONG = 'long '.repeat(200)
const RUNS = 130

/** A service that counts what it reads of the log in the folder. */
function durableListsService(t: Test, path: string) {
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
  const before = durableListsService(t, path)
  for (let n = 0; n < RUNS; n++)
    await before.team.execute(`${n} ${LONG}`, { runId: `run ${n}`, metadata: { caller: n < RUNS / 2 ? 'ann' : 'bob' } })
  await before.close()
  return path
}

t.test('a list reads nothing of the log, whoever asks for it, and says whose the tasks are', async (t) => {
  const { files, team, ask } = durableListsService(t, await logged(t))
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
  const { team } = durableListsService(t, await logged(t))
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
  const alone = durableListsService(t, path)
  await alone.team.start()
  const once = alone.files.readBytes
  await alone.close()

  const { files, ask } = durableListsService(t, path)
  const posts = Array.from({ length: 12 }, (_, n) => ask('POST', '/api/tasks', 'ann:run', { query: `${n} ${LONG}` }))
  const gets = Array.from({ length: 12 }, (_, n) => ask('GET', `/api/tasks/unknown-${n}`, 'ann:run'))
  for (const { status } of await Promise.all(posts)) t.equal(status, 200)
  for (const { status } of await Promise.all(gets)) t.equal(status, 404)
  t.ok(files.readBytes < 1.5 * once, `${files.readBytes} bytes were read, and one opening reads ${once}`)
})

// An idempotency key is one task: whatever team a body names, after restarts, and when its run is forgotten.

type State = NonNullable<MultiAgentPatternOptions['stateManagement']>

/** Teams that pay for each query, with their names by the logs that they have. `paid` gets what was paid. */
function keysService(t: Test, states: Record<string, State | undefined>, paid: string[]) {
  const teams = Object.fromEntries(
    Object.entries(states).map(([name, stateManagement]) => {
      const team = createTeam({
        agents: [{ name: 'bot' }],
        orchestration: {
          strategy: 'custom',
          async run(_desk, query) {
            paid.push(query)
            return `paid by ${name}`
          },
        },
        models: 'rehearsal',
        logger: silent,
        ...(stateManagement && { stateManagement }),
      })
      return [name, team]
    }),
  )
  const api = httpApi({
    teams,
    authorize: callerOf,
    logger: silent,
    limits: { postsPerSecond: 10_000, tasksPerCaller: 1_000 },
  })
  const post = (key: string, body: object): Promise<Sent> =>
    send(api, 'POST', '/api/tasks', { body, headers: { 'idempotency-key': key }, caller: 'ann:run' })
  const close = () => api.close({ teams: true })
  t.teardown(close)
  return { teams, post, close }
}

for (const isDurable of [true, false])
  t.test(`a key is one task in all teams${isDurable ? ', also after a restart' : ''}`, async (t) => {
    const paid: string[] = []
    const disks = { one: new MemoryDisk(), two: new MemoryDisk() }
    const stateOf = (name: keyof typeof disks) => (isDurable ? { store: new MemoryStore(disks[name]) } : undefined)
    const first = keysService(t, { one: stateOf('one'), two: stateOf('two') }, paid)
    const begun = await Promise.all([
      first.post('k', { query: 'pay', team: 'one', threadId: 'a' }),
      first.post('k', { query: 'pay', team: 'two', threadId: 'a' }),
      first.post('k', { query: 'pay', threadId: 'a' }),
    ])
    t.same(begun.map(({ status }) => status).sort(), [200, 422, 422])
    const { body } = await first.post('d', { query: 'default' })
    t.same(paid, ['pay', 'default'])
    if (isDurable) await first.close()
    // The other team comes first now: a body that names none still means the task of its key.
    const later = isDurable ? keysService(t, { two: stateOf('two'), one: stateOf('one') }, paid) : first
    for (const team of ['two', 'one', undefined]) {
      const { status } = await later.post('k', { query: 'pay', threadId: 'a', ...(team && { team }) })
      t.equal(status, team === 'one' ? 200 : 422)
    }
    t.match(await later.post('d', { query: 'default' }), { status: 200, body: { id: body.id, team: 'one' } })
    t.match(await later.post('k', { query: 'pay', team: 'none' }), { status: 422 }, 'the key is known')
    t.same(paid, ['pay', 'default'])
  })

t.test('a request that was refused leaves its key free', async (t) => {
  const paid: string[] = []
  const { post } = keysService(t, { one: undefined }, paid)
  t.equal((await post('k', { query: 'pay', priority: 1 })).status, 403)
  t.equal((await post('k', { query: 'pay', models: { none: 'x' } })).status, 403)
  t.equal((await post('k', { query: 'pay', team: 'none' })).status, 404)
  t.equal((await post('k', { query: 'pay' })).status, 200)
  t.same(paid, ['pay'])
})

for (const [keysMs, status] of [
  [undefined, 409],
  [0, 200],
] as const)
  t.test(`a forgotten key ${status === 409 ? 'does not begin its task again' : 'is free after keysMs'}`, async (t) => {
    const paid: string[] = []
    const folder = folderOf(t)
    const store = () => new FileStore(folder, { segmentBytes: 4_096 })
    const keep = { runs: 1, days: 30, bytes: 2 ** 30, ...(keysMs !== undefined && { keysMs }) }
    const serve = () => keysService(t, { one: undefined, two: { store: store(), keep } }, paid)
    const first = serve()
    const pays = { query: 'pay', team: 'two' }
    const { id } = (await first.post('k', pays)).body
    for (let nth = 0; nth < 20; nth++) await first.post(`${nth}`, { query: 'x'.repeat(500), team: 'two' })
    await first.close()
    for (let restarts = 0; restarts < 3; restarts++) {
      const log = store()
      await compactLog(log, { keep, logger: silent })
      await log.close()
      const later = serve()
      await later.teams.two!.start()
      t.equal(later.teams.two!.getRun(id), undefined)
      if (keysMs === undefined || restarts === 2) t.equal((await later.post('k', pays)).status, status)
      await later.close()
    }
    t.equal(paid.filter((query) => query === 'pay').length, status === 409 ? 1 : 2)
  })
