/** A team in this thread, served by an HTTP API that is asked without a network. */
import type { Test } from 'tap'
import { type AgentDefinition, type AgentRole, defineAgent, type Logger } from '../../../src/index.ts'
import { type HttpApi, type HttpApiOptions, httpApi } from '../../../src/service/api/index.ts'
import { RIGHTS } from '../../../src/service/http/schemas.ts'
import { type TestTeam, testTeam } from '../../../src/testing.ts'

export interface Stage {
  team: TestTeam
  api: HttpApi
  /** Sends a request. `caller`: `id:right,right:tenant:group,group`, by default one who may do everything. */
  send(method: string, path: string, options?: SendOptions): Promise<Sent>
  /** What the API has logged. */
  logged: { fields: object; text: string }[]
}

interface SendOptions {
  body?: unknown
  caller?: string | null
  headers?: Record<string, string>
  signal?: AbortSignal
}

export interface Sent {
  status: number
  headers: Headers
  // biome-ignore lint/suspicious/noExplicitAny: tests look into answers of all shapes
  body: any
}

export const EVERYTHING = 'me:run,watch,operate,approve'

/** An agent that answers each message, after `until` where that is given. */
export const echo = (until?: (content: string) => Promise<unknown> | undefined): AgentDefinition =>
  defineAgent({
    async receive({ content }) {
      await until?.(content)
      return `heard: ${content}`
    },
  })

/** `role`: more of the role of the one agent, `worker`. */
export function stage(
  t: Test,
  agent: AgentDefinition = echo(),
  options: Partial<HttpApiOptions> = {},
  role: Partial<AgentRole> = {},
): Stage {
  const team = testTeam(
    { agents: [{ ...role, name: 'worker' }], orchestration: { strategy: 'sequential' }, enableBlackboard: true },
    { modules: { worker: agent } },
  )
  const logged: Stage['logged'] = []
  const keep = (fields: object, text: string) => void logged.push({ fields, text })
  const logger: Logger = { debug: keep, info: keep, warn: keep, error: keep }
  const api = httpApi({
    teams: { desk: team },
    authorize: callerOf,
    logger,
    ...options,
    limits: { postsPerSecond: 10_000, getsPerSecond: 10_000, disconnectGraceMs: 0, ...options.limits },
  })
  t.teardown(async () => {
    await api.close()
    await team.close()
  })
  return { team, api, logged, send: (method, path, given) => send(api, method, path, given) }
}

export async function send(
  api: Pick<HttpApi, 'fetch'>,
  method: string,
  path: string,
  { body, caller = EVERYTHING, headers = {}, signal }: SendOptions = {},
): Promise<Sent> {
  const request = new Request(`http://localhost${path}`, {
    method,
    headers: {
      ...(caller !== null && { 'x-caller': caller }),
      ...(body !== undefined && { 'content-type': 'application/json' }),
      ...headers,
    },
    ...(body !== undefined && { body: typeof body === 'string' ? body : JSON.stringify(body) }),
    ...(signal && { signal }),
  })
  const response = await api.fetch(request)
  const text = await response.text()
  const isJson = /json$/.test(response.headers.get('content-type') ?? '')
  return { status: response.status, headers: response.headers, body: isJson && text !== '' ? JSON.parse(text) : text }
}

export const callerOf: HttpApiOptions['authorize'] = ({ headers }) => {
  const [id, rights = '', tenant, groups] = headers.get('x-caller')?.split(':') ?? []
  if (id === undefined) return null
  const may = RIGHTS.filter((right) => rights.split(',').includes(right))
  return { id, may, ...(tenant && { tenant }), ...(groups && { groups: groups.split(',') }) }
}
