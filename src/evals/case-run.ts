/** Plays a case with a team of its own, and tells what the team has done. */
import type { RuntimeEvent } from '../runtime/runs/events.ts'
import type { MultiAgentResult } from '../runtime/runs/result.ts'
import type { Run } from '../runtime/runs/run.ts'
import { describe } from '../shared/errors.ts'
import { createTeam, type MultiAgentPattern, type MultiAgentPatternOptions } from '../team.ts'
import type { EvalAnswer, EvalRun, ReadyCase, ReadySuite, ToolCalled } from './suite.ts'

type Told = {
  -readonly [Field in 'messages' | 'calls' | 'models' | 'handoffs' | 'questions' | 'alarms']: EvalRun[Field][number][]
}

const THREAD = 'case'
type Asked = Extract<RuntimeEvent, { type: 'question' }>

/** Plays a case once. Rejects with `ConfigurationError` for options that no team can have. */
export function playCase(suite: ReadySuite, each: ReadyCase, repeat: number, signal?: AbortSignal): Promise<EvalRun> {
  return playWith(createTeam(optionsOf(suite)), suite, each, repeat, signal)
}

/** Returns the options of a team for one case, which leaves nothing behind. */
export function optionsOf({ team }: ReadySuite): MultiAgentPatternOptions<string> {
  const { stateManagement: _log, conversations: _store, ...fresh } = team()
  return fresh
}

/** Plays a case with a team, which is closed then. */
export async function playWith(
  team: MultiAgentPattern<string>,
  { run: common }: ReadySuite,
  each: ReadyCase,
  repeat: number,
  signal?: AbortSignal,
): Promise<EvalRun> {
  const inputs = typeof each.input === 'string' ? [each.input] : each.input
  const told: Told = { messages: [], calls: [], models: [], handoffs: [], questions: [], alarms: [] }
  const people = new People(team, [...(each.answers ?? [])], told)
  let deadLetters = 0
  let result: MultiAgentResult<unknown> | undefined
  let [tokens, money, ms] = [0, null as number | null, 0]
  try {
    for (const input of inputs) {
      const run: Run<unknown> = team.launch(input, {
        ...common,
        ...(inputs.length > 1 && { threadId: THREAD }),
        ...(signal && { signal }),
      })
      const calls = new Map<string, { -readonly [Field in keyof ToolCalled]: ToolCalled[Field] }>()
      for await (const event of run.events()) {
        if (event.type === 'message.dead') deadLetters += 1
        else if (event.type === 'question') people.asked(event, run)
        else if (event.type === 'question.voted') people.voted(event.questionId, run)
        else tell(event, told, calls)
      }
      result = await run.result
      tokens += result.totalTokenUsage.totalTokens
      if (result.money) money = (money ?? 0) + result.money.amount
      ms += result.executionTimeMs
      if (!result.success) break
    }
  } finally {
    await team.close({ drainMs: 0 })
  }
  const { success, finalOutput, data, error, speaker } = result!
  const failure = people.unanswered ?? (error && { code: error.code, message: error.message })
  return {
    case: {
      id: each.id,
      input: each.input,
      ...(each.expected !== undefined && { expected: each.expected }),
      tags: each.tags,
    },
    repeat,
    success: success && !people.unanswered,
    output: finalOutput,
    data: data ?? null,
    error: failure ?? null,
    speaker,
    ...told,
    deadLetters,
    tokens,
    money,
    ms,
  }
}

/** Gives the answers of a case. A question that has none ends the run. */
class People {
  readonly #team: MultiAgentPattern<string>
  readonly #answers: EvalAnswer[]
  readonly #told: Told
  readonly #open = new Map<string, { event: Asked; told: { answer: string | null } }>()
  unanswered: EvalRun['error'] | undefined

  constructor(team: MultiAgentPattern<string>, answers: EvalAnswer[], told: Told) {
    this.#team = team
    this.#answers = answers
    this.#told = told
  }

  asked(event: Asked, run: Run<unknown>): void {
    const { questionId, agent, kind, text } = event
    const told = { agent, kind, text, answer: null }
    this.#told.questions.push(told)
    this.#open.set(questionId, { event, told })
    this.#answer(questionId, run)
  }

  /** Answers again, if an approval needs the yes of several people. */
  voted(questionId: string, run: Run<unknown>): void {
    if (run.questions.some((question) => question.questionId === questionId)) this.#answer(questionId, run)
  }

  #answer(questionId: string, run: Run<unknown>): void {
    const { event, told } = this.#open.get(questionId)!
    const { agent, tool, text } = event
    const at = this.#answers.findIndex((each) => (each.agent ?? agent) === agent && (each.tool ?? tool) === tool)
    const [found] = at === -1 ? [] : this.#answers.splice(at, 1)
    if (!found) return this.#fails(run, `The case has no answer to a question. Agent "${agent}" asks: ${text}`)
    const { answer, by } = found
    told.answer = typeof answer === 'string' ? answer : JSON.stringify(answer)
    this.#team
      .answer(questionId, answer as string, by === undefined ? {} : { by: { id: by } })
      .catch((error: unknown) => this.#fails(run, `The answer to "${text}" was refused: ${describe(error)}`))
  }

  #fails(run: Run<unknown>, message: string): void {
    this.unanswered ??= { code: 'UNANSWERED', message }
    void run.cancel(message)
  }
}

function tell(
  event: RuntimeEvent<unknown>,
  told: Told,
  calls: Map<string, { -readonly [Field in keyof ToolCalled]: ToolCalled[Field] }>,
): void {
  switch (event.type) {
    case 'message': {
      const { sender: from, recipient, type, content } = event.message
      told.messages.push({ from, to: recipient === null ? [] : [recipient].flat(), type, content })
      return
    }
    case 'tool.started': {
      const call = { agent: event.agent, tool: event.tool, input: event.input, output: null, error: null, ms: 0 }
      if (!calls.has(event.callId)) told.calls.push(call) // a turn that begins again has made it once
      calls.set(event.callId, calls.get(event.callId) ?? call)
      return
    }
    case 'tool.finished': {
      const { callId, durationMs: ms, error, output = null } = event
      const call = calls.get(callId)
      if (call) Object.assign(call, { output, ms, error: error?.message ?? null })
      return
    }
    case 'model.called': {
      const { agent, model, usage, durationMs: ms, error } = event
      told.models.push({ agent, model, tokens: usage.totalTokens, ms, error: error?.message ?? null })
      return
    }
    case 'handoff':
      if (event.step === 'handed_off') told.handoffs.push({ from: event.from, to: event.to })
      return
    case 'deadlock':
    case 'livelock':
    case 'stall':
    case 'slow':
      told.alarms.push({ type: event.type, sentence: event.sentence })
  }
}
