/**
 * The definition that plays a role without code: each message is thought about by the role's model, with what was said
 * before in the same run. The conversation is the run's own state: a turn adds to it, and commits that with its answer.
 */
import { original } from 'immer'
import { MessageRejectedError, ModelError } from '../../errors.ts'
import type { AgentMessage } from '../../mailbox/message.ts'
import type { AgentContext } from '../definition/context/context.ts'
import type { AgentHandlers } from '../definition/definition.ts'
import type { Completion, FinishReason, ModelMessage } from '../definition/model.ts'
import type { ModelSchema } from '../definition/tool.ts'
import { answerFunctionOf, answerSchemaOf } from '../model/answer-schema.ts'
import {
  bounded,
  type Conversation,
  change,
  historyOf,
  merged,
  NO_CONVERSATION,
  withoutFirst,
  withTurn,
} from '../model/context/conversation.ts'
import { type Heirs, inheritedWith } from '../model/context/inheritance.ts'
import { CHECK_OUTPUT, isLast, outputSchema } from '../model/last-speaker.ts'
import { type Colleague, systemPromptOf, userContent } from '../model/prompt.ts'
import { thinkAloud } from '../model/think.ts'
import { turnBehind } from './context.ts'
import type { Turn } from './turn.ts'

/** What the host says when a model's turn begins. It is a step, so a turn that is tried again begins with the same. */
export interface ModelTurnView {
  /** Those it may give tasks to. */
  colleagues: Colleague[]
  heirs: Heirs
  /** How many turns its conversation had: one that ran within this turn may have added to it since. */
  known: number
  /** It runs within another turn of the agent, which goes on from what stands now. */
  nested: boolean
  /** Somebody reads along what is said in the run. */
  isRunRead: boolean
}

export const MODEL_TURN = 'model.turn'

/** Verbs by which a model turns to others: then it is told who there is. */
const SOCIAL: ReadonlySet<string> = new Set(['request', 'delegate', 'handoff'])

/** `remembers`: false where several threads play the role, which share no state: each message stands alone. */
export function modelAgent(remembers: boolean): AgentHandlers {
  const receive: AgentHandlers['receive'] = async (message, context) => {
    const turn = turnOf(context)
    const { colleagues, heirs, known, nested, isRunRead } = (await turn.call(MODEL_TURN, {})) as ModelTurnView
    const isSocial = turn.verbs.some((verb) => SOCIAL.has(verb))
    const system = systemPromptOf(turn.role, isSocial ? colleagues : [])
    const before = remembers ? begun(turn, known) : NO_CONVERSATION
    const asked = userContent(message)
    const goal = message.type === 'delegate' ? asked : (before.goal ?? asked)
    const heard = heardWith(message, turn)
    const ofRun = outputOfRun(turn, message)
    const output = ofRun ?? outputFor(message)
    const answerFunction = output && !ofRun ? answerFunctionOf(message) : undefined
    const messages: ModelMessage[] = [{ role: 'system', content: system }, ...historyOf(before), ...heard]
    // What nobody reads along is asked for as a whole: so also an answer that breaks off can be asked for again.
    const stream = turn.start.streams && (isRunRead || !isLast(message))
    const { completion, transcript, left } = await thinkAloud(
      turn.thinking(context),
      { messages, stream, ...(output && { output }) },
      { summary: before.summary, goal, heirs, wordsStand: !ofRun, answerFunction },
    )
    checkSaid(completion, turn)
    if (remembers) {
      const after = withTurn({ ...before, goal }, message.id, [...heard, ...transcript])
      // The turn around a nested one may be tried again, and has to find all that it began with.
      remember(turn, before, nested ? after : withoutFirst(after, left.dropped, left.summary))
    }
    return output ? { content: completion.text, structuredData: completion.output } : completion.text
  }
  if (!remembers) return { receive }
  return {
    initialRunState: NO_CONVERSATION,
    receive,
    observe(message, context) {
      const turn = turnOf(context)
      remember(turn, NO_CONVERSATION, withTurn(NO_CONVERSATION, message.id, heardWith(message, turn)))
    },
  }
}

/**
 * Code sees the finish reason, who asks a role does not: an answer without a word is none if its model did not end it by itself,
 * and one that was cut off goes on as it is, with a warning.
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
  throw new ModelError(`The model of "${agent}" gave no answer: ${why[0]}. ${why[1]}`, { agent, finishReason, reason })
}

const CUT_OFF: Partial<Record<FinishReason, string>> = {
  length: 'its tokens were used up (length). Raise maxOutputTokens, or ask for less.',
  content_filter: 'the provider withheld its rest (content_filter). Ask in another way, or take another model.',
}

/** What the run's caller wants of its answer, where this may be it. */
function outputOfRun(turn: Turn, message: AgentMessage): ModelSchema | undefined {
  const { output } = turn.start.view
  if (!output || !isLast(message)) return undefined
  return outputSchema(output, (value) => turn.call(CHECK_OUTPUT, { value }) as Promise<string | null>)
}

/** What the message's sender wants of this one. It has the schema itself, and checks by it. */
function outputFor(message: AgentMessage): ModelSchema | undefined {
  const wanted = answerSchemaOf(message)
  return wanted && outputSchema(wanted, async () => null)
}

/** What the message says, behind what its sender passes on with it. */
const heardWith = (message: AgentMessage, { strategy }: Turn): ModelMessage[] => [
  ...inheritedWith(message, strategy),
  { role: 'user', content: userContent(message) },
]

/** The conversation as it was when the turn began. */
function begun({ runState }: Turn, known: number): Conversation {
  const now = runState as Conversation
  return { ...now, turns: now.turns.slice(0, known) }
}

function remember(turn: Turn, before: Conversation, after: Conversation): void {
  turn.setRunState((draft) => {
    const now = original(draft) as Conversation
    change(draft as Conversation, now, bounded(merged(now, before, after)))
  })
}

function turnOf(context: AgentContext): Turn {
  const turn = turnBehind(context)
  if (turn) return turn
  throw new MessageRejectedError('Only a turn can be played by a model.')
}
