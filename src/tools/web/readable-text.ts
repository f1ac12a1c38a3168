/**
 * The text of a page as a person would read it: its article, without menus and adverts, by Mozilla's Readability. Runs
 * in a thread of the pool, as a page can be made so that parsing it takes for ever.
 */
import { Readability } from '@mozilla/readability'
import { parseHTML } from 'linkedom'
import { parse, serialize } from 'parse5'
import { rendered } from './rendered.ts'
import { textOf } from './text-bytes.ts'

/** A page as it came. */
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
