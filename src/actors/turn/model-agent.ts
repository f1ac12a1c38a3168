/**
 * The definition behind a role without code (a model agent): the role's model answers each message, together with the
 * earlier conversation of the same run. The conversation is run state: a turn extends it and commits it with its
 * answer.
 */

import { type AgentMessage, ORCHESTRATOR } from '../../mailbox/message.ts'
import { MessageRejectedError, ModelError } from '../../shared/errors.ts'
import { textOf } from '../definition/content.ts'
import type { AgentContext } from '../definition/context.ts'
import type { AgentHandlers } from '../definition/definition.ts'
import type { Completion, FinishReason, ModelMessage } from '../definition/model.ts'
import { handled } from '../definition/promises.ts'
import { MODEL_TURN } from '../definition/role.ts'
import type { ModelSchema } from '../definition/tool.ts'
import {
  bounded,
  type Conversation,
  type Heirs,
  handedOverIn,
  historyOf,
  inheritedWith,
  merged,
  NO_CONVERSATION,
  patchesOf,
  seenBy,
  wantedBy,
  withCallsOf,
  withHandedOver,
  withoutFirst,
  withTurn,
} from '../model/conversation.ts'
import { decisionsOn, isEscalation } from '../model/decisions.ts'
import { CHECK_OUTPUT, isLast, lastSpeakerIn, outputSchema } from '../model/last-speaker.ts'
import { type Colleague, contentWith, systemPromptOf, userContent } from '../model/prompt.ts'
import { answerFunctionOf, answerSchemaOf, jsonIn } from '../model/structured-output.ts'
import { thinkAloud } from '../model/think.ts'
import { demandedTool, KEYED_REQUEST, useSubTaskTool, verbTool } from '../model/verb-tools.ts'
import { thinkingTurn, turnBehind } from './context.ts'
import type { Turn } from './turn.ts'

/** The data that a model's turn begins with: the same for each attempt. */
export interface ModelTurnView {
  /** Agents to which the model may give tasks. `isModel`: a model plays it. */
  colleagues: (Colleague & { readonly isModel: boolean })[]
  heirs: Heirs
  /** Number of turns in the conversation when this turn began. A nested turn may have added more since. */
  known: number
  /** True if its requests may have a key: the team runs over several processes. */
  keyed?: boolean
  /** True if the run may have no handoff any more. */
  hasNoHandoffs?: true
  /** True if the turn runs inside another turn of the agent, which continues from the current conversation. */
  nested: boolean
}

/** Verbs that address other agents. A model with one of them gets the list of colleagues. */
const SOCIAL: ReadonlySet<string> = new Set([
  'request',
  'send',
  'delegate',
  'delegate_to_executor',
  'handoff',
  'reassign',
])

/**
 * Creates the handlers of a model agent. `remembers` is false if several threads play the role: they share no state, so
 * each message stands alone.
 */
