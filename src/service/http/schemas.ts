/** Shapes of what the HTTP API takes and gives. A *task* here is what the runtime calls a run. */
import { z } from 'zod'
import { APPROVERS } from '../../actors/definition/tool.ts'
import { MESSAGE_TYPES } from '../../mailbox/message.ts'
import { storedIn } from '../../mailbox/stored-parts.ts'
import { isObject } from '../../shared/checks.ts'

/** Latest time that a date has, in epoch ms. */
const LATEST = 8.64e15

export const isoTime = (epochMs: number): string => new Date(Math.min(epochMs, LATEST)).toISOString()

/** The same for a time that may be missing. */
export const isoTimeOr = (epochMs: number | null): string | null => (epochMs === null ? null : isoTime(epochMs))

/** As z.record with texts as keys, which would leave out a key named `__proto__` without a word. */
function recordOf<Value>(value: z.ZodType<Value>): z.ZodType<Record<string, Value>> {
  return z
    .custom<Record<string, Value>>(isObject, { error: 'an object is needed', abort: true })
    .superRefine((given, context) => {
      for (const [key, field] of Object.entries(given))
        for (const { message, path } of value.safeParse(field).error?.issues ?? [])
          context.addIssue({ code: 'custom', message, path: [key, ...path] })
    })
    .meta({ ...z.toJSONSchema(z.record(z.string(), value)), $schema: undefined })
}

/** Rights of callers: `Right` says what each allows. */
export const RIGHTS = ['run', 'watch', 'operate', 'approve'] as const

const time = z.string().meta({ format: 'date-time', description: 'ISO 8601, in UTC' })

export const problem = z
  .object({
    type: z.string().startsWith('urn:dramatis:error:'),
    title: z.string(),
    status: z.int(),
    detail: z.string().describe('what happened, to whom, and what to do'),
    instance: z.string(),
    code: z.string(),
    details: z.record(z.string(), z.unknown()),
  })
  .describe('an error, as RFC 9457 has it')

const tokenUsage = z.object({
  inputTokens: z.number(),
  outputTokens: z.number(),
  totalTokens: z.number(),
  cachedTokens: z.number().optional(),
  reasoningTokens: z.number().optional(),
  calls: z.number(),
  estimated: z.literal(true).optional().describe('some of it was counted here: a provider has not reported it'),
})

const subTask = z
  .object({
    id: z.string(),
    description: z.string(),
    requiredCapabilities: z.array(z.string()),
    assignedTo: z.string().nullable(),
    status: z.enum([
      'pending',
      'assigned',
      'in_progress',
      'blocked',
      'handed_off',
      'completed',
      'failed',
      'refused',
      'cancelled',
      'skipped',
    ]),
    priority: z.number(),
    deadline: time.nullable(),
    dependencies: z.array(z.string()),
    result: z.unknown(),
    parentTask: z.string().nullable(),
    reason: z.string().optional().describe('of one that was skipped, as its plan says: why'),
  })
  .describe('a task that an agent has given to another')

export const question = z
  .object({
    questionId: z.string(),
    taskId: z.string(),
    team: z.string(),
    agent: z.string(),
    kind: z.enum(['ask', 'approval']),
    text: z.string(),
    choices: z.array(z.string()).nullable().describe('null: any text'),
    form: z
      .looseObject({})
      .optional()
      .describe('JSON Schema of an object: the answer is "no", or the JSON text of such an object'),
    tool: z.string().optional().describe('of an approval: the tool that is to be called'),
    callId: z.string().optional(),
    input: z.unknown().optional().describe('of an approval: the input of the tool'),
    inputSchema: z.looseObject({}).optional().describe('of an approval: JSON Schema of that input'),
    askedAt: time,
    answerBy: time.nullable().describe('until when it stays open; null: as long as the task'),
    by: z
      .enum(APPROVERS)
      .optional()
      .describe('of an approval: people who may give it, seen from the caller of the task'),
    groups: z.array(z.string()).optional().describe('of an approval: an approver is in one of them; none: whoever may'),
    quorum: z.int().optional().describe('of an approval: number of people who have to agree'),
    agreed: z
      .array(z.object({ id: z.string(), at: time }))
      .optional()
      .describe('of an approval: who has agreed by now to what is shown'),
    steeredBy: z
      .array(z.string())
      .optional()
      .describe('of an approval: people who have said something to the task, as if they had begun it'),
    digest: z.string().optional().describe('of an approval: names what is shown; an answer brings it'),
    refusal: z.string().nullable().describe('why the caller may not answer it; null: nothing is against it'),
  })
  .describe('a question to a person that nobody has answered yet')

