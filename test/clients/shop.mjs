/** The shop of the tests of chats, served for the clients of this folder, with a page where one asks for it. */
import { once } from 'node:events'
import { createServer } from 'node:http'
import { httpApi } from '../../dist/src/service/api/index.js'
import { openShop } from '../../dist/test/service/chat/shop.js'
import { callerOf } from '../../dist/test/service/http/stage.js'

export const ANN = { 'x-caller': 'ann:run' }

/** `files`: texts by path, beside the API. */
export async function listen({ pause, files = {}, ...options } = {}) {
  const done = []
  const team = openShop({ pause, does: (what) => done.push(what) })
  const limits = { postsPerSecond: 10_000, getsPerSecond: 10_000 }
  const api = httpApi({ teams: { shop: team }, authorize: callerOf, limits, ...options })
  const server = createServer((request, response) => {
    const file = files[request.url]
    if (file === undefined) return api.node(request, response)
    return response.setHeader('content-type', request.url === '/' ? 'text/html' : 'text/javascript').end(file)
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    team,
    done,
    url: `http://127.0.0.1:${server.address().port}`,
    async close() {
      await api.close({ teams: true })
      server.close()
      server.closeAllConnections()
    },
  }
}

/** A promise, and what resolves it. */
export const opening = () => Promise.withResolvers()

export async function until(isTrue) {
  while (!isTrue()) await new Promise(setImmediate)
}