export function modelAgent(remembers: boolean): AgentHandlers {
  const receive: AgentHandlers['receive'] = async (message, context) => {
    const turn = turnOf(context)
    const handed = handedOverIn(message)
    const allowed = verbsFor(message, turn)
    const history = turn.thread.assignment.floor
    const speaks = history !== undefined && isLast(message)
    const { colleagues, heirs, known, nested, keyed, hasNoHandoffs } = turnsToOthers(message, allowed)
      ? ((await turn.call(MODEL_TURN, {})) as ModelTurnView)
      : viewAlone(turn, remembers)
    const verbs = hasNoHandoffs || handed?.last ? allowed.filter((name) => name !== 'handoff') : allowed
    const decisions = decisionsOn(message, turn.role, colleagues)
    const isSocial = [...verbs, ...decisions.map(({ spec }) => spec.name)].some((verb) => SOCIAL.has(verb))
    const system = systemPromptOf(turn.role, isSocial ? colleagues : [])
    const own = remembers ? begun(turn, known) : givenTo(turn)
    const seen = history === undefined ? own : seenBy(own, turn.role.name)
    const before = withHandedOver(seen, handed)
    const { guardedBy } = turn
    const given = userContent(message, turn.isOfScript)
    const asked = guardedBy?.before ? String(await turn.guard({ on: 'before', value: given })) : given
    const said = historyOf(before)
    const first = speaks && handed ? said.find(({ role }) => role === 'user') : undefined
    const goal =
      message.type === 'delegate' && !speaks ? asked : (before.goal ?? (first ? textOf(first.content) : asked))
    const checks = guardedBy?.beside ? checkedBeside(turn, asked) : undefined
    const demanded = demandedTool(message, turn.tools)
    const use = demanded && useSubTaskTool(message, demanded, turn.tools, () => turn.refusal(), checks?.signal)
    const used = use && (await (checks ? checks.pass(use) : use))
    const heard = heardWith(message, turn, asked)
    if (used && 'told' in used) heard.push({ role: 'user', content: used.told })
    const ofRun = isLast(message) ? outputOfRun(turn) : undefined
    const wanted = ofRun ?? outputFor(message)
    const output = wanted ?? (decisions.length === 0 ? outputOfRole(turn) : undefined)
    const answerFunction = wanted && !ofRun ? answerFunctionOf(message) : undefined
    const noted = speaks && handed ? [] : heard // a note on who speaks is for the one who speaks
    const told = history === undefined ? said : withCallsOf(toolNames(turn, verbs), said)
    const messages: ModelMessage[] = [{ role: 'system', content: system }, ...told, ...heard]
    const last = lastSpeakerIn(message)
    const readers = new Set(colleagues.flatMap(({ name, isModel }) => (isModel ? name : [])))
    // In a run that is not read along the answer is requested as a whole, so that a broken one can be retried.
    const stream = turn.start.streams && (turn.start.view.streams || !last) && !guardedBy?.output
    const thinking = { ...thinkingTurn(turn, context), verbs }
    const thought = thinkAloud(
      guardedBy?.output ? { ...thinking, watchedMessage: undefined } : thinking,
      { messages, stream, ...(output && { output }), ...(checks && { signal: checks.signal }) },
      {
        summary: before.summary,
        goal,
        heirs,
        wordsStand: wanted !== undefined && !ofRun,
        answerFunction,
        answerOf: last === true ? 'run' : last === 'perhaps' ? 'choice' : 'turn',
        decisions: keyed && verbs.includes('request') ? [...decisions, KEYED_REQUEST] : decisions,
        ...(used && 'demanded' in used && { demanded: used.demanded }),
        outputOfRun: outputOfRun(turn),
        floor: {
          before,
          id: message.id,
          agent: turn.role.name,
          from: messages.length - noted.length,
          readers,
          shared: speaks ? history : undefined,
        },
      },
    )
    const { completion, transcript, left, data, isHandedOff, passing } = await (checks ? checks.pass(thought) : thought)
    checkSaid(completion, turn)
    const { text } = completion
    const isGuarded = guardedBy?.output && !isHandedOff // who answers is checked
    const checked = isGuarded ? String(await turn.guard({ on: 'output', value: text })) : text
    if (checked !== text) transcript.splice(-1, 1, { role: 'assistant', content: checked })
    if (remembers) {
      const after = withTurn({ ...before, goal }, message.id, [...noted, ...transcript], aloneIn(message, turn))
      // The outer turn of a nested one may be redelivered, and must then find the whole conversation that it began
      // with. What others see as well is not dropped for one that sees something else.
      const dropped = left.dropped > said.length ? left.dropped - heard.length + noted.length : left.dropped
      const keeps = nested || seen !== own || before.turns.some(({ instead }) => instead !== undefined)
      remember(turn, seen, keeps ? after : withoutFirst(after, dropped, left.summary))
    }
    const wantedParts = turn.isOfScript ? wantedBy(message) : []
    if (wantedParts.length > 0) turn.tellWithAnswer(await passing.passedOn(wantedParts))
    if (data) return { content: checked, structuredData: data }
    if (!output || isHandedOff) return checked
    return { content: checked, structuredData: checked === text ? completion.output : jsonIn(checked)?.value }
  }
  if (!remembers) return { receive }
  return {
    initialRunState: NO_CONVERSATION,
    receive,
    observe(message, context) {
      const turn = turnOf(context)
      if (message.type === 'publish' && isKnown(message, turn)) return
      const alone = aloneIn(message, turn)
      remember(turn, NO_CONVERSATION, withTurn(NO_CONVERSATION, message.id, heardWith(message, turn), alone))
    },
  }
}

/** Returns the name of the agent if the others who share its conversation do not see that it has got the message. */
const aloneIn = (message: AgentMessage, { role, thread }: Turn): string | undefined =>
  thread.assignment.floor === undefined || isLast(message) ? undefined : role.name

const toolNames = ({ tools }: Turn, verbs: readonly string[]): ReadonlySet<string> =>
  new Set([...tools.specs.map(({ name }) => name), ...verbs])

/**
 * Checks the finish reason, which code agents see but callers of a role do not. An empty answer is an error, unless the
 * model ended it by itself. A cut-off answer is used, with a warning.
 */
function checkSaid({ text, finishReason }: Completion<unknown>, { role, log }: Turn): void {
  if (finishReason === 'stop') return
  const agent = role.name
  if (text !== '') {
    const why = CUT_OFF[finishReason]
    if (why) log.warn({ agent, finishReason }, `The answer of "${agent}" was cut off: ${why}`)
    return
  }
  const why = {
    content_filter: ['the provider withheld it (content_filter)', 'Ask in another way, or take another model.'],
    length: ['its tokens were used up before the first word', 'Raise maxOutputTokens.'],
    tool_calls: ['it wanted to call tools and named none', 'Ask again, or take another model.'],
  }[finishReason]
  const reason = finishReason === 'content_filter' ? 'filtered' : 'invalid_answer'
  throw new ModelError(`The model of "${agent}" gave no answer: ${why[0]}. ${why[1]}`, {
    agent,
    finishReason,
    reason,
    final: true, // the next try would read the same answer in the log
    ...(reason === 'invalid_answer' && { code: 'no_parts' }),
  })
}

