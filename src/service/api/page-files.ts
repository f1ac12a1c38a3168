/** Files of the dashboard: the build makes them, and they are served as they are. */
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { gzipSync } from 'node:zlib'
import { ownFile } from '../../shared/environment.ts'

/** The page sends nothing elsewhere, loads nothing from elsewhere, and no text becomes markup or code in it. */
const POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "connect-src 'self'",
  'img-src data:',
  "frame-ancestors 'none'",
  "base-uri 'none'",
  "form-action 'none'",
  "require-trusted-types-for 'script'",
  "trusted-types 'none'",
].join('; ')

const ICON =
  "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'%3E%3Ccircle cx='4' cy='11' r='3' fill='%232456d6'/%3E%3Ccircle cx='12' cy='11' r='3' fill='%231a7f4b'/%3E%3Ccircle cx='8' cy='4' r='3' fill='%23c77700'/%3E%3C/svg%3E"

/**
 * Answers with the page. Its files are found from where the browser has it, so a proxy may put it below any path.
 * `basePath`: path of the API, where a host has taken it off the request's.
 */
export function pageResponse({ url }: Request, basePath: string): Response {
  const folder = folderFrom(new URL(url).pathname, basePath)
  const page = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>dramatis</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<link rel="icon" href="${ICON}">
<link rel="stylesheet" href="${folder}page.css">
<script type="module" src="${folder}page.js"></script>
</head>
<body><noscript>This page needs JavaScript.</noscript></body>
</html>
`
  return new Response(page, {
    headers: { 'content-type': 'text/html; charset=utf-8', 'content-security-policy': POLICY },
  })
}

/** Returns the folder of the page's files, seen from the page: a path without a slash at its end has another folder. */
function folderFrom(path: string, basePath: string): string {
  if (basePath === '') return './'
  if (path === basePath) return `./${basePath.slice(basePath.lastIndexOf('/') + 1)}/`
  return path === `${basePath}/` ? './' : `${basePath}/`
}

interface PageFile {
  readonly body: Uint8Array<ArrayBuffer>
  readonly zipped: Uint8Array<ArrayBuffer>
  readonly tag: string
}

const TYPES = { 'page.js': 'text/javascript; charset=utf-8', 'page.css': 'text/css; charset=utf-8' }
const BUILT = { 'page.js': 'page.bundle.js', 'page.css': 'page.bundle.css' }
const files = new Map<string, PageFile>()

/** Answers with a file of the page. A browser asks each time whether it has the newest one. */
export function pageFileResponse(name: keyof typeof TYPES, { headers }: Request): Response {
  const { body, zipped, tag } = fileOf(name)
  const common = {
    'cache-control': 'no-cache',
    etag: tag,
    vary: 'Accept-Encoding',
  }
  if (headers.get('if-none-match') === tag) return new Response(null, { status: 304, headers: common })
  const type = { 'content-type': TYPES[name] }
  if (!/\bgzip\b/.test(headers.get('accept-encoding') ?? ''))
    return new Response(body, { headers: { ...common, ...type } })
  return new Response(zipped, { headers: { ...common, ...type, 'content-encoding': 'gzip' } })
}

function fileOf(name: keyof typeof TYPES): PageFile {
  let file = files.get(name)
  if (!file) {
    const body = readFileSync(ownFile(`service/page/${BUILT[name]}`))
    const tag = `"${createHash('sha256').update(body).digest('base64url').slice(0, 20)}"`
    file = { body: Uint8Array.from(body), zipped: Uint8Array.from(gzipSync(body)), tag }
    files.set(name, file)
  }
  return file
}
