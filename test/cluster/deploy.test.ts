/** New code comes to a cluster process by process, while runs wait for people. */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { PostgresServer, postgresFolder } from '../../examples/cluster-demo/postgres-server.ts'
import { createTeam } from '../../src/index.ts'
import { howMany } from '../how-many.ts'

const bin = postgresFolder()
const RUNS = howMany(25, 1_000)
const SHARDS = 6
const module = new URL('../fixtures/cluster/asking.js', import.meta.url)

t.test('a deploy', { skip: !bin && 'no PostgreSQL is installed here', timeout: 0 }, async (t) => {
  const server = await PostgresServer.start(bin!)
  t.teardown(() => server.remove())
  const folder = mkdtempSync(join(tmpdir(), 'dramatis-deploy-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))

  const said: string[] = []
  const memberOf = (t: Test, name: string, version: string, code = 'same') => {
    const data = { effects: join(folder, name), code }
    const team = createTeam({
      agents: [{ name: 'ann', module, data, concurrency: 64 }],
      orchestration: { strategy: 'sequential' },
      cluster: { url: server.url, name, shards: SHARDS, version, times: { beatMs: 200, suspectMs: 1_000 } },
      threads: { warmSpares: 0 },
      logger: { debug() {}, info: (_: object, text: string) => void said.push(text), warn() {}, error() {} },
    })
    t.teardown(() => team.close())
    return team
  }
  type Member = ReturnType<typeof memberOf>
  const questionsOf = (members: readonly Member[]) =>
    members.flatMap(({ held }) =>
      [...held.values()].flatMap((team) => team.questions().map((each) => ({ team, ...each }))),
    )
  const linesOf = (name: string) =>
    readFileSync(join(folder, name), { encoding: 'utf8', flag: 'a+' }).split('\n').filter(Boolean).sort()

  await t.test(`${RUNS} runs that wait for people lose nothing, and each question is answered once`, async (t) => {
    const old = Array.from({ length: 3 }, () => memberOf(t, 'rolling', 'v1'))
    await Promise.all(old.map((member) => member.start()))
    const runs = await Promise.all(
      Array.from({ length: RUNS }, (_, n) => old[n % 3]!.launch(`order ${n}`, { runId: `run ${n}` })),
    )
    while (questionsOf(old).length < RUNS) await sleep(20)
    const asked = new Map(questionsOf(old).map(({ runId, questionId }) => [runId, questionId]))
    const members = [...old]
    for (const leaving of old) {
      const next = memberOf(t, 'rolling', 'v2')
      members.push(next)
      await next.start()
      await leaving.close()
    }
    while (questionsOf(members).length < RUNS) await sleep(20)
    const last = members.at(-1)!
    for (const { questionId, runId } of questionsOf(members)) {
      t.equal(questionId, asked.get(runId), 'it is the same question')
      await (await last.getRun(runId))!.answer(questionId, `yes to ${runId}`) // durable, also if its shard moves
    }
    const results = await Promise.all(runs.map(({ id }, n) => last.execute(`order ${n}`, { runId: id })))
    t.same(
      results.map(({ finalOutput, error }) => finalOutput ?? error?.message),
      runs.map(({ id }, n) => `order ${n}: yes to ${id}`),
    )
    const lines = runs.flatMap((_, n) => [`before order ${n}`, `behind order ${n}`])
    t.same(linesOf('rolling'), lines.sort())
  })

  await t.test('a shard is passed on to the code that can go on with its runs', async (t) => {
    const one = memberOf(t, 'changed', 'v1')
    await one.start()
    const runs = await Promise.all(
      Array.from({ length: 12 }, (_, n) => one.launch(`order ${n}`, { runId: `run ${n}` })),
    )
    while (questionsOf([one]).length < runs.length) await sleep(20)
    const two = memberOf(t, 'changed', 'v2', 'changed')
    await two.start()
    while (!said.some((text) => text.includes('the code here (v2) cannot go on with'))) await sleep(20)
    while (questionsOf([one]).length < runs.length) await sleep(20)
    for (const { runId, questionId } of questionsOf([one]))
      await runs.find(({ id }) => id === runId)!.answer(questionId, 'yes') // also if its shard is just passed on again
    const results = await Promise.all(runs.map((run) => run.result()))
    for (const [n, { finalOutput }] of results.entries()) t.equal(finalOutput, `order ${n}: yes`)
    t.equal(linesOf('changed').length, 24)
  })
})