export const steer = z
  .object({
    id: z.string(),
    at: time,
    text: z.string(),
    to: z.string().nullable().describe('agent that they are for; null: all of the task'),
    by: z.string().nullable().describe('who has said them'),
    readBy: z.array(z.string()).describe('agents that have them: models in a prompt, code in observe'),
    settled: z.enum(['read', 'unread']).nullable().describe('null: the task goes on'),
  })
  .describe('words that were said to a task while it worked')

const cost = z
  .object({
    estimate: z.number().describe('in the currency of the prices'),
    byModel: z.record(z.string(), z.number()),
    unpriced: z.array(z.string()).describe('models without a price, whose tokens are not counted'),
  })
  .describe('an estimate by the prices that the service was given')

const money = z
  .object({
    amount: z.number(),
    currency: z.string(),
    byModel: z.record(z.string(), z.number()),
  })
  .nullable()
  .describe('what models have cost by the prices of the team; null: it has none')

export const taskStatus = z.enum(['queued', 'running', 'waiting', 'finished', 'failed', 'aborted', 'interrupted'])

export const task = z.object({
  id: z.string(),
  team: z.string(),
  query: z.string(),
  status: taskStatus,
  createdAt: time,
  endedAt: time.nullable(),
  answer: z.string().nullable(),
  data: z.unknown().describe('the answer in the shape of `output`; null if the task has none'),
  failures: z
    .array(z.object({ agent: z.string(), taskId: z.string().optional(), error: problem }))
    .describe('sub-tasks that got no answer'),
  subTasks: z.array(subTask),
  questions: z.array(question),
  steers: z.array(steer).describe('words that were said to it while it worked'),
  usage: tokenUsage,
  speaker: z.string().nullable().describe('agent that speaks for the task now, or has spoken for it last'),
  usageByAgent: z.record(z.string(), tokenUsage),
  money,
  cost: cost.nullable().describe('null: it is not over, or the service has no prices'),
  rehearsed: z.boolean().describe('true: a model that makes its answers up had a part in it'),
  error: problem.nullable(),
})

/** Body of an error: that of a task which was waited for has the task beside it. */
export const problemBody = problem.extend({
  task: task.optional().describe('the task that has failed, where its end was waited for'),
})

export const taskSummary = task
  .pick({ id: true, team: true, query: true, status: true, createdAt: true, endedAt: true, usage: true, money: true })
  .extend({
    query: z.string().describe('its first 512 characters'),
    threadId: z.string().nullable(),
    errorCode: z.string().nullable(),
    caller: z.string().nullable().describe('who has begun it'),
    tenant: z.string().nullable().describe('group of callers that it is for'),
    shard: z.int().optional().describe('its shard, in a team over several processes'),
  })
  .describe('a task in a list')

export const thread = z.object({
  id: z.string(),
  team: z.string(),
  speaker: z
    .string()
    .nullable()
    .describe('agent that gets the next message; null: the one that the strategy begins with'),
  tasks: z.array(z.string()).describe('ids of its tasks, the newest first'),
})

/** Fields beside the items of a list over several processes. */
export const ofCluster = {
  missing: z.array(z.int()).optional().describe('shards of a cluster that no process has told of just now, if any'),
}

export const taskList = z.object({
  tasks: z.array(taskSummary),
  next: z.string().nullable().describe('`before` of the next page; null at the end'),
  ...ofCluster,
})

/** A part of a message. One of 64 KiB and more has `hash` and `bytes` in place of `data`. */
const messagePart = z.object({
  type: z.enum(['text', 'image', 'audio', 'file']),
  text: z.string().optional(),
  data: z.string().optional().describe('a data URL, base64, or an https: URL'),
  mediaType: z.string().optional(),
  name: z.string().optional(),
  hash: z.string().optional().describe('SHA-256 of the bytes, in hex: GET /api/tasks/:id/parts/:hash has them'),
  bytes: z.int().optional(),
})

