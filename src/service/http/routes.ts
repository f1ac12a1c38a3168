/**
 * The table of all routes: it makes the router, the OpenAPI document and the test that each response fits its schema.
 */
import { z } from 'zod'
import { agUiRequest, chatRequest as chatOfAiSdk } from './chat-request.ts'
import { chatRequest, responsesRequest } from './openai-request.ts'
import type { Right } from './options.ts'
import * as shapes from './schemas.ts'

/** Answer of a route: its JSON, or the media types of another body. */
export interface Answer {
  readonly description: string
  readonly json?: z.ZodType
  readonly types?: readonly string[]
  /** Only teams over several processes give it. */
  readonly isOfCluster?: true
}

export interface Route {
  readonly method: 'GET' | 'POST' | 'DELETE'
  readonly path: string
  readonly also?: readonly string[]
  readonly summary: string
  /** Any one of these is needed; none: anybody may. */
  readonly rights: readonly Right[]
  /** Answered also for callers that nobody knows: `authorize` may return null. */
  readonly isOpen?: boolean
  /** A response of `authorize`, such as one that leads to a login, is sent even if the route is open. */
  readonly leadsToLogin?: boolean
  /** Is there only with `dashboard: true`. */
  readonly isOfPage?: boolean
  /** Is there only with `mcp`. */
  readonly isOfMcp?: boolean
  /** Is there only with `a2a`. */
  readonly isOfA2a?: boolean
  /** Is not counted by `limits.getsPerSecond`: a probe, or a stream, which has bounds of its own. */
  readonly isUncounted?: boolean
  /** Tells of runs of all tenants, or acts on their agents: refused to a caller who has a tenant. */
  readonly isOfAll?: boolean
  /** Errors have the shape of OpenAI's. */
  readonly isOpenAi?: boolean
  /** The path names a task. Any one of these is needed for the tasks of others. */
  readonly others?: readonly Right[]
  readonly query: z.ZodObject
  readonly body?: z.ZodType
  readonly answers: Readonly<Record<number, Answer>>
  /** Status codes of its errors, beside those that every route has. */
  readonly errors: readonly number[]
}

const none = z.strictObject({})
const usual = { method: 'GET', query: none, errors: [] } as const

/** Declares a route: a GET without a query or errors of its own, unless it says otherwise. */
const route = <const R extends Omit<Route, keyof typeof usual> & Partial<Route>>(
  given: R,
): Omit<typeof usual, keyof R> & R => ({ ...usual, ...given })

/** Whoever may run tasks sees their own, and whoever may watch those of others. */
const ofTask = { rights: ['run', 'watch'], others: ['watch'] } as const

/** Messages of the Model Context Protocol in one request, which the revision of March 2025 may send together. */
const MOST_MESSAGES = 20

const seconds = z.coerce.number().min(0).max(600)
const teamName = z.string().optional()
const shard = z.coerce.number().int().min(0).optional().describe('of a team over several processes')
const yes = z.literal('1')
const pageSize = z.coerce.number().int().min(1).max(1_000)

/** A method of A2A by its path, which has the task and what is done with it. */
const ofA2a = { path: '/a2a/:team/:path{.+}', rights: ['run'], isOfA2a: true, query: z.looseObject({}) } as const
const a2aAnswers = {
  200: { description: 'what comes of the method', json: z.looseObject({}), types: ['text/event-stream'] },
}

const openAiObject = <Name extends string>(name: Name) => z.looseObject({ object: z.literal(name) })
const openAiModel = openAiObject('model').extend({ id: z.string(), created: z.number(), owned_by: z.string() })
const openAiAnswer = (name: string) => ({
  200: { description: 'the answer, or with stream its pieces', json: openAiObject(name), types: ['text/event-stream'] },
})

/** Probes need no right: who may not watch reads only whether all is well. */
const probe = {
  rights: [],
  isOpen: true,
  isUncounted: true,
  answers: {
    200: { description: 'yes', json: shapes.health },
    503: { description: 'no', json: shapes.health },
  },
} as const

/** A file of the dashboard has nothing of the teams. */
const pageFile = { rights: [], isOpen: true, isOfPage: true } as const
const pageFileAnswers = (type: string) => ({
  200: { description: 'the file', types: [type] },
  304: { description: 'with If-None-Match of the same file' },
})

