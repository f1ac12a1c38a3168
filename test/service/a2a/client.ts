/** A client of A2A 1.0 in both of its bindings, which also sends what no client would. */
import { randomUUID } from 'node:crypto'

// biome-ignore lint/suspicious/noExplicitAny: tests look into answers of all shapes
type Any = any

interface Given {
  caller?: string
  team?: string
  headers?: Record<string, string>
  fetch?: typeof fetch
}

export interface Sent {
  status: number
  /** Results, or events; of JSON-RPC without their envelopes. */
  results: Any[]
  error: Any
  ids: string[]
  rpcIds: unknown[]
}

export const textMessage = (text: string, more: object = {}) => ({
  message: { messageId: randomUUID(), role: 'ROLE_USER', parts: [{ text }], ...more },
})

/** Sends the body as it stands to a path of the team. */
export async function sendTo(url: string, path: string, body: unknown, given: Given & { method?: string } = {}) {
  const { caller = 'ann:run', team = 'shop', headers = {}, fetch: send = fetch, method = 'POST' } = given
  const response = await send(`${url}/a2a/${team}${path}`, {
    method,
    headers: { 'content-type': 'application/json', ...(caller !== '' && { 'x-caller': caller }), ...headers },
    ...(body !== undefined && { body: typeof body === 'string' ? body : JSON.stringify(body) }),
  })
  const text = await response.text()
  const isStream = response.headers.get('content-type')?.startsWith('text/event-stream')
  const found = isStream ? Array.from(text.matchAll(/^data: (.*)$/gm), ([, data]) => data!) : [text]
  const data: Any[] = found.map((each) => JSON.parse(each))
  const ids = Array.from(text.matchAll(/^id: (.*)$/gm), ([, id]) => id!)
  return { status: response.status, data, ids }
}

export async function rpc(url: string, method: string, params: object, given: Given = {}): Promise<Sent> {
  const { status, data, ids } = await sendTo(url, '', { jsonrpc: '2.0', id: 'r1', method, params }, given)
  return {
    status,
    ids,
    results: data.flatMap(({ result }) => result ?? []),
    error: data.find(({ error }) => error)?.error,
    rpcIds: [...new Set(data.map(({ id }) => id))],
  }
}

/** State of a task or of an update, without its prefix. */
export const stateOf = (of: Any): string => String((of?.task ?? of?.statusUpdate ?? of)?.status?.state).slice(11)

export const answerOf = (of: Any): string | undefined => (of?.task ?? of)?.artifacts?.[0].parts[0].text

/** What a client that takes each update to an artifact as it is told has in the end. */
export function joined(events: Any[]): string {
  let text = ''
  for (const { artifactUpdate } of events) {
    if (!artifactUpdate) continue
    const [part] = artifactUpdate.artifact.parts
    text = artifactUpdate.append ? text + part.text : part.text
  }
  return text
}
