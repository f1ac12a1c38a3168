/** Text as sentences that can be compared, in any language: by Unicode's rules for where one ends. */

/** What stands before the words of a line of Markdown: of a heading, a quotation, an item of a list. */
const MARKER = /^\s*(?:#{1,6}|>|[-*+•]|\d+[.)])\s+/u

const HAS_WORDS = /[\p{L}\p{N}]/u

let segmenter: Intl.Segmenter | undefined

/**
 * The sentences of a text, in order, each on one line with single spaces. An empty line ends one, and so does a line that begins
 * as a heading, a quotation or an item of a list does, which is left without what it begins with. What has neither letters nor
 * digits is none.
 */
export function sentencesOf(text: string): string[] {
  segmenter ??= new Intl.Segmenter('en', { granularity: 'sentence' }) // its locale changes where words end, and no sentence
  const sentences: string[] = []
  for (const paragraph of paragraphsOf(text.normalize('NFC')))
    for (const segment of segmentsOf(paragraph, segmenter)) if (HAS_WORDS.test(segment)) sentences.push(segment.trim())
  return sentences
}

const WINDOW = 2_000

/**
 * The segments of a paragraph, found in one window of it after the other: over the whole of a long one the segmenter of Node 20
 * takes time that grows with its square. The last segment of a window may go on in the next, and begins it.
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
    size = read === 0 ? size * 2 : WINDOW // a sentence that is longer than the window
  }
}

/** A heading is a paragraph of its own: the line below it does not go on with it. */
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
