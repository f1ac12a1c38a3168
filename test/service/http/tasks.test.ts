/** Tasks over HTTP: begun, waited for, listed, cancelled; whose they are, and their times. */
import t, { type Test } from 'tap'
import { defineAgent, type MultiAgentPatternOptions, type Run, type RunOptions, type Team } from '../../../src/index.ts'
import { httpApi } from '../../../src/service/api/index.ts'
import { knownEndOf, onEnd } from '../../../src/service/http/task-view.ts'
import { waitFor, written } from '../../../src/service/http/tasks.ts'
import { testTeam } from '../../../src/testing.ts'
import { callerOf, echo, type Stage, send, stage } from './stage.ts'

// Tasks over HTTP: begun, waited for, listed, cancelled; and whose they are.

const RUNNER = 'ann:run'
const STRANGER = 'bob:run'

t.test('a task is answered when it is done', async (t) => {
  const { send } = stage(t)
  const { status, body } = await send('POST', '/api/tasks', { body: { query: 'hello' } })
  t.equal(status, 200)
  t.match(body, { team: 'desk', query: 'hello', status: 'finished', answer: 'heard: hello', error: null })
  t.same((await send('GET', `/api/tasks/${body.id}`)).body, body)
})

t.test('a sub-task that its plan skips is among the sub-tasks, with the reason', async (t) => {
  const tasks = [
    { agent: 'ann', task: 'look at the sky' },
    { agent: 'ann', task: 'fetch umbrellas', runIf: { task: 1, value: 'rain' } },
  ]
  const chief = defineAgent({
    receive: ({ metadata }) => (metadata.answerSchema ? { structuredData: { tasks, reasoning: 'so' } } : 'stay dry'),
  })
  const team = testTeam<string>(
    {
      agents: [{ name: 'chief' }, { name: 'ann' }],
      orchestration: { strategy: 'supervisor', supervisor: 'chief', experts: ['ann'] },
    },
    { modules: { chief, ann: defineAgent({ receive: () => 'sun' }) } },
  )
  const api = httpApi({ teams: { desk: team }, authorize: callerOf })
  t.teardown(() => api.close().then(() => team.close()))
  const { body } = await send(api, 'POST', '/api/tasks', { body: { query: 'Shall I get wet?' } })
  t.match(
    body.subTasks.filter((task: { status: string }) => task.status === 'skipped'),
    [{ description: 'fetch umbrellas', assignedTo: null, parentTask: null, result: null, reason: /equals "rain"/ }],
  )
  t.same((await send(api, 'GET', `/api/tasks/${body.id}`)).body, body)
})

const LED: MultiAgentPatternOptions<string>['orchestration'][] = [
  { strategy: 'supervisor', supervisor: 'chief', experts: ['ann'] },
  { strategy: 'hierarchical', manager: 'chief', workers: ['ann'], workerAutonomy: 'low' },
]
for (const orchestration of LED)
  t.test(`plans, approvals and summaries of the strategy ${orchestration.strategy} are no sub-tasks`, async (t) => {
    const plan = { tasks: [{ agent: 'ann', worker: 'ann', task: 'look' }], reasoning: 'so' }
    const chief = defineAgent({
      receive({ metadata }) {
        const { step = metadata.answerSchema ? 'plan' : 'summary' } = Object(metadata.hierarchical)
        if (step === 'summary') return 'stay dry'
        return { structuredData: step === 'plan' ? plan : { approved: true, remarks: '' } }
      },
    })
    const team = testTeam<string>(
      { agents: [{ name: 'chief' }, { name: 'ann' }], orchestration },
      { modules: { chief, ann: defineAgent({ receive: () => 'sun' }) } },
    )
    const api = httpApi({ teams: { desk: team }, authorize: callerOf })
    t.teardown(() => api.close().then(() => team.close()))
    const { body } = await send(api, 'POST', '/api/tasks', { body: { query: 'Shall I get wet?' } })
    t.match(body, { status: 'finished', answer: 'stay dry' })
    t.match(body.subTasks, [{ assignedTo: 'ann', status: 'completed', parentTask: null }])
    t.equal(body.subTasks.length, 1)
  })

