/** The table of routes holds: each answer that it names is given, fits its schema, and stands in the OpenAPI document. */
import t from 'tap'
import { z } from 'zod'
import { defineAgent } from '../../../src/index.ts'
import { hashOf } from '../../../src/mailbox/stored-parts.ts'
import { openApi } from '../../../src/service/api/doors.ts'
import { readOptions } from '../../../src/service/http/options.ts'
import { type Operation, type Route, routes } from '../../../src/service/http/routes.ts'
import { testTeam } from '../../../src/testing.ts'
import { read } from '../../docs/page.ts'
import { modern, modernHeaders } from '../mcp/client.ts'
import { EVERYTHING, type Sent, type Stage, stage } from './stage.ts'

const PICTURE = { type: 'image', data: new Uint8Array(100_000).fill(7), mediaType: 'image/png' } as const
const ASYNC = { prefer: 'respond-async' }

/** Does what it is told: asks a person, writes an entry, fails, waits. */
const handy = defineAgent({
  async receive({ content }, context) {
    if (content === 'ask') return `you said ${await context.ask('Red or blue?', { choices: ['red', 'blue'] })}`
    if (content === 'fail') throw new Error('no ink')
    if (content === 'wait') await context.sleep(60_000)
    if (content === 'show') await context.send('worker', 'go', { parts: [PICTURE] })
    if (content === 'write') {
      await context.blackboard!.write('finding.rain', { mm: 1 }, 'finding')
      await context.blackboard!.write('finding.rain', { mm: 2 }, 'finding')
    }
    return `done: ${content}`
  },
})

const chatOf = (text: string) => ({
  id: 'talk',
  messages: [{ id: 'first', role: 'user', parts: [{ type: 'text', text }] }],
})

const said = (text: string) => ({ message: { messageId: text, role: 'ROLE_USER', parts: [{ text }] } })
const OAUTH = { resource: 'https://agents.example.com/mcp', authorizationServers: ['https://login.example.com'] }

type Visit = (stage: Stage) => Promise<Sent[]>

