/** The lines of `dramatis chat` above its prompt: what works now, questions, and the panel of the team. */

import type { AgentProgress, ContextInfo } from '../../index.ts'
import type { DigestQuestion } from '../../runtime/views/digest-line.ts'
import { doingWords, span } from '../../runtime/views/slow.ts'
import { grouped } from '../../shared/text.ts'
import type { DigestFold, FoldedAgent } from '../digest/digest-fold.ts'
import { approvalWords } from '../pictures/run-words.ts'
import type { TeamSource } from './source.ts'
import { bar, cut, fit, type Size, wrapped } from './top-view.ts'
import { lastLines, type ProgressOf, roundOf, runsShown, type SeenSubtasks, workLines } from './work.ts'

export interface ChatState {
  /** Begin of the last line of the answer that is being written, as much as a screen shows. */
  writing: string
  isBusy: boolean
  hasPanel: boolean
  seen: SeenSubtasks
  /** Questions of other tasks, by the number that `/answer` takes. A line answers the own task alone. */
  others: ReadonlyMap<number, DigestQuestion>
  /** Input line, and place of the cursor in it. */
  input: string
  cursor: number
}

/** Tells of an agent what the digest does not. */
export type AgentSource = Pick<TeamSource, 'context' | 'progress'>

export function chatLines(
  fold: DigestFold,
  state: ChatState,
  { width, height }: Size,
  now: number,
  source: AgentSource,
): string[] {
  const prompt = promptLine(state, width)
  const above = [
    ...(state.writing === '' ? [] : [state.writing]),
    ...(state.hasPanel ? panelLines(fold, state.seen, width, now, source) : []),
    ...(state.isBusy ? [workLine(fold, now)] : []),
    ...questionLines(fold, state.others, now).flatMap((line) => wrapped(line, width)),
  ]
  return [...above.slice(-(height - 1)).map((line) => inWidth(line, width)), prompt]
}

/** Returns the line cut to that width, with the spaces that it begins with. */
function inWidth(line: string, width: number): string {
  const text = line.trimStart()
  const indent = line.length - text.length
  return ' '.repeat(indent) + cut(text, width - indent)
}

/** Returns the part of the input around the cursor, with the cursor in reverse. */
function promptLine({ input, cursor }: ChatState, width: number): string {
  const letters = [...input.replaceAll('\n', '⏎')]
  const room = Math.max(4, width - 3)
  const first = Math.max(0, [...input.slice(0, cursor)].length - room + 1)
  const at = [...input.slice(0, cursor)].length
  const before = letters.slice(first, at).join('')
  const under = letters[at] ?? ' '
  const behind = cut(letters.slice(at + 1).join(''), Math.max(0, room - (at - first) - 1))
  return `> ${before}\u001b[7m${under}\u001b[27m${behind}`
}

function workLine(fold: DigestFold, now: number): string {
  const working = fold.members.filter(({ status }) => status === 'running' || status === 'waiting')
  const said = working.map((agent) => {
    const wait = fold.waits.find(({ agent: name }) => name === agent.name)
    if (!wait) return `${agent.name} works`
    return `${agent.name}: ${doingWords(wait)} (${span(now - wait.since)})`
  })
  return said.length > 0 ? said.join(' . ') : 'the team works'
}

function questionLines({ questions }: DigestFold, others: ChatState['others'], now: number): string[] {
  const foreign = new Map([...others].map(([number, { questionId }]) => [questionId, number]))
  const own = [...questions.values()].filter(({ questionId }) => !foreign.has(questionId))
  return [
    ...[...others].map(
      ([number, question]) =>
        `? ${question.agent} asks in another task (/answer ${number} ...): ${questionText(question, now)}`,
    ),
    ...own.map((question) => `? ${question.agent} asks: ${questionText(question, now)}`),
  ]
}

function questionText({ text, choices = [], approval, answerBy }: DigestQuestion, now: number): string {
  const policy = approval && `(${approvalWords(approval, answerBy === undefined ? undefined : answerBy - now)})`
  return [text, ...(policy ? [policy] : []), ...choices.map((choice, at) => `${at + 1} ${choice}`)].join('  ')
}

