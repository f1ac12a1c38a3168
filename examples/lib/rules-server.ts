/**
 * A model server without a model: it speaks chat completions, and the function answers that the module in its argument
 * exports. It is forked, tells its parent where it listens, and ends with it: or before, if somebody kills it.
 */
import type { IncomingMessage, ServerResponse } from 'node:http'
import { setTimeout as pause } from 'node:timers/promises'
import { onLoopback } from './loopback.ts'

export interface Asked {
  messages: readonly { role: string; content: string | null }[]
  /** True if the answer has to be JSON. */
  isTyped: boolean
}

export interface Answered {
  text?: string
  call?: { name: string; input: object }
}

interface Body {
  messages: Asked['messages']
  response_format?: object
  stream?: boolean
}

/** Between two words, as of a very fast model. */
const WORD_MS = 30

const { default: answer } = (await import(process.argv[2]!)) as { default(asked: Asked): Answered }
const { origin } = await onLoopback((request, response) => {
  reply(request, response).catch(() => response.destroy())
})
process.once('disconnect', () => process.exit())
process.send?.(`${origin}/v1`)

async function reply(request: IncomingMessage, response: ServerResponse): Promise<void> {
  let body = ''
  for await (const chunk of request.setEncoding('utf8')) body += chunk
  const { messages, response_format, stream }: Body = JSON.parse(body)
  const { text = '', call } = answer({ messages, isTyped: response_format !== undefined })
  const called = call && { name: call.name, arguments: JSON.stringify(call.input) }
  const tool_calls = called && [{ index: 0, id: `call-${messages.length}`, type: 'function', function: called }]
  const finish_reason = called ? 'tool_calls' : 'stop'
  const prompt_tokens = words(messages.map(({ content }) => content).join(' '))
  const rest = { id: 'by-rules', usage: { prompt_tokens, completion_tokens: words(text) } }
  if (!stream) {
    const message = { role: 'assistant', content: text, tool_calls }
    response.setHeader('content-type', 'application/json')
    return void response.end(JSON.stringify({ ...rest, choices: [{ index: 0, message, finish_reason }] }))
  }
  const send = (choice: object, end = {}) =>
    response.write(`data: ${JSON.stringify({ ...end, choices: [{ index: 0, ...choice }] })}\n\n`)
  response.setHeader('content-type', 'text/event-stream')
  for (const word of text.split(/(?<= )/)) {
    send({ delta: { content: word } })
    await pause(WORD_MS)
  }
  send({ delta: { tool_calls }, finish_reason }, rest)
  response.end('data: [DONE]\n\n')
}

const words = (text: string) => text.split(/\s+/).length
