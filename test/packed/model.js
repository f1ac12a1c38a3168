/** Models behind an address: the client of OpenAI's two APIs is part of dramatis, and so are the classes of its errors. */
import { once } from 'node:events'
import { createServer } from 'node:http'
import { createTeam } from 'dramatis'

const text = 'Hello, world'
const answers = {
  '/v1/chat/completions': {
    id: 'one',
    object: 'chat.completion',
    created: 1,
    model: 'small',
    choices: [{ index: 0, finish_reason: 'stop', message: { role: 'assistant', content: text } }],
  },
  '/v1/responses': {
    id: 'two',
    object: 'response',
    created_at: 1,
    model: 'small',
    status: 'completed',
    output: [
      {
        id: 'm',
        type: 'message',
        role: 'assistant',
        status: 'completed',
        content: [{ type: 'output_text', text, annotations: [] }],
      },
    ],
  },
}
const server = createServer((request, response) => {
  request.resume()
  const isKnown = request.headers.authorization === 'Bearer the-key-of-this-test'
  response.writeHead(isKnown ? 200 : 401, { 'content-type': 'application/json' })
  response.end(JSON.stringify(isKnown ? answers[request.url] : { error: { message: 'no such key' } }))
}).listen(0, '127.0.0.1')
await once(server, 'listening')
const baseURL = `http://127.0.0.1:${server.address().port}/v1`

async function ask(entry) {
  const team = createTeam({
    agents: [{ name: 'ann' }],
    models: { default: { model: 'small', baseURL, apiKey: 'the-key-of-this-test', ...entry } },
    orchestration: { strategy: 'sequential' },
    logger: { debug() {}, info() {}, warn() {}, error() {} },
  })
  const { finalOutput, error } = await team.execute('go')
  await team.close()
  return finalOutput ?? error.message
}

console.log(`chat: ${await ask({})}`)
console.log(`responses: ${await ask({ api: 'responses' })}`)
console.log(`refused: ${await ask({ apiKey: 'another-key-of-this-test' })}`)
server.close()
