/** Summaries that stand for the part of a conversation that its model no longer sees. */

import { DramatisError } from '../../shared/errors.ts'
import { textOf, transcriptOf } from '../definition/content.ts'
import type { ModelMessage, ToolCall } from '../definition/model.ts'
import type { SubtaskProgress } from '../definition/task.ts'
import { cutShort, fits, roomOf, shortened, type TokenWindow } from './shorten.ts'

export interface Summary {
  /** Text of the summary; empty: the messages were left out without a summary. */
  text: string
  /** Number of messages it stands for, including those of earlier summaries. */
  messages: number
  /** Set if the model gave no summary: the text is an excerpt of the messages, each cut short. */
  isExcerpt?: true
}

/** Asks the role's model for a summary of these messages with at most that many tokens. */
export type Summarize = (messages: readonly ModelMessage[], maxTokens: number) => Promise<string>

/** Returns the summary as a user message, since some providers accept system messages only in the first place. */
export const summaryMessage = (summary: Summary): ModelMessage => ({
  role: 'user',
  content: summary.text === '' ? `(${introduction(summary)}.)` : `${introduction(summary)}:\n${summary.text}`,
})

function introduction({ text, messages, isExcerpt }: Summary): string {
  if (text === '') return `${counted(messages)} left out here`
  if (!isExcerpt) return `Summary of the conversation so far, in place of ${messages} messages`
  return `${counted(messages)} left out here, and could not be summarized; this is what they say, each cut short`
}

/** Returns words for a sentence: how many messages are left out. */
export const counted = (messages: number): string => (messages === 1 ? '1 message is' : `${messages} messages are`)

/** Limit of a summary, in tokens: a tenth of the window, and as much as a model writes well in one answer. */
export const summaryLimit = ({ maxTokens }: TokenWindow): number =>
  Math.max(64, Math.min(2_000, Math.floor(maxTokens / 10)))

/**
 * Summarizes these messages together with the earlier summary. A failed model call must not cost the turn: then the
 * result is an excerpt, which says that it is one. Failures that are not the model's (a spent budget, the end of the
 * turn) are thrown.
 */
export async function summaryOf(
  messages: readonly ModelMessage[],
  before: Summary | undefined,
  window: TokenWindow,
  summarize: Summarize,
): Promise<Summary> {
  const limit = summaryLimit(window)
  const known = messages.length + (before?.messages ?? 0)
  const all = before ? [summaryMessage(before), ...messages] : messages
  const text = await modelText(all, limit, summarize)
  const summary: Summary =
    text === '' ? { text: excerptOf(all), messages: known, isExcerpt: true } : { text, messages: known }
  const [short] = shortened([{ role: 'user', content: summary.text }], limit, window, () => true) ?? []
  return { ...summary, text: short ? textOf(short.content) : cutShort(summary.text, limit) }
}

/** Returns the model's text; empty if the model returned nothing, or failed. */
async function modelText(messages: readonly ModelMessage[], limit: number, summarize: Summarize): Promise<string> {
  try {
    return (await summarize(messages, limit)).trim()
  } catch (error) {
    if (error instanceof DramatisError && error.code === 'MODEL') return ''
    throw error
  }
}

/**
 * Returns the text that other agents get of these messages and of the earlier summary: the messages themselves, or a
 * summary if they are longer than a summary may be.
 */
export async function passedOn(
  messages: readonly ModelMessage[],
  before: Summary | undefined,
  window: TokenWindow,
  summarize: Summarize,
): Promise<string> {
  const all = before ? [summaryMessage(before), ...messages] : messages
  const transcript = all.map(spoken).join('\n\n')
  if (fits(window, [{ role: 'user', content: transcript }], summaryLimit(window))) return transcript
  return (await summaryOf(messages, before, window, summarize)).text
}

const EXCERPT = 240 // characters of each message

const excerptOf = (messages: readonly ModelMessage[]): string =>
  messages
    .map((message) => `- ${spoken({ ...message, content: cutShort(transcriptOf(message.content), EXCERPT) })}`)
    .join('\n')

const ASK = `You sum up the earlier part of a conversation between an AI agent and those who ask it, for that agent: it goes on from
your summary alone. Keep what it was asked and what is not done yet, word for word where the wording matters; decisions and
their reasons; facts, names, numbers, paths; what tools answered. Leave out greetings and what came to nothing. Write plain
sentences, no preamble.`

/** Returns the request for a summary. The messages go in as a transcript, so that no message has a tool call. */
export function summaryRequest(
  messages: readonly ModelMessage[],
  maxTokens: number,
  window: TokenWindow,
): ModelMessage[] {
  const system: ModelMessage = { role: 'system', content: `${ASK} At most ${Math.floor(maxTokens / 2)} words.` }
  const lines = messages.map((message): ModelMessage => ({ role: 'user', content: spoken(message) }))
  const room = roomOf({ ...window, overhead: 0, answer: maxTokens })
  const [, ...fitting] = shortened([system, ...lines], room, window, ({ role }) => role === 'user') ?? []
  const transcript = (fitting.length > 0 ? fitting : lines).map(({ content }) => textOf(content)).join('\n\n')
  return [system, { role: 'user', content: fitting.length > 0 ? transcript : cutShort(transcript, room) }]
}

/** Checks for a request for a summary. */
export const asksForSummary = ([first]: readonly ModelMessage[]): boolean =>
  typeof first?.content === 'string' && first.content.startsWith(ASK)

/** Returns a message as a line of a transcript. */
export function spoken({ role, content, toolCalls = [] }: ModelMessage): string {
  const calls = toolCalls.map(({ name, input }) => `(calls ${name} ${input})`)
  return `${role}: ${[transcriptOf(content), ...calls].filter((part) => part !== '').join(' ')}`
}

