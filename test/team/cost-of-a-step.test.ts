/**
 * Counts what a step of a pipeline and a hop of a ring make the runtime do, host and threads together. Time shows the
 * same, but only on a quiet machine (bench/). A count that grows here is a cost that every message of every team pays:
 * see what it buys before you raise a limit.
 */
import { createHook } from 'node:async_hooks'
import { type Profiler, Session } from 'node:inspector'
import t from 'tap'
import type { ModelClient } from '../../src/models.ts'
import type { LogEntry } from '../../src/runtime/log/records.ts'
import { LocalThread } from '../../src/runtime/threads/local-thread.ts'
import type { Scheduler } from '../../src/shared/clock.ts'
import type { VirtualClock } from '../../src/testing.ts'
import { type Cast, OpenTeam, openTeam, type Receive, silent } from '../kit/team.ts'

const STEPS = 10

/** Runs whose calls are counted: in the first some functions still make what they keep. */
const RUNS = 3

interface Counts {
  /** Wake-ups of agent threads. */
  rings: number
  /** Times that the host has looked for frames. */
  looks: number
  /** Batches that the readers of the journal got. */
  batches: number
  timers: number
  frames: number
  /** Records of the host, by kind. */
  records: Record<string, number>
}

t.test('a step of a pipeline', async (t) => {
  const stages = names(STEPS, 'stage')
  const team = openTeam(
    t,
    castOf(stages, ({ content }) => content),
    { unwatched: true, orchestration: { strategy: 'sequential' } },
  )
  await play(team, 'first')
  const { rings, looks, batches, timers, frames, records } = await counted(team, () => play(team, 'next'))
  t.equal(rings, STEPS + 1 + STEPS, 'each stage once, the script at its begin and at each answer')
  t.equal(frames, 2 * STEPS + 2, 'a request and an answer each')
  t.ok(looks <= 2 * STEPS + 4, `${looks} looks`)
  t.ok(batches <= 4 * STEPS + 3, `${batches} batches`)
  t.ok(timers <= 3, `${timers} timers, one of them half a minute later, for what is slow`)
  t.same(records, { 'run.started': 1, 'run.finished': 1, 'turn.started': STEPS + 1, task: 3 * STEPS })
  const { calls, promises } = await worked(() => playAll(team))
  t.ok(calls / RUNS / STEPS <= 770, `${calls / RUNS / STEPS} calls of functions a step`)
  t.ok(promises / RUNS / STEPS <= 17.5, `${promises / RUNS / STEPS} promises a step`)
})

t.test('a step that a model plays', async (t) => {
  const team = new OpenTeam(
    {
      agents: names(STEPS, 'stage').map((name) => ({ name })),
      models: { default: echo },
      orchestration: { strategy: 'sequential' },
      logger: silent,
    },
    new Map(),
    1,
  )
  t.teardown(() => Promise.all([team.close(), team.clock.runToIdle()]))
  await play(team, 'first')
  const { rings, looks, batches, timers, frames, records } = await counted(team, () => play(team, 'next'))
  t.equal(rings, 2 * STEPS + 1 + STEPS, 'each stage for its message and for its answer, the script as ever')
  t.equal(frames, 5 * STEPS + 2, 'also the call, its answer, and the conversation')
  t.ok(looks <= 4 * STEPS + 5, `${looks} looks`)
  t.ok(batches <= 6 * STEPS + 5, `${batches} batches`)
  t.ok(timers <= STEPS + 3, `${timers} timers`)
  t.same(records, {
    'run.started': 1,
    'run.finished': 1,
    'turn.started': STEPS + 1,
    task: 3 * STEPS,
    'model.called': STEPS,
  })
  const { calls, promises } = await worked(() => playAll(team))
  t.ok(calls / RUNS / STEPS <= 1_850, `${calls / RUNS / STEPS} calls of functions a step`)
  t.ok(promises / RUNS / STEPS <= 92, `${promises / RUNS / STEPS} promises a step`)
})

