/** A search service on the loopback that speaks SearXNG's JSON and finds what it is given: for a try without a network. */
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'

export interface FoundPage {
  title: string
  url: string
  content: string
}

/** Finds those pages of which a word of the query is in the title or the text. */
export async function recordedSearch(pages: readonly FoundPage[]): Promise<{ origin: string; close(): Promise<void> }> {
  const server = createServer(({ url = '' }, response) => {
    const words = (new URL(url, 'http://search').searchParams.get('q') ?? '').toLowerCase().split(/\s+/)
    const results = pages.filter(({ title, content }) => {
      const text = `${title} ${content}`.toLowerCase()
      return words.some((word) => word.length > 2 && text.includes(word))
    })
    response.writeHead(200, { 'content-type': 'application/json; charset=utf-8' }).end(JSON.stringify({ results }))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  return {
    origin: `http://127.0.0.1:${port}`,
    async close() {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}
