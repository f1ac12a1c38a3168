/** A search service that speaks SearXNG's JSON and finds what it is given, and the pages behind it: for a try without a network. */
import { type Loopback, onLoopback } from './loopback.ts'

export interface FoundPage {
  title: string
  /** Of a page with `html` a path: it is served at the service's own origin. */
  url: string
  content: string
  html?: string
}

/** Finds those pages of which a word of the query is in the title or the text, those with most of the words first. */
export async function recordedSearch(pages: readonly FoundPage[]): Promise<Loopback> {
  return onLoopback(({ url = '', headers }, response) => {
    const origin = `http://${headers.host}`
    const { pathname, searchParams } = new URL(url, origin)
    const page = pages.find((each) => each.url === pathname)
    if (page?.html) return void response.writeHead(200, { 'content-type': 'text/html; charset=utf-8' }).end(page.html)
    if (pathname !== '/search') return void response.writeHead(404).end()
    const results = found(pages, searchParams.get('q') ?? '').map(({ title, url, content }) => {
      return { title, url: new URL(url, origin).href, content }
    })
    response.writeHead(200, { 'content-type': 'application/json; charset=utf-8' }).end(JSON.stringify({ results }))
  })
}

function found(pages: readonly FoundPage[], query: string): FoundPage[] {
  const words = query.toLowerCase().split(/\s+/)
  const hits = ({ title, content }: FoundPage) => {
    const text = `${title} ${content}`.toLowerCase()
    return words.filter((word) => word.length > 1 && text.includes(word)).length
  }
  return pages.filter((page) => hits(page) > 0).sort((a, b) => hits(b) - hits(a))
}