export const message = z
  .object({
    id: z.string(),
    type: z.enum(MESSAGE_TYPES),
    sender: z.string(),
    recipient: z.union([z.string(), z.array(z.string())]).nullable(),
    content: z.string(),
    structuredData: z.unknown(),
    priority: z.number(),
    requiresResponse: z.boolean(),
    responseTimeoutMs: z.number().nullable(),
    threadId: z.string().nullable(),
    metadata: z.record(z.string(), z.unknown()),
    runId: z.string(),
    correlationId: z.string().nullable(),
    sentAt: time,
    parts: z.array(messagePart).optional().describe('images, sounds and files; large ones by reference'),
    cut: z.int().optional().describe('number of characters of the content, where only the first ones are here'),
  })
  .describe('a message between agents')

export const deadLetter = z
  .object({
    id: z.string(),
    team: z.string(),
    shard: z.int().optional().describe('its shard, in a team over several processes'),
    reason: z.enum([
      'failed',
      'late',
      'expired',
      'unknown_agent',
      'stopped',
      'rejected',
      'overflow',
      'poison',
      'cancelled',
    ]),
    at: time,
    message,
    errors: z.array(problem),
  })
  .describe('a message that no agent will handle')

export const agent = z.object({
  name: z.string(),
  team: z.string(),
  description: z.string().nullable(),
  status: z.enum(['starting', 'idle', 'running', 'waiting', 'restarting', 'passivated', 'stopped', 'failed']),
  queued: z.int().describe('messages that wait'),
  inFlight: z.int().describe('messages under way'),
  restarts: z.int(),
  lastBeatMs: z.number().describe('time since a turn ended'),
  usage: tokenUsage,
})

const context = z
  .looseObject({ messages: z.number(), tokens: z.number(), maxTokens: z.number() })
  .nullable()
  .describe('figures of the context of a model agent; null for an agent with code')

const progress = z
  .looseObject({
    runId: z.string(),
    taskId: z.string().describe('id of the message, which is that of its task if it is one'),
    subtask: z.string().optional(),
    subtasks: z.array(z.looseObject({ description: z.string(), status: z.string() })),
    round: z.int(),
    maxRounds: z.int(),
    messages: z.int(),
    lastMessages: z.array(z.object({ role: z.string(), text: z.string() })).describe('cut short'),
  })
  .nullable()
  .describe('how far a model agent is with the message that it handles; null while it handles none')

/** A caller with a tenant has none of the figures that are sums over all tenants. */
export const listedAgent = agent
  .partial({ queued: true, inFlight: true, lastBeatMs: true })
  .extend({ context: context.optional(), progress: progress.optional() })

/** Role of an agent, without what it is told: its prompt is none of a reader's business. */
export const agentDetail = agent.extend({
  summary: z.string().describe('the state of the agent in one line'),
  context,
  model: z.string().nullable(),
  tools: z.array(z.string()),
  capabilities: z.array(z.string()),
})

export const messageRequest = z.strictObject({
  type: z.enum(MESSAGE_TYPES).optional(),
  content: z.string(),
  structuredData: z.unknown().optional(),
  priority: z.number().optional(),
  requiresResponse: z.boolean().optional(),
  responseTimeoutMs: z.number().positive().optional(),
  threadId: z.string().min(1).max(256).optional(),
  metadata: recordOf(z.unknown()).optional(),
})

export const answerRequest = z.strictObject({
  questionId: z.string().min(1),
  answer: z
    .union([
      z.string(),
      z.strictObject({ approved: z.literal(true), input: z.unknown().optional() }),
      z.strictObject({ approved: z.literal(false), reason: z.string().optional() }),
    ])
    .describe("a text; for an approval 'yes', 'no', or an object that can change the input or say why not"),
  digest: z.string().max(100).optional().describe('of the approval that was shown: an approval takes it'),
})

export const chat = z.object({
  id: z.string(),
  messages: z
    .array(
      z.object({
        id: z.string(),
        role: z.enum(['user', 'assistant']),
        metadata: z.unknown().optional(),
        parts: z.array(z.looseObject({ type: z.string() })),
      }),
    )
    .describe('as the AI SDK has them (UIMessage)'),
})

export const session = z.object({
  caller: z.object({ id: z.string(), may: z.array(z.enum(RIGHTS)) }),
  teams: z.array(
    z.object({
      name: z.string(),
      strategy: z.string(),
      agents: z.array(z.string()),
      roles: z.record(z.string(), z.array(z.string())).describe('agents that options of the strategy name'),
      file: z.string().nullable().describe('file of the team, where the service knows it'),
      log: z.string().nullable().describe('folder of its durable log'),
    }),
  ),
  hasPrices: z.boolean().describe('true: tasks have a cost, or money'),
})

