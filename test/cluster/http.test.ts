/** HTTP from any process of a cluster: the owner of a run answers, whoever was asked. */
import t from 'tap'
import { PostgresServer, postgresFolder } from '../../examples/cluster-demo/postgres-server.ts'
import { type Behind, mergedList, ofShard, pageOfShard } from '../../src/service/api/cluster-lists.ts'
import { Haunted, haunting } from './haunted.ts'
import { clusterTeam, idAt, type Served, served, sharedBy } from './served.ts'

const bin = postgresFolder()
process.env.SECRET = 'a secret of thirty-two characters'

t.test('pages of a list follow each other, however many shards there are', async (t) => {
  const SHARDS = 4_096
  for (const [name, cursor, field, order] of [
    ['listTasks', 'before', 'createdAt', 'newest'],
    ['listDeadLetters', 'after', 'at', 'newest'],
    ['listDeadLetters', 'after', 'at', 'oldest'],
  ] as const) {
    const items = name === 'listTasks' ? 'tasks' : 'letters'
    const sign = order === 'newest' ? -1 : 1
    // many begin in the same millisecond, in one shard and in several
    const lists = Array.from({ length: SHARDS }, (_, shard) =>
      Array.from({ length: shard % 4 }, (_, n) => ({ id: `${shard}-${n}`, at: 10 + ((shard + (n >> 1)) % 3) })).sort(
        (one, other) => sign * (one.at - other.at),
      ),
    )
    const shown: string[] = []
    for (let next: string | undefined; ; ) {
      const call = { name, query: { order, limit: 700, [cursor]: next } }
      const parts = lists.map((all, shard) => {
        const { query } = pageOfShard(call, shard) as { query: typeof call.query & Behind }
        const from = all.findIndex(({ id }) => id === query[cursor]) + 1
        const isBehind = ({ at }: { at: number }) => query.behind === undefined || sign * (at - query.behind) > 0
        const left = all.slice(from).filter(isBehind)
        const page = left.slice(0, query.limit).map(({ id, at }) => ({ id, [field]: new Date(at).toISOString() }))
        return ofShard(call, { [items]: page, next: left.length > page.length ? 'more' : null }, shard)
      })
      const page = mergedList(call, parts) as { next: string | null; [items: string]: unknown }
      shown.push(...(page[items] as { id: string }[]).map(({ id }) => id))
      if (page.next === null) break
      t.ok(page.next.length < 100)
      next = page.next
    }
    t.equal(new Set(shown).size, shown.length, `${name}, ${order}: none twice`)
    t.equal(shown.length, lists.flat().length, `${name}, ${order}: none missing`)
  }
})

