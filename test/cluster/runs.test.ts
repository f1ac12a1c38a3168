/** A run in the hands of a program, or of a client in OpenAI's formats, wherever its shard is. */
import t from 'tap'
import { z } from 'zod'
import { PostgresServer, postgresFolder } from '../../examples/cluster-demo/postgres-server.ts'
import { type ClusterEvent, createTeam } from '../../src/index.ts'
import { PostgresStore } from '../../src/postgres/index.ts'
import { lookAt } from '../../src/postgres/look.ts'
import { clusterTeam, idAt, logger, type Served, served, sharedBy } from './served.ts'

const bin = postgresFolder()
const PATIENT = new URL('../fixtures/cluster/patient.js', import.meta.url)

t.test('runs from any process', { skip: !bin && 'no PostgreSQL is installed here' }, async (t) => {
  const database = await PostgresServer.start(bin!)
  t.teardown(() => database.remove())
  const { url } = database

  await t.test('a program reads events and words of a run, and has its typed answer', async (t) => {
    const [one, two] = await Promise.all([served(t, { url, name: 'read' }), served(t, { url, name: 'read' })])
    await sharedBy(one, two)
    const output = z.object({ cities: z.number().transform((count) => `${count} cities`) })
    for (const owner of [one, two]) {
      const run = await one.team.launch('{"cities": 3}', { runId: idAt(owner, 'typed'), agent: 'helper', output })
      const words: string[] = []
      for await (const word of run.text()) words.push(word)
      t.equal(words.join(''), 'h{"cities": 3}')
      const result = await run.result()
      t.equal(result.data?.cities, '3 cities')
      const events = await all(run.events())
      t.match(events.at(-1), { type: 'run.finished', result: { success: true, data: { cities: 3 } } })
      t.same(await all((await two.team.getRun(run.id))!.events()), events, 'all processes tell the same')
      t.same(await all(run.events({ after: events[2]!.id! })), events.slice(3))
      t.match(await all(run.events({ types: ['run.finished'] })), [{ type: 'run.finished' }])
      const parts = await all(run.stream())
      t.equal(parts.map((part) => (part.type === 'text' && part.final ? part.text : '')).join(''), 'h{"cities": 3}')
      t.match(parts.at(-1), { type: 'run.finished', result: { success: true } })
      const looks = await Promise.all([one, two].map(({ team }) => looked(team, run.id)))
      t.same(looks[0], looks[1])
      t.ok(looks[0]!.history.some(({ content }) => content === 'h{"cities": 3}'))
      t.ok(looks[0]!.trace.messageFlow.length > 0)
      t.same(looks[0]!.board, [])
      t.same(await run.tasks(), [])
      t.match(await run.usage(), { totalTokens: 0 })
      const again = await two.team.getRun(run.id, { output })
      t.equal((await again!.result()).data?.cities, '3 cities')
      const missed = await one.team.execute('none', { runId: idAt(owner, 'missed'), agent: 'helper', output })
      t.match(missed, { success: false, data: null, error: { code: 'REPLY_INVALID' } })
      const nobody = await one.team.execute('x', { runId: idAt(owner, 'nobody'), agent: 'nobody' })
      t.match(nobody.error, { code: 'UNKNOWN_AGENT', message: /nobody/ })
      await t.rejects(all(run.events({ types: ['no' as never] })), { code: 'CONFIGURATION' })
      const body = { query: '{"cities": 4}', output: { type: 'object', required: ['cities'] } }
      t.match(await one.send('POST', '/api/tasks', { body: { ...body, query: 'slow' } }), { status: 502 })
    }
  })

  await t.test('events go on where the shard goes', async (t) => {
    const [one, two] = await Promise.all([served(t, { url, name: 'moved' }), served(t, { url, name: 'moved' })])
    await sharedBy(one, two)
    const run = await one.team.launch('slow', { runId: idAt(two, 'moved') })
    const seen: ClusterEvent[] = []
    const reading = all(run.stream())
    let closed: Promise<void> | undefined
    for await (const event of run.events()) {
      seen.push(event)
      if (seen.length === 8) closed = two.close()
    }
    await closed
    t.match(seen.at(-1), { type: 'run.finished', result: { finalOutput: 'slow, done' } })
    const place = ({ id, type }: ClusterEvent) => [id, type]
    t.same(seen.map(place), (await all(run.events())).map(place))
    t.same(await reading, await all(run.stream()))
    t.ok((await looked(one.team, run.id)).history.some(({ content }) => content === 'slow, done'))
  })

  await t.test('a run that waits for room costs the engine no question each moment', async (t) => {
    let asked = 0
    class Counting extends PostgresStore {
      override outcome(id: string) {
        asked += 1
        return super.outcome(id)
      }
    }
    const times = { beatMs: 200, suspectMs: 1_000 }
    const store = new Counting({ url: url, name: 'room', shards: 1, times })
    const [agents, limits] = [[{ name: 'ann', module: PATIENT }], { maxConcurrentRuns: 1, maxQueuedRuns: 0 }]
    const team = createTeam({
      agents,
      orchestration: { strategy: 'sequential' },
      ...limits,
      cluster: { store, shards: 1, times },
      threads: { warmSpares: 0 },
      logger,
    })
    t.teardown(() => team.close())
    await team.start()
    while (team.held.size < 1) await new Promise((resolve) => setTimeout(resolve, 20))
    const runs = await Promise.all(Array.from({ length: 12 }, (_, n) => team.launch('go', { runId: `run ${n}` })))
    const begun = performance.now()
    asked = 0
    const ends = runs.map(async (run) => {
      for await (const { type } of run.events({ types: ['run.finished'] })) t.equal(type, 'run.finished')
    })
    await Promise.all(ends)
    const seconds = (performance.now() - begun) / 1_000
    t.ok(asked <= runs.length * (2 + 2 * seconds), `${asked} questions in ${seconds} s`)
  })

  await t.test('where the owner serves nothing, that is said at once', async (t) => {
    const teams = [0, 1].map(() => clusterTeam({ url, name: 'silent' }))
    t.teardown(() => Promise.all(teams.map((team) => team.close())))
    await Promise.all(teams.map((team) => team.start()))
    const [one, two] = teams as [(typeof teams)[0], (typeof teams)[0]]
    await sharedBy({ team: one }, { team: two })
    const runs = await Promise.all(
      teams.map((team) => one.launch('hi', { runId: idAt({ team }, 'a'), agent: 'helper' })),
    )
    t.equal((await runs[0]!.result()).finalOutput, 'hhi')
    t.match((await all(runs[0]!.events())).at(-1), { type: 'run.finished' })
    await t.rejects(all(runs[1]!.events()), {
      code: 'CONFIGURATION',
      message: /has no cluster\.address/,
      details: { path: 'cluster.address' },
    })
    await t.rejects(runs[1]!.trace(), { code: 'CONFIGURATION', details: { path: 'cluster.address' } })
    const { runs: known, missing } = await one.listRuns()
    t.same(
      known.map(({ id }) => id),
      [runs[0]!.id],
    )
    t.same(missing, [...two.held.keys()].sort())
    t.equal((await runs[1]!.result()).finalOutput, 'hhi')
  })

  await t.test('runs of all shards are listed in every process', async (t) => {
    const [one, two] = await Promise.all([served(t, { url, name: 'listed' }), served(t, { url, name: 'listed' })])
    await sharedBy(one, two)
    const begun: string[] = []
    for (let n = 0; n < 6; n++) {
      const of = n % 2 ? one : two
      begun.push((await of.team.execute('hi', { runId: idAt(n % 3 ? one : two, `${n} `), agent: 'helper' })).runId)
    }
    for (const { team } of [one, two]) {
      const { runs, missing } = await team.listRuns({ status: 'finished' })
      t.same(missing, [])
      t.same(
        runs.map(({ id }) => id),
        begun.toReversed(),
      )
      for (const { id, shard } of runs) t.equal(shard, team.shardOf(id))
      const { runs: page } = await team.listRuns({ limit: 2, startedBefore: runs[2]!.startedAt + 1 })
      t.equal(page.length, 2)
      t.equal(page[0]!.startedAt, runs[2]!.startedAt)
    }
    await t.rejects(one.team.listRuns({ before: begun[0] } as object), {
      code: 'CONFIGURATION',
      message: /startedBefore/,
    })
    await t.rejects(one.team.listRuns({ status: 'done' } as object), {
      code: 'CONFIGURATION',
      details: { path: 'status' },
    })
  })

  await t.test('a process that ends moves its own shards alone', async (t) => {
    const members = await Promise.all([0, 1, 2].map(() => served(t, { url, name: 'alone' })))
    await sharedBy(...members)
    const seen = async () => (await lookAt({ url, name: 'alone' })).shards
    while ((await seen()).some(({ owner }) => owner === null)) await new Promise((resolve) => setTimeout(resolve, 20))
    const [gone, ...left] = members as [Served, Served, Served]
    const before = await seen()
    await gone.close()
    await sharedBy(...left)
    while ((await seen()).some(({ owner }) => owner === null)) await new Promise((resolve) => setTimeout(resolve, 20))
    for (const { shard, incarnation, owner } of await seen()) {
      const was = before[shard]!
      const moved = was.owner === gone.team.id ? 1 : 0
      t.equal(incarnation, was.incarnation + moved, `shard ${shard}`)
      if (!moved) t.equal(owner, was.owner)
    }
  })

  await t.test('a start that finds no database may be tried again', async (t) => {
    const other = await PostgresServer.start(bin!)
    t.teardown(() => other.remove())
    await other.kill()
    const team = clusterTeam({ url: other.url, name: 'late' })
    t.teardown(() => team.close())
    await t.rejects(team.start(), { code: 'CLUSTER_UNREACHABLE' })
    await t.rejects(team.launch('hi'), { code: 'CLUSTER_UNREACHABLE' })
    await other.run()
    await team.start()
    t.equal((await team.execute('hi', { agent: 'helper' })).finalOutput, 'hhi')
  })

  await t.test("a team is a model of OpenAI's formats in each process", async (t) => {
    const [one, two] = await Promise.all([served(t, { url, name: 'models' }), served(t, { url, name: 'models' })])
    await sharedBy(one, two)
    const { data } = (await one.send('GET', '/v1/models')).body
    t.same(
      data.map(({ id }: { id: string }) => id),
      ['desk', 'desk/asker', 'desk/helper'],
    )
    const chat = (model: string, content: string, more = {}) => ({
      body: { model, messages: [{ role: 'user', content }], ...more },
    })
    const shards = new Set<number>()
    while (shards.size < 4) {
      const whole = await one.send('POST', '/v1/chat/completions', chat('desk/helper', 'hi'))
      t.match(whole, { status: 200, body: { choices: [{ message: { content: 'hhi' } }], usage: { total_tokens: 0 } } })
      shards.add(one.team.shardOf(whole.body.id.slice('chatcmpl-'.length)))
      const stream = await two.fetch('POST', '/v1/chat/completions', chat('desk/helper', 'hi', { stream: true }))
      t.equal(contentIn(await stream.text()), 'hhi')
    }
    t.match(await one.send('POST', '/v1/chat/completions', chat('desk/none', 'hi')), { status: 404 })
    const body = { id: 'c', messages: [{ id: 'm', role: 'user', parts: [{ type: 'text', text: 'hi' }] }] }
    const detail = /"desk" runs over several processes, which cannot do that yet\. Use \/api\/tasks/
    t.match(await one.send('POST', '/api/chat', { body }), { status: 422, body: { detail } })
    const responses: string[] = []
    for (const at of [0, 1, 2, 3]) {
      const asked = { model: 'desk', input: at === 0 ? 'order' : 'slow', background: true }
      let begun: { id: string }
      do begun = (await one.send('POST', '/v1/responses', { body: asked })).body
      while (one.team.shardOf(begun.id.slice('resp_'.length)) !== at)
      responses.push(begun.id)
    }
    const [cancelled, ...others] = responses as [string, ...string[]]
    t.match(await two.send('POST', `/v1/responses/${cancelled}/cancel`), { status: 200, body: { status: 'cancelled' } })
    for (const id of others) {
      for (const each of [one, two]) {
        let now: { status: string }
        do now = (await each.send('GET', `/v1/responses/${id}`)).body
        while (now.status === 'queued' || now.status === 'in_progress')
        t.match(now, { id, status: 'completed', output: [{ content: [{ text: 'slow, done' }] }] })
        t.equal((await each.send('GET', `/v1/responses/${id}`, { caller: 'bob:run' })).status, 404)
        const next = { model: 'desk/helper', input: 'hi', previous_response_id: id }
        const said = await each.send('POST', '/v1/responses', { body: next })
        t.match([said.status, said.headers.get('x-dramatis-ignored')], [200, 'input'], 'it has the conversation')
        t.equal((await each.send('POST', '/v1/responses', { body: next, caller: 'bob:run' })).status, 404)
      }
    }
    t.equal((await one.send('GET', '/v1/responses/resp_none')).status, 404)
  })

  await t.test("an answer in OpenAI's format goes on where its shard goes", async (t) => {
    const [one, two] = await Promise.all([served(t, { url, name: 'goes on' }), served(t, { url, name: 'goes on' })])
    await sharedBy(one, two)
    const asked = { body: { model: 'desk', messages: [{ role: 'user', content: 'slow' }], stream: true } }
    const streams = await Promise.all(Array.from({ length: 6 }, () => one.fetch('POST', '/v1/chat/completions', asked)))
    const closed = two.close()
    for (const stream of streams) t.equal(contentIn(await stream.text()), 'slow, done')
    await closed
  })
})

async function all<T>(items: AsyncIterable<T>): Promise<T[]> {
  const found: T[] = []
  for await (const item of items) found.push(item)
  return found
}

/** Text of a streamed completion. */
function contentIn(stream: string): string {
  const data = [...stream.matchAll(/^data: (\{.*)$/gm)].map(([, json]) => JSON.parse(json!))
  return data.map(({ choices, error }) => (error ? JSON.stringify(error) : (choices[0]?.delta.content ?? ''))).join('')
}

/** What a process has of a run, as JSON. */
async function looked(team: Served['team'], id: string) {
  const run = (await team.getRun(id))!
  const [trace, history, board] = await Promise.all([run.trace(), run.messageHistory(), run.board()])
  return JSON.parse(JSON.stringify({ trace, history, board })) as {
    trace: typeof trace
    history: { content: string }[]
    board: unknown[]
  }
}