/*
 * Describes where an agent stands in its work: the goal, the task under it, and the current sub-task; its actions are
 * the messages themselves. Sub-tasks are derived from its calls of the tools that keep them.
 */

export interface Levels {
  /** Assignment of the agent: its task, or the first request to it. */
  goal: string
  /** The current request on the way to the goal; equal to the goal if nothing else was asked since. */
  task: string
}

/** Names of these tools in `dramatis/tools`. */
const DECOMPOSE = 'decompose_task'
const COMPLETE = 'mark_subtask_complete'

/** Sub-tasks of one turn that have rounds of their own; with more a model could go on for ever. */
const MOST_SUBTASKS = 20

/** Checks for a tool that says where the model stands in its task. */
export const tellsOfSubTasks = (name: string): boolean => name === DECOMPOSE || name === COMPLETE

/**
 * Returns the number of the sub-task that the model is at, from 1 on; 0 for a task that it has not taken apart. A
 * sub-task that was taken apart itself goes on in its parts.
 */
export function subTaskNumber(turn: readonly ModelMessage[]): number {
  const root = subTasksOf(turn.flatMap(({ toolCalls = [] }) => toolCalls))
  return root.parts.length === 0 ? 0 : Math.min(1 + closedIn(root), MOST_SUBTASKS)
}

const closedIn = ({ parts }: SubTask): number =>
  parts.reduce((sum, part) => sum + (part.done ? 1 : 0) + closedIn(part), 0)

export interface SubTask {
  text: string
  parts: SubTask[]
  done: boolean
  failed?: true
}

/** Returns sub-tasks with their states, for those who look on. */
export function subtaskProgress(root: SubTask, longest: number): SubtaskProgress[] {
  const way = openWay(root)
  const viewed = (part: SubTask): SubtaskProgress => ({
    description: cutShort(part.text, longest),
    status: part.failed ? 'failed' : isDone(part) ? 'completed' : way.includes(part) ? 'in_progress' : 'pending',
    subtasks: part.parts.map(viewed),
  })
  return root.parts.map(viewed)
}

export const keepsSubTasks = (tool: string): boolean => tool === DECOMPOSE || tool === COMPLETE

/**
 * Returns the levels as the model sees them, or undefined if they say no more than the messages do.
 *
 * @param turn messages since the task was given: a task begins without sub-tasks.
 * @param shown the part of the conversation that the model sees.
 * @param left number of messages that were left out before that part.
 * @param longest limit of each level, in characters.
 */
export function levelsMessage(
  { goal, task }: Levels,
  turn: readonly ModelMessage[],
  shown: readonly ModelMessage[],
  left: number,
  longest: number,
): ModelMessage | undefined {
  const root = subTasksOf(turn.flatMap(({ toolCalls = [] }) => toolCalls))
  const sees = (text: string) => shown.some(({ role, content }) => role === 'user' && textOf(content) === text)
  if (root.parts.length === 0 && left === 0 && sees(goal) && sees(task)) return undefined
  const lines = [
    `Goal: ${cutShort(goal, longest)}`,
    ...(task === goal ? [] : [`Task: ${cutShort(task, longest)}`]),
    ...subTaskLines(root, longest),
    ...(left === 0 ? [] : [`(${counted(left)} left out here; what follows is what was done last.)`]),
  ]
  return { role: 'user', content: lines.join('\n') }
}

function subTaskLines(root: SubTask, longest: number): string[] {
  if (root.parts.length === 0) return []
  const current = currentSubTask(root, longest)
  if (!current) return [`Sub-task: all ${root.parts.length} are done.`]
  return [`Sub-task (${current.place}): ${current.text}`]
}

/** Returns the sub-task that is worked on, with its place among those of the task; undefined if none is open. */
export function currentSubTask(root: SubTask, longest: number): { place: string; text: string } | undefined {
  const way = openWay(root)
  if (way.length === 0) return undefined
  const place = `${root.parts.indexOf(way[0]!) + 1} of ${root.parts.length}`
  return { place, text: way.map((each) => cutShort(each.text, longest)).join(' > ') }
}

/**
 * Returns a tree, whose root is the task. Wrong input by the model changes nothing: the tool has already told the
 * model.
 */
export function subTasksOf(calls: readonly Pick<ToolCall, 'name' | 'input'>[]): SubTask {
  const root: SubTask = { text: '', parts: [], done: false }
  for (const { name, input } of calls) {
    const at = openWay(root).at(-1) ?? root
    if (name === DECOMPOSE) at.parts.push(...textsIn(input).map((text) => ({ text, parts: [], done: false })))
    else if (name === COMPLETE) {
      at.done = true
      if (/"success":\s*false/.test(input)) at.failed = true
    }
  }
  return root
}

/**
 * Returns the path from the open part of the task down to the current sub-task; empty if there is none, or none is
 * left.
 */
function openWay({ parts }: SubTask): SubTask[] {
  const open = parts.find((part) => !isDone(part))
  return open ? [open, ...openWay(open)] : []
}

const isDone = ({ done, parts }: SubTask): boolean => done || (parts.length > 0 && parts.every(isDone))

/** Returns the sub-tasks in the input of a call: its first list, of texts or of objects with a description. */
function textsIn(input: string): string[] {
  try {
    const list = Object.values(Object(JSON.parse(input))).find((value) => Array.isArray(value))
    return ((list ?? []) as unknown[])
      .map((entry) => (typeof entry === 'string' ? entry : Object(entry).description))
      .filter((text) => typeof text === 'string' && text !== '')
  } catch {
    return []
  }
}
