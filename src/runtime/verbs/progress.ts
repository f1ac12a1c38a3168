/** Reads from the log of a run how far the turn of a model is: when somebody asks, so that nobody else pays for it. */
import { textOf } from '../../actors/definition/content.ts'
import type { ModelAnswer, ModelCall, ModelMessage, ToolCall } from '../../actors/definition/model.ts'
import type { AgentProgress, Progress } from '../../actors/definition/task.ts'
import { currentSubTask, keepsSubTasks, subTasksOf, subtaskProgress } from '../../actors/model/summary.ts'
import { MAX_ROUNDS } from '../../actors/model/think.ts'
import { isFailure, jsonIn } from '../../mailbox/codec.ts'
import { CALL, correlationOf, idOf, kindOf, RESULT, readBody } from '../../mailbox/frame.ts'
import type { Envelope } from '../../mailbox/mailbox.ts'
import type { Agent } from '../host/agent.ts'
import { loggedFrames } from '../host/journal.ts'
import type { LoggedFrame, RunState } from '../host/run.ts'

const LAST_MESSAGES = 4
const LONGEST = 200 // characters

/** Returns how far the agent is with the message of that id; undefined if it has no turn under way for it. */
export function progressOf(agent: Agent, run: RunState, messageId: string): Progress | undefined {
  const envelope = underWay(agent).find((each) => each.run === run && idOf(each.memory, each.at) === messageId)
  return envelope && progressIn(agent, envelope)
}

/** Returns how far the agent is with the newest message that it handles; undefined for one that no model plays. */
export function latestProgress(agent: Agent): AgentProgress | undefined {
  const envelope = agent.settings.playedByModel ? underWay(agent).at(-1) : undefined
  if (!envelope) return undefined
  const { run, memory, at } = envelope
  return { runId: run.id, taskId: idOf(memory, at), ...progressIn(agent, envelope) }
}

const underWay = ({ instances }: Agent): Envelope<RunState>[] =>
  instances.flatMap(({ mailbox }) => [...mailbox.handed.values()])

function progressIn(agent: Agent, envelope: Envelope<RunState>): Progress {
  const calls: ToolCall[] = []
  let round = 0
  let isFree = false // with a question to a person it does not count
  let asked: LoggedFrame | undefined
  let answer: LoggedFrame | undefined
  for (const frame of loggedFrames(agent, envelope)) {
    const { memory, at } = frame
    if (kindOf(memory, at) === RESULT && asked && correlationOf(memory, at) === correlationOf(asked.memory, asked.at))
      answer = isFailure(memory, at) ? undefined : frame
    if (kindOf(memory, at) !== CALL) continue
    const { content, data = '' } = readBody(memory, at)
    if (content === 'model') {
      if (!isFree) round += 1
      isFree = false
      asked = frame
      answer = undefined
    } else if (content === 'ask') {
      isFree = round > 0
    } else if (content === 'tool') {
      const call = subTaskCall(data)
      if (!call) continue
      calls.push(call)
      round = 0
      isFree = false
    }
  }
  const { maxRounds = MAX_ROUNDS } = agent.settings.info
  const root = subTasksOf(calls)
  const subtask = currentSubTask(root, LONGEST)
  return {
    ...(subtask && { subtask: `${subtask.place}: ${subtask.text}` }),
    subtasks: subtaskProgress(root, LONGEST),
    round,
    maxRounds: maxRounds * Math.max(1, Math.ceil(round / maxRounds)), // who is helped has as many again
    ...saidIn(asked, answer),
  }
}

/** Returns the call of a tool if it says what becomes of sub-tasks. The inputs of others can be large. */
function subTaskCall(data: string): ToolCall | undefined {
  const [, name = ''] = /^\{"name":"(\w+)"/.exec(data) ?? []
  if (!keepsSubTasks(name)) return undefined
  const { input } = jsonIn(data) as { input?: unknown }
  return { id: '', name, input: JSON.stringify(input ?? null) }
}

function saidIn(asked: LoggedFrame | undefined, answer: LoggedFrame | undefined) {
  const { messages = [] } = dataOf<ModelCall>(asked)
  const { text, toolCalls } = dataOf<ModelAnswer>(answer)
  const said: ModelMessage[] = text === undefined ? [] : [{ role: 'assistant', content: text, toolCalls }]
  const all = [...messages.filter(({ role }) => role !== 'system'), ...said]
  return { messages: all.length, lastMessages: all.slice(-LAST_MESSAGES).map(inShort) }
}

const dataOf = <T>(frame: LoggedFrame | undefined): Partial<T> =>
  (frame ? (jsonIn(readBody(frame.memory, frame.at).data) ?? {}) : {}) as Partial<T>

function inShort({ role, content, toolCalls = [] }: ModelMessage): Progress['lastMessages'][number] {
  const called = toolCalls.map(({ name }) => `[calls ${name}]`)
  return { role, text: [shortened(textOf(content)), ...called].filter((text) => text !== '').join(' ') }
}

export const shortened = (text: string): string => (text.length > LONGEST ? `${text.slice(0, LONGEST)} ...` : text)