t.test('the query may be named task or message, and the route has two names', async (t) => {
  const { send } = stage(t)
  const path = '/api/process-multi-agent-task'
  t.equal((await send('POST', path, { body: { task: 'one' } })).body.answer, 'heard: one')
  t.equal((await send('POST', path, { body: { message: 'two' } })).body.answer, 'heard: two')
  const both = await send('POST', path, { body: { task: 'one', message: 'two' } })
  t.match(both, { status: 422, body: { code: 'CONFIGURATION', detail: /exactly one of query, task and message/ } })
})

const PIXEL = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=='

/** Says which parts its message has. */
const looker = defineAgent({
  receive: ({ content, parts = [] }) =>
    [
      content,
      ...parts.map((part) => `${part.type} ${'data' in part ? String(part.data).slice(0, 40) : part.text}`),
    ].join('; '),
})

t.test('a query may have parts: texts, images, sounds and files', async (t) => {
  const { send, team } = stage(t, looker)
  const large = `data:application/pdf;base64,${Buffer.alloc(100_000, 7).toString('base64')}`
  const query = [
    { type: 'text', text: 'look' },
    { type: 'image', data: `data:image/png;base64,${PIXEL}` },
    { type: 'audio', data: 'aGVsbG8=', mediaType: 'audio/wav' },
    { type: 'image', data: 'https://pictures.example/a.png', name: 'a.png' },
    { type: 'file', data: large, name: 'a.pdf' },
  ]
  const { status, body } = await send('POST', '/api/tasks', { body: { query } })
  t.match({ status, body }, { status: 200, body: { query: 'look' } })
  t.same(body.answer.split('; '), [
    'look',
    'text look',
    'image data:image/png;base64,iVBORw0KGgoAAAANSU',
    'audio data:audio/wav;base64,aGVsbG8=',
    'image https://pictures.example/a.png',
    'file data:application/pdf;base64,BwcHBwcHBwcH',
  ])
  const { body: messages } = await send('GET', `/api/tasks/${body.id}/messages`)
  const stored = messages.messages.find(({ parts }: { parts?: object[] }) => parts)?.parts.at(-1)
  t.match(stored, { type: 'file', name: 'a.pdf', bytes: 100_000, hash: /^[0-9a-f]{64}$/ })
  t.ok(team.getRun(body.id))
  const reference = `stored:sha256-${stored.hash}:100000`
  const wrong: [query: unknown, said: RegExp][] = [
    [5, /query: a text, or a list of parts, is needed/],
    [[], /query/],
    [[{ type: 'image', data: reference }], /reference to stored bytes/],
    [[{ type: 'image', data: 'no base64!' }], /query\[0\]\.data/],
    [[{ type: 'image', data: PIXEL }], /query\[0\]\.mediaType/],
    [[{ type: 'image' }], /data/],
    [[{ type: 'text', text: 'a', data: 'b' }], /data/],
    [[{ type: 'reasoning', text: 'a' }], /type/],
  ]
  for (const [given, said] of wrong)
    t.match(await send('POST', '/api/tasks', { body: { query: given } }), { status: 422, body: { detail: said } })
})

t.test('a part that no agent accepts is refused, and a body beyond the limit', async (t) => {
  const { send } = stage(t, looker, { limits: { bodyBytes: 1_000 } }, { accepts: ['image'] })
  const audio = [{ type: 'audio', data: 'aGVsbG8=', mediaType: 'audio/wav' }]
  const refused = await send('POST', '/api/tasks', { body: { query: audio } })
  t.match(refused, { status: 422, body: { detail: /query\[0\]\.type.*"audio".*image/ } })
  const large = [{ type: 'image', data: `data:image/png;base64,${'A'.repeat(1_000)}` }]
  t.match(await send('POST', '/api/tasks', { body: { query: large } }), { status: 413 })
})

