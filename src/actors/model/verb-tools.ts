/**
 * Offers verbs of a turn as tools to a model. The host enforces the role's rights in any case; this file decides only
 * what a model is told. The model also gets the error of a verb that rejects, so it can do something else.
 */

import { ToolInputError } from '../../errors.ts'
import type { AgentMessage } from '../../mailbox/message.ts'
import { own } from '../../own.ts'
import type { EscalationOutcome } from '../definition/context/context.ts'
import type { TaskMessageOptions } from '../definition/context/conversation.ts'
import { POLL_MARK } from '../definition/poll-mark.ts'
import type { PassingOn } from './context/inheritance.ts'
import { delegateToExecutor, executorStatus } from './executor-tools.ts'
import { STATE_TOOLS } from './state-tools.ts'
import { AGENT, ALONE, type Input, shownValue, TEXT, type ToolOutcome, tool, type VerbTool } from './verb-tool.ts'

/** Call to the host that returns the other agents, and what each does now. */
export const AGENT_STATUS = 'agents'

const TOOLS: readonly VerbTool[] = [
  tool(
    'request',
    'Asks another agent of the team, and waits for its answer.',
    {
      to: AGENT,
      content: { ...TEXT, description: 'What it is to answer. It sees nothing else of this conversation.' },
      ...POLL_MARK,
    },
    ['to', 'content'],
    async ({ context }, { to, content, polling }, passing, signal) => {
      const options = { ...(await messageOptions(passing, to, signal)), ...(polling === true && { polling }) }
      return { text: answerText(await context.request(String(to), String(content), options)) }
    },
  ),
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
      const said = passing.saidTo(String(to))
      const told = summary === undefined && !said ? await passing.summary() : summary
      await turn.handoff(String(to), String(task), told === undefined ? undefined : String(told), said)
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
    ({ context }, { reason }) => {
      throw context.refuse(String(reason))
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

/** Returns the verb that a model calls by that name. */
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
    }),
  )
}

/** Names of all verbs. */
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