export const budgetUse = z
  .object({
    option: z.string().describe('option that sets the limit'),
    taskId: z.string().nullable().describe('null: a limit of the team, or of a tenant'),
    agent: z.string().nullable().describe('null: a limit of all agents together'),
    tenant: z.string().nullable().describe('tenant whose limit it is'),
    unit: z.string().describe("'tokens', or the currency of the team's prices"),
    used: z
      .number()
      .describe('what calls have cost that have ended; of team and tenant: within windowMs, or this period'),
    held: z.number().describe('what calls under way may cost'),
    limit: z.number(),
    windowMs: z.number().nullable(),
    freeAt: time.nullable().describe('when the next part of it is free again'),
  })
  .describe('what is used of a limit, in tokens or in money')

export const contributions = z.object({
  agents: z.record(
    z.string(),
    z.object({
      tokens: tokenUsage,
      timeMs: z.number(),
      messagesSent: z.number(),
      tasksDone: z.number(),
      entries: z.object({ written: z.array(z.string()), used: z.array(z.string()) }),
      sentences: z.array(z.string()).describe('sentences of the answer that it was the first to say'),
      repeated: z.array(z.string()).describe('sentences of the answer that it said after another one'),
    }),
  ),
  sentences: z
    .array(z.object({ text: z.string(), saidBy: z.array(z.string()) }))
    .describe('sentences of the answer, with all that have said them'),
  basis: z
    .array(
      z.object({
        text: z.string(),
        restsOn: z.array(z.object({ agent: z.string(), share: z.number() })),
        unattributed: z.number(),
      }),
    )
    .describe('sentences of the answer, with the share of the words of each that stands in contributions'),
  unattributed: z.number().describe('share of the words of the answer that nobody stands behind'),
})

export const wait = z
  .object({
    runId: z.string(),
    agent: z.string().nullable(),
    turn: z.string().nullable().describe('id of the message whose turn waits'),
    for: z.array(z.string()),
    kind: z.string(),
    since: time,
    turnSince: time.optional().describe('when the turn began'),
    slowAfterMs: z.number().optional().describe('supervision.slowMs; left out for what is never slow'),
    limit: z.number().nullable().optional(),
    cause: z.string().optional().describe('what those do that have the places of the limit'),
    until: time.optional(),
    stuck: z.enum(['now', 'once_slow']).optional().describe('that it waits in a circle, or is stuck once it is slow'),
    loop: z.enum(['idle', 'busy', 'silent']).optional().describe('what the loop of its thread does'),
  })
  .describe('something that waits in a team now, or that a turn does by itself')

const state = z.enum(['fine', 'slow', 'stuck'])

export const openTurn = z
  .object({
    runId: z.string(),
    agent: z.string(),
    messageId: z.string(),
    since: time.describe('when it began'),
    doing: z.array(z.object({ kind: z.string(), name: z.string().nullable(), since: time })),
    state,
    sentence: z.string(),
  })
  .describe('a turn under way, with what it does now')

export const judgement = z
  .object({ state, sentences: z.array(z.string()) })
  .describe('what people should look at: all that is slow or stuck')

export const waitCycle = z
  .object({
    agents: z.array(z.string()).describe('each waits for the next one, and the last for the first'),
    turns: z.array(z.string()).describe('ids of the messages whose turns these are'),
    runIds: z.array(z.string()),
    tail: z.array(z.string()).describe('agents that wait for one of these'),
  })
  .describe('turns that wait for each other: nothing but the detector, a deadline or a cancellation ends it')

export const health = z.object({
  status: z.enum(['ok', 'unavailable']),
  teams: z.record(z.string(), z.unknown()).optional().describe('for who may watch: the health of each team'),
})

export const taskMessage = message
  .extend({ eventId: z.string().describe('place of the message among the events of the task') })
  .describe('a message of a task')

export const boardEntry = z
  .object({
    key: z.string(),
    value: z.unknown(),
    author: z.string(),
    timestamp: time,
    entryType: z.string(),
    confidence: z.number(),
    supersedes: z.string().nullable(),
    references: z.array(z.string()),
    version: z.int(),
  })
  .describe('an entry of the blackboard')