function panelLines(fold: DigestFold, seen: SeenSubtasks, width: number, now: number, source: AgentSource): string[] {
  const agents = fold.members
  const found = new Map(agents.map(({ name }) => [name, source.progress(name)])) // it is read from the log: once a frame
  const progress: ProgressOf = (agent) => found.get(agent)
  return [
    fit('-- team ', width).trimEnd().padEnd(width, '-'),
    ...agents.flatMap((agent) => agentLines(agent, source.context(agent.name), progress(agent.name))),
    ...workLines(fold, width, now, progress, seen),
    ...fold.waits.map((wait) => `  ${wait.agent ?? 'a run'}: ${doingWords(wait)}  ${span(now - wait.since)}`),
    ...lastLines(fold, agents, now, progress),
    ...wrapped(figuresLine(fold, agents, now), width),
  ]
}

function agentLines(agent: FoldedAgent, context: ContextInfo | undefined, progress?: AgentProgress): string[] {
  const { name, status, queued, turns, rounds, modelCalls, tokens, lastTokens } = agent
  const figures = [
    `${name}: ${status}`,
    `turn ${turns + (status === 'idle' ? 0 : 1)}`,
    progress ? roundOf(progress) : rounds > 0 && `round ${rounds}`,
    queued > 0 && `${queued} messages wait`,
    modelCalls > 0 && `${modelCalls} calls, ${grouped(tokens)} tokens`,
  ]
  const atWork = progress && lastTokens > 0 ? { messages: progress.messages, tokens: lastTokens } : {}
  return [figures.filter(Boolean).join('  '), ...(context ? [conversationLine({ ...context, ...atWork })] : [])]
}

function conversationLine({ messages, tokens, maxTokens, summarizeAt }: ContextInfo): string {
  const filled = bar(tokens / maxTokens, 10, summarizeAt === null ? undefined : summarizeAt / maxTokens)
  const summary = summarizeAt === null ? '' : `, summary at ${grouped(summarizeAt)}`
  return `  conversation ${filled} ${messages} messages, ${grouped(tokens)}/${grouped(maxTokens)} tokens${summary}`
}

function figuresLine(fold: DigestFold, agents: readonly FoldedAgent[], now: number): string {
  const { tasks, messages } = fold
  const sum = (value: (agent: FoldedAgent) => number) =>
    grouped(agents.reduce((total, agent) => total + value(agent), 0))
  const tokens = sum((agent) => agent.tokens)
  const calls = `${sum(({ modelCalls }) => modelCalls)} calls of models, ${sum(({ toolCalls }) => toolCalls)} of tools`
  const times = runsShown(fold).map(({ startedAt, endedAt }) => `${span((endedAt ?? now) - startedAt)}, `)
  return `figures  ${times.at(-1) ?? ''}${tasks.size} tasks, ${grouped(messages.length)} messages, ${sum(({ turns }) => turns)} turns, ${calls}, ${tokens} tokens`
}

export function costLines(fold: DigestFold): string[] {
  const agents = fold.members.filter(({ modelCalls }) => modelCalls > 0)
  if (agents.length === 0) return ['no model was called']
  return agents.map(
    ({ name, modelCalls, inputTokens, outputTokens }) =>
      `${name}: ${modelCalls} calls, ${grouped(inputTokens)} tokens in, ${grouped(outputTokens)} out`,
  )
}

export const whoLines = (fold: DigestFold, { context }: AgentSource): string[] =>
  fold.members.flatMap((agent) => agentLines(agent, context(agent.name)))

/** Returns the tasks, a line each, those that changed last at the end. */
export function taskLines({ tasks }: DigestFold): string[] {
  if (tasks.size === 0) return ['no task was given']
  return [...tasks.values()].map(({ agent, description, status, reason }) =>
    reason === undefined ? `${status}  ${agent ?? 'nobody'}  ${description}` : `${status}  ${description}: ${reason}`,
  )
}