const visits: Record<Operation, Visit> = {
  async createTask({ send }) {
    const done = await send('POST', '/api/tasks', { body: { query: 'go' } })
    const keyed = { 'idempotency-key': 'k', accept: 'text/event-stream' }
    const stream = await send('POST', '/api/tasks', { body: { query: 'stream' }, headers: keyed })
    const last = idsIn(stream.body).at(-1)!
    return [
      done,
      await send('POST', '/api/tasks', { body: { query: 'go' }, headers: ASYNC }),
      await send('POST', '/api/tasks', { body: { query: 'stream' }, headers: { ...keyed, 'last-event-id': last } }),
    ]
  },
  async listTasks({ send }) {
    await begin({ send }, 'go')
    return [await send('GET', '/api/tasks?limit=1'), await send('GET', '/api/tasks?status=finished')]
  },
  async getThread({ send }) {
    await send('POST', '/api/tasks', { body: { query: 'go', threadId: 'talk' } })
    return [await send('GET', '/api/threads/talk')]
  },
  getTask: async ({ send }) => [await send('GET', `${await begin({ send }, 'go')}?wait=30`)],
  async cancelTask({ send }) {
    const path = await begin({ send }, 'wait')
    const cancelled = await send('DELETE', path)
    await send('GET', `${path}?wait=30`)
    return [cancelled, await send('DELETE', path)]
  },
  async taskEvents({ send }) {
    const path = `${await begin({ send }, 'go')}/events`
    const all = await send('GET', path)
    const headers = { 'last-event-id': idsIn(all.body).at(-1)! }
    const lines = await send('GET', path, { headers: { accept: 'application/x-ndjson' } })
    return [all, lines, await send('GET', path, { headers })]
  },
  taskMessages: async ({ send }) => [await send('GET', `${await over({ send }, 'go')}/messages`)],
  async taskMessage({ send }) {
    const path = `${await over({ send }, 'go')}/messages`
    const { messages } = (await send('GET', path)).body
    return [await send('GET', `${path}/${messages[0].id}`)]
  },
  async taskPart({ send }) {
    const path = await over({ send }, 'show')
    const { messages } = (await send('GET', `${path}/messages`)).body
    const [part] = messages.flatMap(({ parts = [] }) => parts)
    return [await send('GET', `${path}/parts/${part.hash}`)]
  },
  async taskTrace({ send }) {
    const path = `${await over({ send }, 'fail')}/trace`
    return Promise.all(['json', 'mermaid', 'digest', 'html'].map((as) => send('GET', `${path}?as=${as}`)))
  },
  taskBoard: async ({ send }) => [await send('GET', `${await over({ send }, 'write')}/blackboard?type=finding`)],
  boardHistory: async ({ send }) => [
    await send('GET', `${await over({ send }, 'write')}/blackboard/finding.rain/history`),
  ],
  async listQuestions({ send }) {
    await asked({ send })
    return [await send('GET', '/api/questions')]
  },
  async answerQuestion({ send }) {
    const { path, questionId } = await asked({ send })
    return [await send('POST', `${path}/answers`, { body: { questionId, answer: 'red' } })]
  },
  async steerTask({ send }) {
    const { path } = await asked({ send })
    return [await send('POST', `${path}/steer`, { body: { words: 'In blue.' } })]
  },
  async listWaits({ send }) {
    await asked({ send })
    const { body, ...sent } = await send('GET', '/api/waits')
    return body.waits.some(({ kind }: { kind: string }) => kind === 'ask') ? [{ body, ...sent }] : []
  },
  async listTurns({ send }) {
    await asked({ send })
    const { body, ...sent } = await send('GET', '/api/turns')
    return body.turns.some(({ doing }: { doing: { kind: string }[] }) => doing[0]?.kind === 'ask')
      ? [{ body, ...sent }]
      : []
  },
  async watchTeam({ send, team }) {
    await send('POST', '/api/tasks', { body: { query: 'go' } })
    const watching = [
      send('GET', '/api/watch'),
      send('GET', '/api/watch', { headers: { accept: 'application/x-ndjson' } }),
    ]
    await new Promise(setImmediate)
    await team.close()
    return Promise.all(watching)
  },
  listBudgets: async ({ send }) => [await send('GET', '/api/budgets')],
  taskContributions: async ({ send }) => [await send('GET', `${await over({ send }, 'go')}/contributions`)],
  listAgents: async ({ send }) => [
    await send('GET', '/api/agents'),
    await send('GET', '/api/agents?context=1&progress=1'),
  ],
  getAgent: async ({ send }) => [await send('GET', '/api/agents/worker')],
  async restartAgent({ send, team }) {
    await send('POST', '/api/tasks', { body: { query: 'go' } })
    team.crash('worker') // its role does not let it be restarted by itself
    while (team.getAgentStatus('worker') !== 'failed') await team.clock.advance(1)
    return [await send('POST', '/api/agents/worker/restart')]
  },
  sendMessage: async ({ send }) => [
    await send('POST', '/api/agents/worker/messages', { body: { content: 'go', requiresResponse: true } }),
    await send('POST', '/api/agents/worker/messages', { body: { content: 'go', metadata: { a: 1 } } }),
  ],
  async listDeadLetters(stage) {
    await letter(stage)
    return [await stage.send('GET', '/api/dead-letters?limit=1')]
  },
  replayDeadLetter: async (stage) => [await stage.send('POST', `/api/dead-letters/${await letter(stage)}/replay`)],
  discardDeadLetter: async (stage) => [await stage.send('DELETE', `/api/dead-letters/${await letter(stage)}`)],
  listModels: async ({ send }) => [await send('GET', '/v1/models')],
  getModel: async ({ send }) => [await send('GET', '/v1/models/desk'), await send('GET', '/v1/models/desk/worker')],
  async chat({ send }) {
    return [await send('POST', '/api/chat', { body: chatOf('go') })]
  },
  async getChat({ send }) {
    await send('POST', '/api/chat', { body: chatOf('go') })
    return [await send('GET', '/api/chat/talk')]
  },
  async resumeChat({ send }) {
    await send('POST', '/api/chat', { body: chatOf('ask') })
    const asked = await send('GET', '/api/chat/talk/stream')
    await send('DELETE', '/api/chat/talk')
    return [asked, await send('GET', '/api/chat/talk/stream')]
  },
  async stopChat({ send }) {
    await send('POST', '/api/chat', { body: chatOf('ask') })
    return [await send('DELETE', '/api/chat/talk')]
  },
  async runAgUi({ send }) {
    const messages = [{ id: 'm', role: 'user', content: 'go' }]
    return [await send('POST', '/ag-ui/desk', { body: { threadId: 'talk', runId: 'first', messages } })]
  },
  async chatCompletions({ send }) {
    const body = { model: 'desk', messages: [{ role: 'user', content: 'go' }] }
    const streamed = { body: { ...body, stream: true } }
    return [await send('POST', '/v1/chat/completions', { body }), await send('POST', '/v1/chat/completions', streamed)]
  },
  async createResponse({ send }) {
    const body = { model: 'desk/worker', input: 'go' }
    const streamed = { body: { ...body, stream: true } }
    return [await send('POST', '/v1/responses', { body }), await send('POST', '/v1/responses', streamed)]
  },
  async getResponse({ send }) {
    const { body } = await send('POST', '/v1/responses', { body: { model: 'desk', input: 'go' } })
    return [await send('GET', `/v1/responses/${body.id}`)]
  },
  async cancelResponse({ send }) {
    const { body } = await send('POST', '/v1/responses', { body: { model: 'desk', input: 'wait', background: true } })
    return [await send('POST', `/v1/responses/${body.id}/cancel`)]
  },
  live: probed('/livez', (stage) => stage.team.close()),
  ready: probed('/readyz', (stage) => stage.api.close()),
  health: probed('/healthz', (stage) => stage.api.close()),
  async metrics({ send }) {
    await begin({ send }, 'go')
    return [await send('GET', '/metrics')]
  },
  mcpResource: async ({ send }) => [await send('GET', '/.well-known/oauth-protected-resource/mcp', { caller: null })],
  async mcp({ send }) {
    const accept = 'application/json, text/event-stream'
    const ofModern = { accept, ...modernHeaders('tools/list') }
    return [
      await send('POST', '/mcp', { body: modern('tools/list', {}), headers: ofModern }),
      await send('POST', '/mcp', { body: { jsonrpc: '2.0', id: 1, method: 'tools/list' }, headers: { accept } }),
      await send('POST', '/mcp', {
        body: { jsonrpc: '2.0', method: 'notifications/initialized' },
        headers: { accept },
      }),
    ]
  },
  a2aCard: async ({ send }) => [await send('GET', '/.well-known/agent-card.json', { caller: null })],
  async a2a({ send }) {
    const ask = (method: string) => ({ body: { jsonrpc: '2.0', id: 1, method, params: said('go') } })
    return [
      await send('POST', '/a2a/desk', ask('SendMessage')),
      await send('POST', '/a2a/desk', ask('SendStreamingMessage')),
    ]
  },
  async a2aPost({ send }) {
    const ask = { body: said('go') }
    return [await send('POST', '/a2a/desk/message:send', ask), await send('POST', '/a2a/desk/message:stream', ask)]
  },
  async a2aGet({ send }) {
    const { body } = await send('POST', '/a2a/desk/message:send', { body: said('go') })
    return [await send('GET', `/a2a/desk/tasks/${body.task.id}`), await send('GET', '/a2a/desk/tasks')]
  },
  async a2aDelete({ send }) {
    const { body } = await send('POST', '/a2a/desk/message:send', { body: said('go') })
    return [await send('DELETE', `/a2a/desk/tasks/${body.task.id}/pushNotificationConfigs/none`)]
  },
  page: async ({ send }) => [await send('GET', '/', { caller: null })],
  async pageScript({ send }) {
    const file = await send('GET', '/page.js', { caller: null })
    return [file, await send('GET', '/page.js', { headers: { 'if-none-match': file.headers.get('etag')! } })]
  },
  async pageStyle({ send }) {
    const file = await send('GET', '/page.css', { caller: null })
    return [file, await send('GET', '/page.css', { headers: { 'if-none-match': file.headers.get('etag')! } })]
  },
  getSession: async ({ send }) => [await send('GET', '/session')],
  beginSession: async ({ send }) => [await send('POST', '/session')],
  endSession: async ({ send }) => [await send('DELETE', '/session')],
  openapi: async ({ send }) => [await send('GET', '/api/openapi.json')],
}

