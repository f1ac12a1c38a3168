/** Options of a team over several processes, and pages of lists over many shards. */

import { randomUUID } from 'node:crypto'
import t from 'tap'
import { type ClusterOptions, createTeam } from '../../src/index.ts'
import { mergedList, ofShard, pageOfShard } from '../../src/service/api/cluster-lists.ts'

// Options of a team over several processes: what is wrong is said at once, what needs one process is refused.

const agents = [{ name: 'ann', module: new URL('../../examples/cluster-demo/helper.js', import.meta.url) }]
const orchestration = { strategy: 'sequential' } as const
const url = 'postgres://127.0.0.1:1/none'

const refusals: Record<string, { cluster?: unknown; rest?: object; path: string; message: RegExp }> = {
  'no address and no engine': {
    cluster: {},
    path: 'cluster',
    message: /neither url nor store; accepted: one of the two/,
  },
  'both of them': { cluster: { url, store: storeWith() }, path: 'cluster', message: /url and store/ },
  'no address of PostgreSQL': { cluster: { url: 4 }, path: 'cluster.url', message: /accepted: a string/ },
  'half an engine': {
    cluster: { store: { join() {} } },
    path: 'cluster.store',
    message: /without leave, |without view/,
  },
  'other shards than its engine has': {
    cluster: { store: { ...storeWith(), shards: 4 }, shards: 8 },
    path: 'cluster.shards',
    message: /got 8; accepted: 4\. cluster\.store was made for so many/,
  },
  'no shards': { cluster: { url, shards: 0 }, path: 'cluster.shards', message: /an integer from 1/ },
  'a misspelt option': { cluster: { url, shard: 4 }, path: 'cluster.shard', message: /did you mean "shards"/ },
  'another promise': { cluster: { url, durability: 'commit' }, path: 'cluster.durability', message: /"replicated"/ },
  'a time that is none': {
    cluster: { url, times: { ttlMs: -1 } },
    path: 'cluster.times.ttlMs',
    message: /milliseconds/,
  },
  'a time for the hand-over that is none': {
    cluster: { url, handOverMs: -1 },
    path: 'cluster.handOverMs',
    message: /milliseconds/,
  },
  'a place of the log': { rest: { stateManagement: { path: 'log' } }, path: 'stateManagement.path', message: /engine/ },
  'a budget over all shards': {
    rest: { budget: { perTeam: { tokens: 100, windowMs: 1_000 } } },
    path: 'budget.perTeam',
    message: /set cluster.shards to 1/,
  },
  'a budget of tenants': {
    rest: { budget: { perTenant: { each: { tokens: 100 }, period: 'day' } } },
    path: 'budget.perTenant',
    message: /Leave cluster out: one process with stateManagement/,
  },
  'turns of tenants': { rest: { tenants: { weights: { acme: 4 } } }, path: 'tenants', message: /Leave cluster out/ },
  'one board for many shards': {
    rest: { enableBlackboard: { scope: 'team' } },
    path: 'enableBlackboard.scope',
    message: /one owner and hot standbys/,
  },
  'an option of the team': { rest: { maxConcurrentRuns: 0 }, path: 'maxConcurrentRuns', message: /integer from 1/ },
}

for (const [name, { cluster = { url }, rest, path, message }] of Object.entries(refusals))
  t.test(`refused: ${name}`, async (t) => {
    t.throws(() => createTeam({ agents, orchestration, cluster: cluster as ClusterOptions, ...rest }), {
      code: 'CONFIGURATION',
      details: { path },
      message,
    })
  })

t.test('one shard may have what needs one process', async (t) => {
  const cluster = { url, shards: 1 }
  t.ok(createTeam({ agents, orchestration, cluster, enableBlackboard: { scope: 'team' } }))
  t.ok(createTeam({ agents, orchestration, cluster, budget: { perTeam: { tokens: 100, windowMs: 1_000 } } }))
})

t.test('a team has the shards that its engine was made for', async (t) => {
  const store = { ...storeWith(), shards: 4 } as unknown as ClusterOptions['store'] & object
  t.equal(createTeam({ agents, orchestration, cluster: { store } }).shards, 4)
})

t.test('a run is refused before it goes anywhere', async (t) => {
  const team = createTeam({ agents, orchestration, cluster: { url } })
  const refused = (options: object, path: string) =>
    t.rejects(team.launch('go', options), { code: 'CONFIGURATION', details: { path } })
  await refused({ key: '' }, 'key')
  await refused({ output: {} }, 'output')
  await refused({ runId: 4 }, 'runId')
  await refused({ timeoutMs: 0 }, 'timeoutMs')
  await t.rejects(team.launch(4 as never), { code: 'CONFIGURATION', details: { path: 'query' } })
  await team.close()
})

t.test('a database that is not there is told at the start', async (t) => {
  const team = createTeam({ agents, orchestration, cluster: { url } })
  await t.rejects(team.start(), { code: 'CLUSTER_UNREACHABLE', message: /127\.0\.0\.1:1\/none.*ECONNREFUSED/ })
  await team.close()
})

/** An engine that does nothing. */
function storeWith() {
  const names = ['join', 'view', 'log', 'submit', 'take', 'settle', 'outcome', 'tell', 'leave']
  return Object.fromEntries(names.map((name) => [name, async () => undefined]))
}

// Pages of lists over many shards: the place of a page is short enough for the head of a request.

const SHARDS = 400
const EACH = 3
const LONGEST = 100

t.test('400 shards are read page by page', async (t) => {
  const tasks = Array.from({ length: SHARDS }, (_, shard) =>
    Array.from({ length: EACH }, (_, at) => {
      const createdAt = new Date(1e12 - 1_000 * (at * SHARDS + shard)).toISOString()
      return { id: randomUUID(), createdAt }
    }),
  )
  const partOf = (shard: number, { before, behind }: { before?: unknown; behind?: number }, limit: number) => {
    const all = tasks[shard]!
    const left = all.filter(({ createdAt }) => behind === undefined || Date.parse(createdAt) < behind)
    const page = left.slice(left.findIndex(({ id }) => id === before) + 1).slice(0, limit)
    return { tasks: page, next: page.length > 0 && page.at(-1) !== all.at(-1) ? page.at(-1)!.id : null }
  }
  const limit = 250
  const listed: unknown[] = []
  let pages = 0
  for (let next: string | undefined; pages === 0 || next !== undefined; pages++) {
    const call = { name: 'listTasks' as const, query: { limit, ...(next !== undefined && { before: next }) } }
    const parts = tasks.map((_, shard) => ofShard(call, partOf(shard, pageOfShard(call, shard).query, limit), shard))
    const page = mergedList(call, parts)
    listed.push(...(page.tasks as { id: string }[]).map(({ id }) => id))
    next = (page.next as string | null) ?? undefined
    t.ok((next?.length ?? 0) < LONGEST, `${next?.length} characters`)
  }
  t.same(listed, Array.from({ length: EACH }, (_, at) => tasks.map((own) => own[at]!.id)).flat())
  t.ok(pages >= 5)
})