t.test('HTTP from any process', { skip: !bin && 'no PostgreSQL is installed here' }, async (t) => {
  const database = await PostgresServer.start(bin!)
  t.teardown(() => database.remove())
  const { url } = database

  await t.test('at either of two', async (t) => {
    const desk = { url, name: 'desk' }
    const [one, two] = await Promise.all([served(t, desk), served(t, desk)])
    await sharedBy(one, two)

    await t.test('a task is begun, looked at, answered and read anywhere', async (t) => {
      for (const [here, there] of [
        [one, two],
        [two, one],
      ] as const) {
        const begun = await begin(here, there)
        const at = `/api/tasks/${begun.id}`
        for (const each of [here, there]) {
          const task = await waiting(each, at)
          t.match(task, { id: begun.id, team: 'desk', status: 'waiting', query: 'order' })
          t.equal((await each.send('GET', at, { caller: 'bob:run' })).status, 404, 'it is a secret to others')
          t.equal((await each.send('GET', `${at}/trace`)).status, 200)
          t.match((await each.send('GET', '/api/questions')).body.questions, [{ taskId: begun.id, refusal: null }])
        }
        const { questionId } = (await waiting(here, at)).questions[0]
        const refused = await here.send('POST', `${at}/answers`, { body: { questionId: 'none', answer: 'yes' } })
        t.equal(refused.status, 404)
        const bobs = { body: { questionId, answer: 'yes' }, caller: 'bob:run' }
        t.equal((await here.send('POST', `${at}/answers`, bobs)).status, 404)
        t.equal((await here.send('POST', `${at}/answers`, { body: { questionId, answer: 'yes' } })).status, 204)
        t.equal((await there.send('POST', `${at}/answers`, { body: { questionId, answer: 'no' } })).status, 409)
        for (const each of [here, there])
          t.match((await each.send('GET', `${at}?wait=10`)).body, { status: 'finished', answer: 'order: yes' })
        const events = [await idsOf(here, `${at}/events`), await idsOf(there, `${at}/events`)]
        t.same(events[0], events[1])
        t.ok(events[0]!.length > 5)
        const behind = { headers: { 'last-event-id': events[0]![2]! } }
        for (const each of [here, there]) {
          t.same(await idsOf(each, `${at}/events`, behind), events[0]!.slice(3))
          const last = { headers: { 'last-event-id': events[0]!.at(-1)! } }
          t.equal((await each.send('GET', `${at}/events`, last)).status, 204)
        }
      }
      t.equal((await one.send('GET', '/api/tasks/none')).status, 404)
    })

    await t.test('a task is begun once by its key, waited for, and told as it ended', async (t) => {
      const slow = { body: { query: 'slow' }, headers: { 'idempotency-key': 'k' } }
      const [first, second] = await Promise.all([
        one.send('POST', '/api/tasks', slow),
        two.send('POST', '/api/tasks', slow),
      ])
      t.match([first, second], [{ status: 200 }, { status: 200, body: { id: first.body.id, answer: 'slow, done' } }])
      const replayed = [first, second].filter(({ headers }) => headers.get('idempotency-replayed') === 'true')
      t.equal(replayed.length, 1)
      const other = await two.send('POST', '/api/tasks', { ...slow, body: { query: 'other' } })
      t.match(other, { status: 422, body: { detail: /another body/ } })
      for (const each of [one, two]) {
        const late = await each.send('POST', '/api/tasks', { body: { query: 'slow', timeoutMs: 200 } })
        t.match(late, { status: 504, body: { code: 'RUN_TIMEOUT', task: { status: 'failed', query: 'slow' } } })
        const stream = await each.fetch('POST', '/api/tasks', {
          body: { query: 'slow' },
          headers: { accept: 'text/event-stream' },
        })
        const text = await stream.text()
        t.match(text, /^retry: 1000\n\nevent: task\ndata: {"id":/)
        t.match(text, /event: run.finished\n.*"finalOutput":"slow, done"/)
      }
      for (let i = 0; i < 6; i++) {
        const refused = { body: { query: 'x', models: { nope: 'm' } }, headers: { accept: 'text/event-stream' } }
        const stream = await one.fetch('POST', '/api/tasks', refused)
        t.match(await stream.text(), /event: task\ndata: .*\n\nevent: run.finished\ndata: .*"error":{.*nope/)
      }
      const bad = await one.send('POST', '/api/tasks', { body: { query: 'order', output: { type: 'none' } } })
      t.match(bad, { status: 422, body: { detail: /^output: / } })
    })

    await t.test("a thread is its caller's in every process", async (t) => {
      const slow = (caller: string) => ({ body: { query: 'slow', threadId: 'ann' }, caller })
      t.equal((await one.send('POST', '/api/tasks', slow('ann:run'))).status, 200)
      t.match(await two.send('POST', '/api/tasks', slow('bob:run')), { status: 404, body: { detail: /thread/ } })
      t.equal((await two.send('POST', '/api/tasks', slow('ann:run'))).status, 200)
    })

    await t.test('several people agree at any process, with the digest of what they were shown', async (t) => {
      for (const [here, there] of [
        [one, two],
        [two, one],
      ] as const) {
        const { id } = await begin(here, there, 'pay', 'ann:run:acme')
        const at = `/api/tasks/${id}`
        const [{ questionId, digest }] = (await waiting(here, at)).questions
        const say = (member: Served, caller: string, answer: unknown = 'yes', of: string = digest) =>
          member.send('POST', `${at}/answers`, { body: { questionId, answer, digest: of }, caller })
        const bare = { body: { questionId, answer: 'yes' }, caller: 'bob:approve:acme:finance' }
        t.equal((await here.send('POST', `${at}/answers`, bare)).status, 422)
        t.equal((await say(here, 'ann:run,approve:acme:finance')).status, 403, 'who began it')
        t.equal((await say(here, 'joe:approve:acme:sales')).status, 403, 'of no such group')
        t.equal((await say(there, 'zoe:approve:zeta:finance')).status, 404, 'of another tenant')
        t.equal((await say(here, 'bob:approve:acme:finance')).status, 204)
        t.equal((await say(there, 'eve:approve:acme:finance', 'yes', 'another')).status, 409)
        const edited = { approved: true, input: { cents: 1 } }
        t.equal((await say(there, 'eve:approve:acme:finance', edited)).status, 204)
        t.equal((await say(here, 'bob:approve:acme:finance', 'no', digest)).status, 409, 'it has changed')
        const [shown] = (await here.send('GET', at)).body.questions
        t.match(shown, { input: { cents: 1 }, agreed: [{ id: 'eve' }] })
        t.equal((await say(here, 'bob:approve:acme:finance', 'yes', shown.digest)).status, 204)
        t.match((await there.send('GET', `${at}?wait=10`)).body, { status: 'finished', answer: 'paid: 1' })
      }
      const run = await one.team.launch('pay', { runId: idAt(two, 'program'), caller: 'ann', tenant: 'acme' })
      while ((await run.questions()).length === 0);
      const { questionId } = (await run.questions())[0]!
      await t.rejects(run.answer(questionId, 'yes'), { code: 'CONFIGURATION', details: { path: 'by' } })
      const by = (id: string, groups = ['finance']) => ({ by: { id, groups } })
      await t.rejects(run.answer(questionId, 'yes', by('ann')), { code: 'ANSWER_REFUSED', details: { how: 'caller' } })
      for (const id of ['bob', 'eve']) await run.answer(questionId, 'yes', by(id))
      t.equal((await run.result()).finalOutput, 'paid: 500')
    })

    await t.test('a run is answered and cancelled by the program, wherever its shard is', async (t) => {
      for (const owner of [one, two]) {
        const run = await one.team.launch('order', { runId: idAt(owner, 'asked') })
        while ((await run.questions()).length === 0);
        t.equal(await run.status(), 'waiting')
        const [question] = await run.questions()
        await t.rejects(run.answer('none', 'yes'), { code: 'CONFIGURATION', details: { path: 'questionId' } })
        await run.answer(question!.questionId, 'yes', { by: { id: 'ann' } })
        await run.answer(question!.questionId, 'yes', { by: { id: 'ann' } }) // as when its owner could not say that it has it
        for (const [answer, by] of [
          ['no', { id: 'ann' }],
          ['yes', { id: 'bob' }],
          ['yes', undefined],
        ] as const)
          await t.rejects(run.answer(question!.questionId, answer, { ...(by && { by }) }), {
            code: 'CONFIGURATION',
            details: { how: 'answered' },
          })
        t.equal((await run.result()).finalOutput, 'order: yes')
        const other = await two.team.launch('order', { runId: idAt(owner, 'cancelled') })
        await (await one.team.getRun(other.id))!.cancel('enough')
        t.match((await other.result()).error, { code: 'RUN_ABORTED', message: /enough/ })
      }
      t.equal(await one.team.getRun('none'), undefined)
    })

    await t.test('words are said to a run wherever its shard is, once for an id', async (t) => {
      for (const owner of [one, two]) {
        const run = await one.team.launch('order', { runId: idAt(owner, 'steered') })
        while ((await run.questions()).length === 0);
        const at = `/api/tasks/${run.id}`
        const said = await run.steer('In blue.', { id: 'a', by: { id: 'ann' } })
        t.match(said, { id: 'a', text: 'In blue.', to: null, by: 'ann' })
        for (const each of [one, two]) {
          const body = { words: 'In blue.', id: 'a' }
          t.match(await each.send('POST', `${at}/steer`, { body }), { status: 202, body: { id: 'a', by: 'ann' } })
          t.match((await each.send('GET', at)).body.steers, [{ id: 'a', text: 'In blue.' }])
        }
        t.equal((await two.send('POST', `${at}/steer`, { body: { words: 'x' }, caller: 'bob:run' })).status, 404)
        const [question] = await run.questions()
        await run.answer(question!.questionId, 'yes')
        t.equal((await run.result()).finalOutput, 'order: yes')
        t.equal(await said.settled, 'unread', 'no model is in the team')
        t.match(await two.send('POST', `${at}/steer`, { body: { words: 'x' } }), {
          status: 409,
          body: { code: 'RUN_ENDED' },
        })
        await t.rejects(run.steer('x'), { code: 'RUN_ENDED' })
      }
    })
  })

  await t.test('a stream counts where its client has opened it', async (t) => {
    const limits = { streamsPerCaller: 2, postsPerSecond: 10_000, getsPerSecond: 10_000 }
    const [one, two] = (await Promise.all([0, 1].map(() => served(t, { url, name: 'counted' }, { limits })))) as [
      Served,
      Served,
    ]
    await sharedBy(one, two)
    const at = `/api/tasks/${(await begin(one, two)).id}`
    await waiting(two, at)
    const enough = new AbortController()
    const { signal } = enough
    for (const each of [two, two, one]) {
      const reader = (await each.fetch('GET', `${at}/events`, { signal })).body!.getReader()
      for (let text = ''; !/^id: /m.test(text); ) {
        const { value, done } = await reader.read()
        if (done) throw new Error(`the stream has ended: ${text}`)
        text += Buffer.from(value)
      }
    }
    t.match(await two.send('GET', `${at}/events`), { status: 429 })
    enough.abort()
    await one.send('DELETE', at)
  })

  await t.test('a process that ends says how what it waited for is', async (t) => {
    const [one, two] = await Promise.all([served(t, { url, name: 'ends' }), served(t, { url, name: 'ends' })])
    await sharedBy(one, two)
    const at = `/api/tasks/${(await begin(one, two)).id}`
    await waiting(one, at)
    const stream = await one.fetch('GET', `${at}/events`)
    const waited = one.send('GET', `${at}?wait=30`)
    await one.send('GET', at)
    await one.close()
    t.match(await waited, { status: 200, body: { status: 'waiting' } })
    t.match(await stream.text(), /^id: /m)
    await two.send('DELETE', at)
  })

  await t.test('a stranger does not keep a task that was left', async (t) => {
    const limits = { disconnectGraceMs: 1_000, postsPerSecond: 10_000, getsPerSecond: 10_000 }
    const options = { limits, onDisconnect: 'cancel' } as const
    const one = await served(t, { url, name: 'left' }, options)
    const two = await served(t, { url, name: 'left' }, options)
    await sharedBy(one, two)
    const at = `/api/tasks/${(await begin(one, two)).id}`
    await waiting(two, at)
    const enough = new AbortController()
    const stream = await one.fetch('GET', `${at}/events`, { signal: enough.signal })
    await firstOf(stream.body!)
    enough.abort()
    do t.equal((await one.send('GET', at, { caller: 'bob:run' })).status, 404)
    while ((await two.send('GET', at)).body.status !== 'aborted')
  })

  await t.test('lists have what all processes have', async (t) => {
    const [one, two] = await Promise.all([served(t, { url, name: 'lists' }), served(t, { url, name: 'lists' })])
    await sharedBy(one, two)
    const begun: string[] = []
    for (let i = 0; i < 7; i++) begun.push((await begin(one, i % 2 ? one : two)).id)
    const open = () => one.send('GET', '/api/tasks?status=waiting')
    while ((await open()).body.tasks.length < 7);
    for (const each of [one, two]) {
      const listed: string[] = []
      for (let next: string | null = ''; next !== null; ) {
        const { body } = await each.send('GET', `/api/tasks?status=waiting&limit=3${next && `&before=${next}`}`)
        listed.push(...body.tasks.map(({ id }: { id: string }) => id))
        next = body.next
      }
      t.same(listed, begun.toReversed())
      t.equal((await each.send('GET', '/api/questions')).body.questions.length, 7)
      t.same((await each.send('GET', '/api/tasks', { caller: 'bob:run' })).body.tasks, [])
      const { agents } = (await each.send('GET', '/api/agents')).body
      t.match(agents, [{ name: 'asker', inFlight: 7 }, { name: 'helper' }])
      t.match((await each.send('GET', '/api/waits')).body, { cycles: [] })
      t.match((await each.send('GET', '/api/turns')).body, { judgement: { state: 'fine' } })
      for (const before of ['none', 'bnVsbA', 'WzFd', 'eyIwIjoxfQ'])
        t.equal((await each.send('GET', `/api/tasks?before=${before}`)).status, 422, before)
      t.match(await each.send('GET', '/api/watch?shard=99'), { status: 422, body: { detail: /the shards 0 to 3/ } })
      t.equal((await each.send('HEAD', '/api/tasks')).status, 200)
      t.equal((await each.send('HEAD', `/api/tasks/${begun[0]}`)).status, 200)
      t.equal((await each.send('HEAD', '/api/watch')).status, 200)
      for (const shard of [...one.team.held.keys(), ...two.team.held.keys()]) {
        const enough = new AbortController()
        const watched = await each.fetch('GET', `/api/watch?shard=${shard}`, { signal: enough.signal })
        const [first] = await firstOf(watched.body!)
        t.match(first, /^event: digest\ndata: {.*"snapshot"/)
        enough.abort()
      }
      t.match((await each.send('GET', '/session')).body, { teams: [{ name: 'desk', agents: ['asker', 'helper'] }] })
    }
    const letters = async () => (await two.send('GET', '/api/dead-letters?order=newest')).body.letters
    await begin(one, two)
    for (const { id } of await letters()) t.equal((await one.send('DELETE', `/api/dead-letters/${id}`)).status, 204)
    t.same(await letters(), [])
    t.equal((await one.send('DELETE', '/api/dead-letters/none')).status, 404)
    for (const id of begun)
      t.match(await one.send('DELETE', `/api/tasks/${id}`), { status: 202, body: { id, status: 'aborted' } })
    t.equal((await two.send('DELETE', `/api/tasks/${begun[0]}`)).status, 200)
  })

  await t.test('nothing is accepted while the database is away, and nobody waits for ever', async (t) => {
    const other = await PostgresServer.start(bin!)
    t.teardown(() => other.remove())
    const one = await served(t, { url: other.url, name: 'away' })
    await sharedBy(one)
    const { body } = await one.send('POST', '/api/tasks', {
      body: { query: 'order' },
      headers: { prefer: 'respond-async' },
    })
    const at = `/api/tasks/${body.id}`
    const questionId = (await waiting(one, at)).questions[0].questionId
    await other.kill()
    const answer = { questionId, answer: 'yes' }
    const answers = await Promise.all([
      one.send('POST', '/api/tasks', { body: { query: 'slow' } }),
      one.send('POST', `${at}/answers`, { body: answer }),
      one.send('DELETE', at),
      one.send('GET', '/api/tasks/none'),
    ])
    for (const { status, headers, body } of answers)
      t.match([status, headers.get('retry-after'), body.code], [503, '2', 'SHARD_AWAY'])
    t.equal((await one.send('GET', '/readyz')).status, 200)
    await other.run()
    while ((await one.send('POST', `${at}/answers`, { body: answer })).status === 503);
    t.match((await one.send('GET', `${at}?wait=10`)).body, { status: 'finished', answer: 'order: yes' })
  })

  await t.test('a question is listed once where several teams share the processes', async (t) => {
    const others = [0, 1].map(() => clusterTeam({ url, name: 'second' }))
    const members = await Promise.all(others.map((second) => served(t, { url, name: 'first' }, { teams: { second } })))
    for (const [at, second] of others.entries()) second.reachedAt(members[at]!.server.url)
    await Promise.all(others.map((second) => second.start()))
    await sharedBy(...members)
    await sharedBy(...others.map((team) => ({ team })))
    const teams = [...members.map(({ team }) => team), ...others]
    const runs = await Promise.all(teams.map((team) => team.launch('order', { runId: idAt({ team }, 'asked') })))
    for (const run of runs) while ((await run.questions()).length === 0);
    for (const each of members) {
      let questions = []
      while (questions.length < 4) questions = (await each.send('GET', '/api/questions')).body.questions
      t.same(questions.map(({ team }: { team: string }) => team).sort(), ['desk', 'desk', 'second', 'second'])
    }
    await Promise.all(runs.map((run) => run.cancel()))
  })

  await t.test('a member that says nothing, or nonsense, is left out of lists with a warning', async (t) => {
    let said: string | undefined
    const asked = new Set<string | undefined>()
    const address = await haunting(t, ({ method, url }, response) => {
      if (url?.startsWith('/api')) asked.add(method)
      if (said !== undefined) response.end(said)
    })
    const warned: unknown[] = []
    const logger = { debug() {}, info() {}, warn: (fields: object) => void warned.push(fields), error() {} }
    const one = await served(t, { store: new Haunted(url, 'haunted', address), secretEnv: 'SECRET' }, { logger })
    while (one.team.held.size === 0) await new Promise((resolve) => setTimeout(resolve, 20))
    const run = await one.team.launch('order', { runId: idAt(one, 'a') })
    while ((await run.questions()).length === 0);
    const list = async () => (await one.send('GET', '/api/tasks?status=waiting')).body
    const listed = async () => (await list()).tasks
    const elsewhere = () => [0, 1, 2, 3].filter((shard) => !one.team.held.has(shard))
    const first = await list()
    t.match(first.tasks, [{ id: run.id }])
    t.same(first.missing, elsewhere(), 'what nobody has told of is said')
    t.equal((await one.send('GET', '/api/tasks/none')).status, 404)
    t.match(warned, [{ host: 'elsewhere', error: /has not answered/ }, { host: 'elsewhere' }])
    const prefer = { body: { query: 'order' }, headers: { prefer: 'respond-async' } }
    for (let isHere = true; isHere; ) {
      const begun = await one.send('POST', '/api/tasks', prefer)
      t.match(begun, { status: 202 })
      isHere = one.team.held.has(one.team.shardOf(begun.body.id))
      if (isHere) await one.send('DELETE', `/api/tasks/${begun.body.id}`)
    }
    for (said of ['{}', '{"tasks":null}', '{"tasks":[1]}', 'null', 'no JSON']) {
      t.match(await listed(), [{ id: run.id }], said)
      t.match(warned.pop(), { host: 'elsewhere' }, said)
    }
    said = JSON.stringify({ tasks: [], shards: elsewhere() })
    t.equal((await list()).missing, undefined)
    t.equal((await one.send('HEAD', '/api/tasks')).status, 200)
    t.equal(warned.length, 2)
    t.same([...asked], ['GET'])
    await run.cancel()
  })
})

/** Begins a task at one member whose shard the other one holds. */
async function begin(here: Served, there: Served, query = 'order', caller?: string): Promise<{ id: string }> {
  for (;;) {
    const { status, body } = await here.send('POST', '/api/tasks', {
      body: { query },
      headers: { prefer: 'respond-async' },
      ...(caller !== undefined && { caller }),
    })
    if (status !== 202) throw new Error(JSON.stringify(body))
    if (there.team.held.has(there.team.shardOf(body.id))) return body
    await here.send('DELETE', `/api/tasks/${body.id}`)
  }
}

async function firstOf(body: ReadableStream<Uint8Array>): Promise<string[]> {
  for await (const piece of body.pipeThrough(new TextDecoderStream())) return [piece]
  return []
}

async function waiting(member: Served, at: string) {
  for (;;) {
    const { body } = await member.send('GET', at)
    if (body.questions.length > 0) return body
  }
}

async function idsOf(member: Served, path: string, options = {}): Promise<string[]> {
  const { body } = await member.send('GET', path, options)
  return [...String(body).matchAll(/^id: (.*)$/gm)].map(([, id]) => id!)
}
