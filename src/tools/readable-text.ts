/**
 * The text of a page as a person would read it: its article, without menus and adverts, by Mozilla's Readability. Runs
 * in a thread of the pool, as a page can be made so that parsing it takes for ever.
 */
import { Readability } from '@mozilla/readability'
import { parseHTML } from 'linkedom'
import { parse, serialize } from 'parse5'
import { textOf } from './text-bytes.ts'

/** Members of a DOM node that are used here. */
export interface DomNode {
  readonly nodeType: number
  readonly localName?: string
  readonly textContent: string | null
  readonly childNodes: Iterable<DomNode>
}

const ELEMENT = 1
const TEXT = 3
const DEEPEST = 200 // below it the text is taken as one piece: a page may nest a million elements

const UNSEEN = new Set('script style noscript template head svg iframe object select button'.split(' '))
const LINES = new Set('li tr dt dd'.split(' '))
const BLOCKS = new Set(
  (
    'address article aside blockquote body caption details div dl fieldset figcaption figure footer form h1 h2 h3 h4 h5 ' +
    'h6 header hr html main nav ol p section summary table ul'
  ).split(' '),
)

export function rendered(node: DomNode): string {
  const flow = new Flow()
  render(node, flow, 0)
  return flow.text
}

function render(node: DomNode, flow: Flow, depth: number): void {
  if (node.nodeType === TEXT || depth > DEEPEST) return flow.words(node.textContent ?? '')
  if (node.nodeType !== ELEMENT) return
  const name = node.localName ?? ''
  if (UNSEEN.has(name)) return
  if (name === 'br') return flow.lineBreak()
  const gap = gapAround(name)
  flow.gap(gap)
  if (name === 'li') flow.dash()
  if (name === 'pre') flow.asItIs(node.textContent ?? '')
  else for (const child of node.childNodes) render(child, flow, depth + 1)
  flow.gap(gap)
}

const GAPS = ['', ' ', '\n', '\n\n'] as const // each wider than the one before
type Gap = (typeof GAPS)[number]

function gapAround(name: string): Gap {
  if (name === 'td' || name === 'th') return ' '
  if (LINES.has(name)) return '\n'
  return name === 'pre' || BLOCKS.has(name) ? '\n\n' : ''
}

/** Text with gaps. Of gaps that meet, the widest counts; there is none at the start or at the end. */
class Flow {
  readonly #parts: string[] = []
  #gap: Gap = ''
  #dashed = false

  get text(): string {
    return this.#parts.join('')
  }

  gap(gap: Gap): void {
    if (!this.#dashed && GAPS.indexOf(gap) > GAPS.indexOf(this.#gap)) this.#gap = gap
  }

  lineBreak(): void {
    this.gap(this.#gap.startsWith('\n') ? '\n\n' : '\n')
  }

  words(text: string): void {
    const words = text.replace(/\s+/g, ' ')
    if (words.startsWith(' ')) this.gap(' ')
    if (words.trim() === '') return
    this.#add(words.trim())
    if (words.endsWith(' ')) this.gap(' ')
  }

  asItIs(text: string): void {
    const lines = text.replace(/^\n+/, '').trimEnd()
    if (lines !== '') this.#add(lines)
  }

  /** Puts the following text on the same line, even if it is a block. */
  dash(): void {
    this.#add('- ')
    this.#dashed = true
  }

  #add(text: string): void {
    if (this.#parts.length > 0) this.#parts.push(this.#gap)
    this.#parts.push(text)
    this.#gap = ''
    this.#dashed = false
  }
}

export interface RawPage {
  readonly body: Uint8Array
  readonly contentType: string | undefined
}

export interface ReadableText {
  /** Empty if the page has none. */
  readonly title: string
  readonly text: string
}

const MOST_ELEMENTS = 20_000 // Readability walks them several times, a second for a few thousand

/** No script of the page is run: the DOM has no engine for it. */
export default function readableText({ body, contentType }: RawPage): ReadableText {
  // linkedom takes a page as it is written; the standard says what is meant when tags are left out or cross
  const html = serialize(parse(textOf(body, contentType)))
  const article = articleIn(html)
  if (article !== undefined) return article
  const document = visibleIn(html) // Readability has pulled the other one to pieces
  return { title: oneLine(document.title), text: rendered(document.documentElement) }
}

/** Returns the document without its invisible parts, where a page could hide words for a model. */
function visibleIn(html: string): ReturnType<typeof parseHTML>['document'] {
  const { document } = parseHTML(html)
  for (const element of document.querySelectorAll('[hidden], [aria-hidden="true"]')) element.remove()
  for (const element of document.querySelectorAll('[style]')) {
    if (HIDING.test(element.getAttribute('style') ?? '')) element.remove()
  }
  return document
}

const HIDING = /(?:^|;)\s*(?:display\s*:\s*none|visibility\s*:\s*hidden)/i

function articleIn(html: string): ReadableText | undefined {
  const document = visibleIn(html)
  if (document.querySelectorAll('*').length > MOST_ELEMENTS) return undefined // linkedom counts none for Readability
  try {
    const article = new Readability(document, { serializer: rendered }).parse()
    return article?.content ? { title: oneLine(article.title ?? ''), text: article.content } : undefined
  } catch {
    return undefined // no page that it was made for; the whole text is still worth having
  }
}

function oneLine(text: string): string {
  return text.replace(/\s+/g, ' ').trim()
}
