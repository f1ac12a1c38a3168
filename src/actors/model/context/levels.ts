/**
 * Describes where an agent stands in its work: the goal, the task under it, and the current sub-task; its actions are
 * the messages themselves. Sub-tasks are derived from its calls of the tools that keep them. Source: document 003,
 * hierarchical context.
 */
import { textOf } from '../../definition/content.ts'
import type { SubtaskProgress } from '../../definition/executor.ts'
import type { ModelMessage, ToolCall } from '../../definition/model.ts'
import { cutShort } from './shorten.ts'
import { counted } from './summary.ts'

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

/** Checks for the tools whose calls say what becomes of sub-tasks. */
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
