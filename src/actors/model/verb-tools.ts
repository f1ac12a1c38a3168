/**
 * Offers verbs of a turn as tools to a model. The host enforces the role's rights in any case; this file decides only
 * what a model is told. The model also gets the error of a verb that rejects, so it can do something else.
 */
import { type BlackboardEntry, compilePattern } from '../../blackboard/entry.ts'
import type { AgentMessage } from '../../mailbox/message.ts'
import { headIn } from '../../mailbox/sub-task.ts'
import { DramatisError, describe, ToolInputError } from '../../shared/errors.ts'
import { own } from '../../shared/values.ts'
import type { RoundBounds } from '../definition/assignment.ts'
import type { Content, PartKeeper } from '../definition/content.ts'
import type { AgentContext, EscalationOutcome, SharedScope } from '../definition/context.ts'
import type { TaskMessageOptions } from '../definition/conversation.ts'
import type { Awaitable } from '../definition/definition.ts'
import {
  type ModelAnswer,
  type ModelCall,
  type ModelMessage,
  POLL_MARK,
  type ToolSpec,
  type Watched,
} from '../definition/model.ts'
import { handled, type KeptLimit, type KeptLimitData, type NoteWaiting } from '../definition/promises.ts'
import type { ContextStrategy, RoleInfo } from '../definition/role.ts'
import { CONTEXT, type Executor, type PendingTask, type TaskInput, type TaskStatus } from '../definition/task.ts'
import type { Heard, PassingOn } from './conversation.ts'
import { userContent } from './prompt.ts'

/*
 * New entries of the blackboard within the turn in which a model subscribes to them: they stand in its next prompt.
 * Entries that come after that turn arrive at `observe`, and so in the conversation.
 */

export class BoardNews {
  readonly #context: Pick<AgentContext, 'blackboard' | 'role' | 'subscribe'>
  readonly #wanted: ((key: string) => boolean)[] = []
  readonly #seen = new Set<string>()

  constructor(context: Pick<AgentContext, 'blackboard' | 'role' | 'subscribe'>) {
    this.#context = context
  }

  /** Subscribes to entries whose key fits the pattern. Entries that exist are not new. Rejects as the verb does. */
  async subscribe(pattern: string): Promise<void> {
    if (!this.isWanted) await this.#unseen()
    await this.#context.subscribe(pattern)
    this.#wanted.push(compilePattern(pattern))
  }

  /** True once it has subscribed to something. */
  get isWanted(): boolean {
    return this.#wanted.length > 0
  }

  /** Returns the entries that are new since the last call, each as the model reads it. Its own are not among them. */
  async read(): Promise<string[]> {
    const { name } = this.#context.role
    const news = await this.#unseen()
    return news.filter(({ key, author }) => author !== name && this.#wanted.some((fits) => fits(key))).map(entryContent)
  }

  async #unseen(): Promise<BlackboardEntry[]> {
    const entries = await this.#context.blackboard.query()
    return entries.filter(({ key, version }) => {
      const id = `${version} ${key}`
      return !this.#seen.has(id) && this.#seen.add(id)
    })
  }
}

/** Returns an entry as the message with which it arrives at `observe` says it. */
const entryContent = (entry: BlackboardEntry): string =>
  userContent({ type: 'publish', sender: entry.author, content: entry.key, structuredData: entry, metadata: {} })

/*
 * Tasks that a model has given away while it goes on. Before its answer counts it is told what came of each, since an
 * open task ends with the turn that gave it.
 */

export class DelegatedTasks {
  /** Outcomes in words that the model does not know yet, by the id of the task. */
  readonly #untold = new Map<string, Promise<string>>()

  /** Adds a task. Resolves to its id; rejects if it cannot be sent. */
  async add(to: string, task: PendingTask): Promise<string> {
    const outcome = handled(
      task.then(
        ({ result }) => `"${to}" has done it: ${typeof result === 'string' ? result : JSON.stringify(result ?? null)}`,
        (error: unknown) => `"${to}" has not done it: ${describe(error)}`,
      ),
    )
    const id = await task.id
    this.#untold.set(id, outcome)
    return id
  }

