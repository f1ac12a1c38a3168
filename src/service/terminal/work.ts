/** The work under way as lines: goals, tasks and sub-tasks as a tree, and what was said last. */
import type { AgentProgress, Digest, SubtaskProgress } from '../../index.ts'
import { MESSAGE_TYPES } from '../../mailbox/message-type.ts'
import { span } from '../../runtime/views/slow.ts'
import { grouped } from '../../shared/text.ts'
import { own } from '../../shared/values.ts'
import type { DigestFold, FoldedAgent, FoldedRun, FoldedTask } from '../digest/digest-fold.ts'
import type { TeamSource } from './source.ts'
import { bar, columns, cut, fit } from './top-view.ts'

export type ProgressOf = TeamSource['progress']

const MOST_TASKS = 8
const MOST_SUBTASKS = 6
const LAST_MESSAGES = 4
const CELLS = 5
const MOST_SEEN = 100
const MARKS: Readonly<Record<string, string>> = {
  completed: '[x]',
  handed_off: '[x]',
  in_progress: '[>]',
  blocked: '[>]',
  failed: '[!]',
  refused: '[!]',
  cancelled: '[!]',
  skipped: '[-]',
}
const ENDED: ReadonlySet<string> = new Set(['completed', 'failed', 'refused', 'cancelled', 'handed_off', 'skipped'])

/** Sub-tasks as they were last seen, by the id of their task: an agent tells of those of its turn under way alone. */
export class SeenSubtasks {
  readonly #seen = new Map<string, readonly SubtaskProgress[]>()