export const trace = z.object({
  events: z.array(
    z.object({ timestamp: time, eventType: z.string(), agent: z.string().nullable(), details: z.looseObject({}) }),
  ),
  decisions: z.array(z.object({ timestamp: time, question: z.string(), choice: z.string(), reason: z.string() })),
  agentActivations: z.array(z.object({ agent: z.string(), startedAt: time, endedAt: time, messageId: z.string() })),
  messageFlow: z.array(
    z.object({
      from: z.string(),
      to: z.string(),
      messageId: z.string(),
      type: z.enum(MESSAGE_TYPES),
      at: time,
    }),
  ),
  syncPointsReached: z.array(z.string()),
})

const LONGEST_QUERY = 1_000_000
export const queryText = z.string().min(1).max(LONGEST_QUERY)
const MOST_PARTS = 256

const mediaFields = {
  data: z
    .string()
    .min(1)
    .refine(
      (data) => storedIn(data) === undefined,
      'a reference to stored bytes is not taken: give the bytes, or a URL',
    )
    .describe('a data URL, a URL that the provider of the model fetches, or base64'),
  mediaType: z.string().optional().describe("needed for base64: such as 'image/png'"),
  name: z.string().max(255).optional().describe('name of the file, for the model'),
}

/** A part of a query. What its data have to be is checked by the team, as for every query. */
const queryPart = z.discriminatedUnion('type', [
  z.strictObject({ type: z.literal('text'), text: queryText }),
  z.strictObject({ type: z.literal('image'), ...mediaFields }),
  z.strictObject({ type: z.literal('audio'), ...mediaFields }),
  z.strictObject({ type: z.literal('file'), ...mediaFields }),
])

export const steerRequest = z.strictObject({
  words: z
    .union([queryText, z.array(queryPart).min(1).max(MOST_PARTS)], { error: 'a text, or a list of parts, is needed' })
    .describe('a text, or parts'),
  when: z
    .enum(['next', 'interrupt'])
    .optional()
    .describe('next (default): with the next call of a model; interrupt: calls under way are cut and made anew'),
  to: z.string().min(1).max(256).optional().describe('one agent, in place of all of the task'),
  id: z.string().min(1).max(256).optional().describe('the same id is the same words: they are taken once'),
})

export const taskRequest = z
  .strictObject({
    query: z
      .union([queryText, z.array(queryPart).min(1).max(MOST_PARTS)], { error: 'a text, or a list of parts, is needed' })
      .optional()
      .describe('a text, or parts: texts, images, sounds and files'),
    task: queryText.optional().describe('another name of `query`'),
    message: queryText.optional().describe('another name of `query`'),
    team: z.string().optional().describe('default: the first team'),
    threadId: z.string().min(1).max(256).optional().describe('tasks of a thread continue its conversations'),
    speaker: z.string().min(1).optional().describe('agent that speaks first, under the strategy handoff'),
    timeoutMs: z.number().positive().max(2_147_483_647).optional().describe('at most that of the team holds'),
    priority: z.number().optional().describe('in the queue of tasks; higher first; above 0 it takes the right operate'),
    budget: z
      .strictObject({ tokens: z.int().positive(), perAgentTokens: z.int().positive() })
      .partial()
      .optional()
      .describe('at most that of the team holds'),
    models: recordOf(z.string()).optional().describe('replacement models by name; they take the right operate'),
    metadata: recordOf(z.string()).optional().describe('for the agents to read'),
    output: recordOf(z.unknown()).optional().describe('JSON Schema that `data` of the task has to fit'),
    stream: z.boolean().optional().describe('true: models answer in pieces, for `deltas=1`'),
  })
  .refine(({ query, task, message }) => [query, task, message].filter((each) => each !== undefined).length === 1, {
    error: 'exactly one of query, task and message is needed',
  })

export type Cost = z.infer<typeof cost>
export type Problem = z.infer<typeof problem>
export type Task = z.infer<typeof task>
export type TaskMessage = z.infer<typeof taskMessage>
export type TaskSteer = z.infer<typeof steer>
export type TaskSummary = z.infer<typeof taskSummary>
export type TaskRequest = z.input<typeof taskRequest>
export type TaskQuestion = z.infer<typeof question>
export type BudgetUse = z.infer<typeof budgetUse>
export type Contributions = z.infer<typeof contributions>
export type Session = z.infer<typeof session>