t.test('a hop in a ring', async (t) => {
  const HOPS = 50
  const nodes = names(STEPS, 'node')
  const team = openTeam(
    t,
    castOf(nodes, async ({ structuredData }, context) => {
      const { left } = structuredData as { left: number }
      const next = nodes[(nodes.indexOf(context.role.name) + 1) % STEPS]!
      if (left > 0) await context.send(next, '', { structuredData: { left: left - 1 } })
    }),
    {
      unwatched: true,
      script: async (orchestrator) => {
        await orchestrator.send(nodes[0]!, '', { structuredData: { left: HOPS - 1 } })
        await orchestrator.sleep(1)
        return 'done'
      },
    },
  )
  await play(team, 'first')
  const { rings, looks, batches, timers, frames, records } = await counted(team, () => play(team, 'next'))
  t.equal(rings, HOPS + 1, 'each node once, and the script')
  t.equal(frames, 2 * HOPS + 4, 'a message and the end of its turn each, and the begin and the end of the sleep')
  t.ok(looks <= HOPS + 5, `${looks} looks`)
  t.ok(batches <= HOPS + 4, `${batches} batches`)
  t.ok(timers <= 4, `${timers} timers`)
  t.same(records, { 'run.started': 1, 'run.finished': 1, 'turn.started': HOPS + 1 })
  const { calls, promises } = await worked(() => playAll(team))
  t.ok(calls / RUNS / HOPS <= 378, `${calls / RUNS / HOPS} calls of functions a hop`)
  t.ok(promises / RUNS / HOPS <= 9, `${promises / RUNS / HOPS} promises a hop`)
})

const echo: ModelClient = {
  offline: true,
  async *complete() {
    yield { text: 'said' }
    yield { finishReason: 'stop' }
  },
}

function names(count: number, name: string): string[] {
  return Array.from({ length: count }, (_, i) => `${name}-${i + 1}`)
}

function castOf(agents: readonly string[], receive: Receive): Cast {
  return Object.fromEntries(agents.map((name) => [name, receive]))
}

async function play(team: OpenTeam, query: string): Promise<void> {
  const ended = team.execute(query)
  await team.clock.runToIdle()
  const { error } = await ended
  if (error) throw error
}

async function playAll(team: OpenTeam): Promise<void> {
  for (let run = 0; run < RUNS; run++) await play(team, `run ${run}`)
}

async function counted(team: OpenTeam, work: () => Promise<void>): Promise<Counts> {
  const { host } = team
  const clock = team.clock as VirtualClock & Scheduler
  const counts: Counts = { rings: 0, looks: 0, batches: 0, timers: 0, frames: 0, records: {} }
  const ring = LocalThread.prototype.wake
  LocalThread.prototype.wake = function (this: LocalThread) {
    counts.rings += 1
    ring.call(this)
  }
  const { timer } = clock
  clock.timer = (...args) => {
    counts.timers += 1
    return timer.apply(clock, args)
  }
  const before = host.loop.ticks
  const subscription = host.journal.records$.subscribe((batch: readonly LogEntry[]) => {
    counts.batches += 1
    for (const entry of batch)
      if (entry.kind === 'frames') counts.frames += entry.count
      else counts.records[entry.kind] = (counts.records[entry.kind] ?? 0) + 1
  })
  try {
    await work()
  } finally {
    LocalThread.prototype.wake = ring
    clock.timer = timer
    subscription.unsubscribe()
  }
  counts.looks = host.loop.ticks - before
  return counts
}

/** Functions of the runtime that are called meanwhile, and promises that are made, by it and by what it uses. */
async function worked(work: () => Promise<void>): Promise<{ calls: number; promises: number }> {
  const session = new Session()
  session.connect()
  let promises = 0
  const hook = createHook({
    init(_id, type) {
      if (type === 'PROMISE') promises += 1
    },
  })
  try {
    session.post('Profiler.enable')
    session.post('Profiler.startPreciseCoverage', { callCount: true })
    hook.enable()
    await work()
    hook.disable()
    let calls = 0
    session.post('Profiler.takePreciseCoverage', (error, coverage) => {
      if (error) throw error
      calls = sumOf(coverage.result)
    })
    return { calls, promises }
  } finally {
    hook.disable()
    session.disconnect()
  }
}

/** Returns the number of calls of functions in src, most of which the build has put into dist/host. */
function sumOf(scripts: readonly Profiler.ScriptCoverage[]): number {
  const own = scripts.filter(({ url }) => /\/dist\/(src|host)\//.test(url))
  return own.flatMap(({ functions }) => functions).reduce((sum, { ranges }) => sum + (ranges[0]?.count ?? 0), 0)
}
