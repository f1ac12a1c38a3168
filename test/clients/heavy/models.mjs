/** A server of three providers on the loopback: its model calls the tool that asks the shop, and repeats what it gets. */
import { once } from 'node:events'
import { createServer } from 'node:http'
import { json } from 'node:stream/consumers'

const usage = { input_tokens: 1, output_tokens: 1, total_tokens: 2 }

/** The tool that asks the shop, as the request offers it. Codex has the tools of a server below its name. */
const toolIn = ({ tools = [] }) =>
  tools
    .flatMap(({ name, tools: inner, functionDeclarations: declared = [{ name }] }) =>
      inner ? inner.map((tool) => ({ name: tool.name, namespace: name })) : declared,
    )
    .find(({ name }) => /ask_shop$/.test(name))

/** Events of an answer, by a part of the path of each provider. `last`: the last message, `tool`: what is to be called. */
const ANSWERS = {
  '/v1/messages'({ model }, last, tool, input) {
    const block = tool ? { type: 'tool_use', id: 'call_1', name: tool.name, input: {} } : { type: 'text', text: '' }
    const delta = tool
      ? { type: 'input_json_delta', partial_json: JSON.stringify(input) }
      : { type: 'text_delta', text: last }
    const stop = { stop_reason: tool ? 'tool_use' : 'end_turn', stop_sequence: null }
    return [
      { type: 'message_start', message: { id: 'm', type: 'message', role: 'assistant', model, content: [], usage } },
      { type: 'content_block_start', index: 0, content_block: block },
      { type: 'content_block_delta', index: 0, delta },
      { type: 'content_block_stop', index: 0 },
      { type: 'message_delta', delta: stop, usage },
      { type: 'message_stop' },
    ]
  },
  '/responses'({ model }, last, tool, input) {
    const said = { type: 'message', id: 'm', role: 'assistant', content: [{ type: 'output_text', text: last }] }
    const call = { type: 'function_call', id: 'f', call_id: 'call_1', ...tool, arguments: JSON.stringify(input) }
    const item = { ...(tool ? call : said), status: 'completed' }
    const response = { id: 'r', object: 'response', status: 'completed', model, output: [item], usage }
    return [
      { type: 'response.created', response: { ...response, status: 'in_progress', output: [] } },
      { type: 'response.output_item.added', output_index: 0, item },
      { type: 'response.output_item.done', output_index: 0, item },
      { type: 'response.completed', response },
    ]
  },
  ':streamGenerateContent'(_body, last, tool, input) {
    const part = tool ? { functionCall: { name: tool.name, args: input } } : { text: last }
    const usageMetadata = { promptTokenCount: 1, candidatesTokenCount: 1, totalTokenCount: 2 }
    return [
      { candidates: [{ content: { role: 'model', parts: [part] }, finishReason: 'STOP', index: 0 }], usageMetadata },
    ]
  },
}

/** `query`: what the shop is asked. */
export async function serveModels(query) {
  const server = createServer(async (request, response) => {
    const answer = Object.entries(ANSWERS).find(([part]) => request.url.includes(part))?.[1]
    if (!answer || request.method !== 'POST') return response.writeHead(404).end('{}')
    const body = await json(request)
    const last = JSON.stringify((body.messages ?? body.input ?? body.contents ?? []).at(-1))
    const isAnswered = /tool_result|function_call_output|functionResponse/.test(last)
    response.setHeader('content-type', 'text/event-stream')
    for (const event of answer(body, last, isAnswered ? undefined : toolIn(body), { query }))
      response.write(`${event.type ? `event: ${event.type}\n` : ''}data: ${JSON.stringify(event)}\n\n`)
    response.end()
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    url: `http://127.0.0.1:${server.address().port}`,
    close() {
      server.close()
      server.closeAllConnections()
    },
  }
}
