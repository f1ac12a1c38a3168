/**
 * The answer to a question that nobody could help with: friendly, in its language, and without a word of how the team
 * is made. The reasons stay in the result (`failures`).
 */
import type { OrchestratorContext, RequestOptions } from '../actors/definition/context.ts'
import { IN_WORDS } from '../actors/model/last-speaker.ts'
import { NO_SUB_TASK } from '../mailbox/sub-task.ts'
import { failureOf, isModel } from './asking.ts'
import { isLate } from './run-tasks.ts'
import type { Finished } from './tasks.ts'

/** Sentences for a failure, and for experts that were all late. */
type Sentences = readonly [failed: string, late: string]

const ENGLISH: Sentences = [
  'Sorry, I could not find an answer this time. Please try again later.',
  'Sorry, this took too long, so I have no answer this time. Please try again later.',
]

/** The first script that the question has enough of counts: kana stand before Han, since Japanese has both. */
const SCRIPTS: Readonly<Record<string, Sentences>> = {
  'Hiragana Katakana': [
    '申し訳ありません。今回はお答えできませんでした。しばらくしてからもう一度お試しください。',
    '申し訳ありません。時間がかかりすぎたため、今回はお答えできませんでした。しばらくしてからもう一度お試しください。',
  ],
  Hangul: [
    '죄송합니다. 이번에는 답을 찾지 못했습니다. 잠시 후 다시 시도해 주세요.',
    '죄송합니다. 시간이 너무 오래 걸려 이번에는 답을 드리지 못했습니다. 잠시 후 다시 시도해 주세요.',
  ],
  Han: ['抱歉，這次沒能找到答案，請稍後再試。', '抱歉，處理時間過長，這次沒能找到答案，請稍後再試。'],
  Cyrillic: [
    'Извините, на этот раз найти ответ не удалось. Пожалуйста, попробуйте позже.',
    'Извините, это заняло слишком много времени, и ответа пока нет. Пожалуйста, попробуйте позже.',
  ],
  Arabic: [
    'عذرًا، لم أتمكن من العثور على إجابة هذه المرة. يرجى المحاولة مرة أخرى لاحقًا.',
    'عذرًا، استغرق الأمر وقتًا طويلًا ولم أتمكن من تقديم إجابة. يرجى المحاولة مرة أخرى لاحقًا.',
  ],
  Hebrew: [
    'מצטערים, הפעם לא נמצאה תשובה. אנא נסו שוב מאוחר יותר.',
    'מצטערים, זה ארך זמן רב מדי והפעם אין תשובה. אנא נסו שוב מאוחר יותר.',
  ],
  Devanagari: [
    'क्षमा करें, इस बार उत्तर नहीं मिल सका। कृपया बाद में फिर कोशिश करें।',
    'क्षमा करें, इसमें बहुत अधिक समय लगा और इस बार उत्तर नहीं मिल सका। कृपया बाद में फिर कोशिश करें।',
  ],
  Thai: ['ขออภัย ครั้งนี้ไม่พบคำตอบ โปรดลองอีกครั้งในภายหลัง', 'ขออภัย ใช้เวลานานเกินไปจึงไม่มีคำตอบในครั้งนี้ โปรดลองอีกครั้งในภายหลัง'],
  Greek: [
    'Λυπάμαι, αυτή τη φορά δεν βρέθηκε απάντηση. Παρακαλώ δοκιμάστε ξανά αργότερα.',
    'Λυπάμαι, χρειάστηκε πάρα πολύς χρόνος και δεν υπάρχει απάντηση. Παρακαλώ δοκιμάστε ξανά αργότερα.',
  ],
}

/** The same for people who write simplified characters, of which these are frequent and are no traditional ones. */
const SIMPLIFIED = /[们这说时个请问么为会对开关价钱气预报汇东车长见给让从语译书买卖难觉听]/u
const IN_SIMPLIFIED: Sentences = [
  '抱歉，这次没能找到答案，请稍后再试。',
  '抱歉，处理时间过长，这次没能找到答案，请稍后再试。',
]

/** Part of the letters that makes a script the question's: Latin names stand in questions of all languages. */
const ENOUGH = 1 / 5

/** Returns a sentence in a language of the script of the question; in English if that is Latin or not known. */
export function apologyFor(question: string, isLate: boolean): string {
  const letters = question.match(/\p{L}/gu)?.length ?? 0
  const isIn = (scripts: string) => {
    const classes = scripts.split(' ').map((script) => `\\p{sc=${script}}`)
    const found = question.match(new RegExp(`[${classes.join('')}]`, 'gu'))
    return (found?.length ?? 0) > letters * ENOUGH
  }
  const found = Object.entries(SCRIPTS).find(([scripts]) => isIn(scripts))?.[1] ?? ENGLISH
  const isHan = found[0].startsWith('抱歉')
  return (isHan && SIMPLIFIED.test(question) ? IN_SIMPLIFIED : found)[isLate ? 1 : 0]
}

/** Returns one line for each sub-task, for a model that is not told the reasons. */
export const failuresAsText = (finished: readonly Finished[]): string =>
  finished
    .map(({ task, result }) => `- ${task.description} (${isLate(result) ? 'it took too long' : 'it failed'})`)
    .join('\n')

/** Returns the words of `agent`, if there is one that a model plays, and it answers; else a fixed sentence. */
export async function apologize(
  orchestrator: OrchestratorContext,
  agent: string | undefined,
  prompt: string,
  { query, finished }: { query: string; finished: readonly Finished[] },
  limit: Pick<RequestOptions, 'timeoutMs' | 'wallClock'>,
): Promise<string> {
  const usual = apologyFor(
    query,
    finished.every(({ result }) => isLate(result)),
  )
  if (agent === undefined || !isModel(orchestrator.agents, agent)) return usual
  try {
    const { content } = await orchestrator.request(agent, prompt, {
      ...limit,
      metadata: { ...IN_WORDS, ...NO_SUB_TASK },
    })
    return content.trim() || usual
  } catch (error) {
    failureOf(orchestrator, error) // it fails as the others did
    return usual
  }
}
