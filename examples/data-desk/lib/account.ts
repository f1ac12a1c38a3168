/** "What happened on the way", in words and a table: only what the log, the health and the board of the run say. */
import type { AgentMessage, BlackboardEntry, DeadLetter, Health, MultiAgentResult, OrchestrationTrace } from 'dramatis'
import { type FoundRun, foundLine } from './found-run.ts'
import { type Crash, type Recovery, recoveryOf, resumptionsOf, type Step } from './recovery.ts'
import { markdownTable } from './report.ts'

interface Evidence {
  result: MultiAgentResult
  health: Health
  deadLetters: readonly DeadLetter[]
  board: readonly BlackboardEntry[]
  /** What another process has left of the run, if it began there. */
  found?: FoundRun | undefined
}

export function accountOf({ result, health, deadLetters, board, found }: Evidence): string {
  const recovery = recoveryOf(result.orchestrationTrace, deadLetters)
  const lines = ['## What happened on the way', '']
  if (found) lines.push(...foundLines(found, result.orchestrationTrace))
  if (recovery.crashes.length === 0) lines.push('- No agent crashed.')
  for (const crash of recovery.crashes) lines.push(...crashLines(crash))
  lines.push(lossLine(recovery), boardLine(board), '', ...agentTable(result, health))
  lines.push('', `The run took ${Math.round(result.executionTimeMs)} ms.`)
  return lines.join('\n')
}

function foundLines(found: FoundRun, trace: OrchestrationTrace): string[] {
  return [
    `- The process that began this run was killed: ${foundLine(found)} This process went on with the log.`,
    ...resumptionsOf(trace, found.at).flatMap(({ agent, attempt, steps }) => [
      `- The turn of ${agent} began again, in attempt ${attempt}.`,
      ...steps.map(stepLine),
    ]),
  ]
}

function crashLines({ agent, attempt, readyAfterMs, warm, resumedAfterMs, finishedInAttempt, steps }: Crash): string[] {
  const when = attempt === null ? 'between two turns' : `in attempt ${attempt} of its turn`
  const lines = [`- ${agent} lost its thread ${when}.`]
  if (readyAfterMs === null) return [...lines, '- It did not come back.']
  const thread = warm === null ? 'a new thread' : warm ? 'a spare thread that stood ready' : 'a newly started thread'
  const again = resumedAfterMs === null ? '' : ` The turn began again after ${milliseconds(resumedAfterMs)}`
  const end = finishedInAttempt === null ? '' : ` and finished in attempt ${finishedInAttempt}`
  lines.push(`- It was back after ${milliseconds(readyAfterMs)}, on ${thread}.${again && `${again}${end}.`}`)
  if (attempt !== null && finishedInAttempt === null) lines.push('- The turn was not finished.')
  return [...lines, ...steps.map(stepLine)]
}

function stepLine({ name, replayed, ranAgain }: Step): string {
  const fate = ranAgain
    ? 'was run again'
    : replayed
      ? 'was answered from the log, not run again'
      : 'was not asked for again'
  return `- The step "${name}" had finished before and ${fate}.`
}

function lossLine({ requests, unfinished, deadLetters }: Recovery): string {
  // Of no request none is unfinished: that would be no evidence.
  if (requests === 0) return `- The trace shows no request to an agent; ${deadLetters} dead letters.`
  const verdict =
    unfinished.length === 0 && deadLetters === 0
      ? 'nothing was lost'
      : `lost: ${unfinished.join(', ') || 'see the dead letters'}`
  const finished = `${requests - unfinished.length} of ${requests} requests to agents were finished`
  return `- ${finished}, ${deadLetters} dead letters: ${verdict}.`
}

function boardLine(board: readonly BlackboardEntry[]): string {
  const rewritten = board.filter((entry) => entry.version > 1).map((entry) => entry.key)
  const verdict = rewritten.length === 0 ? 'each written once' : `written more than once: ${rewritten.join(', ')}`
  return `- ${board.length} entries on the blackboard, ${verdict}.`
}

function agentTable(result: MultiAgentResult, health: Health): string[] {
  const { agentActivations } = result.orchestrationTrace
  const rows = Object.entries(health.agents).map(([agent, { restarts }]) => [
    agent,
    String(agentActivations.filter((activation) => activation.agent === agent).length),
    String(restarts),
    String(result.messageHistory.filter((message) => isFor(message, agent)).length),
    String(result.messageHistory.filter(({ sender }) => sender === agent).length),
    milliseconds(result.agentExecutionTimesMs[agent] ?? 0),
  ])
  return markdownTable({ columns: ['agent', 'turns', 'restarts', 'messages in', 'messages out', 'at work'], rows })
}

function isFor({ recipient }: AgentMessage, agent: string): boolean {
  return Array.isArray(recipient) ? recipient.includes(agent) : recipient === agent
}

function milliseconds(duration: number): string {
  return `${Math.round(duration)} ms`
}
