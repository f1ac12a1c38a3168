/** Summaries that stand for the part of a conversation that its model no longer sees. */
import { DramatisError } from '../../../errors.ts'
import { textOf, transcriptOf } from '../../definition/content.ts'
import type { ModelMessage } from '../../definition/model.ts'
import { cutShort, shortened } from './shorten.ts'
import { fits, roomOf, type TokenWindow } from './token-window.ts'

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

/** Returns a message as a line of a transcript. */
export function spoken({ role, content, toolCalls = [] }: ModelMessage): string {
  const calls = toolCalls.map(({ name, input }) => `(calls ${name} ${input})`)
  return `${role}: ${[transcriptOf(content), ...calls].filter((part) => part !== '').join(' ')}`
}
