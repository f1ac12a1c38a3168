/** What the developers write in the session that is played. Two files are wrong at first. */

export const PACKAGE = '{ "type": "module" }\n'

export const USERS = `{
  "1": { "name": "Ada Lovelace", "email": "ada@example.org", "bio": "Writes programs for engines." },
  "2": { "name": "<b>Bob</b>", "email": "bob@example.org", "bio": "Likes markup." }
}
`

const SERVER = `import { readFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import { fileURLToPath } from 'node:url'

const read = (path) => readFile(new URL(path, import.meta.url))
const users = JSON.parse(await read('users.json'))

export const server = createServer(async ({ url = '/' }, response) => {
  const { pathname } = new URL(url, 'http://localhost')
  const send = (status, type, body) =>
    response.writeHead(status, { 'content-type': \`\${type}; charset=utf-8\` }).end(body)

  const [, id] = /^\\/api\\/users\\/(\\d+)$/.exec(pathname) ?? []
  if (id !== undefined) {
    const user = users[id]
    return send(user ? 200 : 404, 'application/json', JSON.stringify(user ?? { error: 'no such user' }))
  }
  if (/^\\/users\\/\\d+$/.test(pathname)) return send(200, 'text/html', await read('public/profile.html'))
  send(404, 'text/plain', 'not found')
})

if (process.argv[1] === fileURLToPath(import.meta.url)) server.listen(process.env.PORT ?? 3000)
`

/** It serves the page, and not the script that the page loads. */
export const SERVER_WITHOUT_SCRIPT = SERVER

export const SERVER_WITH_SCRIPT = SERVER.replace(
  "  send(404, 'text/plain'",
  "  if (pathname === '/profile.js') return send(200, 'text/javascript', await read('public/profile.js'))\n  send(404, 'text/plain'",
)

/** A test that runs against the server on a free port. */
const against = (tests: string) => `import assert from 'node:assert/strict'
import { once } from 'node:events'
import { after, before, test } from 'node:test'
import { server } from './server.js'

let origin
before(async () => {
  await once(server.listen(0, '127.0.0.1'), 'listening')
  origin = \`http://127.0.0.1:\${server.address().port}\`
})
after(() => {
  server.closeAllConnections()
  server.close()
})

${tests}`

export const API_TEST = against(`test('answers with a user', async () => {
  const response = await fetch(\`\${origin}/api/users/1\`)
  assert.equal(response.status, 200)
  assert.equal((await response.json()).name, 'Ada Lovelace')
})

test('knows no user 99', async () => {
  const response = await fetch(\`\${origin}/api/users/99\`)
  assert.equal(response.status, 404)
})
`)

export const PAGE_TEST = against(`test('serves the page, and the script that it loads', async () => {
  const page = await (await fetch(\`\${origin}/users/1\`)).text()
  const [, path] = /<script type="module" src="([^"]+)">/.exec(page) ?? []
  const script = await fetch(origin + path)
  assert.equal(script.status, 200, \`\${path} is not served\`)
  assert.match(await script.text(), /api\\/users/)
})
`)

export const PAGE = `<!doctype html>
<html lang="en">
  <head>
    <meta charset="utf-8">
    <title>Profile</title>
    <script type="module" src="/profile.js"></script>
  </head>
  <body>
    <h1 id="name">...</h1>
    <p id="email"></p>
    <p id="bio"></p>
  </body>
</html>
`

const SCRIPT = `const id = location.pathname.split('/').at(-1)
const response = await fetch(\`/api/users/\${id}\`)
const user = response.ok ? await response.json() : { name: 'There is no such user.' }
for (const field of ['name', 'email', 'bio']) document.getElementById(field).textContent = user[field] ?? ''
`

/** What users type in would become part of the page. */
export const SCRIPT_WITH_MARKUP = SCRIPT.replace('textContent', 'innerHTML')
export const SCRIPT_WITH_TEXT = SCRIPT
