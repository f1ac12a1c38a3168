/** The search services that `web_search` knows: how each is asked, and what it answers. */
import { z } from 'zod'
import { endpoint, parsed, type Question, refusedBy } from './web/service.ts'

export interface FoundPage {
  readonly title: string
  readonly url: string
  readonly snippet?: string | undefined
}

export interface SearchQuery {
  readonly query: string
  readonly baseURL: string | undefined
  readonly engineId: string | undefined
  /** Empty where none is needed. */
  readonly key: string
  readonly maxResults: number
}

export interface SearchService {
  question(search: SearchQuery): Question
  /** Titles and snippets are HTML. */
  results(answer: string): FoundPage[]
}

const googleAnswer = z.object({
  items: z.array(z.object({ title: z.string(), link: z.string(), snippet: z.string().optional() })).default([]),
})
const googleError = z.object({ error: z.object({ message: z.string() }) })

/** Source: document 001; developers.google.com/custom-search/v1/reference/rest/v1/cse/list */
const google: SearchService = {
  question({ query, baseURL = 'https://www.googleapis.com', engineId = '', key, maxResults }) {
    return {
      service: 'Google Custom Search',
      url: endpoint(baseURL, '/customsearch/v1', { key, cx: engineId, q: query, num: maxResults }),
      secret: key,
      reasonIn: (body) => googleError.safeParse(body).data?.error.message,
    }
  },
  results(answer) {
    return parsed('Google Custom Search', answer, googleAnswer).items.map(({ title, link, snippet }) => ({
      title,
      url: link,
      snippet,
    }))
  },
}

const braveAnswer = z.object({
  web: z
    .object({ results: z.array(z.object({ title: z.string(), url: z.string(), description: z.string().optional() })) })
    .nullish(),
})
const braveError = z.object({ error: z.object({ detail: z.string(), code: z.string().optional() }) })

/** Source: api-dashboard.search.brave.com, Web Search API. */
const brave: SearchService = {
  question({ query, baseURL = 'https://api.search.brave.com', key, maxResults }) {
    return {
      service: 'Brave Search',
      url: endpoint(baseURL, '/res/v1/web/search', {
        q: query,
        count: maxResults,
        text_decorations: 'false',
        result_filter: 'web',
      }),
      headers: { 'x-subscription-token': key },
      secret: key,
      reasonIn: (body) => braveError.safeParse(body).data?.error.detail,
      advice: { 422: 'Check the key, and the query.' },
      waitIn: (headers) =>
        braveWait(String(headers['x-ratelimit-remaining'] ?? ''), String(headers['x-ratelimit-reset'] ?? '')),
    }
  },
  results(answer) {
    const { web } = parsed('Brave Search', answer, braveAnswer)
    return (web?.results ?? []).map(({ title, url, description }) => ({ title, url, snippet: description }))
  },
}

/** Both name one number for each window of the plan, `1, 1419704`: the longest of those that are used up. */
function braveWait(remaining: string, reset: string): number | undefined {
  const resets = reset.split(',').map(Number)
  const waits = remaining
    .split(',')
    .flatMap((left, window) => (left.trim() === '0' ? [resets[window] ?? Number.NaN] : []))
  const wait = Math.max(...waits)
  return Number.isFinite(wait) ? wait : undefined
}

const searxngAnswer = z.object({
  results: z.array(z.object({ title: z.string(), url: z.string(), content: z.string().nullish() })),
  unresponsive_engines: z.array(z.array(z.string())).default([]),
})

/** Source: docs.searxng.org/dev/search_api.html */
const searxng: SearchService = {
  question({ query, baseURL = '' }) {
    return {
      service: 'SearXNG',
      url: endpoint(baseURL, '/search', { q: query, format: 'json' }),
      advice: {
        403: 'Its settings do not allow JSON: add json to search.formats in its settings.yml.',
        429: 'Its limiter takes this for a robot: let this host pass in its limiter.toml.',
      },
    }
  },
  results(answer) {
    const { results, unresponsive_engines: silent } = parsed('SearXNG', answer, searxngAnswer)
    if (results.length === 0 && silent.length > 0) {
      const engines = silent.map((engine) => engine.join(': ')).join('; ')
      throw refusedBy('SearXNG', `no engine answered (${engines})`, 'Try again later.')
    }
    return results.map(({ title, url, content }) => ({ title, url, snippet: content ?? undefined }))
  },
}

export const searchServices = { google, brave, searxng }
