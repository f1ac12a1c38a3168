/** Somebody who uses the built-in tools that need packages of their own. */
import { createServer } from 'node:http'
import { createTeam } from 'dramatis'
import { calculator, convert, readWebpage, runCode } from 'dramatis/tools'

const page = '<title>The page.</title><body><article><p>It has a text.</p></article></body>'
const server = createServer((_request, response) => response.setHeader('content-type', 'text/html').end(page))
await new Promise((resolve) => server.listen(0, '127.0.0.1', () => resolve()))
const host = `127.0.0.1:${Object(server.address()).port}`

try {
  const team = createTeam({
    agents: [{ name: 'user', module: new URL('./tool-user.js', import.meta.url) }],
    tools: [convert, calculator, runCode, readWebpage({ allow: [host] })],
    orchestration: { strategy: 'sequential' },
  })
  const result = await team.execute(`http://${host}/`)
  console.log(result.success ? result.finalOutput : result.error.message)
  await team.close()
} catch (error) {
  console.log(Object(error).message)
} finally {
  server.close()
}