t.test('Prefer: respond-async returns at once, and wait= sees the end', async (t) => {
  const { send, release } = held(t)
  const begun = await send('POST', '/api/tasks', { body: { query: 'hello' }, headers: { prefer: 'respond-async' } })
  t.match(begun, { status: 202, body: { status: 'running', answer: null, endedAt: null } })
  t.equal(begun.headers.get('preference-applied'), 'respond-async')
  const path = begun.headers.get('location')!
  t.equal(path, `/api/tasks/${begun.body.id}`)
  const waiting = send('GET', `${path}?wait=30`)
  release()
  t.match((await waiting).body, { status: 'finished', answer: 'heard: hello' })
})

t.test('Prefer: wait= returns after that time', async (t) => {
  const { send, release } = held(t)
  const { status, headers } = await send('POST', '/api/tasks', { body: { query: 'q' }, headers: { prefer: 'wait=0' } })
  t.equal(status, 202)
  t.equal(headers.get('preference-applied'), 'wait=0')
  release()
})

t.test('a failed task is a problem that has the task', async (t) => {
  const failing = defineAgent({
    receive() {
      throw new Error('no ink')
    },
  })
  const { send } = stage(t, failing)
  const { status, headers, body } = await send('POST', '/api/tasks', { body: { query: 'write' } })
  t.equal(status, 502)
  t.equal(headers.get('content-type'), 'application/problem+json')
  t.match(body, {
    type: 'urn:dramatis:error:AGENT_FAILED',
    status: 502,
    code: 'AGENT_FAILED',
    detail: /no ink/,
    instance: `/api/tasks/${body.task.id}`,
    task: { status: 'failed', error: { code: 'AGENT_FAILED' } },
  })
  t.notMatch(JSON.stringify(body), /\.[jt]s:\d+/, 'no stack')
})

t.test('a wait that cannot end is found although the task is served', async (t) => {
  const waiting = defineAgent({
    async receive(_message, context) {
      await context.blackboard!.waitFor('never')
      return 'never'
    },
  })
  const { send, team } = stage(t, waiting)
  const asked = send('POST', '/api/tasks', { body: { query: 'wait' } })
  await team.clock.runToIdle()
  t.match(await asked, { status: 502, body: { detail: /StallError: Nobody is left/ } })
})

t.test('a task belongs to its caller: for others it is not there', async (t) => {
  const { send, release } = held(t)
  const async = { prefer: 'respond-async' }
  const { body } = await send('POST', '/api/tasks', { body: { query: 'hello' }, caller: RUNNER, headers: async })
  const path = `/api/tasks/${body.id}`
  const missing = await send('GET', '/api/tasks/none', { caller: STRANGER })
  const strange = await send('GET', path, { caller: STRANGER })
  t.match(strange, { status: 404, body: { code: 'NOT_FOUND' } })
  t.same({ ...strange.body, instance: '', detail: '' }, { ...missing.body, instance: '', detail: '' })
  t.equal((await send('DELETE', path, { caller: STRANGER })).status, 404)
  t.equal((await send('DELETE', path, { caller: 'eve:watch' })).status, 403)
  t.equal((await send('GET', path, { caller: RUNNER })).status, 200)
  t.equal((await send('GET', path, { caller: 'eve:watch' })).status, 200)
  t.same((await send('GET', '/api/tasks', { caller: STRANGER })).body, { tasks: [], next: null })
  t.equal((await send('GET', '/api/tasks', { caller: RUNNER })).body.tasks.length, 1)
  t.equal((await send('GET', '/api/tasks', { caller: 'eve:watch' })).body.tasks.length, 1)
  release()
})

