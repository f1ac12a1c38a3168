/** Splits text into sentences and words that can be compared, in any language, by Unicode's rules. */

/**
 * Mark at the start of a Markdown line: of a heading, a quotation, or a list item. A bullet (\u2022) that is written
 * out would make V8 hold all of the host's bundle in two bytes a character.
 */
const MARKER = /^\s*(?:#{1,6}|>|[-*+\u2022]|\d+[.)])\s+/u

const hasWords = (text: string) => /[\p{L}\p{N}]/u.test(text)

let segmenter: Intl.Segmenter | undefined

/**
 * Returns the sentences of a text, in order, each on one line with single spaces. An empty line ends a sentence. So
 * does a line that begins with a mark of a heading, a quotation or a list item; the mark is removed. A piece without
 * letters and digits is no sentence.
 */
export function sentencesOf(text: string): string[] {
  segmenter ??= new Intl.Segmenter('en', { granularity: 'sentence' }) // the locale affects words, not sentences
  const sentences: string[] = []
  for (const paragraph of paragraphsOf(text.normalize('NFC')))
    for (const segment of segmentsOf(paragraph, segmenter)) if (hasWords(segment)) sentences.push(segment.trim())
  return sentences
}

const WINDOW = 2_000

/**
 * Yields the segments of a paragraph. The text is read in windows, because on a long text the segmenter of Node 20
 * takes time that grows with the square of the length. The last segment of a window may continue in the next window,
 * which starts with it.
 */
function* segmentsOf(paragraph: string, segmenter: Intl.Segmenter): Generator<string> {
  let size = WINDOW
  for (let from = 0; from < paragraph.length; ) {
    const isLast = from + size >= paragraph.length
    const found = Array.from(segmenter.segment(paragraph.slice(from, from + size)), (part) => part.segment)
    if (!isLast) found.pop()
    yield* found
    const read = found.reduce((sum, text) => sum + text.length, 0)
    from += read
    size = read === 0 ? size * 2 : WINDOW // doubles for a sentence longer than the window
  }
}

function paragraphsOf(text: string): string[] {
  const paragraphs: string[][] = [[]]
  for (const line of text.split(/\r?\n/)) {
    const marker = MARKER.exec(line)?.[0] ?? ''
    const words = line.slice(marker.length).trim().replaceAll(/\s+/gu, ' ')
    if (marker !== '' || words === '') paragraphs.push([])
    if (words !== '') paragraphs.at(-1)!.push(words)
    if (marker.includes('#')) paragraphs.push([])
  }
  return paragraphs.filter((lines) => lines.length > 0).map((lines) => lines.join(' '))
}

let wordSegmenter: Intl.Segmenter | undefined
const WORD_WINDOW = 1_000 // each segment of V8 has a copy of the whole text that was segmented

/** Returns the words of a text, also in scripts without spaces. A word at the end of a window may come in two parts. */
export function wordsOf(text: string): string[] {
  wordSegmenter ??= new Intl.Segmenter('en', { granularity: 'word' })
  const words: string[] = []
  for (let from = 0; from < text.length; from += WORD_WINDOW)
    for (const { segment, isWordLike } of wordSegmenter.segment(text.slice(from, from + WORD_WINDOW)))
      if (isWordLike) words.push(segment)
  return words
}
