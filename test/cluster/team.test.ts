/** A team over several processes, by its public entry, in one process that is several members. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { createTeam } from '../../src/index.ts'
import { FakeModel } from '../models/fake-model.ts'
import { watchThreads } from '../toolbox/desk.ts'
import { type Engine, engines } from './engines.ts'

const PATIENT = new URL('../fixtures/cluster/patient.js', import.meta.url)
const sequential = { orchestration: { strategy: 'sequential' } }
const sumOf = (all: readonly number[]) => all.reduce((sum, each) => sum + each, 0)
const example = (name: string) => new URL(`../../examples/cluster-demo/${name}.js`, import.meta.url)

for (const engine of engines) t.test(`a cluster on ${engine.name}`, { skip: engine.skip }, (t) => behaves(t, engine))

async function behaves(t: Test, engine: Engine): Promise<void> {
  const { urls, remove } = await engine.start('any', 1)
  t.teardown(remove)
  const folder = mkdtempSync(join(tmpdir(), 'dramatis-cluster-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))

  const memberOf = (t: Test, name: string, rest: object = {}) => {
    const team = createTeam({
      agents: [
        { name: 'clerk', module: example('clerk'), data: { effects: join(folder, name) } },
        { name: 'helper', module: example('helper') },
      ],
      orchestration: { strategy: 'sequential', agentOrder: ['clerk'] },
      cluster: { url: urls[0]!, name, shards: 4, times: { beatMs: 200, suspectMs: 1_000 } },
      threads: { warmSpares: 0 },
      logger: { debug() {}, info() {}, warn() {}, error() {} },
      ...rest,
    })
    t.teardown(() => team.close())
    return team
  }

  await t.test('any process takes a run, and every one has its result', async (t) => {
    const [one, two] = [memberOf(t, 'any'), memberOf(t, 'any')]
    await Promise.all([one.start(), two.start()])
    const run = await one.launch('order 1', { runId: 'a', threadId: 'ann' })
    const same = await two.launch('order 1', { runId: 'a', threadId: 'ann' })
    t.equal(run.shard, same.shard)
    const results = await Promise.all([run.result(), same.result()])
    for (const result of results)
      t.match(result, { runId: 'a', success: true, finalOutput: 'order 1: h1,h2,h3', error: null, rehearsed: false })
    t.same((await two.execute('order 1', { runId: 'a', threadId: 'ann' })).finalOutput, 'order 1: h1,h2,h3')
    await t.rejects(two.launch('order 2', { runId: 'a', threadId: 'ann' }), {
      code: 'CONFIGURATION',
      details: { path: 'runId' },
    })
    const { shard } = await two.launch('order 3', { threadId: 'ann' })
    t.equal(shard, run.shard)
  })

  await t.test('a run that fails says why, wherever it is asked', async (t) => {
    const [one, two] = [memberOf(t, 'failing'), memberOf(t, 'failing')]
    await Promise.all([one.start(), two.start()])
    const run = await one.launch('order 1', { runId: 'late', timeoutMs: 1 })
    const [mine, others] = await Promise.all([run.result(), two.execute('order 1', { runId: 'late', timeoutMs: 1 })])
    for (const result of [mine, others]) {
      t.match(result, { success: false, finalOutput: null })
      t.equal(result.error?.name, 'RunTimeoutError')
    }
  })

  await t.test('who closes gives its shards over, and what was under way goes on', async (t) => {
    const patient = { agents: [{ name: 'ann', module: PATIENT }], orchestration: { strategy: 'sequential' } }
    const one = memberOf(t, 'closing', patient)
    await one.start()
    while (one.held.size < 4) await one.execute('order 0')
    const two = memberOf(t, 'closing', patient)
    await two.start()
    const runs = await Promise.all(Array.from({ length: 8 }, (_, i) => two.launch(`order ${i}`)))
    await one.close()
    const results = await Promise.all(runs.map((run) => run.result()))
    t.same(
      results.map(({ finalOutput, error }) => finalOutput ?? error),
      runs.map((_, i) => `order ${i}, done`),
    )
    t.equal(one.held.size, 0)
    t.equal(two.held.size, 4)
  })

  await t.test('a planned hand-over waits for a step that may not be repeated, and lets no other begin', async (t) => {
    const effects = join(folder, 'steps')
    const stepper = {
      agents: [{ name: 'ann', module: new URL('../fixtures/cluster/stepper.js', import.meta.url), data: { effects } }],
      orchestration: { strategy: 'sequential' },
    }
    const one = memberOf(t, 'steps', stepper)
    await one.start()
    while (one.held.size < 4) await one.execute('warm')
    const two = memberOf(t, 'steps', stepper)
    await two.start()
    while (two.held.size < 2) await sleep(20)
    const [shard] = one.held.keys()
    let n = 0
    while ((await one.launch('warm', { threadId: `thread ${n}` })).shard !== shard) n += 1
    const options = { threadId: `thread ${n}`, runId: 'order' }
    await one.launch('order', options)
    const done = () => readFileSync(effects, { encoding: 'utf8', flag: 'a+' })
    while (done() === '') await sleep(20)
    const closed = one.close()
    while (one.held.size > 1 || two.held.size < 3) await sleep(20)
    writeFileSync(`${effects} may end`, '')
    await closed
    t.match(await two.execute('order', options), { success: true, finalOutput: 'order, done', error: null })
    t.same(done(), 'first began\nfirst ended\nsecond began\n')
  })

  await t.test('the shards of a process share its threads, and none has one before it is needed', async (t) => {
    const threads = { warmSpares: 0, max: 1 }
    const team = memberOf(t, 'threads', { agents: [{ name: 'ann', module: PATIENT }], ...sequential, threads })
    await team.start()
    while (team.held.size < 4) await sleep(20)
    const threadsOf = () =>
      [...team.held.values()].map((each) => {
        const { samples } = each.metrics().find(({ name }) => name === 'dramatis_threads')!
        return samples.find(({ labels }) => labels?.use === 'agent')!.value
      })
    t.same(threadsOf(), [0, 0, 0, 0])
    const shards = new Set<number>()
    for (let n = 0; shards.size < 4; n++) {
      const run = await team.launch('order', { runId: `order ${n}` })
      shards.add(run.shard)
      t.equal((await run.result()).success, true)
      t.equal(sumOf(threadsOf()), 1)
    }
  })

  await t.test('agents that share a thread share one over all shards', async (t) => {
    const alive = watchThreads(t)
    const team = memberOf(t, 'seats', {
      agents: [{ name: 'eve', systemPrompt: 'Be brief.', isolation: 'shared' }],
      models: { default: { client: new FakeModel(() => 'yes') } },
      ...sequential,
    })
    const shards = new Set<number>()
    for (let n = 0; shards.size < 4; n++) {
      const run = await team.launch('go', { runId: `go ${n}` })
      shards.add(run.shard)
      t.match(await run.result(), { success: true, finalOutput: 'yes' })
    }
    const runs = await Promise.all(Array.from({ length: 12 }, (_, n) => team.execute('go', { runId: `at once ${n}` })))
    t.ok(runs.every(({ finalOutput }) => finalOutput === 'yes'))
    t.equal(alive.size, 1)
    await team.close()
    t.equal(alive.size, 0)
  })

  await t.test('runs at a time are divided by the processes, and shared by the shards of each', async (t) => {
    const effects = join(folder, 'at a time')
    const noting = {
      agents: [{ name: 'ann', module: new URL('../fixtures/cluster/noting.js', import.meta.url), data: { effects } }],
      ...sequential,
      maxConcurrentRuns: 2,
    }
    const [one, two] = [memberOf(t, 'at a time', noting), memberOf(t, 'at a time', noting)]
    await Promise.all([one.start(), two.start()])
    while (one.held.size !== 2 || two.held.size !== 2) await sleep(20)
    const runs = await Promise.all(Array.from({ length: 16 }, (_, n) => one.launch('go', { runId: `run ${n}` })))
    for (const run of runs) t.equal((await run.result()).success, true)
    let open = 0
    const heights = [...readFileSync(effects, 'utf8')].map((sign) => (open += sign === '+' ? 1 : -1))
    t.equal(Math.max(...heights), 2)
    t.equal(heights.length, 32)
  })

  await t.test('who waits for a result can stop, and the run goes on', async (t) => {
    const team = memberOf(t, 'waiting')
    const run = await team.launch('order 1', { runId: 'long' })
    await t.rejects(run.result(AbortSignal.abort(new Error('enough'))), { message: 'enough' })
    t.equal((await run.result()).success, true)
  })
}
