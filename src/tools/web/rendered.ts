/** A DOM as plain text: words flow, blocks stand apart, list items have a dash, preformatted text stays as it is. */

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
