/** Pages of lists over many shards: a place in all of them is short enough for the head of a request. */
import { randomUUID } from 'node:crypto'
import t from 'tap'
import { mergedList, ofShard, pageOfShard } from '../../src/service/api/cluster-lists.ts'

const SHARDS = 400
const EACH = 3
/** Node takes a head of 16 KiB, of which the other lines need some. */
const LONGEST = 14_000

t.test('400 shards are read page by page', async (t) => {
  const tasks = Array.from({ length: SHARDS }, (_, shard) =>
    Array.from({ length: EACH }, (_, at) => {
      const createdAt = new Date(1e12 - 1_000 * (at * SHARDS + shard)).toISOString()
      return { id: randomUUID(), createdAt }
    }),
  )
  const partOf = (shard: number, before: unknown, limit: number) => {
    const all = tasks[shard]!
    const page = all.slice(all.findIndex(({ id }) => id === before) + 1).slice(0, limit)
    return { tasks: page, next: page.length > 0 && page.at(-1) !== all.at(-1) ? page.at(-1)!.id : null }
  }
  const limit = 250
  const listed: unknown[] = []
  let pages = 0
  for (let next: string | undefined; pages === 0 || next !== undefined; pages++) {
    const call = { name: 'listTasks' as const, query: { limit, ...(next !== undefined && { before: next }) } }
    const parts = tasks.map((_, shard) =>
      ofShard(call, partOf(shard, pageOfShard(call, shard).query.before, limit), shard),
    )
    const page = mergedList(call, parts)
    listed.push(...(page.tasks as { id: string }[]).map(({ id }) => id))
    next = (page.next as string | null) ?? undefined
    t.ok((next?.length ?? 0) < LONGEST, `${next?.length} characters`)
  }
  t.same(listed, Array.from({ length: EACH }, (_, at) => tasks.map((own) => own[at]!.id)).flat())
  t.ok(pages >= 5)
})
