/**
 * The definition that plays a role without code: each message is thought about by the role's model, with what was said
 * before in the same run. The conversation is the run's own state: a turn adds to it, and commits that with its answer.
 */
import { MessageRejectedError } from '../errors.ts'
import type { AgentMessage } from '../mailbox/message.ts'
import type { AgentContext } from './context.ts'
import type { AgentHandlers } from './definition.ts'
import { CHECK_OUTPUT, isLast, outputSchema } from './last-speaker.ts'
import type { ModelMessage } from './model.ts'
import { type Colleague, systemPromptOf, userContent } from './model-prompt.ts'
import type { ModelSchema } from './tool.ts'
import { Turn } from './turn.ts'

/** What a model has of a run. */
export interface Conversation {
  readonly messages: readonly ModelMessage[]
}

/** What the host says when a model's turn begins. It is a step, so a turn that is tried again begins with the same. */
export interface ModelTurnView {
  /** Those it may give tasks to. */
  colleagues: Colleague[]
  /** How many messages its conversation had: a turn that ran within this one may have added to it since. */
  known: number
}

export const MODEL_TURN = 'model.turn'

/** Verbs by which a model turns to others: then it is told who there is. */
const SOCIAL: ReadonlySet<string> = new Set(['request', 'delegate', 'handoff'])

/** `remembers`: false where several threads play the role, which share no state: each message stands alone. */
export function modelAgent(remembers: boolean): AgentHandlers {
  const receive: AgentHandlers['receive'] = async (message, context) => {
    const turn = turnOf(context)
    const { colleagues, known } = (await turn.call(MODEL_TURN, {})) as ModelTurnView
    const isSocial = turn.verbs.some((verb) => SOCIAL.has(verb))
    const system = systemPromptOf(turn.role, isSocial ? colleagues : [])
    const question: ModelMessage = { role: 'user', content: userContent(message) }
    const before = remembers ? messagesOf(turn).slice(0, known) : []
    const output = outputOf(turn, message)
    const { completion, transcript } = await turn.thinkAloud({
      messages: [{ role: 'system', content: system }, ...before, question],
      stream: true,
      ...(output && { output }),
    })
    if (remembers) remember(turn, [question, ...transcript])
    return output ? { content: completion.text, structuredData: completion.output } : completion.text
  }
  if (!remembers) return { receive }
  return {
    initialRunState: { messages: [] } satisfies Conversation,
    receive,
    observe(message, context) {
      remember(turnOf(context), [{ role: 'user', content: userContent(message) }])
    },
  }
}

/** What the run's caller wants of its answer, where this may be it. */
function outputOf(turn: Turn, message: AgentMessage): ModelSchema | undefined {
  const { output } = turn.start.view
  if (!output || !isLast(message)) return undefined
  return outputSchema(output, (value) => turn.call(CHECK_OUTPUT, { value }) as Promise<string | null>)
}

function remember(turn: Turn, said: readonly ModelMessage[]): void {
  turn.setRunState((draft) => {
    ;(draft as { messages: ModelMessage[] }).messages.push(...said)
  })
}

const messagesOf = ({ runState }: Turn): readonly ModelMessage[] => (runState as Conversation).messages

function turnOf(context: AgentContext): Turn {
  if (context instanceof Turn) return context
  throw new MessageRejectedError('Only a turn can be played by a model.')
}