for (const [operation, visit] of Object.entries(visits) as [Operation, Visit][]) {
  const { method, path, answers }: Route = routes[operation]
  t.test(`${method} ${path} gives each answer that the table names, and it fits`, async (t) => {
    const sent = await visit(
      stage(
        t,
        handy,
        { dashboard: true, mcp: { oauth: OAUTH }, a2a: { push: true } },
        { supervision: { maxRestarts: 0 } },
      ),
    )
    const named = Object.entries(answers).filter(([, { isOfCluster }]) => !isOfCluster)
    t.same(new Set(sent.map(({ status }) => String(status))), new Set(named.map(([status]) => status)))
    for (const { status, headers, body } of sent) {
      const { json, types = [] } = answers[status]!
      const type = headers.get('content-type')
      if (json && type === 'application/json') t.same(json.parse(body), body)
      else if (type === null) t.equal(body, '')
      else t.ok(types.includes(type.replace('; charset=utf-8', '')), type)
    }
  })
}

t.test('a large part is told by reference in each message and event that has it, and its bytes once', async (t) => {
  const { send, api } = stage(t, handy)
  const path = await over({ send }, 'show')
  const told = { type: 'image', mediaType: 'image/png', hash: hashOf(PICTURE.data), bytes: 100_000 }
  const { messages } = (await send('GET', `${path}/messages`)).body
  const [message] = messages.filter(({ parts }: { parts?: object }) => parts)
  t.same(message.parts, [told])
  t.same((await send('GET', `${path}/messages/${message.id}`)).body.parts, [told])
  for (const accept of ['text/event-stream', 'application/x-ndjson']) {
    const { body } = await send('GET', `${path}/events`, { headers: { accept } })
    t.match(body, JSON.stringify(told))
    t.ok(body.length < 50_000)
  }
  const request = new Request(`http://localhost${path}/parts/${told.hash}`, { headers: { 'x-caller': EVERYTHING } })
  const response = await api.fetch(request)
  t.same(new Uint8Array(await response.arrayBuffer()), PICTURE.data)
  t.equal(response.headers.get('x-content-type-options'), 'nosniff')
})

