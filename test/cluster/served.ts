/** Members of a cluster with an HTTP API each, in this process. */
import type { Test } from 'tap'
import { z } from 'zod'
import { type ClusterOptions, createTeam, defineTool, type Logger } from '../../src/index.ts'
import { type HttpApiOptions, httpApi } from '../../src/service/api/index.ts'
import { listen, type RunningServer } from '../../src/service/api/server.ts'
import { callerOf, EVERYTHING } from '../service/http/stage.ts'

export const logger = { debug() {}, info() {}, warn() {}, error() {} }

export interface Served {
  readonly team: ReturnType<typeof clusterTeam>
  readonly server: RunningServer
  send(method: string, path: string, options?: Sending): Promise<Answer>
  /** The same, with the body still to be read. */
  fetch(method: string, path: string, options?: Sending): Promise<Response>
  close(): Promise<void>
}

export interface Sending {
  readonly body?: unknown
  readonly caller?: string
  readonly headers?: Record<string, string>
  readonly signal?: AbortSignal
}

export interface Answer {
  readonly status: number
  readonly headers: Headers
  // biome-ignore lint/suspicious/noExplicitAny: tests look into answers of all shapes
  readonly body: any
}

/** Pays if two people of finance agree. */
const pay = defineTool({
  name: 'pay',
  description: 'Pays.',
  input: z.object({ cents: z.number() }),
  approval: { groups: ['finance'], quorum: 2 },
  run: ({ cents }) => cents,
})

export function clusterTeam(cluster: ClusterOptions, rest: { logger?: Logger } = {}) {
  return createTeam({
    agents: [
      { name: 'asker', module: new URL('../fixtures/cluster/asker.js', import.meta.url), tools: [pay] },
      { name: 'helper', module: new URL('../../examples/cluster-demo/helper.js', import.meta.url) },
    ],
    orchestration: { strategy: 'sequential', agentOrder: ['asker'] },
    cluster: { shards: 4, times: { beatMs: 200, suspectMs: 1_000 }, ...cluster },
    threads: { warmSpares: 0 },
    logger,
    ...rest,
  })
}

export async function served(t: Test, cluster: ClusterOptions, options: Partial<HttpApiOptions> = {}): Promise<Served> {
  const member = await serve(cluster, options)
  t.teardown(() => member.close())
  return member
}

export async function serve(cluster: ClusterOptions, options: Partial<HttpApiOptions> = {}): Promise<Served> {
  const team = clusterTeam(cluster)
  const limits = { postsPerSecond: 10_000, getsPerSecond: 10_000, streamsPerCaller: 1_000, tasksPerCaller: 10_000 }
  const api = httpApi({
    authorize: callerOf,
    dashboard: true,
    logger,
    limits,
    ...options,
    teams: { desk: team, ...options.teams },
  })
  const server = await listen(api, { port: 0, host: '127.0.0.1' })
  team.reachedAt(server.url)
  await team.start()
  const fetched = (method: string, path: string, { body, caller = EVERYTHING, headers, signal }: Sending = {}) =>
    fetch(`${server.url}${path}`, {
      method,
      headers: { 'x-caller': caller, ...(body !== undefined && { 'content-type': 'application/json' }), ...headers },
      ...(body !== undefined && { body: JSON.stringify(body) }),
      ...(signal && { signal }),
    })
  const close = () => server.close(0)
  return {
    team,
    server,
    fetch: fetched,
    close,
    async send(...asked) {
      const response = await fetched(...asked)
      const text = await response.text()
      const isJson = /json$/.test(response.headers.get('content-type') ?? '')
      return {
        status: response.status,
        headers: response.headers,
        body: isJson && text !== '' ? JSON.parse(text) : text,
      }
    },
  }
}

/** Resolves when these hold all shards, each at least one. */
export async function sharedBy(...members: readonly Pick<Served, 'team'>[]): Promise<void> {
  const held = () => members.map(({ team }) => team.held.size)
  while (held().includes(0) || held().reduce((sum, some) => sum + some, 0) < 4)
    await new Promise((resolve) => setTimeout(resolve, 20))
}

/** Returns an id of a run whose shard that member holds. */
export function idAt({ team }: Pick<Served, 'team'>, prefix: string): string {
  for (let i = 0; ; i++) {
    const id = `${prefix} ${i}`
    if (team.held.has(team.shardOf(id))) return id
  }
}
