/** Requests to the service that the page comes from. */
import { signal } from '@preact/signals'

/** Requests that changes ask for, at most one at a time: changes may come faster than answers. */
const PAUSE_MS = 400

/** Does the work, and once more for what has come meanwhile. There is a pause between two. */
export function gently(work: () => Promise<void>): () => void {
  let isBusy = false
  let isWanted = false
  const go = async () => {
    if (isBusy) {
      isWanted = true
      return
    }
    isBusy = true
    isWanted = false
    await work().catch(() => {}) // the banner says that nobody answers
    setTimeout(() => {
      isBusy = false
      if (isWanted) void go()
    }, PAUSE_MS)
  }
  return () => void go()
}

export const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error))

export const taskPath = (id: string, ...below: string[]): string =>
  ['api/tasks', ...[id, ...below].map(encodeURIComponent)].join('/')

/** Folder of the page's own files: the API is there, whatever path a proxy has put before it. */
const ROOT = new URL('.', import.meta.url)

/** True if the service has asked who we are. */
export const isUnknown = signal(false)

export class Refused extends Error {
  readonly status: number

  constructor(status: number, detail: string) {
    super(detail)
    this.status = status
  }
}

export interface Asked {
  method?: 'GET' | 'POST' | 'DELETE'
  body?: unknown
  query?: Record<string, string | undefined>
  headers?: Record<string, string>
  signal?: AbortSignal
}

/** @throws Refused, or the browser's error where nobody answers. */
async function respond(
  path: string,
  { method = 'GET', body, query = {}, headers = {}, signal }: Asked,
): Promise<Response> {
  const url = new URL(path, ROOT)
  for (const [name, value] of Object.entries(query)) if (value !== undefined) url.searchParams.set(name, value)
  const response = await fetch(url, {
    method,
    headers: { ...(body !== undefined && { 'content-type': 'application/json' }), ...headers },
    ...(body !== undefined && { body: JSON.stringify(body) }),
    ...(signal && { signal }),
    credentials: 'same-origin',
  })
  if (response.ok) return response
  if (response.status === 401) isUnknown.value = true
  const text = await response.text()
  throw new Refused(response.status, detailOf(text) ?? `${response.status} ${response.statusText}`)
}

function detailOf(text: string): string | undefined {
  try {
    const { detail, title } = Object(JSON.parse(text)) as Record<string, unknown>
    return String(detail ?? title)
  } catch {
    return undefined
  }
}

/** Returns the JSON of a response; undefined for one without a body. */
export async function ask<T>(path: string, asked: Asked = {}): Promise<T> {
  const text = await (await respond(path, asked)).text()
  return (text === '' ? undefined : JSON.parse(text)) as T
}

export const askText = async (path: string, asked: Asked = {}): Promise<string> => (await respond(path, asked)).text()

/** Silence after which a stream is taken for dead: the service says something each 15 s. */
const SILENCE_MS = 40_000

/** Yields the lines of a stream, each as its JSON. Ends when the service ends it; throws when it breaks off. */
export async function* lines(path: string, asked: Asked = {}): AsyncGenerator<unknown> {
  const over = new AbortController()
  const stop = () => over.abort()
  asked.signal?.addEventListener('abort', stop, { once: true })
  let silence = setTimeout(stop, SILENCE_MS)
  try {
    const response = await respond(path, {
      ...asked,
      headers: { accept: 'application/x-ndjson', ...asked.headers },
      signal: over.signal,
    })
    if (!response.body) return
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader()
    let rest = ''
    for (;;) {
      const { done, value } = await reader.read()
      if (done) return
      clearTimeout(silence)
      silence = setTimeout(stop, SILENCE_MS)
      const parts = (rest + value).split('\n')
      rest = parts.pop()!
      for (const part of parts) if (part !== '') yield JSON.parse(part)
    }
  } finally {
    clearTimeout(silence)
    asked.signal?.removeEventListener('abort', stop)
    over.abort()
  }
}
