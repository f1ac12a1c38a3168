/** A service that knows one large run alone, for the dashboard: what it says is made up, how it says it is not. */
import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { pageFileResponse, pageResponse } from '../src/service/api/page-files.ts'
import { listsOf } from '../src/service/digest/columns.ts'
import { type LargeRun, largeRun } from './large-digest.ts'

export interface LargeService {
  readonly url: string
  readonly run: LargeRun
  close(): Promise<void>
}

const LINE_MS = 100
/** Messages of a live line: 2,000 a second. */
const LIVE_ROWS = 200

export async function largeService(agents: number, messages: number): Promise<LargeService> {
  const run = largeRun(agents, messages, 600_000)
  const usage = { inputTokens: 0, outputTokens: 0, totalTokens: 0, calls: 0 }
  const { id } = run
  const createdAt = new Date(run.startedAt).toISOString()
  const endedAt = new Date(run.endedAt).toISOString()
  const summary = {
    id,
    team: 'desk',
    query: 'A large task',
    status: 'finished',
    createdAt,
    endedAt,
    usage,
    threadId: null,
    errorCode: null,
  }
  const digest = run.lines.map((line) => `${JSON.stringify(line)}\n`)
  const task = {
    ...summary,
    answer: 'done',
    data: null,
    failures: [],
    subTasks: [],
    questions: [],
    usageByAgent: {},
    cost: null,
    rehearsed: false,
    error: null,
  }
  const shape = { name: 'desk', strategy: 'custom', agents: run.agents, roles: {} }
  const answers: Record<string, unknown> = {
    '/session': { caller: { id: 'me', may: ['run', 'watch', 'operate'] }, teams: [shape], hasPrices: false },
    '/api/tasks': { tasks: [summary], next: null },
    [`/api/tasks/${id}`]: task,
    [`/api/tasks/${id}/messages`]: { messages: [], next: null },
    [`/api/tasks/${id}/blackboard`]: { entries: [] },
    '/api/questions': { questions: [] },
    '/api/dead-letters': { letters: [], next: null },
  }
  const timers = new Set<NodeJS.Timeout>()
  const server = createServer(async (request, response) => {
    const { pathname } = new URL(request.url!, 'http://localhost')
    if (pathname === '/api/watch') return watch(response)
    if (pathname === `/api/tasks/${id}/trace`) return void response.end(digest.join(''))
    const known = new Request(`http://localhost${pathname}`)
    if (pathname === '/') return send(response, pageResponse(known, ''))
    if (pathname === '/page.js' || pathname === '/page.css')
      return send(response, pageFileResponse(pathname === '/page.js' ? 'page.js' : 'page.css', known))
    response.setHeader('content-type', 'application/json')
    response.statusCode = pathname in answers ? 200 : 404
    response.end(JSON.stringify(answers[pathname] ?? { detail: 'none' }))
  })

  /** All that was, then 2,000 messages a second. */
  function watch(response: ServerResponse): void {
    const agents = run.agents.map((name) => ({ name, status: 'idle', queued: 0, inFlight: 0, restarts: 0, usage }))
    const snapshot = { log: 'log', agents, runs: [], questions: [], waits: [], deadLetters: 0 }
    response.write(`${JSON.stringify({ seq: -1, at: Date.now(), n: 0, snapshot })}\n`)
    for (const line of digest) response.write(line)
    let n = messages
    const timer = setInterval(() => {
      const { message, ...line } = run.lines[0]!
      const lists = Object.entries(listsOf(message!)).map(([name, list]) => [name, list.slice(0, LIVE_ROWS)])
      const live = { rows: LIVE_ROWS, ...Object.fromEntries(lists) }
      const at = Date.now() - LINE_MS
      response.write(`${JSON.stringify({ seq: line.seq + n * 8, at, n, message: live })}\n`)
      n += LIVE_ROWS
    }, LINE_MS)
    timers.add(timer)
    response.on('close', () => clearInterval(timer))
  }

  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/`,
    run,
    async close() {
      for (const timer of timers) clearInterval(timer)
      const closed = new Promise((resolve) => server.close(resolve))
      server.closeAllConnections()
      await closed
    },
  }
}

async function send(response: ServerResponse, { status, headers, body }: Response): Promise<void> {
  response.writeHead(status, Object.fromEntries(headers))
  response.end(body ? Buffer.from(await new Response(body).arrayBuffer()) : undefined)
}
