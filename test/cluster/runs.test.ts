/** A run in the hands of a program, or of a client in OpenAI's formats, wherever its shard is. */
import t from 'tap'
import { z } from 'zod'
import { PostgresServer, postgresFolder } from '../../examples/cluster-demo/postgres-server.ts'
import { type ClusterEvent, createTeam } from '../../src/index.ts'
import { PostgresStore } from '../../src/postgres/index.ts'
import { clusterTeam, idAt, logger, served, sharedBy } from './served.ts'

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
    let closed: Promise<void> | undefined
    for await (const event of run.events()) {
      seen.push(event)
      if (seen.length === 8) closed = two.close()
    }
    await closed
    t.match(seen.at(-1), { type: 'run.finished', result: { finalOutput: 'slow, done' } })
    const place = ({ id, type }: ClusterEvent) => [id, type]
    t.same(seen.map(place), (await all(run.events())).map(place))
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
    t.equal((await runs[1]!.result()).finalOutput, 'hhi')
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

async function all(events: AsyncIterable<ClusterEvent>): Promise<ClusterEvent[]> {
  const list: ClusterEvent[] = []
  for await (const event of events) list.push(event)
  return list
}

/** Text of a streamed completion. */
function contentIn(stream: string): string {
  const data = [...stream.matchAll(/^data: (\{.*)$/gm)].map(([, json]) => JSON.parse(json!))
  return data.map(({ choices, error }) => (error ? JSON.stringify(error) : (choices[0]?.delta.content ?? ''))).join('')
}