t.test('DELETE ends a task as aborted, with the reason', async (t) => {
  const { send, release } = held(t)
  const { body } = await send('POST', '/api/tasks', { body: { query: 'q' }, headers: { prefer: 'respond-async' } })
  const path = `/api/tasks/${body.id}`
  t.equal((await send('DELETE', `${path}?reason=no%20more`)).status, 202)
  const { body: after } = await send('GET', `${path}?wait=30`)
  t.match(after, { status: 'aborted', error: { code: 'RUN_ABORTED', detail: /no more/ } })
  t.equal((await send('DELETE', path)).status, 200)
  release()
})

t.test('tasks are listed newest first, in pages', async (t) => {
  const { send, team } = stage(t)
  for (const query of ['one', 'two', 'three']) {
    await send('POST', '/api/tasks', { body: { query } })
    await team.clock.advance(10)
  }
  const first = (await send('GET', '/api/tasks?limit=2')).body
  t.match(first.tasks, [{ query: 'three' }, { query: 'two' }])
  const second = (await send('GET', `/api/tasks?limit=2&before=${first.next}`)).body
  t.match(second, { tasks: [{ query: 'one' }], next: null })
  t.equal((await send('GET', '/api/tasks?status=failed')).body.tasks.length, 0)
  t.equal((await send('GET', '/api/tasks?before=none')).status, 404)
})

t.test('an idempotency key begins one task, also when it is sent at once', async (t) => {
  const { send, release } = held(t)
  const body = { query: 'pay' }
  const headers = { 'idempotency-key': '"a-1"', prefer: 'respond-async' }
  const [one, other] = await Promise.all([
    send('POST', '/api/tasks', { body, headers }),
    send('POST', '/api/tasks', { body, headers }),
  ])
  t.equal(one.body.id, other.body.id)
  t.equal(one.headers.get('idempotency-replayed'), null)
  t.equal(other.headers.get('idempotency-replayed'), 'true')
  const wrong = await send('POST', '/api/tasks', { body: { query: 'pay', priority: 1 }, headers })
  t.match(wrong, { status: 422, body: { detail: /another body/ } })
  const stranger = await send('POST', '/api/tasks', { body, headers, caller: STRANGER })
  t.not(stranger.body.id, one.body.id, 'a guessed key is another key')
  release()
})

t.test('a key whose task is forgotten does not begin it again', async (t) => {
  const { send } = stage(t, echo(), { limits: { postsPerSecond: 10_000, tasksPerCaller: 200 } })
  const ask = (query: string, key: string) =>
    send('POST', '/api/tasks', { body: { query }, headers: { 'idempotency-key': key } })
  const { id } = (await ask('pay', 'k')).body
  for (let others = 0; others < 101; others++) await ask('another', `${others}`)
  t.equal((await send('GET', `/api/tasks/${id}`)).status, 404)
  t.match(await ask('pay', 'k'), { status: 409, body: { code: 'CONFLICT', detail: /is not begun again/ } })
  t.match(await ask('pay more', 'k'), { status: 422, body: { detail: /another body/ } })
})

t.test('a client that leaves without a key has its task cancelled; with one it goes on', async (t) => {
  const { send, release, team } = held(t)
  const gone = new AbortController()
  const leaving = send('POST', '/api/tasks', { body: { query: 'one' }, signal: gone.signal })
  const keyed = send('POST', '/api/tasks', {
    body: { query: 'two' },
    headers: { 'idempotency-key': 'k' },
    signal: gone.signal,
  })
  while ((await team.listRuns()).length < 2) await new Promise(setImmediate)
  gone.abort()
  await Promise.all([leaving, keyed])
  const [two, one] = (await team.listRuns())
    .sort((a, b) => (a.query < b.query ? 1 : -1))
    .map(({ id }) => team.getRun(id)!)
  t.match(await one!.result, { error: { code: 'RUN_ABORTED', message: /its client has left/ } })
  release()
  t.match(await two!.result, { finalOutput: 'heard: two' })
})

