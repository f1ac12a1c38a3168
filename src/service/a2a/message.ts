/** A message of a client: the words of a task, or the answers to what a task asks. */
import type { Content, MediaPart } from '../../actors/definition/content.ts'
import { untilAsked } from '../../runtime/runs/run-handle.ts'
import { isObject } from '../../shared/checks.ts'
import { MOST_ANSWERS } from '../http/chat-request.ts'
import { assertTaken, refused } from '../http/openai-request.ts'
import type { TaskQuestion } from '../http/schemas.ts'
import { type FoundTask, HELD, isOver, openIn } from '../http/task-view.ts'
import type { answerAs } from '../http/tasks.ts'
import { codeOf } from './task.ts'
import { Fault, type Message, type Part } from './wire.ts'

type Answer = Parameters<typeof answerAs>[2]

/** Returns what a message says: a text, or parts if it has files. @throws HttpError, Fault for what no team takes. */
export function queryIn({ parts }: Message): string | Content {
  const said = parts.map((part, at) => partIn(part, `message.parts[${at}]`))
  const text = said.flatMap((part) => (part.type === 'text' ? [part.text] : [])).join('\n')
  if (said.some(({ type }) => type !== 'text')) return said
  if (text.trim() === '') throw refused('message.parts', 'It has no words.')
  return text
}

function partIn({ text, data, raw, url, mediaType, filename }: Part, path: string) {
  if (typeof text === 'string') return { type: 'text' as const, text }
  if (data !== undefined) return { type: 'text' as const, text: JSON.stringify(data) }
  const bytes = typeof raw === 'string' ? `data:${mediaType || 'application/octet-stream'};base64,${raw}` : url
  if (typeof bytes !== 'string') throw refused(path, 'A part has one of text, data, raw and url.')
  const kind = mediaType?.split('/')[0]
  const type = kind === 'image' || kind === 'audio' ? kind : 'file'
  const named = type === 'file' && filename ? { name: filename } : {}
  return assertTaken({ type, data: bytes, ...(mediaType && { mediaType }), ...named } as MediaPart, path)
}

/**
 * Returns the answers that a message has for a task. A data part or the metadata name their question, and a code what
 * an approval has shown. A text alone is for the one question there is; never for an approval, which may be another
 * by now.
 *
 * @throws Fault where nothing is to be answered.
 */
export async function answersIn(message: Message, found: FoundTask, signal: AbortSignal): Promise<Answer[]> {
  const { parts, metadata } = message
  const named = parts.flatMap(({ data }) => (isAnswer(data) ? [answerOf(data)] : []))
  if (named.length > MOST_ANSWERS) throw refused('message.parts', `Accepted are ${MOST_ANSWERS} answers.`)
  if (named.length > 0) return named
  const said = parts.map(({ text, data }) => text ?? (data === undefined ? '' : JSON.stringify(data))).join('\n')
  const { questionId, digest } = Object(metadata) as { questionId?: unknown; digest?: unknown }
  if (typeof questionId === 'string')
    return [
      answerOf({ questionId, ...(typeof digest === 'string' ? { digest, ...agreedIn(said) } : { answer: said }) }),
    ]
  await untilSomethingIsAsked(found, signal)
  const { offered, isHeld } = await openIn(found)
  const [, word, code] = CODED.exec(said) ?? []
  const shown = offered.find((question) => question.kind === 'approval' && codeOf(question) === code?.toLowerCase())
  if (shown) return [{ questionId: shown.questionId, digest: shown.digest, answer: word!.toLowerCase() }]
  const asked = offered.filter(({ kind }) => kind === 'ask')
  if (asked.length === 1 && offered.length === 1) return [{ questionId: asked[0]!.questionId, answer: said }]
  if (offered.length === 0)
    throw new Fault('UNSUPPORTED_OPERATION', isOver(found.run) ? OVER : isHeld ? HELD : 'It asks you nothing now.')
  throw refused('message', waysFor(offered))
}

const OVER = 'It is over, and takes no more messages. Send one with its contextId, and without taskId.'
/** Answer of a person to an approval: a word, and the code of what was shown. */
const CODED = /^\s*(yes|no)\s+([\da-f]{8})\b/i

const waysFor = (offered: readonly TaskQuestion[]): string =>
  `${offered.length} questions are open, and it is not clear which one this answers. ${offered
    .map((question) =>
      question.kind === 'approval' ? `"yes ${codeOf(question)}" agrees to: ${question.text}` : question.text,
    )
    .join(' ')
    .slice(0, 2_000)} A data part with the questionId answers each of them.`

interface Data extends Readonly<Record<string, unknown>> {
  readonly questionId: string
}

const isAnswer = (data: unknown): data is Data => isObject(data) && typeof Reflect.get(data, 'questionId') === 'string'

/** Whatever does not agree to a call is a no. */
function answerOf({ questionId, digest, approved, reason, input, answer }: Data): Answer {
  if (typeof digest !== 'string')
    return { questionId, answer: typeof answer === 'string' ? answer : JSON.stringify(answer ?? '') }
  const yes = { approved: true as const, ...(input !== undefined && { input }) }
  const no = { approved: false as const, ...(typeof reason === 'string' && { reason }) }
  return { questionId, digest: digest.slice(0, 100), answer: approved === true || answer === 'yes' ? yes : no }
}

const agreedIn = (said: string): object => {
  const approved = /^\s*(?:yes|true|approved?)\b/i.test(said)
  return { approved, ...(!approved && { reason: said }) }
}

/** A turn that a restart has cut off asks again when it goes on: an answer that comes before is for that question. */
async function untilSomethingIsAsked({ run }: FoundTask, signal: AbortSignal): Promise<void> {
  if (run.questions.length > 0 || isOver(run)) return
  const asked = new Set<string>()
  for await (const event of run.events({ types: ['question', 'question.closed'], follow: false })) {
    if (event.type === 'question') asked.add(event.questionId)
    else if (event.type === 'question.closed') asked.delete(event.questionId)
  }
  for (const questionId of asked) await untilAsked(run, questionId, signal)
}