t.test('every error is a problem', async (t) => {
  const { send } = stage(t, handy, {}, { concurrency: 10 })
  const path = await over({ send }, 'write')
  const { path: asks, questionId } = await asked({ send })
  const answered = { body: { questionId, answer: 'red' } }
  const document = (await send('GET', '/api/openapi.json')).body
  const problem = z.fromJSONSchema(document.components.schemas.Problem)
  const problems: [number, Promise<Sent>][] = [
    [422, send('GET', '/api/agents?nonsense=1')],
    [404, send('GET', '/none')],
    [404, send('GET', '/api/agents/nobody')],
    [404, send('GET', '/api/agents?team=none')],
    [404, send('GET', `${path}/messages/none`)],
    [404, send('GET', `${path}/parts/none`)],
    [404, send('GET', `${path}/blackboard/none/history`)],
    [404, send('POST', '/api/dead-letters/none/replay')],
    [404, send('DELETE', '/api/dead-letters/none')],
    [404, send('POST', `${asks}/answers`, { body: { questionId: 'none', answer: 'red' } })],
    [405, send('POST', path, { body: {} })],
    [409, send('GET', `${asks}/contributions`)],
    [422, send('POST', `${asks}/answers`, { body: { questionId, answer: 'green' } })],
    [422, send('POST', '/api/agents/worker/restart')],
    [422, send('POST', '/api/agents/worker/messages', { body: { content: 'x', type: 'response' } })],
    [422, send('GET', '/api/dead-letters?after=none')],
    [422, send('GET', `${path}/events?after=7`)],
    [422, send('GET', `${path}/messages?after=x.y`)],
    [404, send('GET', '/api/tasks?before=none')],
    [502, send('POST', '/api/tasks', { body: { query: 'fail' } })],
  ]
  for (const [status, sent] of problems) {
    const { body, headers, status: got } = await sent
    t.equal(got, status, JSON.stringify(body))
    t.equal(headers.get('content-type'), 'application/problem+json')
    t.same(problem.parse(body), body)
    t.equal(body.status, status)
    t.notMatch(body.instance, /:/)
  }
  t.equal((await send('POST', `${asks}/answers`, answered)).status, 204)
  for (const methods of Object.values<Record<string, { requestBody?: object; responses: object }>>(document.paths))
    for (const { requestBody, responses } of Object.values(methods)) {
      t.ok('422' in responses, 'each refuses a field of the query that it does not know')
      if (requestBody) for (const status of ['400', '408', '413', '415']) t.ok(status in responses)
    }
  t.equal((await send('POST', `${asks}/answers`, answered)).status, 409)
})

t.test('a letter that is sent again names its task while that is under way, and none later', async (t) => {
  const lead = defineAgent({
    async receive(_message, context) {
      await context.send('worker', 'fail')
      await context.sleep(30_000)
    },
  })
  const team = testTeam(
    { agents: [{ name: 'lead' }, { name: 'worker' }], orchestration: { strategy: 'sequential', agentOrder: ['lead'] } },
    { modules: { lead, worker: handy } },
  )
  t.teardown(() => team.close())
  const { send } = stage(t, handy, { teams: { desk: team } })
  const path = await begin({ send }, 'go')
  const again = async () => {
    while (team.deadLetters.list().length === 0) await team.clock.advance(10)
    return (await send('POST', `/api/dead-letters/${team.deadLetters.list()[0]!.id}/replay`)).body
  }
  t.same(await again(), { taskId: path.split('/').at(-1) })
  while (team.deadLetters.list().length === 0) await team.clock.advance(10)
  await send('DELETE', path)
  await send('GET', `${path}?wait=30`)
  t.same(await again(), { taskId: null })
})

