/**
 * Finds the contributions that each sentence of an answer rests on, also where a model has put them into its own words:
 * by the words and numbers that they share.
 */

import { type BlackboardEntry, entryLine, entryText } from '../../blackboard/entry.ts'
import { type Directory, isFailure, isMessage, jsonIn } from '../../mailbox/codec.ts'
import {
  CALL,
  correlationOf,
  END,
  kindOf,
  type Memory,
  RESPONSE,
  RESULT,
  readBody,
  recipientOf,
  senderOf,
  turnOf,
} from '../../mailbox/frame.ts'
import type { TypedMessage } from '../../mailbox/message.ts'
import { sentencesOf, wordsOf } from '../../shared/sentences.ts'
import { framesOf, type RunLog } from '../log/run-log.ts'

/** Contributions that stand behind a sentence of the answer. Shares are of its words, from 0 to 1. */
export interface Basis {
  text: string
  /** Agents in whose contributions its words stand, the largest share first. */
  restsOn: { agent: string; share: number }[]
  /** Share of its words that stand in no contribution. */
  unattributed: number
}

const MOST_PLACES = 64 // of one word: a word that is in more sentences says little
const SHORT = 3 // letters of words such as "the" and "is", in scripts with letters
const STEM = 6 // letters that forms of one word share

/** Returns the words of a sentence that carry its meaning: numbers, names and long words; all, if there are none. */
function tellingWords(sentence: string): Set<string> {
  const all = wordsOf(sentence.toLowerCase()).map((word) => word.slice(0, STEM))
  const telling = all.filter(
    (word) =>
      word.length > SHORT || /[\p{N}\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Thai}]/u.test(word),
  )
  return new Set(telling.length > 0 ? telling : all)
}

/**
 * Returns the basis of each sentence of an answer. `writer`: the agent that made the answer of what others have said.
 * It counts as a contributor only where nobody else has spoken.
 */
export function basisOf(
  sentences: readonly string[],
  speeches: readonly Speech[],
  writer: string | undefined,
): Basis[] {
  const others = speeches.filter(({ agent }) => agent !== writer)
  const index = new Index(others.length > 0 ? others : speeches)
  return sentences.map((text) => index.basisOf(text))
}

/** Returns the agent that has made the answer of what others have said; undefined if its words are those of several. */
export function writerOf(finalOutput: string | null, history: readonly TypedMessage[]): string | undefined {
  const answer = history.findLast(
    ({ type, sender, content }) => type === 'response' && !sender.startsWith('$') && content === finalOutput,
  )
  const question = answer && history.find(({ id }) => id === answer.correlationId)
  return question?.metadata.lastSpeaker === 'perhaps' ? undefined : answer?.sender
}

/** Returns the share of the whole answer that nobody stands behind, by the number of its words. */
export function unattributedOf(basis: readonly Basis[]): number {
  const sizes = basis.map(({ text }) => tellingWords(text).size)
  const all = sizes.reduce((sum, size) => sum + size, 0)
  const open = basis.reduce((sum, { unattributed }, i) => sum + unattributed * sizes[i]!, 0)
  return all === 0 ? 0 : rounded(open / all)
}

class Index {
  readonly #sentences: { agent: string; words: Set<string> }[] = []
  readonly #places = new Map<string, number[]>()

  constructor(speeches: readonly Speech[]) {
    for (const { agent, texts } of speeches)
      for (const text of texts) for (const sentence of sentencesOf(text)) this.#add(agent, tellingWords(sentence))
  }

  #add(agent: string, words: Set<string>): void {
    const at = this.#sentences.push({ agent, words }) - 1
    for (const word of words) {
      const places = this.#places.get(word)
      if (!places) this.#places.set(word, [at])
      else if (places.length < MOST_PLACES) places.push(at)
    }
  }

  basisOf(text: string): Basis {
    const words = tellingWords(text)
    const shared = new Map<number, number>()
    for (const word of words) for (const at of this.#places.get(word) ?? []) shared.set(at, (shared.get(at) ?? 0) + 1)
    const enough = Math.min(2, words.size) // one word in common is chance
    const byAgent = new Map<string, Set<string>>()
    for (const [at, count] of shared) {
      if (count < enough) continue
      const { agent, words: own } = this.#sentences[at]!
      const found = byAgent.get(agent) ?? new Set<string>()
      byAgent.set(agent, found)
      for (const word of words) if (own.has(word)) found.add(word)
    }
    const covered = new Set([...byAgent.values()].flatMap((found) => [...found]))
    const share = (count: number) => rounded(words.size === 0 ? 0 : count / words.size)
    const restsOn = Array.from(byAgent, ([agent, found]) => ({ agent, share: share(found.size) }))
    restsOn.sort((a, b) => b.share - a.share)
    return { text, restsOn, unattributed: rounded(1 - share(covered.size)) }
  }
}

const rounded = (share: number): number => Math.round(share * 1000) / 1000

/*
 * Finds what agents have put into words in a run: their answers, and their blackboard entries. A fold over the run's
 * log.
 */

/** Answer or blackboard entry of an agent. */
export interface Speech {
  agent: string
  /** Texts of the answer. An entry has two: as it stands on the board, and as a list of entries shows it. */
  texts: string[]
  entry?: BlackboardEntry
}

/** Returns the speeches in the order in which they were made. The script, the caller and the runtime have none. */
export function speechesIn(log: RunLog, directory: Pick<Directory, 'name'>, until: number): Speech[] {
  const speeches: Speech[] = []
  const writes = new Set<string>()
  for (const [memory, at] of framesOf(log, until)) {
    const kind = kindOf(memory, at)
    if (kind === CALL && readBody(memory, at).content === 'blackboard.write')
      writes.add(callOf(senderOf(memory, at), memory, at))
    else if (kind === RESULT && writes.delete(callOf(recipientOf(memory, at), memory, at)) && !isFailure(memory, at)) {
      const entry = jsonIn(readBody(memory, at).data) as BlackboardEntry
      speeches.push({ agent: entry.author, texts: [entryText(entry), entryLine(entry)], entry })
    } else if ((kind === END || kind === RESPONSE) && isMessage(memory, at) && !isFailure(memory, at)) {
      const { content, data } = readBody(memory, at)
      // An answer with data alone has no other words; strategies treat it the same way.
      speeches.push({ agent: directory.name(senderOf(memory, at)), texts: [content === '' ? (data ?? '') : content] })
    }
  }
  return speeches.filter(({ agent }) => !agent.startsWith('$'))
}

const callOf = (caller: number, memory: Memory, at: number) =>
  `${caller} ${turnOf(memory, at)} ${correlationOf(memory, at)}`