t.test('output: data of the task fits a JSON Schema', async (t) => {
  const { send } = stage(t, defineAgent({ receive: () => '{"cities": 3}' }))
  const output = { type: 'object', properties: { cities: { type: 'integer' } }, required: ['cities'] }
  t.match((await send('POST', '/api/tasks', { body: { query: 'q', output } })).body, { data: { cities: 3 } })
  const wrong = { ...output, required: ['towns'], properties: { towns: { type: 'integer' } } }
  t.match(await send('POST', '/api/tasks', { body: { query: 'q', output: wrong } }), {
    status: 502,
    body: { code: 'REPLY_INVALID' },
  })
  t.match(await send('POST', '/api/tasks', { body: { query: 'q', output: { type: 'number', $ref: '#/none' } } }), {
    status: 422,
    body: { detail: /no JSON Schema/ },
  })
})

t.test('a body lowers the limits of the team, and does not raise them', async (t) => {
  const table: [team: Partial<MultiAgentPatternOptions>, body: object, used: Partial<RunOptions>][] = [
    [{ globalTimeoutMs: 1_000 }, { timeoutMs: 2_000_000 }, {}],
    [{ globalTimeoutMs: 1_000 }, { timeoutMs: 10 }, { timeoutMs: 10 }],
    [{}, { timeoutMs: 2_000_000_000 }, {}],
    [{ budget: { perRun: { tokens: 100 } } }, { budget: { tokens: 1_000 } }, {}],
    [{ budget: { perRun: { tokens: 100 } } }, { budget: { tokens: 9 } }, { budget: { tokens: 9 } }],
    [
      { budget: { perRun: { tokens: 100, perAgentTokens: 50 } } },
      { budget: { tokens: 60, perAgentTokens: 60 } },
      { budget: { tokens: 60 } },
    ],
    [{ budget: { perRun: { tokens: 100 } } }, { budget: { perAgentTokens: 7 } }, { budget: { perAgentTokens: 7 } }],
  ]
  for (const [options, body, used] of table) {
    const { api, given } = recording(t, options)
    t.equal((await send(api, 'POST', '/api/tasks', { body: { query: 'q', ...body }, caller: RUNNER })).status, 200)
    const { timeoutMs, budget } = given.at(-1)!
    t.strictSame({ ...(timeoutMs && { timeoutMs }), ...(budget && { budget }) }, used)
  }
})

t.test('what costs others takes the right to operate', async (t) => {
  const { api, given } = recording(t, {})
  const models = { default: 'costly' }
  for (const [body, caller, status] of [
    [{ priority: 1 }, RUNNER, 403],
    [{ models }, RUNNER, 403],
    [{ priority: -1, models: {} }, RUNNER, 200],
    [{ priority: 1 }, 'ann:run,operate', 200],
  ] as const)
    t.match(await send(api, 'POST', '/api/tasks', { body: { query: 'q', ...body }, caller }), {
      status,
      body: status === 403 ? { code: 'FORBIDDEN', detail: /it takes the right operate/ } : {},
    })
  t.equal(given.length, 2, 'nothing was begun')
})

/** A team that keeps the options of its runs. */
function recording(t: Test, options: Partial<MultiAgentPatternOptions>) {
  const team = testTeam(
    { agents: [{ name: 'worker' }], orchestration: { strategy: 'sequential' }, ...options },
    { modules: { worker: echo() } },
  )
  t.teardown(() => team.close())
  const given: RunOptions<unknown>[] = []
  const execute = team.execute.bind(team)
  team.execute = (query, asked) => {
    given.push(asked ?? {})
    return execute(query, asked)
  }
  return { api: httpApi({ teams: { desk: team }, authorize: callerOf }), given }
}

t.test('a team is named, and a wrong name is refused', async (t) => {
  const { send } = stage(t)
  t.equal((await send('POST', '/api/tasks', { body: { query: 'q', team: 'desk' } })).status, 200)
  const wrong = await send('POST', '/api/tasks', { body: { query: 'q', team: 'dusk' } })
  t.match(wrong, { status: 404, body: { detail: /no team "dusk" here; there are desk/ } })
})