export const routes = {
  createTask: route({
    method: 'POST',
    path: '/api/tasks',
    also: ['/api/process-multi-agent-task'],
    summary: 'Gives a team a task, and answers when it is done',
    rights: ['run'],
    query: z.strictObject({ deltas: yes.optional() }),
    body: shapes.taskRequest,
    answers: {
      200: { description: 'it is done', json: shapes.task },
      202: { description: 'with Prefer: respond-async, or after Prefer: wait=seconds', json: shapes.task },
      204: { description: 'with Last-Event-ID of the last event' },
    },
    errors: [409, 422, 429, 502, 503, 504],
  }),
  listTasks: route({
    path: '/api/tasks',
    summary: 'Lists the tasks of a team, the newest first',
    rights: ['run', 'watch'],
    query: z.strictObject({
      status: shapes.taskStatus.optional(),
      threadId: z.string().optional(),
      team: teamName,
      before: z.string().optional(),
      limit: pageSize.default(100),
    }),
    answers: { 200: { description: 'a page of tasks', json: shapes.taskList } },
    errors: [404, 422],
  }),
  getThread: route({
    path: '/api/threads/:id',
    summary: 'Returns a conversation: who speaks in it, and its tasks',
    rights: ['run', 'watch'],
    query: z.strictObject({ team: teamName }),
    answers: { 200: { description: 'the thread as it is now', json: shapes.thread } },
    errors: [404],
  }),
  getTask: route({
    path: '/api/tasks/:id',
    summary: 'Returns a task; with wait= at its end, or after that many seconds',
    ...ofTask,
    query: z.strictObject({ wait: seconds.default(0) }),
    answers: { 200: { description: 'the task as it is now', json: shapes.task } },
    errors: [404],
  }),
  cancelTask: route({
    method: 'DELETE',
    path: '/api/tasks/:id',
    summary: 'Cancels a task: it ends as aborted',
    rights: ['run', 'operate'],
    others: ['operate'],
    query: z.strictObject({ reason: z.string().min(1).max(1_000).optional() }),
    answers: {
      200: { description: 'it had ended already', json: shapes.task },
      202: { description: 'it is being cancelled; without a body: once a process has its shard', json: shapes.task },
    },
    errors: [404],
  }),
  taskEvents: route({
    path: '/api/tasks/:id/events',
    summary: 'Streams what happens in a task, from its begin or behind Last-Event-ID (after=)',
    ...ofTask,
    isUncounted: true,
    query: z.strictObject({
      types: z.string().optional().describe('types of events, with commas between them; default: all'),
      after: z.string().optional(),
      deltas: yes.optional().describe('1: pieces of answers, too, as models write them'),
    }),
    answers: {
      200: { description: 'events, until the task is over', types: ['text/event-stream', 'application/x-ndjson'] },
      204: { description: 'there is nothing more' },
    },
    errors: [404, 422, 429, 503],
  }),
  taskMessages: route({
    path: '/api/tasks/:id/messages',
    summary: 'Lists the messages of a task, the oldest first',
    ...ofTask,
    query: z.strictObject({
      agent: z.string().optional().describe('its sender or recipient'),
      type: shapes.message.shape.type.optional(),
      q: z.string().min(1).max(1_000).optional().describe('text that its content has, in any letter case'),
      after: z.string().optional().describe('eventId of a message'),
      limit: pageSize.default(100),
    }),
    answers: {
      200: {
        description: 'a page of messages, of at most 1 MiB',
        json: z.object({ messages: z.array(shapes.taskMessage), next: z.string().nullable() }),
      },
    },
    errors: [404, 422],
  }),
  taskMessage: route({
    path: '/api/tasks/:id/messages/:messageId',
    summary: 'Returns a message of a task, with all of its content',
    ...ofTask,
    answers: { 200: { description: 'the message', json: shapes.taskMessage } },
    errors: [404],
  }),
  taskPart: route({
    path: '/api/tasks/:id/parts/:hash',
    summary: 'Returns the bytes of a part that messages of a task have by reference',
    ...ofTask,
    answers: { 200: { description: 'the bytes', types: ['application/octet-stream'] } },
    errors: [404],
  }),
  taskTrace: route({
    path: '/api/tasks/:id/trace',
    summary:
      'Returns what happened in a task until now: as=json, as=mermaid for a diagram, as=digest for its lines of /api/watch, as=html for a page to send to somebody',
    ...ofTask,
    query: z.strictObject({ as: z.enum(['json', 'mermaid', 'digest', 'html']).default('json') }),
    answers: {
      200: {
        description: 'the trace',
        json: shapes.trace,
        types: ['text/vnd.mermaid', 'application/x-ndjson', 'text/html'],
      },
    },
    errors: [404, 422],
  }),
  taskContributions: route({
    path: '/api/tasks/:id/contributions',
    summary: 'Returns what each agent has contributed to the answer of a task that is over',
    ...ofTask,
    answers: { 200: { description: 'contributions by agent, and who said each sentence', json: shapes.contributions } },
    errors: [404, 409],
  }),
  taskBoard: route({
    path: '/api/tasks/:id/blackboard',
    summary: 'Lists the entries of the blackboard of a task, as it is now or was at its end',
    ...ofTask,
    query: z.strictObject({
      type: z.string().optional(),
      author: z.string().optional(),
      key: z.string().optional(),
    }),
    answers: { 200: { description: 'the valid entries', json: z.object({ entries: z.array(shapes.boardEntry) }) } },
    errors: [404],
  }),
  boardHistory: route({
    path: '/api/tasks/:id/blackboard/:key/history',
    summary: 'Lists all versions of an entry, the oldest first',
    ...ofTask,
    answers: { 200: { description: 'its versions', json: z.object({ entries: z.array(shapes.boardEntry) }) } },
    errors: [404],
  }),
  listQuestions: route({
    path: '/api/questions',
    summary:
      'Lists what waits for a person, in all tasks, the oldest first; with approve alone, what the caller may approve',
    rights: ['watch', 'approve'],
    answers: { 200: { description: 'open questions', json: z.object({ questions: z.array(shapes.question) }) } },
  }),
  answerQuestion: route({
    method: 'POST',
    path: '/api/tasks/:id/answers',
    summary: 'Answers a question of a task',
    rights: ['run', 'operate', 'approve'],
    others: ['operate', 'approve'],
    body: shapes.answerRequest,
    answers: {
      204: { description: 'the answer is taken' },
      202: { description: 'it is kept until a process has the shard of the task', isOfCluster: true },
    },
    errors: [404, 409, 422],
  }),
  steerTask: route({
    method: 'POST',
    path: '/api/tasks/:id/steer',
    summary: 'Says something to a task while it works',
    rights: ['run', 'operate'],
    others: ['operate'],
    body: shapes.steerRequest,
    answers: {
      202: { description: 'it stands in the log; without a body: once a process has its shard', json: shapes.steer },
    },
    errors: [404, 409, 422],
  }),
  listWaits: route({
    path: '/api/waits',
    summary: 'Lists what waits in a team now, the oldest first, and the circles of turns that wait for each other',
    rights: ['watch'],
    isOfAll: true,
    query: z.strictObject({ team: teamName, shard }),
    answers: {
      200: {
        description: 'waits',
        json: z.object({ waits: z.array(shapes.wait), cycles: z.array(shapes.waitCycle), ...shapes.ofCluster }),
      },
    },
    errors: [404],
  }),
  listTurns: route({
    path: '/api/turns',
    summary: 'Lists the turns that are under way in a team, the oldest first, and says what is slow or stuck',
    rights: ['watch'],
    isOfAll: true,
    query: z.strictObject({ team: teamName, shard }),
    answers: {
      200: {
        description: 'turns',
        json: z.object({ turns: z.array(shapes.openTurn), judgement: shapes.judgement, ...shapes.ofCluster }),
      },
    },
    errors: [404],
  }),
  listBudgets: route({
    path: '/api/budgets',
    summary:
      'Lists what is used of the limits now, in tokens and in money: of a team, its tenants, its tasks under way',
    rights: ['run', 'watch'],
    query: z.strictObject({ team: teamName, shard, tenant: z.string().optional().describe('of this one alone') }),
    answers: {
      200: { description: 'budgets', json: z.object({ budgets: z.array(shapes.budgetUse), ...shapes.ofCluster }) },
    },
    errors: [404],
  }),
  watchTeam: route({
    path: '/api/watch',
    summary: 'Streams what happens in a team, in short: its state first, then at most ten lines a second',
    rights: ['watch'],
    isUncounted: true,
    query: z.strictObject({ team: teamName, shard }),
    answers: {
      200: { description: 'lines of the digest', types: ['text/event-stream', 'application/x-ndjson'] },
    },
    errors: [404, 429, 503],
  }),
  listAgents: route({
    path: '/api/agents',
    summary: 'Lists the agents of a team',
    rights: ['watch'],
    query: z.strictObject({
      team: teamName,
      context: z
        .enum(['1'])
        .optional()
        .describe('1: with the context of each model agent, whose tokens are counted for it'),
      progress: z
        .enum(['1'])
        .optional()
        .describe('1: with how far each model agent is, which is read from the log for it'),
    }),
    answers: {
      200: {
        description: 'agents as they are now',
        json: z.object({ agents: z.array(shapes.listedAgent), ...shapes.ofCluster }),
      },
    },
    errors: [404],
  }),
  getAgent: route({
    path: '/api/agents/:name',
    summary: 'Returns an agent of a team',
    rights: ['watch'],
    isOfAll: true,
    query: z.strictObject({ team: teamName, shard }),
    answers: { 200: { description: 'the agent as it is now', json: shapes.agentDetail } },
    errors: [404],
  }),
  restartAgent: route({
    method: 'POST',
    path: '/api/agents/:name/restart',
    summary: 'Restarts an agent that was stopped for good',
    rights: ['operate'],
    isOfAll: true,
    query: z.strictObject({ team: teamName, shard }),
    answers: { 202: { description: 'it is ready again', json: shapes.agent } },
    errors: [404, 422, 502],
  }),
  sendMessage: route({
    method: 'POST',
    path: '/api/agents/:name/messages',
    summary: 'Sends a message to an agent, outside of any task',
    rights: ['operate'],
    isOfAll: true,
    query: z.strictObject({ team: teamName, shard }),
    body: shapes.messageRequest,
    answers: {
      200: { description: 'the response, with requiresResponse', json: shapes.message },
      202: { description: 'the agent has the message' },
    },
    errors: [404, 409, 422, 502, 503],
  }),
  listDeadLetters: route({
    path: '/api/dead-letters',
    summary: 'Lists messages that no agent will handle, the oldest or the newest first',
    rights: ['watch'],
    isOfAll: true,
    query: z.strictObject({
      team: teamName,
      reason: shapes.deadLetter.shape.reason.optional(),
      order: z.enum(['oldest', 'newest']).default('oldest'),
      after: z.string().optional(),
      limit: pageSize.default(100),
    }),
    answers: {
      200: {
        description: 'a page of letters',
        json: z.object({ letters: z.array(shapes.deadLetter), next: z.string().nullable(), ...shapes.ofCluster }),
      },
    },
    errors: [404, 422],
  }),
  replayDeadLetter: route({
    method: 'POST',
    path: '/api/dead-letters/:id/replay',
    summary: 'Sends the message of a dead letter again',
    rights: ['operate'],
    isOfAll: true,
    query: z.strictObject({ team: teamName, shard }),
    answers: {
      202: {
        description: 'its agent has accepted the message',
        json: z.object({
          taskId: z.string().nullable().describe('task that the message is sent in; null: it is outside of any'),
        }),
      },
    },
    errors: [404, 409, 422, 503],
  }),
  discardDeadLetter: route({
    method: 'DELETE',
    path: '/api/dead-letters/:id',
    summary: 'Takes a dead letter off the list',
    rights: ['operate'],
    isOfAll: true,
    query: z.strictObject({ team: teamName, shard }),
    answers: { 204: { description: 'it is gone' } },
    errors: [404],
  }),
  listModels: route({
    path: '/v1/models',
    summary: 'Lists the teams, and each agent of a team, as models in the format of OpenAI',
    rights: ['run'],
    isOpenAi: true,
    answers: { 200: { description: 'models', json: openAiObject('list').extend({ data: z.array(openAiModel) }) } },
  }),
  getModel: route({
    path: '/v1/models/:model{.+}',
    summary: 'Returns a team, or an agent of a team, as a model in the format of OpenAI',
    rights: ['run'],
    isOpenAi: true,
    answers: { 200: { description: 'the model', json: openAiModel } },
    errors: [404],
  }),
  chatCompletions: route({
    method: 'POST',
    path: '/v1/chat/completions',
    summary: 'Asks a team in the format of Chat Completions',
    rights: ['run'],
    isOpenAi: true,
    body: chatRequest,
    answers: openAiAnswer('chat.completion'),
    errors: [404, 422, 502, 503, 504],
  }),
  createResponse: route({
    method: 'POST',
    path: '/v1/responses',
    summary: 'Asks a team in the format of Responses',
    rights: ['run'],
    isOpenAi: true,
    body: responsesRequest,
    answers: openAiAnswer('response'),
    errors: [404, 422, 502, 503, 504],
  }),
  getResponse: route({
    path: '/v1/responses/:id',
    summary: 'Returns a response that is stored, as it is now, in the format of Responses',
    rights: ['run', 'watch'],
    isOpenAi: true,
    query: z.looseObject({ stream: z.literal('false').optional().describe('it comes as a whole') }),
    answers: { 200: { description: 'the response', json: openAiObject('response') } },
    errors: [404, 422],
  }),
  cancelResponse: route({
    method: 'POST',
    path: '/v1/responses/:id/cancel',
    summary: 'Cancels a response that is stored and not over',
    rights: ['run', 'operate'],
    isOpenAi: true,
    answers: { 200: { description: 'the response', json: openAiObject('response') } },
    errors: [404],
  }),
  chat: route({
    method: 'POST',
    path: '/api/chat',
    summary: 'Answers a message in the UI message stream of the AI SDK, as useChat reads it',
    rights: ['run'],
    query: z.strictObject({ team: teamName }),
    body: chatOfAiSdk,
    answers: { 200: { description: 'chunks of the message of the team', types: ['text/event-stream'] } },
    errors: [400, 404, 409, 422, 429, 503],
  }),
  getChat: route({
    path: '/api/chat/:id',
    summary: 'Returns the messages of a chat, the oldest first',
    rights: ['run'],
    query: z.strictObject({ team: teamName, limit: pageSize.default(100).describe('of the newest tasks') }),
    answers: { 200: { description: 'the chat as it is now', json: shapes.chat } },
    errors: [404],
  }),
  resumeChat: route({
    path: '/api/chat/:id/stream',
    summary: 'Streams the message that is under way in a chat, from its begin',
    rights: ['run'],
    isUncounted: true,
    query: z.strictObject({ team: teamName }),
    answers: {
      200: { description: 'chunks of the message of the team', types: ['text/event-stream'] },
      204: { description: 'nothing is under way' },
    },
    errors: [429, 503],
  }),
  stopChat: route({
    method: 'DELETE',
    path: '/api/chat/:id',
    summary: 'Cancels the task that is under way in a chat',
    rights: ['run'],
    query: z.strictObject({ team: teamName }),
    answers: { 204: { description: 'nothing is under way any more' } },
  }),
  runAgUi: route({
    method: 'POST',
    path: '/ag-ui/:team',
    summary: 'Answers a message in the events of AG-UI, or goes on behind its interrupts',
    rights: ['run'],
    body: agUiRequest,
    answers: { 200: { description: 'events of the run', types: ['text/event-stream'] } },
    errors: [400, 404, 409, 422, 429, 503],
  }),
  mcp: route({
    method: 'POST',
    path: '/mcp',
    also: ['/mcp/:team'],
    summary: 'Answers a message of the Model Context Protocol, where it is served (`mcp`)',
    rights: ['run', 'operate', 'approve'],
    isOfMcp: true,
    body: z.union([z.looseObject({}), z.array(z.looseObject({})).max(MOST_MESSAGES)]),
    answers: {
      200: {
        description: 'the answer, by itself or as an event',
        json: z.looseObject({ jsonrpc: z.literal('2.0') }),
        types: ['text/event-stream'],
      },
      202: { description: 'to a notification' },
    },
    errors: [400, 404, 429, 503],
  }),
  mcpResource: route({
    path: '/.well-known/oauth-protected-resource',
    also: ['/.well-known/oauth-protected-resource/:path{.+}'],
    summary: 'Says which servers give the tokens for `/mcp` (`mcp.oauth`): RFC 9728',
    rights: [],
    isOpen: true,
    isOfMcp: true,
    answers: { 200: { description: 'the metadata', json: z.looseObject({ resource: z.string() }) } },
    errors: [404],
  }),
  a2aCard: route({
    path: '/.well-known/agent-card.json',
    also: ['/a2a/:team/.well-known/agent-card.json'],
    summary: 'Returns the agent card of a team, where it is served by A2A (`a2a`)',
    rights: [],
    isOpen: true,
    isOfA2a: true,
    answers: { 200: { description: 'the card', json: z.looseObject({ name: z.string() }) } },
    errors: [404],
  }),
  a2a: route({
    method: 'POST',
    path: '/a2a/:team',
    summary: 'Answers a method of A2A 1.0 by JSON-RPC',
    rights: ['run'],
    isOfA2a: true,
    query: z.looseObject({}),
    answers: {
      200: {
        description: 'the answer, or its events',
        json: z.looseObject({ jsonrpc: z.literal('2.0') }),
        types: ['text/event-stream'],
      },
    },
    errors: [404, 429, 503],
  }),
  a2aPost: route({
    ...ofA2a,
    method: 'POST',
    summary: 'Sends a message, cancels a task or subscribes to it by A2A 1.0 (HTTP+JSON)',
    answers: a2aAnswers,
    errors: [400, 404, 409, 415, 429, 503],
  }),
  a2aDelete: route({
    ...ofA2a,
    method: 'DELETE',
    summary: 'Ends push notifications of a task by A2A 1.0 (HTTP+JSON)',
    answers: a2aAnswers,
    errors: [400, 404, 429, 503],
  }),
  a2aGet: route({
    ...ofA2a,
    summary: 'Returns a task, or all, or streams one by A2A 1.0 (HTTP+JSON)',
    answers: a2aAnswers,
    errors: [400, 404, 429, 503],
  }),
  live: route({ ...probe, path: '/livez', summary: 'Says whether the process works: else it is to be restarted' }),
  ready: route({ ...probe, path: '/readyz', summary: 'Says whether tasks are taken now' }),
  health: route({ ...probe, path: '/healthz', summary: 'Says both: 200 if the teams live and take tasks' }),
  metrics: route({
    path: '/metrics',
    summary: 'Metrics of all teams for Prometheus',
    rights: ['watch'],
    isOfAll: true,
    answers: { 200: { description: "Prometheus' text format 0.0.4", types: ['text/plain; version=0.0.4'] } },
  }),
  page: route({
    path: '/',
    summary: 'Returns the dashboard, where it is served (`dashboard: true`)',
    rights: [],
    isOpen: true,
    leadsToLogin: true,
    isOfPage: true,
    answers: { 200: { description: 'the page', types: ['text/html'] } },
  }),
  pageScript: route({
    ...pageFile,
    path: '/page.js',
    summary: 'Returns the code of the dashboard',
    answers: pageFileAnswers('text/javascript'),
  }),
  pageStyle: route({
    ...pageFile,
    path: '/page.css',
    summary: 'Returns the style of the dashboard',
    answers: pageFileAnswers('text/css'),
  }),
  getSession: route({
    path: '/session',
    summary: 'Says who the caller is and what teams there are, for the dashboard',
    rights: [],
    isOfPage: true,
    answers: { 200: { description: 'the caller, and the shapes of the teams', json: shapes.session } },
  }),
  beginSession: route({
    method: 'POST',
    path: '/session',
    summary: 'Begins a session of the dashboard: a cookie stands for the token that the request has',
    rights: [],
    isOfPage: true,
    answers: { 204: { description: 'with Set-Cookie, if the request has a token' } },
    errors: [429],
  }),
  endSession: route({
    method: 'DELETE',
    path: '/session',
    summary: 'Ends a session of the dashboard',
    rights: [],
    isOfPage: true,
    answers: { 204: { description: 'the cookie is void' } },
    errors: [429],
  }),
  openapi: route({
    path: '/api/openapi.json',
    summary: 'Returns the description of this API: OpenAPI 3.1',
    rights: [],
    answers: { 200: { description: 'the document', json: z.looseObject({ openapi: z.literal('3.1.0') }) } },
  }),
} as const satisfies Record<string, Route>

export type Routes = typeof routes
export type Operation = keyof Routes
