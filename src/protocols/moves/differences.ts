/**
 * Finds sentences of different agents that are the same but for one number, their last word, or a negation. It asks no
 * model and costs no tokens, so it finds what is put into the same words alone.
 */
import { sentencesOf, wordsOf } from '../../sentences.ts'
import { type Claim, type Contradiction, isBetweenAgents, type Statement } from './contradictions.ts'

const MOST_SENTENCES = 1_000 // of one text
const MOST_WORDS = 60 // of one sentence: the work grows with their square
const BLANK = '…'

/** A sentence with a gap, and what fills the gap. */
interface Gapped {
  readonly frame: string
  readonly filling: string
}

const NEGATIONS: ReadonlySet<string> = new Set(
  'not no never nicht nie kein keine pas jamais nunca não non не нет'.split(' '),
)

/** Returns the contradictions in texts, in the order in which they appear. */
export function differencesIn(statements: readonly Statement[]): Contradiction[] {
  const frames = new Map<string, Map<string, Claim>>()
  for (const { agent, text } of statements)
    for (const sentence of sentencesOf(text).slice(0, MOST_SENTENCES))
      for (const { frame, filling } of gapsOf(wordsOf(sentence))) {
        const claims = frames.get(frame) ?? new Map<string, Claim>()
        frames.set(frame, claims)
        const claim = claims.get(filling)
        if (!claim) claims.set(filling, { value: sentence, agents: [agent] })
        else if (!claim.agents.includes(agent)) claim.agents.push(agent)
      }
  const found = Array.from(frames, ([about, claims]) => ({ about: `"${about}"`, claims: [...claims.values()] }))
  return found.filter(isBetweenAgents)
}

function* gapsOf(words: readonly string[]): Generator<Gapped> {
  const { length } = words
  if (length > MOST_WORDS) return
  for (const [at, word] of words.entries()) {
    const isNumber = /\p{N}/u.test(word)
    if (length >= 3 && (isNumber || (at === length - 1 && length > 3)))
      yield { frame: words.with(at, BLANK).join(' '), filling: word.toLowerCase() }
  }
  const affirmed = words.map(affirmative).filter((word) => word !== '')
  if (affirmed.length >= 3)
    yield { frame: `${affirmed.join(' ')}?`, filling: affirmed.join() === words.join() ? 'yes' : 'no' }
}

/** Returns a word without its negation; '' if it is nothing else. */
function affirmative(word: string): string {
  if (NEGATIONS.has(word.toLowerCase())) return ''
  return word === 'cannot' ? 'can' : word.replace(/n['’]t$/u, '').replace(/^[不没]/u, '')
}