t.test('the OpenAPI document has each route, with schemas that are JSON Schema', async (t) => {
  const document = openApi('/agents') as { paths: Record<string, Record<string, { operationId?: string }>> }
  const operations = Object.values(document.paths).flatMap((path) => Object.values(path))
  const ids = operations.flatMap(({ operationId }) => operationId ?? [])
  t.same(ids.sort(), Object.keys(routes).sort())
  t.ok(document.paths['/api/tasks/{id}/messages/{messageId}'])
  const text = JSON.stringify(document)
  t.notMatch(text, /"(?:_zod|~standard)"/)
  t.ok(z.fromJSONSchema(schemaIn(document, '/api/tasks')).safeParse({ query: 'q' }).success)
})

t.test('the page of routes has the default of each limit', async (t) => {
  const { team } = stage(t)
  const { limits } = readOptions({ teams: { desk: team }, authorize: () => null })
  const rows = [...read('docs/reference/http.md').matchAll(/^\| (`\w+`(?:, `\w+`)*) +\| ([\d,]+(?:, \d+)*) +\|/gm)]
  const written = rows.flatMap(([, names, values]) => {
    const numbers = values!.split(', ').map((value) => Number(value.replaceAll(',', '')))
    return names!.split(', ').map((name, at) => [name.replaceAll('`', ''), numbers[at]])
  })
  t.same(Object.fromEntries(written), limits)
})

t.test('the metrics of two teams are on one page, with their names', async (t) => {
  const one = stage(t, handy)
  const { team: other } = stage(t, handy)
  const both = stage(t, handy, { teams: { one: one.team, two: other } })
  await both.send('POST', '/api/tasks', { body: { query: 'go', team: 'two' } })
  const { body: text } = await both.send('GET', '/metrics')
  t.equal(text.match(/^# HELP dramatis_messages_handled_total /gm).length, 1)
  t.match(text, /^dramatis_messages_handled_total\{team="two",agent="worker"\} 1$/m)
  t.match(text, /^dramatis_http_request_duration_seconds_count\{route="createTask",status="200"\} 1$/m)
})

t.test('a probe tells a stranger nothing but whether all is well', async (t) => {
  const { send } = stage(t)
  const headers = { host: '10.0.0.7:4747' }
  t.same((await send('GET', '/livez', { caller: null, headers })).body, { status: 'ok' })
  t.same((await send('GET', '/livez', { caller: 'ann:run' })).body, { status: 'ok' })
  t.match((await send('GET', '/livez')).body, { teams: { desk: { live: true, agents: { worker: {} } } } })
})

type Sender = Pick<Stage, 'send'>

async function begin({ send }: Sender, query: string): Promise<string> {
  return (await send('POST', '/api/tasks', { body: { query }, headers: ASYNC })).headers.get('location')!
}

async function over({ send }: Sender, query: string): Promise<string> {
  const path = await begin({ send }, query)
  await send('GET', `${path}?wait=30`)
  return path
}

async function asked({ send }: Sender): Promise<{ path: string; questionId: string }> {
  const path = await begin({ send }, 'ask')
  for (;;) {
    const { questions } = (await send('GET', path)).body
    if (questions.length > 0) return { path, questionId: questions[0].questionId }
    await new Promise(setImmediate)
  }
}

/** Makes a dead letter, and returns its id. */
async function letter({ send, team }: Stage): Promise<string> {
  await send('POST', '/api/agents/worker/messages', { body: { content: 'fail' } })
  while (team.deadLetters.list().length === 0) await new Promise(setImmediate)
  return team.deadLetters.list()[0]!.id
}

function probed(path: string, spoil: (stage: Stage) => Promise<void>): Visit {
  return async (stage) => {
    await stage.team.start()
    const well = await stage.send('GET', path)
    await spoil(stage)
    return [well, await stage.send('GET', path)]
  }
}

const idsIn = (text: string): string[] => [...text.matchAll(/^id: (.+)$/gm)].map(([, id]) => id!)

// biome-ignore lint/suspicious/noExplicitAny: a JSON document of any shape
const schemaIn = ({ paths }: any, path: string) => paths[path].post.requestBody.content['application/json'].schema