  look(agents: Iterable<string>, progressOf: ProgressOf): void {
    for (const agent of agents) {
      const { taskId, subtasks = [] } = progressOf(agent) ?? {}
      if (taskId === undefined || subtasks.length === 0) continue
      this.#seen.delete(taskId) // the newest are last
      this.#seen.set(taskId, subtasks)
    }
    for (const oldest of [...this.#seen.keys()].slice(0, -MOST_SEEN)) this.#seen.delete(oldest)
  }

  /** Returns those of a task that has ended. What was not completed then is open. */
  of(taskId: string): readonly SubtaskProgress[] {
    return ended(this.#seen.get(taskId) ?? [])
  }
}

const ended = (subtasks: readonly SubtaskProgress[]): SubtaskProgress[] =>
  subtasks.map((each) => ({
    ...each,
    status: each.status === 'in_progress' ? 'pending' : each.status,
    subtasks: ended(each.subtasks),
  }))

/** Returns the runs under way, or the last one if there is none. */
export function runsShown({ runs }: DigestFold): FoldedRun[] {
  const all = [...runs.values()]
  const open = all.filter(({ endedAt }) => endedAt === null)
  return open.length > 0 ? open : all.slice(-1)
}

/** Returns the work of the runs that are under way; if none is, of the last one, with what came of its tasks. */
export function workLines(
  fold: DigestFold,
  width: number,
  now: number,
  progressOf: ProgressOf,
  seen: SeenSubtasks,
): string[] {
  return runsShown(fold).flatMap(({ id, query }) => {
    const tasks = [...fold.tasks.values()].filter(({ runId }) => runId === id).slice(-MOST_TASKS)
    if (tasks.length === 0) return []
    const given = tasks.filter(({ status }) => status !== 'skipped')
    const done = given.filter(({ status }) => status === 'completed').length
    const share = given.length === 0 ? 0 : done / given.length
    const goal = line(`goal  ${bar(share, CELLS)} `, query, `${done} of ${given.length} tasks`, width)
    return [goal, ...treeLines(tasks, null, 1, { width, now, progressOf, seen })]
  })
}

interface Drawn {
  width: number
  now: number
  progressOf: ProgressOf
  seen: SeenSubtasks
}

/** Returns the tasks below a task, each with its sub-tasks. `parent`: null for those whose parent is not shown. */
function treeLines(tasks: readonly FoldedTask[], parent: string | null, depth: number, drawn: Drawn): string[] {
  const ids = new Set(tasks.map(({ id }) => id))
  const below = tasks.filter((task) => (ids.has(task.parent ?? '') ? task.parent : null) === parent)
  return below.flatMap((task) => {
    const { agent, status, at, description, id, reason } = task
    if (reason !== undefined) {
      const words = line(
        `${head(depth, status)} ${bar(0, CELLS)} `,
        description,
        `skipped  ${span(drawn.now - at)}`,
        drawn.width,
      )
      const indent = '  '.repeat(depth + 1)
      return [words, `${indent}${cut(reason, drawn.width - indent.length)}`]
    }
    const found = agent === null || ENDED.has(status) ? undefined : drawn.progressOf(agent)
    const subtasks = ENDED.has(status) ? drawn.seen.of(id) : found?.taskId === id ? found.subtasks : []
    const inner = tasks.filter((each) => each.parent === id)
    const share = status === 'completed' ? 1 : shareOf(subtasks, inner)
    const state = `${agent ?? 'nobody'}: ${status}  ${span(drawn.now - at)}`
    return [
      line(`${head(depth, status)} ${bar(share, CELLS)} `, description, state, drawn.width),
      ...subtaskLines(subtasks, depth + 1, drawn.width),
      ...treeLines(tasks, id, depth + 1, drawn),
    ]
  })
}

/** Returns sub-tasks around the one that is worked on. */
function subtaskLines(subtasks: readonly SubtaskProgress[], depth: number, width: number): string[] {
  const current = subtasks.findIndex(({ status }) => status === 'in_progress')
  const first = Math.max(0, Math.min(current - 2, subtasks.length - MOST_SUBTASKS))
  const left = subtasks.length - first - MOST_SUBTASKS
  return [
    ...(first > 0 ? [`${'  '.repeat(depth)}(${first} before)`] : []),
    ...subtasks
      .slice(first, first + MOST_SUBTASKS)
      .flatMap(({ description, status, subtasks: parts }) => [
        line(
          `${head(depth, status)} ${bar(status === 'completed' ? 1 : shareOf(parts, []), CELLS)} `,
          description,
          status,
          width,
        ),
        ...subtaskLines(parts, depth + 1, width),
      ]),
    ...(left > 0 ? [`${'  '.repeat(depth)}(${left} more)`] : []),
  ]
}

const head = (depth: number, status: string): string => `${'  '.repeat(depth)}${own(MARKS, status) ?? '[ ]'}`

/** Returns the share of a task that is done, by its sub-tasks, or else by the tasks below it. */
function shareOf(subtasks: readonly SubtaskProgress[], tasks: readonly FoldedTask[]): number {
  const parts = subtasks.length > 0 ? subtasks : tasks
  return parts.length === 0 ? 0 : parts.filter(({ status }) => status === 'completed').length / parts.length
}

/** Returns the round, with a warning when the next one is the last. */
export function roundOf({ round, maxRounds }: AgentProgress): string {
  return `round ${round} of ${maxRounds}${round >= maxRounds - 1 ? ' !' : ''}`
}

/** Returns a line that ends with `right`; the text between is cut. */
function line(left: string, text: string, right: string, width: number): string {
  const room = width - columns(left) - columns(right) - 2
  return room < 8 ? cut(`${left}${text}  ${right}`, width) : `${left}${fit(text, room)}  ${right}`
}

/** Returns what was said last: in the turn of an agent at work, else between the agents. */
export function lastLines(
  fold: DigestFold,
  agents: readonly FoldedAgent[],
  now: number,
  progressOf: ProgressOf,
): string[] {
  const messagesOf = (name: string) => progressOf(name)?.lastMessages ?? []
  const last = agents.findLast(({ name }) => messagesOf(name).length > 0)
  if (last)
    return [`last messages of ${last.name}`, ...messagesOf(last.name).map(({ role, text }) => `  ${role}: ${text}`)]
  const { columns: sent, length } = fold.messages
  if (length === 0) return []
  const count = Math.min(LAST_MESSAGES, length)
  const rows = Array.from({ length: count }, (_, at) => length - count + at)
  const name = (place: number) => fold.names[place] ?? 'all'
  return [
    'last messages',
    ...rows.map((row) => {
      const type = MESSAGE_TYPES[sent.type.at(row) & 7] ?? 'message'
      return `  ${span(now - sent.at.at(row))} ago  ${name(sent.from.at(row))} -> ${name(sent.to.at(row))}  ${type}  ${grouped(sent.bytes.at(row))} bytes`
    }),
  ]
}

const WIDTH = 160

export class WorkNews {
  /** Sub-tasks that were told last, by agent. */
  readonly #told = new Map<string, string>()

  /** Returns the lines for what `line` has changed; the fold has read it. */
  news({ facts = [], call }: Digest, { tasks, agents }: DigestFold, progressOf: ProgressOf): string[] {
    const changed = new Set(facts.flatMap(({ type, task }) => (type === 'task' ? String(Object(task).id) : [])))
    const lines = [...changed].flatMap((id) => {
      const task = tasks.get(id)
      if (task?.reason !== undefined) return `task  skipped  ${task.description}: ${task.reason}`
      return task ? `task  ${task.agent ?? 'nobody'}: ${task.status}  ${task.description}` : []
    })
    return [...lines, ...(call ? this.#subtasks([...agents.keys()], progressOf) : [])].map((line) => cut(line, WIDTH))
  }

  #subtasks(agents: readonly string[], progressOf: ProgressOf): string[] {
    return agents.flatMap((name) => {
      const progress = progressOf(name)
      if (!progress?.subtask) return []
      const isLast = progress.round >= progress.maxRounds - 1
      const text = `${progress.subtask}${isLast ? `  ${roundOf(progress)}` : ''}`
      if (this.#told.get(name) === text) return []
      this.#told.set(name, text)
      return `sub-task  ${name}: ${text}`
    })
  }
}