const CUT_OFF: Partial<Record<FinishReason, string>> = {
  length: 'its tokens were used up (length). Raise maxOutputTokens, or ask for less.',
  content_filter: 'the provider withheld its rest (content_filter). Ask in another way, or take another model.',
}

/** Returns the output schema of the run. It holds for a message that may produce the run's answer, and for `finish`. */
function outputOfRun(turn: Turn): ModelSchema | undefined {
  const { output } = turn.start.view
  if (!output) return undefined
  return outputSchema(output, (value) => turn.call(CHECK_OUTPUT, { value }) as Promise<string | null>)
}

/** Returns the output schema of the role, which holds where nobody has asked for another. */
function outputOfRole(turn: Turn): ModelSchema | undefined {
  const roleOutput = turn.thread.assignment.output
  if (!roleOutput) return undefined
  return outputSchema(roleOutput, (value) => turn.call(CHECK_OUTPUT, { value, of: 'role' }) as Promise<string | null>)
}

/**
 * Returns the output schema that the sender wants. The sender checks against the schema itself, so no check runs here.
 */
function outputFor(message: AgentMessage): ModelSchema | undefined {
  const wanted = answerSchemaOf(message)
  return wanted && outputSchema(wanted, async () => null)
}

/** Returns the messages of this turn: first the context that the sender passes on, then the message itself. */
const heardWith = (
  message: AgentMessage,
  { thread, isOfScript }: Turn,
  asked = userContent(message, isOfScript),
): ModelMessage[] => [
  ...inheritedWith(message, thread.strategy),
  { role: 'user', content: contentWith(message, asked) },
]

/**
 * Has the question checked beside the model. A refusal ends the calls of the model and of its tools, and no answer is
 * given before the check has passed.
 */
function checkedBeside(turn: Turn, value: string) {
  const ending = new AbortController()
  const check = handled(turn.guard({ on: 'beside', value }))
  check.catch((error: unknown) => ending.abort(error))
  return {
    signal: ending.signal,
    async pass<T>(thought: Promise<T>): Promise<T> {
      const answer = await thought.catch(async (error: unknown) => {
        if (ending.signal.aborted) throw ending.signal.reason
        throw error
      })
      await check
      return answer
    },
  }
}

/**
 * Returns the verbs that the model has in this turn: those of its role, those that the protocol script gives it with
 * the message (`metadata.verbs`), and `refuse` for a task that was delegated to it.
 */
function verbsFor({ sender, type, metadata }: AgentMessage, { role, thread }: Turn): readonly string[] {
  const given = sender === ORCHESTRATOR && Array.isArray(metadata.verbs) ? metadata.verbs.map(String) : []
  if (type === 'delegate') given.push('refuse')
  const allowed = given.filter((name) => verbTool(name) && (role.trust !== 'untrusted' || IN_ANSWER.has(name)))
  const { verbs } = thread.assignment
  return allowed.length === 0 ? verbs : [...new Set([...verbs, ...allowed])]
}

/** Verbs that are ways to answer, which need no trust. */
const IN_ANSWER: ReadonlySet<string> = new Set(['finish', 'refuse'])

/** Checks whether the model has written that entry, or has read it within a turn. */
function isKnown(message: AgentMessage, { role, runState }: Turn): boolean {
  if (message.sender === role.name) return true
  const content = userContent(message)
  return historyOf(runState as Conversation).some((said) => said.content === content)
}

/** Checks whether the model may address other agents in this turn. Only the host knows these. */
const turnsToOthers = (message: AgentMessage, verbs: readonly string[]): boolean =>
  isEscalation(message) || verbs.some((verb) => SOCIAL.has(verb))

/** Returns what a turn begins with whose model addresses nobody: the thread knows it, so the host is not asked. */
function viewAlone(turn: Turn, remembers: boolean): ModelTurnView {
  const { nested } = turn.start
  const known = remembers ? turn.beginsWith((turn.runState as Conversation).turns.length) : 0
  return { colleagues: [], heirs: {}, known, nested }
}

function begun({ runState }: Turn, known: number): Conversation {
  const now = runState as Conversation
  return known < now.turns.length ? { ...now, turns: now.turns.slice(0, known) } : now
}

/** Returns the messages that the caller of the run has given: all that an agent knows which remembers nothing. */
const givenTo = ({ runState }: Turn): Conversation =>
  'turns' in runState ? (runState as Conversation) : NO_CONVERSATION

function remember(turn: Turn, before: Conversation, after: Conversation): void {
  turn.changeRunState((current) => {
    const now = current as Conversation
    const value = bounded(merged(now, before, after))
    return { value, patches: patchesOf(now, value) }
  })
}

function turnOf(context: AgentContext): Turn {
  const turn = turnBehind(context)
  if (turn) return turn
  throw new MessageRejectedError('Only a turn can be played by a model.')
}