  /** Resolves when all tasks have ended. */
  async ended(): Promise<void> {
    await Promise.all(this.#untold.values())
  }

  /** Resolves to the outcome of a task that has ended, which the model is told now; undefined if it knows that. */
  async outcome(id: string): Promise<string | undefined> {
    const outcome = await this.#untold.get(id)
    this.#untold.delete(id)
    return outcome
  }

  /** True while there are tasks whose outcome the model does not know. */
  get hasNews(): boolean {
    return this.#untold.size > 0
  }

  /** Resolves when all tasks have ended: to the outcomes that the model does not know, which it is told now. */
  async news(): Promise<string> {
    const ids = [...this.#untold.keys()]
    const outcomes = await Promise.all(this.#untold.values())
    this.#untold.clear()
    return outcomes.map((outcome, i) => `Task ${ids[i]}: ${outcome}`).join('\n\n')
  }
}

/* Gives tasks to executors without a wait for them, and looks at how they stand. */

const OPEN: ReadonlySet<TaskStatus> = new Set(['pending', 'assigned', 'in_progress', 'blocked'])

async function delegateToExecutor(
  turn: ThinkingTurn,
  { task, context, to }: Readonly<Record<string, unknown>>,
  optionsFor: (to: string) => Promise<TaskMessageOptions>,
): Promise<string> {
  const executor = to === undefined ? await theExecutor(turn) : String(to)
  const { metadata, ...options } = await optionsFor(executor)
  const told = context === undefined ? metadata : { ...metadata, [CONTEXT]: context }
  const pending = turn.delegate(executor, String(task), { ...options, ...(told && { metadata: told }) })
  const id = await turn.delegated.add(executor, pending)
  return `"${executor}" has the task ${id}, and works on it. Go on with what is left. get_executor_status says how far it is. If nothing else is left, answer: what came of it is told to you before your answer counts.`
}

/** Returns the only agent to which this one may give tasks. */
async function theExecutor(turn: ThinkingTurn): Promise<string> {
  const names = turn.role.canDelegateTo ?? (await turn.executors()).map(({ executor }) => executor)
  const [only, ...others] = names
  if (only !== undefined && others.length === 0) return only
  const needed = names.length === 0 ? 'there is no executor' : `"to" is missing; it may be ${names.join(', ')}`
  throw new ToolInputError(`The tool "delegate_to_executor": ${needed}.`, { tool: 'delegate_to_executor' })
}

/** Returns the executors with their tasks. What came of a task of this turn stands there once, when it has ended. */
async function executorStatus(turn: ThinkingTurn, waits: boolean): Promise<object[]> {
  if (waits) await turn.delegated.ended()
  return Promise.all(
    (await turn.executors()).map(async ({ tasks, ...executor }) => ({
      ...executor,
      tasks: await Promise.all(
        tasks.map(async (task) => {
          const outcome = OPEN.has(task.status) ? undefined : await turn.delegated.outcome(task.id)
          return outcome === undefined ? task : { ...task, outcome }
        }),
      ),
    })),
  )
}

/*
 * The tools of a role as a model has them within one turn. The loop of model and tools knows only their names, inputs
 * and answers. It does not know where a tool runs: in this thread, in the host or in the pool.
 */

export interface RoleTools {
  /**
   * Descriptions of the tools for a model. They stay the same while the thread exists, so a redelivered turn asks its
   * model the same again.
   */
  readonly specs: readonly ToolSpec[]
  /** Checks whether calls of that tool run alone among the calls of one answer. */
  isSequential(name: string): boolean
  /** Checks whether that tool is a poll by its definition. */
  polls(name: string): boolean
  /**
   * Calls a tool; `input` is JSON as the model wrote it. Resolves to the content for the model: text, or parts.
   * `signal` withdraws the call. If it rejects, for example with `ToolInputError`, `ToolFailedError` or
   * `ToolTimeoutError`, the model gets the error's message, so it may try again.
   */
  call(name: string, input: string, signal: AbortSignal | undefined): Promise<Content>
}

/**
 * Result of a tool: content for the model, or the end of the turn with this answer. `means`: the text without what
 * differs each time, if it has any of that. `data`: structured data of the answer. `isHandoff`: another agent answers
 * in the place of this one. `isFinal`: the answer ends the whole task.
 */
export type ToolOutcome =
  | { text: Content; means?: string; failed?: true; byPerson?: true }
  | { ends: string; data?: object; isHandoff?: true; isFinal?: true }

export interface VerbTool {
  readonly spec: ToolSpec
  /**
   * The call waits for the calls before it in the same answer, and those after it wait for it: it may end the turn, or
   * it changes what they see.
   */
  readonly alone: boolean
  /** `signal` withdraws the call. */
  run(turn: ThinkingTurn, input: Input, passing: PassingOn, signal: AbortSignal | undefined): Promise<ToolOutcome>
}

/** Input of a verb, as the model wrote it. */
export type Input = Readonly<Record<string, unknown>>

const TEXT = { type: 'string' } as const

export function tool(
  name: string,
  description: string,
  properties: Readonly<Record<string, object>>,
  required: readonly string[],
  run: VerbTool['run'],
  { alone = false } = {},
): VerbTool {
  const inputSchema = { type: 'object', properties, required, additionalProperties: false }
  return { spec: { name, description, inputSchema }, alone, run }
}

export const ALONE = { alone: true }

export const AGENT = { ...TEXT, description: 'The name of an agent of the team.' }

/** Returns a value as a model reads it. */
const shownValue = (value: unknown): string => (typeof value === 'string' ? value : JSON.stringify(value ?? null))

const SCOPE = {
  type: 'string',
  enum: ['agent_shared', 'team_shared', 'persistent'],
  description:
    'agent_shared: what one agent lets others read; team_shared: of the whole team; persistent: also of later sessions.',
} as const

const STATE_TOOLS: readonly VerbTool[] = [
  tool(
    'publish',
    "Writes an entry on the team's blackboard.",
    {
      key: TEXT,
      value: { description: 'Any JSON value.' },
      entryType: { ...TEXT, description: 'Such as fact, finding, solution.' },
      confidence: { type: 'number', description: 'How sure you are of it, from 0 to 1.' },
      supersedes: { ...TEXT, description: 'The key of an entry that it replaces.' },
      references: { type: 'array', items: TEXT, description: 'The keys of the entries that it is based on.' },
    },
    ['key', 'value', 'entryType'],
    async ({ context }, { key, value, entryType, ...options }) => {
      const entry = await context.publish(String(key), value, String(entryType), options) // the host checks these
      return { text: `Written: "${entry.key}", version ${entry.version}.`, means: `Written: "${entry.key}".` }
    },
    ALONE,
  ),
  tool(
    'read_blackboard',
    "Reads the entries of the team's blackboard.",
    {
      key: { ...TEXT, description: 'Only entries of that key.' },
      entryType: { ...TEXT, description: 'Only entries of that type.' },
      ...POLL_MARK,
    },
    [],
    async ({ context }, { polling: _mark, ...filter }) => ({
      text: shownValue(await context.blackboard.query(filter)),
    }),
  ),
  tool(
    'subscribe',
    "Lets you read each new entry of the team's blackboard whose key fits a pattern, from now on.",
    { pattern: { ...TEXT, description: "Such as finding.*; '*' stands for one word, '**' for any number of words." } },
    ['pattern'],
    async (turn, { pattern }) => {
      await turn.news.subscribe(String(pattern))
      return { text: `You will read new entries that fit "${pattern}".` }
    },
    ALONE,
  ),
  tool(
    'blackboard_history',
    "Reads all versions of an entry of the team's blackboard, the oldest first.",
    { key: TEXT },
    ['key'],
    async ({ context }, { key }) => ({ text: shownValue(await context.blackboard.getHistory(String(key))) }),
  ),
  tool(
    'read_shared',
    'Reads a value that agents of the team share; null if there is none.',
    {
      scope: SCOPE,
      key: TEXT,
      owner: { ...TEXT, description: 'Of agent_shared: whose value it is, if not yours.' },
      ...POLL_MARK,
    },
    ['scope', 'key'],
    async ({ context }, { scope, key, owner }) => {
      const state = context.shared(scope as SharedScope, owner as string | undefined)
      return { text: shownValue(await state.get(String(key))) }
    },
  ),
  tool(
    'write_shared',
    'Sets a value that agents of the team share, in place of the one that is there.',
    { scope: SCOPE, key: TEXT, value: { description: 'Any JSON value.' } },
    ['scope', 'key', 'value'],
    async ({ context }, { scope, key, value }) => {
      await context.shared(scope as SharedScope).update(String(key), () => value)
      return { text: `Written: "${key}".` }
    },
    ALONE,
  ),
]

/*
 * The tool that a sub-task names: its worker uses it with the input of the sub-task. An input that fits is given to the
 * tool at once. Otherwise the model has to call that tool first.
 */

/** Words about a tool that was used for the model, or the name of the tool that it has to call first. */
export type SubTaskTool = { told: Content } | { demanded: string }

/** Returns the name of the tool that the message demands: it is a sub-task that names one of those tools. */
export function demandedTool(
  { structuredData }: Pick<AgentMessage, 'structuredData'>,
  tools: RoleTools,
): string | undefined {
  const { toolName } = Object(structuredData) as { toolName?: unknown }
  if (typeof toolName !== 'string' || headIn(structuredData) === undefined) return undefined
  return tools.specs.find(({ name }) => name === toolName)?.name
}

/** Uses that tool with the input of the sub-task, if it fits. `refusal` says why the turn must stop. */
export async function useSubTaskTool(
  { content, structuredData }: Pick<AgentMessage, 'content' | 'structuredData'>,
  toolName: string,
  tools: RoleTools,
  refusal: () => DramatisError | undefined,
  signal: AbortSignal | undefined,
): Promise<SubTaskTool> {
  const { subTaskInput } = Object(structuredData) as { subTaskInput?: unknown }
  if (isDescription(subTaskInput, content)) return { demanded: toolName }
  try {
    const output = await tools.call(toolName, JSON.stringify(subTaskInput), signal)
    return { told: after(`The tool "${toolName}" was called with the input of this sub-task. Its result:`, output) }
  } catch (error) {
    if (refusal() || signal?.aborted) throw error
    if (error instanceof ToolInputError) return { demanded: toolName }
    const why = error instanceof DramatisError ? error.message : describe(error)
    return { told: `The tool "${toolName}" was called with the input of this sub-task. Error: ${why}` }
  }
}

/** Checks whether the planner has named no input: then the description of the sub-task stands in its place. */
function isDescription(input: unknown, description: string): boolean {
  const fields = Object.entries(Object(input))
  return fields.length === 1 && fields[0]![0] === 'task' && fields[0]![1] === description
}

const after = (text: string, output: Content): Content =>
  typeof output === 'string' ? `${text}\n\n${output}` : [{ type: 'text', text }, ...output]

export interface ThinkingTurn {
  readonly role: RoleInfo
  readonly context: AgentContext
  /** Verbs that the role has as tools. */
  readonly verbs: readonly string[]
  /** The role's other tools. */
  readonly tools: RoleTools
  /** Keeps the bytes of large parts for the run. */
  readonly partKeeper: PartKeeper
  /** Bounds above which the model's rounds count as a loop; false: rounds are not checked. */
  readonly loops: RoundBounds | false
  /** Id of the message that the turn handles, if the pieces of its models are read along. */
  readonly watchedMessage: string | undefined
  /** Strategy by which the role chooses the messages that its model sees. */
  readonly strategy: ContextStrategy | undefined
  /** The definition's own choice of these messages, if it has one. */
  readonly buildContext: ((history: readonly ModelMessage[]) => Awaitable<ModelMessage[]>) | undefined
  /** Delegates a task, with metadata for the agent that gets it, and a signal that withdraws it. */
  delegate(to: string, task: TaskInput, options: TaskMessageOptions): PendingTask
  /** Tasks that the model has given away and does not wait for. */
  readonly delegated: DelegatedTasks
  /** Returns the agents to which this one may give tasks, and how these stand. */
  executors(): Promise<Executor[]>
  /** Hands the turn's duty off. `heard`: the conversation until now, if the agent that answers then is to read it. */
  handoff(to: string, task: string, summary: string | undefined, heard: Heard | undefined): Promise<void>
  /** Entries of the blackboard that the model subscribes to. */
  readonly news: BoardNews
  /** Marks the answer of the turn as the end of the whole task. */
  finish(): void
  /** Returns the reason why verbs no longer work, or undefined if they do. */
  refusal(): DramatisError | undefined
  /** Returns the other agents, and what each does now. */
  others(): Promise<unknown>
  /** Notifies the host of a sign that the model repeats itself in a loop. */
  loopFound(step: 'notice' | 'replan' | 'abort', signs: readonly string[]): Promise<unknown>
  /** Waits for limits that are kept in this thread. */
  readonly limits: { begin(option: KeptLimit, data: KeptLimitData): NoteWaiting }
  /** Makes one model call through the gateway in the host: a step. */
  ask(call: ModelCall, signal: AbortSignal | undefined): Promise<ModelAnswer>
}

/** Returns the place of a call in its turn; undefined if nobody reads its pieces along. */
export function watchedIn(
  { watchedMessage: messageId }: ThinkingTurn,
  round: number,
  answerOf: Watched['answerOf'],
): Watched | undefined {
  return messageId === undefined ? undefined : { messageId, round, answerOf }
}

/** Call to the host that returns the other agents, and what each does now. */
export const AGENT_STATUS = 'agents'

const REQUEST = {
  to: AGENT,
  content: { ...TEXT, description: 'What it is to answer. It sees nothing else of this conversation.' },
}

/** The verb `request` where agents are asked by a key, too. */
export const KEYED_REQUEST: VerbTool = requestTool({
  key: {
    ...TEXT,
    description:
      'Where it keeps something for each customer, order or the like: which one. The same key has the same memory, and its requests are done one after the other.',
  },
})

function requestTool(more: Readonly<Record<string, object>> = {}): VerbTool {
  return tool(
    'request',
    'Asks another agent of the team, and waits for its answer.',
    { ...REQUEST, ...more, ...POLL_MARK },
    ['to', 'content'],
    async ({ context }, { to, content, key, polling }, passing, signal) => {
      const where = key === undefined ? polling === true && { polling } : { key: String(key) } // each is done for itself
      const options = { ...(await messageOptions(passing, to, signal)), ...where }
      return { text: answerText(await context.request(String(to), String(content), options)) }
    },
  )
}

const TOOLS: readonly VerbTool[] = [
  requestTool(),
  tool(
    'send',
    'Sends a message to another agent of the team, and waits for no answer.',
    { to: AGENT, content: TEXT },
    ['to', 'content'],
    async ({ context }, { to, content }, _passing, signal) => {
      await context.send(String(to), String(content), { ...(signal && { signal }) })
      return { text: `"${to}" has it.` }
    },
  ),
  tool(
    'broadcast',
    'Sends a message to all other agents of the team, and waits for no answer.',
    { content: TEXT },
    ['content'],
    async ({ context }, { content }, _passing, signal) => {
      await context.broadcast(String(content), { ...(signal && { signal }) })
      return { text: 'All of them have it.' }
    },
  ),
  tool(
    'delegate',
    'Gives another agent of the team a task, and waits until it is done.',
    { to: AGENT, task: { ...TEXT, description: 'What it is to do. It sees nothing else of this conversation.' } },
    ['to', 'task'],
    async (turn, { to, task }, passing, signal) => {
      const options = await messageOptions(passing, to, signal)
      return { text: shownValue((await turn.delegate(String(to), String(task), options)).result) }
    },
  ),
  tool(
    'delegate_to_executor',
    'Gives an executor a task, and does not wait for it: you go on meanwhile. What came of it is told to you before your answer counts.',
    {
      task: { ...TEXT, description: 'What it is to do.' },
      context: { ...TEXT, description: 'What it has to know for that. It sees nothing else of this conversation.' },
      to: { ...TEXT, description: 'The name of the executor, where there are several.' },
    },
    ['task'],
    async (turn, input, passing, signal) => ({
      text: await delegateToExecutor(turn, input, (to) => messageOptions(passing, to, signal)),
    }),
    ALONE,
  ),
  tool(
    'get_executor_status',
    'Says how far the executors are: their tasks, the sub-task and round of each that is at work, and what was said there last.',
    {
      wait: { type: 'boolean', description: 'true: waits until the tasks that you have given now have ended.' },
      ...POLL_MARK,
    },
    [],
    async (turn, { wait }) => ({ text: shownValue(await executorStatus(turn, wait === true)) }),
  ),
  tool(
    'handoff',
    'Hands this whole task off to another agent of the team, which answers in your place. You are done then.',
    { to: AGENT, task: TEXT, summary: { ...TEXT, description: 'What is done already, and what is left.' } },
    ['to', 'task'],
    async (turn, { to, task, summary }, passing) => {
      const told = await passing.toldWith(String(to), summary === undefined ? undefined : String(summary))
      await turn.handoff(String(to), String(task), told, passing.heardBy(String(to)))
      return { ends: '', isHandoff: true }
    },
    ALONE,
  ),
  tool(
    'escalate',
    'Asks your manager when you cannot go on.',
    { reason: { ...TEXT, description: 'What you have tried, and what is in the way.' } },
    ['reason'],
    async ({ context }, { reason }, passing) =>
      outcomeOfEscalation(await context.escalate(String(reason), { summary: await passing.summary() })),
    ALONE,
  ),
  tool(
    'report',
    'Tells your manager how far you are, and does not wait for an answer. Do so when a part of the task is done, and when it takes longer than one would think.',
    { content: { ...TEXT, description: 'What is done, and what is left.' } },
    ['content'],
    async ({ context }, { content }) => {
      await context.report(String(content))
      return { text: 'Your manager has it.' }
    },
  ),
  tool(
    'refuse',
    'Refuses the task, with the reason. You are done then.',
    { reason: TEXT },
    ['reason'],
    async ({ context }, { reason }, passing) => {
      const refusal = context.refuse(String(reason))
      if (passing.speaks) return { ends: String(refusal.details.reason) } // the user is owed an answer, not an error
      throw refusal
    },
    ALONE,
  ),
  tool(
    'finish',
    'Ends the whole task with this answer: nobody works on it after you. Only if nothing is left to do; else just answer.',
    { answer: TEXT },
    ['answer'],
    async (_turn, { answer }) => ({ ends: String(answer), isFinal: true }),
    ALONE,
  ),
  tool(
    'sync',
    'Arrives at a meeting point of the team, and waits for the others who are to come. Returns what each has brought.',
    {
      point: { ...TEXT, description: 'The name of the point.' },
      data: { description: 'What you bring for the others: any JSON value.' },
    },
    ['point'],
    async ({ context }, { point, data }) => ({ text: shownValue(await context.sync(String(point), data)) }),
    ALONE,
  ),
  ...STATE_TOOLS,
  tool(
    'spawn',
    'Makes a new agent for this run, which can then be asked.',
    {
      name: { ...TEXT, description: "A letter, then letters, digits, '_' and '-'." },
      systemPrompt: TEXT,
      description: TEXT,
    },
    ['name', 'systemPrompt'],
    async ({ context }, { name, systemPrompt, description }) => {
      const role = { name: String(name), systemPrompt: String(systemPrompt) }
      const made = await context.spawn(description === undefined ? role : { ...role, description: String(description) })
      return { text: `"${made}" is in the team now.` }
    },
    ALONE,
  ),
  tool(
    'define_agent',
    'Defines a new type of agent for good. It is in the team from then on, and you may give it tasks.',
    {
      name: { ...TEXT, description: "A letter, then letters, digits, '_' and '-'." },
      systemPrompt: TEXT,
      description: { ...TEXT, description: 'What it is for, as the others read it.' },
      canDelegateTo: { type: 'array', items: TEXT, description: 'To whom it may give tasks; else to nobody.' },
    },
    ['name', 'systemPrompt'],
    async ({ context }, { name, ...type }) => {
      const made = await context.defineAgent({ ...type, name: String(name) }) // the host checks all other fields
      return { text: `"${made}" is in the team now.` }
    },
    ALONE,
  ),
  question('ask_user', 'Asks the user, and waits for the answer.'),
  question('clarify_with_user', 'Asks the user about what is not clear in the task, and waits for the answer.'),
  tool(
    'agent_status',
    'Says what the other agents of the team do now, and how their tasks stand.',
    POLL_MARK,
    [],
    async ({ others }) => ({ text: shownValue(await others()) }),
  ),
]

const BY_NAME: ReadonlyMap<string, VerbTool> = new Map(TOOLS.map((each) => [each.spec.name, each]))

export const verbTool = (name: string): VerbTool | undefined => BY_NAME.get(name)

/** Makes a verb that asks a person. Models know it by several names. */
function question(name: string, description: string): VerbTool {
  return tool(
    name,
    description,
    {
      question: TEXT,
      choices: { type: 'array', items: TEXT, description: 'Where the answer is to be one of these.' },
    },
    ['question'],
    async ({ context }, input, _passing, signal) => ({
      text: await context.ask(String(input.question), {
        ...(input.choices !== undefined && { choices: input.choices as string[] }),
        ...(signal && { signal }),
      }),
      byPerson: true,
    }),
  )
}

export const VERB_NAMES: readonly string[] = [...BY_NAME.keys()]

/** Returns the input of a verb that a model wrote. Throws `ToolInputError` with the fault, for the model to read. */
export function inputOf({ spec }: VerbTool, text: string): Input {
  const { properties, required } = spec.inputSchema as {
    properties: Record<string, { type?: string }>
    required: string[]
  }
  const input = objectIn(spec.name, text)
  for (const key of required)
    if (own(input, key) === undefined)
      throw wrongInput(spec.name, `"${key}" is missing; it needs ${required.join(', ')}`)
  for (const [key, value] of Object.entries(input)) {
    const property = own(properties, key)
    if (!property) throw wrongInput(spec.name, `it has no "${key}"; it has ${Object.keys(properties).join(', ')}`)
    if (property.type === 'string' && typeof value !== 'string') throw wrongInput(spec.name, `"${key}" is no string`)
    if (property.type === 'boolean' && typeof value !== 'boolean')
      throw wrongInput(spec.name, `"${key}" is neither true nor false`)
  }
  return input
}

function objectIn(name: string, text: string): Input {
  let value: unknown
  try {
    value = JSON.parse(text === '' ? '{}' : text)
  } catch {
    throw wrongInput(name, 'the input is no JSON')
  }
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value as Input
  throw wrongInput(name, 'the input is no JSON object')
}

const wrongInput = (tool: string, what: string) => new ToolInputError(`The tool "${tool}": ${what}.`, { tool })

async function messageOptions(
  passing: PassingOn,
  to: unknown,
  signal: AbortSignal | undefined,
): Promise<TaskMessageOptions> {
  const metadata = await passing.metadataFor(String(to))
  return { ...(metadata && { metadata }), ...(signal && { signal }) }
}

function answerText({ content, structuredData }: AgentMessage): string {
  if (structuredData === null || structuredData === undefined) return content
  return content === '' ? shownValue(structuredData) : `${content}\n\n${JSON.stringify(structuredData)}`
}

/** Guidance is text for the model. If another agent has done the task, its answer ends the turn. */
function outcomeOfEscalation(outcome: EscalationOutcome): ToolOutcome {
  switch (outcome.kind) {
    case 'guidance':
      return { text: outcome.guidance }
    case 'unresolved':
      return { text: `Nobody helps: ${outcome.reason}` }
    case 'taken_over':
      return { ends: answerText(withoutDecision(outcome.result)) }
    default:
      return { ends: answerText(outcome.result) }
  }
}

/** Returns the answer of a manager without its decision, which is no part of the task's result. */
function withoutDecision(message: AgentMessage): AgentMessage {
  const { decision: _decision, ...data } = Object(message.structuredData) as Record<string, unknown>
  return { ...message, structuredData: Object.keys(data).length > 0 ? data : null }
}