t.test('what cannot be is refused with the field and what is accepted', async (t) => {
  const { send } = stage(t)
  const refused = async (body: unknown) => {
    const answer = await send('POST', '/api/tasks', { body })
    t.equal(answer.status, 422)
    return answer.body.detail
  }
  t.match(await refused({ qery: 'q' }), /^qery: there is no such field in the body; did you mean "query"\?/)
  t.match(await refused({ query: 'q', timeoutMs: 0 }), /^timeoutMs: .*; got 0\.$/)
  t.match((await send('GET', '/api/tasks?limit=many')).body.detail, /^limit: .*number.*; got "many"\.$/)
  t.match(await refused({ query: 'q', metadata: { caller: 'x' } }), /^metadata.caller: the API sets it/)
  t.match(await refused({ query: 'q', models: { none: 'x' } }), /none/)
  t.match((await send('GET', '/api/tasks?stauts=failed')).body.detail, /did you mean "status"/)
  t.match((await send('GET', '/api/tasks?team=a&team=b')).body.detail, /only once/)
})

t.test('close takes no more tasks, and waits for the open ones', async (t) => {
  const { send, api, release } = held(t)
  const open = send('POST', '/api/tasks', { body: { query: 'one' } })
  await new Promise(setImmediate)
  const closing = api.close({ drainMs: 60_000 })
  const refused = await send('POST', '/api/tasks', { body: { query: 'two' } })
  t.match(refused, { status: 503, body: { code: 'DRAINING' } })
  t.ok(refused.headers.get('retry-after'))
  t.equal(refused.headers.get('connection'), 'close')
  release()
  await closing
  t.match(await open, { status: 200, body: { answer: 'heard: one' } })
})

t.test('close with teams ends what is open, and answers it', async (t) => {
  const { send, api } = held(t)
  const open = send('POST', '/api/tasks', { body: { query: 'one' } })
  await new Promise(setImmediate)
  await api.close({ teams: true })
  t.match(await open, { body: { task: { status: 'aborted' } } })
})

t.test('close with teams lets runs end that the service has begun itself, and takes no more of them', async (t) => {
  const { api, team, release } = held(t)
  const own = team.execute('one')
  await new Promise(setImmediate)
  const closing = api.close({ drainMs: 60_000, teams: true })
  t.match(await team.execute('two'), { success: false, error: { code: 'TEAM_CLOSED' } })
  release()
  await closing
  t.match(await own, { success: true, finalOutput: 'heard: one' })
})

t.test('close without teams lets tasks go on, and tells who waits where they are', async (t) => {
  const { send, api, team, release } = held(t)
  const open = send('POST', '/api/tasks', { body: { query: 'one' } })
  const chat = { model: 'desk', messages: [{ role: 'user', content: 'two' }] }
  const asked = send('POST', '/v1/chat/completions', { body: chat })
  await new Promise(setImmediate)
  await api.close()
  const { status, body, headers } = await open
  t.match({ status, body }, { status: 202, body: { status: 'running' } })
  t.equal(headers.get('location'), `/api/tasks/${body.id}`)
  t.match(await asked, { status: 503, body: { error: { code: 'DRAINING' } } })
  release()
  t.match(await team.getRun(body.id)!.result, { finalOutput: 'heard: one' })
})

t.test('a team that takes no run now is 503, and says when to try again', async (t) => {
  const team = testTeam(
    {
      agents: [{ name: 'worker' }],
      orchestration: { strategy: 'sequential' },
      maxConcurrentRuns: 1,
      maxQueuedRuns: 0,
    },
    { modules: { worker: echo(() => new Promise(() => {})) } },
  )
  t.teardown(() => team.close())
  const { send } = stage(t, echo(), { teams: { desk: team } })
  await send('POST', '/api/tasks', { body: { query: 'one' }, headers: { prefer: 'respond-async' } })
  const { status, headers, body } = await send('POST', '/api/tasks', { body: { query: 'two' } })
  t.match({ status, body }, { status: 503, body: { code: 'TEAM_OVERLOADED' } })
  t.ok(headers.get('retry-after'))
})

