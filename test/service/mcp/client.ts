/** A client of the Model Context Protocol, of either era, and requests that no client would send. */
import { Client, type ElicitResult, StreamableHTTPClientTransport, type Transport } from '@modelcontextprotocol/client'
import type { Test } from 'tap'
import { z } from 'zod'

export interface Opened {
  caller?: string
  era?: '2025' | '2026'
  /** Answers a form: then the client says that it can show one. */
  elicits?: (message: string, form: { properties: object }) => ElicitResult | Promise<ElicitResult>
  /** true: the client takes tasks in the place of answers. */
  tasks?: boolean
  path?: string
  fetch?: typeof fetch
  meta?: Record<string, unknown>
}

// biome-ignore lint/suspicious/noExplicitAny: tests look into answers of all shapes
type Any = any

export async function connect(t: Test, url: string, { caller = 'ann:run', path = '/mcp', ...opened }: Opened = {}) {
  const { fetch } = opened
  const given = { requestInit: { headers: { 'x-caller': caller } }, ...(fetch && { fetch }) }
  const transport = new StreamableHTTPClientTransport(new URL(url + path), given)
  return speak(t, transport, opened)
}

export async function speak(t: Test, transport: Transport, { era = '2026', elicits, tasks, meta }: Opened = {}) {
  if (tasks) takeTasks(transport)
  const client = new Client(
    { name: 'test', version: '1' },
    {
      versionNegotiation: { mode: era === '2025' ? 'legacy' : { pin: '2026-07-28' } },
      capabilities: {
        ...(elicits && { elicitation: { form: {} } }),
        ...(tasks && { extensions: { 'io.modelcontextprotocol/tasks': {} } }),
      },
    },
  )
  if (elicits)
    client.setRequestHandler('elicitation/create', ({ params }) =>
      elicits(params.message, Object(params).requestedSchema),
    )
  await client.connect(transport)
  t.teardown(() => client.close())
  const call = async (name: string, given: object, more: object = {}): Promise<Any> =>
    client.callTool({ name, arguments: given as Record<string, unknown>, ...(meta && { _meta: meta }) }, more)
  const ask = (query: string, more?: object) => call('ask_shop', { query }, more)
  const send = (method: string, params: object): Promise<Any> =>
    client.request({ method, params: params as Record<string, unknown> }, z.looseObject({}))
  return { client, call, ask, send }
}

/** The text of an answer; with a mark where it is an error. */
export const said = ({ content, isError }: Any): string => `${isError ? 'ERROR ' : ''}${content[0].text}`.trim()

/** The task that a call gave in the place of an answer. */
export const taskIn = ({ _meta }: Any): Any => _meta['test/task']

/** The SDK knows no extension: a task comes to it as an answer that has it in its `_meta`. */
function takeTasks(transport: Transport): void {
  let listener: Transport['onmessage']
  Object.defineProperty(transport, 'onmessage', {
    get: () =>
      listener &&
      ((message: Any, extra: Any) => {
        const { resultType, content: _, ...task } = message.result ?? {}
        const result = { resultType: 'complete', content: [], _meta: { 'test/task': task } }
        listener?.(resultType === 'task' ? { ...message, result } : message, extra)
      }),
    set(given: Transport['onmessage']) {
      listener = given
    },
  })
}

interface Raw {
  caller?: string
  path?: string
  headers?: object
  fetch?: typeof fetch
}

/** Sends a message as it stands. Resolves to the status, and the message that answers it. */
export async function sendRaw(
  url: string,
  body: unknown,
  { caller = 'ann:run', path = '/mcp', headers = {}, fetch: send = fetch }: Raw = {},
): Promise<{ status: number; message: Any }> {
  const response = await send(url + path, {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      accept: 'application/json, text/event-stream',
      ...(caller !== '' && { 'x-caller': caller }),
      ...headers,
    },
    body: typeof body === 'string' ? body : JSON.stringify(body),
  })
  const text = await response.text()
  const data = /^data: (.*)$/m.exec(text)?.[1] ?? text
  return { status: response.status, message: data === '' ? undefined : JSON.parse(data) }
}

/** A message of 2026, with all that its revision asks for. */
export const modern = (method: string, params: object, capabilities: object = {}) => ({
  jsonrpc: '2.0',
  id: 1,
  method,
  params: {
    ...params,
    _meta: {
      'io.modelcontextprotocol/protocolVersion': '2026-07-28',
      'io.modelcontextprotocol/clientInfo': { name: 'raw', version: '1' },
      'io.modelcontextprotocol/clientCapabilities': capabilities,
    },
  },
})
export const modernHeaders = (method: string, name?: string) => ({
  'mcp-protocol-version': '2026-07-28',
  'mcp-method': method,
  ...(name && { 'mcp-name': name }),
})
