/** The text of a page that was fetched, whatever kind of text it is. */
import type { Piscina } from 'piscina'
import { ToolFailedError } from '../../errors.ts'
import { ownFile, ownRequire } from '../../own-files.ts'
import { threadFlags } from '../../thread-flags.ts'
import type { Page } from './page.ts'
import type { RawPage, ReadableText } from './readable-text.ts'
import { mimeOf, textOf } from './text-bytes.ts'

const THREADS = 2
const HEAP_MB = 256 // a page of a few megabytes, ten times over
const IDLE_MS = 10_000

let pool: Piscina<RawPage, ReadableText> | undefined

/** Checks whether `pageText` can convert that type. A page that names no type is tried. */
export function isReadable(contentType: string | undefined): boolean {
  const mime = mimeOf(contentType)
  return (
    mime === '' ||
    mime.startsWith('text/') ||
    isHtml(mime) ||
    /^application\/(?:.+\+)?(?:json|xml|yaml|x-yaml|javascript|x-ndjson|toml)$/.test(mime)
  )
}

/** Rejects with the signal's reason once it is aborted: the thread that parses is killed. */
export async function pageText(page: Page, signal: AbortSignal): Promise<ReadableText> {
  const { url, body, contentType } = page
  if (!isHtml(mimeOf(contentType)) && !looksLikeHtml(page)) return { title: '', text: textOf(body, contentType) }
  pool ??= makePool()
  try {
    return await pool.run({ body, contentType }, { signal })
  } catch (error) {
    if (signal.aborted) throw signal.reason
    const shown = `${url.origin}${url.pathname}`.slice(0, 200)
    throw new ToolFailedError(`${shown} is HTML that could not be read. Read another page.`, { url: shown }, error)
  }
}

/** Makes the pool. Its threads have nothing of this process's environment, where the keys are. */
function makePool(): Piscina<RawPage, ReadableText> {
  const { Piscina }: typeof import('piscina') = ownRequire()('piscina')
  return new Piscina({
    filename: ownFile('tools/web/readable-text.js').href,
    minThreads: 0,
    maxThreads: THREADS,
    idleTimeout: IDLE_MS,
    recordTiming: false,
    env: {},
    execArgv: [...threadFlags()],
    resourceLimits: { maxOldGenerationSizeMb: HEAP_MB },
  })
}

function isHtml(mime: string): boolean {
  return mime === 'text/html' || mime === 'application/xhtml+xml'
}

function looksLikeHtml({ body, contentType }: Page): boolean {
  return mimeOf(contentType) === '' && /^\s*<(?:!doctype html|html)\b/i.test(body.subarray(0, 200).toString('latin1'))
}