/** A stage whose agent answers when it is released. */
function held(t: Parameters<typeof stage>[0]): Stage & { release: () => void } {
  let release = () => {}
  const released = new Promise<void>((resolve) => {
    release = resolve
  })
  return {
    ...stage(
      t,
      echo(() => released),
    ),
    release,
  }
}

// Waits for the ends of tasks.

t.test('of a wait for the end of a task nothing is left when it is over, however long the task lasts', async (t) => {
  let waits = 0
  let end = (_: object) => {}
  const result = {
    // biome-ignore lint/suspicious/noThenProperty: it counts who waits for it
    then(resolve: (ended: object) => void) {
      waits += 1
      end = resolve
    },
  }
  const run = { status: 'running', result } as unknown as Run<unknown>
  for (let n = 0; n < 3; n++) t.notOk(await waitFor(run, 1))
  await written({ run, team: { flush: async () => {} } as unknown as Team })
  Object.assign(run, { status: 'interrupted' })
  for (let n = 0; n < 3; n++) t.equal(await knownEndOf(run), undefined)
  t.equal(waits, 1)
  const told: string[] = []
  onEnd(run, () => told.push('waited'))
  onEnd(run, () => told.push('gave up'))()
  const waited = waitFor(run, Number.POSITIVE_INFINITY)
  await new Promise((resolve) => setImmediate(resolve))
  end({ runId: 'one' })
  t.ok(await waited)
  t.same(told, ['waited'])
  t.same(await knownEndOf(run), { runId: 'one' })
})

// Times over HTTP are ISO 8601, in all that the API gives but its streams.

const TIMES = [
  'createdAt',
  'endedAt',
  'askedAt',
  'answerBy',
  'sentAt',
  'at',
  'since',
  'timestamp',
  'startedAt',
  'deadline',
]

/** The times within a value, by their names. */
function timesIn(value: unknown): [name: string, time: unknown][] {
  if (typeof value !== 'object' || value === null) return []
  return Object.entries(value).flatMap(([name, inside]) =>
    TIMES.includes(name) && inside !== null ? [[name, inside]] : timesIn(inside),
  )
}

const ISO = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/

t.test('tasks, questions, waits, messages, traces, entries and dead letters have such times', async (t) => {
  const worker = defineAgent({
    async receive({ content }, context) {
      await context.blackboard.write('found', 1, 'fact')
      return content === 'ask' ? context.ask('Which color?') : content
    },
  })
  const { send, team } = stage(t, worker)
  const { body: done } = await send('POST', '/api/tasks', { body: { query: 'go' } })
  const asks = team.launch('ask')
  while (team.questions().length === 0) await new Promise(setImmediate)
  await team.sendMessage({ recipient: 'nobody', content: 'x' }).catch(() => {})
  const found = new Set<string>()
  for (const path of [
    '/api/tasks',
    `/api/tasks/${done.id}`,
    `/api/tasks/${asks.id}`,
    `/api/tasks/${done.id}/messages`,
    `/api/tasks/${done.id}/trace?as=json`,
    `/api/tasks/${done.id}/blackboard`,
    `/api/tasks/${done.id}/blackboard/found/history`,
    '/api/questions',
    '/api/waits',
    '/api/turns',
    '/api/dead-letters',
  ]) {
    const { status, body } = await send('GET', path)
    t.equal(status, 200, path)
    for (const [name, time] of timesIn(body)) {
      found.add(name)
      t.match(time, ISO, `${path}: ${name}`)
    }
  }
  for (const name of ['askedAt', 'at', 'createdAt', 'endedAt', 'sentAt', 'since', 'startedAt', 'timestamp'])
    t.ok(found.has(name), name)
  await asks.answer(team.questions()[0]!.questionId, 'red')
  await asks.result
})
