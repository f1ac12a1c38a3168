/** Requests with a key from one process to another, and circles of them over several. */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { PostgresServer, postgresFolder } from '../../examples/cluster-demo/postgres-server.ts'
import { createTeam } from '../../src/index.ts'
import type { Operation } from '../fixtures/cluster/scripted.ts'
import { calls, FakeModel } from '../models/fake-model.ts'

const bin = postgresFolder()
const module = new URL('../fixtures/cluster/scripted.js', import.meta.url)
const SHARDS = 6

t.test('requests with a key over processes', { skip: !bin && 'no PostgreSQL is installed here' }, async (t) => {
  const server = await PostgresServer.start(bin!)
  t.teardown(() => server.remove())
  const folder = mkdtempSync(join(tmpdir(), 'dramatis-keyed-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))

  const memberOf = (t: Test, name: string) => {
    const team = createTeam({
      agents: ['ann', 'bob', 'cat'].map((each) => ({ name: each, module, data: { effects: join(folder, name) } })),
      orchestration: { strategy: 'sequential', agentOrder: ['ann'] },
      cluster: { url: server.url, name, shards: SHARDS, times: { beatMs: 200, suspectMs: 1_000 } },
      threads: { warmSpares: 0 },
      logger: { debug() {}, info() {}, warn() {}, error() {} },
    })
    t.teardown(() => team.close())
    return team
  }
  type Member = ReturnType<typeof memberOf>

  /** Members that have all shards, each its share. */
  const membersOf = async (t: Test, name: string, count: number) => {
    const members = Array.from({ length: count }, () => memberOf(t, name))
    await Promise.all(members.map((member) => member.start()))
    while (members.some(({ held }) => held.size !== SHARDS / count)) await sleep(20)
    return members
  }
  const linesOf = (name: string) =>
    readFileSync(join(folder, name), { encoding: 'utf8', flag: 'a+' }).split('\n').filter(Boolean)
  const program = (...operations: Operation[]) => JSON.stringify(operations)

  await t.test('a model asks by a key, too', async (t) => {
    const shown: unknown[] = []
    const model = (key: string) =>
      new FakeModel(({ tools = [] }, nth) => {
        if (nth === 0) shown.push(tools.find(({ name }) => name === 'request')?.inputSchema)
        return nth === 0 ? calls(['request', { to: 'bob', content: program(['say', 'kept']), key }]) : 'asked'
      })
    const optionsWith = (key: string) => ({
      agents: [
        { name: 'eve', systemPrompt: 'Ask bob.', tools: ['request'] },
        { name: 'bob', module },
      ],
      orchestration: { strategy: 'sequential' as const, agentOrder: ['eve'] },
      models: { default: { client: model(key) } },
      threads: { warmSpares: 0 },
      logger: { debug() {}, info() {}, warn() {}, error() {} },
    })
    const cluster = { url: server.url, name: 'models', shards: SHARDS, times: { beatMs: 200, suspectMs: 1_000 } }
    const members = ['k', 'k'].map((key) => createTeam({ ...optionsWith(key), cluster }))
    t.teardown(() => Promise.all(members.map((member) => member.close())))
    await Promise.all(members.map((member) => member.start()))
    while (members.some(({ held }) => held.size !== SHARDS / 2)) await sleep(20)
    const [one] = members as [(typeof members)[0]]
    t.match(await one.execute('go'), { success: true, finalOutput: 'asked' })
    const runs = await Promise.all(members.flatMap(({ held }) => Array.from(held.values(), (each) => each.listRuns())))
    t.match(
      runs.flat().find(({ query }) => query.includes('kept')),
      { threadId: 'k', status: 'finished' },
    )
    const alone = createTeam(optionsWith('k'))
    await alone.execute('go')
    await alone.close()
    t.match(shown, [{ properties: { key: { type: 'string' } } }, { properties: { to: {} } }])
    t.notHas(shown[1], { properties: { key: {} } }, 'who has no cluster pays for no word of it')
  })

  /** A key of a shard that this member has. */
  const keyAt = async (any: Member, of: Member, prefix: string): Promise<string> => {
    for (let n = 0; ; n++) {
      const key = `${prefix}${n}`
      const { shard } = await any.launch('[]', { key, runId: `probe ${key}` })
      if (of.held.has(shard)) return key
    }
  }

  await t.test('a request goes where its key is, and is done once', async (t) => {
    const [one, two] = (await membersOf(t, 'once', 2)) as [Member, Member]
    const key = await keyAt(one, two, 'k')
    const own = await keyAt(one, one, 'o')
    const asked: Operation = [
      'ask',
      'bob',
      key,
      [
        ['effect', 'done'],
        ['say', 'answer'],
      ],
    ]
    const result = await one.execute(program(asked, ['effect', 'behind']), { key: own, runId: 'asks' })
    t.match(result, { success: true, finalOutput: 'answer' })
    t.same(linesOf('once'), ['done', 'behind'])
    const runs = await Promise.all(Array.from(two.held.values(), (team) => team.listRuns()))
    t.match(
      runs.flat().find(({ query }) => query.includes('answer')),
      { threadId: key, status: 'finished' },
    )
  })

  await t.test('whoever leaves meanwhile, the request is done once, and its answer comes', async (t) => {
    const [one, two, three] = (await membersOf(t, 'leaving', 3)) as [Member, Member, Member]
    const [mine, theirs] = [await keyAt(one, one, 'o'), await keyAt(one, two, 't')]
    const asked: Operation = [
      'ask',
      'bob',
      theirs,
      [
        ['effect', 'begun'],
        ['sleep', 1_000],
        ['effect', 'done'],
        ['say', 'x'],
      ],
    ]
    const run = await three.launch(program(['effect', 'asks'], asked, ['effect', 'behind']), { key: mine })
    while (!linesOf('leaving').includes('begun')) await sleep(10)
    await Promise.all([one.close(), two.close()])
    t.match(await run.result(), { success: true, finalOutput: 'x' })
    t.same(linesOf('leaving'), ['asks', 'begun', 'done', 'behind'])
  })

  await t.test('a circle over two shards is named with them, and its youngest wait ends', async (t) => {
    const [one, two] = (await membersOf(t, 'circle', 2)) as [Member, Member]
    const [mine, theirs] = [await keyAt(one, one, 'o'), await keyAt(one, two, 't')]
    const asks = (key: string) => program(['meet', 'the start', 2], ['ask', 'ann', key, [['say', 'heard']]])
    const runs = [
      await one.launch(asks(theirs), { key: mine, runId: 'first' }),
      await one.launch(asks(mine), { key: theirs, runId: 'second' }),
    ]
    const results = await Promise.all(runs.map((run) => run.result()))
    t.equal(results.filter(({ success }) => success).length, 1, 'the other goes on')
    const shards = runs.map(({ shard }) => shard)
    const failed = results.find(({ success }) => !success)
    t.match(
      failed?.error?.message,
      /A deadlock: "ann" in shard \d waits for the answer of "ann" to a key; "ann" in shard/,
    )
    for (const shard of shards) t.match(failed?.error?.message, `"ann" in shard ${shard} waits`)
    const types: string[] = []
    const of = [one, two].flatMap(({ held }) => [...held.values()].flatMap((team) => team.getRun(failed!.runId) ?? []))
    for (const run of of) for await (const { type } of run.events()) types.push(type)
    t.ok(types.includes('deadlock'), 'its events say so')
  })

  await t.test('waits that end by themselves are no circle', async (t) => {
    const members = await membersOf(t, 'fine', 3)
    const [one, two, three] = members as [Member, Member, Member]
    const [k, l, m] = [await keyAt(one, one, 'k'), await keyAt(one, two, 'l'), await keyAt(one, three, 'm')]
    const far = (...inner: Operation[]): Operation => ['ask', 'bob', l, inner]
    const corpus: Operation[][] = [
      [far(['work', 900])],
      [far(['ask', 'cat', m, [['sleep', 900]]])],
      [far(['ask', 'cat', m, [['ask', 'bob', k, [['work', 900]]]]])],
      [['all', [far(['work', 600]), ['ask', 'cat', m, [['work', 800]]], ['ask', 'bob', k, [['sleep', 700]]]]]],
      [
        far([
          'race',
          [
            ['ask', 'ann', k, []],
            ['work', 900],
          ],
        ]),
      ],
      [['race', [far(['ask', 'ann', k, []]), ['sleep', 900]]]],
      Array.from({ length: 5 }, (): Operation => far(['ask', 'cat', m, []])),
    ]
    for (const [n, operations] of corpus.entries()) {
      const result = await one.execute(program(...operations), { key: k, runId: `case ${n}` })
      t.equal(result.error?.message, undefined, JSON.stringify(operations))
    }
    const crowd = await Promise.all(
      Array.from({ length: 24 }, (_, n) =>
        members[n % 3]!.execute(program(['ask', 'bob', `c${n % 5}`, [['ask', 'cat', `d${n % 3}`, [['work', 50]]]]])),
      ),
    )
    t.same(
      crowd.map(({ error }) => error?.message),
      crowd.map(() => undefined),
    )
  })
})
