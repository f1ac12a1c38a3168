/** Results and pieces of runs, for whoever reads them from the log, also along with the run. */
import t, { type Test } from 'tap'
import { z } from 'zod'
import type { ScriptResult } from '../../src/actors/definition/protocol.ts'
import {
  createTeam,
  defineAgent,
  type MultiAgentResult,
  type OrchestratorContext,
  type Run,
  type RunOptions,
  type RuntimeEvent,
  type StreamPart,
} from '../../src/index.ts'
import type { ModelClient } from '../../src/models.ts'
import { LocalThread } from '../../src/runtime/threads/local-thread.ts'
import { DramatisError, errorData } from '../../src/shared/errors.ts'
import { MultiAgentPattern } from '../../src/team.ts'
import { virtualClock } from '../../src/testing.ts'
import { gate, silent } from '../kit/team.ts'
import { FakeModel } from '../models/fake-model.ts'
import { anotherThread, type Durability, HeldStore } from './held-store.ts'
import { MemoryDisk, MemoryStore } from './memory-store.ts'

// The result of a run is the same for its caller and for whoever reads it from the durable log, however it ended.

const DATA = { n: 1, list: [null, 'x'] }
const withData: ScriptResult = { content: 'text', structuredData: DATA }
const anything = z.record(z.string(), z.unknown())

interface Kind {
  script?: (script: OrchestratorContext) => Promise<ScriptResult>
  options?: RunOptions<unknown>
  isCancelled?: true
  /** The process that began it does not end it. */
  isLeft?: true
  /** An agent still works when it has ended. */
  isLate?: true
}

/** Ways in which a run ends, by name. */
const KINDS: Readonly<Record<string, Kind>> = {
  'a text': {},
  'data that nobody asked for': { script: async () => withData },
  'data of a schema': { script: async () => withData, options: { output: anything } },
  'data that a schema has made': {
    script: async () => withData,
    options: { output: anything.transform(({ n }) => [n, undefined]).transform(String) },
  },
  'data from a text': { script: async () => 'It is {"n":2}.', options: { output: anything } },
  'null as data': { script: async () => 'x', options: { output: z.string().transform(() => null) } },
  'nothing as data': { script: async () => withData, options: { output: z.unknown().transform(() => undefined) } },
  'a changed text': { script: async () => ({ content: 'my secret', structuredData: DATA }) },
  'a changed text with a schema': {
    script: async () => ({ content: '{"a":"secret"}', structuredData: { a: 'secret' } }),
    options: { output: anything },
  },
  'a refused answer': { script: async () => 'a bomb' },
  'a schema that is missed': { script: async () => withData, options: { output: z.number() } },
  'an error of the script': { script: async () => Promise.reject(new Error('no')) },
  'an error of an agent': { script: (script) => script.request('ann', 'fail').then(({ content }) => content) },
  'a partial result': {
    script: async (script) => {
      const outcomes = await script.requestAll(['ann', 'bob'], 'fail')
      return outcomes.map(({ ok }) => ok).join()
    },
  },
  'a crash': { script: (script) => script.request('ann', 'die').then(({ content }) => content) },
  'words of a model': { script: (script) => script.request('mia', 'hello').then(({ content }) => content) },
  'entries of a blackboard': {
    script: async (script) => {
      await script.blackboard.write('key', { value: 1 }, 'fact')
      return 'published'
    },
  },
  'a conversation': { options: { messages: [{ role: 'user', content: 'before' }] } },
  'a time limit': {
    script: (script) => script.request('ann', 'wait').then(({ content }) => content),
    options: { timeoutMs: 500 },
  },
  'a cancelled question': { script: (script) => script.ask('Really?').then(() => 'x'), isCancelled: true },
  'work that goes on': {
    script: async (script) => {
      await script.send('bob', 'late')
      return withData
    },
    isLate: true,
  },
  'a question of an earlier process': {
    script: async (script) => ({ content: await script.ask('Really?'), structuredData: DATA }),
    isLeft: true,
  },
}

/** A team whose agents run in this thread, and whose log outlives it. */
class DurableTeam extends MultiAgentPattern<string> {
  crash(agent: string): void {
    const thread = this.supervisor.directory.agent(agent)?.incarnation?.thread
    if (thread instanceof LocalThread) thread.kill({ code: 1, error: undefined })
  }
}

function teamOn(t: Test, disk: MemoryDisk) {
  const clock = virtualClock({ seed: 1 })
  const late = { begins: gate(), isDone: gate() }
  const worker = defineAgent({
    async receive({ content, sender }, context) {
      const { role, signal } = context
      if (content === 'die') team.crash('ann')
      if (content === 'wait') await new Promise((resolve) => signal.addEventListener('abort', resolve))
      if (content === 'late') {
        await late.begins.opened
        await context.blackboard.write('late', true, 'fact')
        await context.complete({ prompt: 'late' })
        late.isDone.open()
      }
      if (content === 'fail' && role.name === 'ann') throw new Error(`no work for ${sender}`)
      return { content: 'done', structuredData: { by: role.name } }
    },
  })
  const team = new DurableTeam(
    {
      agents: [{ name: 'ann' }, { name: 'bob' }, { name: 'mia', systemPrompt: 'Talk.' }],
      orchestration: {
        strategy: 'custom',
        name: 'all kinds',
        run: (script, query) =>
          KINDS[query]!.script?.(script) ?? script.request('bob', 'work').then(({ content }) => content),
      },
      enableBlackboard: true,
      guardrails: {
        output: [
          {
            name: 'words',
            check: (text) => (text.includes('bomb') ? { refuse: 'no' } : { change: text.replaceAll('secret', '***') }),
          },
        ],
      },
      stateManagement: { path: 'in memory' },
      logger: silent,
      clock,
    },
    {
      definitions: new Map([
        ['ann', worker],
        ['bob', worker],
      ]),
      model: new FakeModel(() => 'hello'),
      newStore: () => new MemoryStore(disk),
    },
  )
  t.teardown(() => team.close())
  return { team, clock, late }
}

/** Everything that a handle tells. */
const factsOf = ({ id, query, startedAt, metadata, tasks, trace, messageHistory, usage, usageByAgent }: Run<unknown>) =>
  plain({ id, query, startedAt, metadata, tasks, trace, messageHistory, usage, usageByAgent })

async function asked(run: Run<unknown>): Promise<{ questionId: string }> {
  for await (const event of run.events()) if (event.type === 'question') return event
  throw new Error('no question came')
}

async function atWork(run: Run<unknown>): Promise<void> {
  for await (const event of run.events()) if (event.type === 'turn.started' && event.agent === 'ann') return
}

/** Everything that a result tells, made at once; errors as their data. */
function told(result: MultiAgentResult<unknown>) {
  return { ...(plain({ ...result }) as object), inShort: JSON.parse(JSON.stringify(result)) }
}

function plain(value: unknown): unknown {
  if (value instanceof DramatisError) return { name: value.name, ...errorData(value) }
  if (Array.isArray(value)) return value.map(plain)
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(Object.entries(value).map(([key, field]) => [key, plain(field)]))
}

for (const [name, { options, isCancelled, isLeft, isLate }] of Object.entries(KINDS))
  t.test(`${name}: the result of the run is the same when it is read from the log`, async (t) => {
    const disk = new MemoryDisk()
    const first = teamOn(t, disk)
    const begun = first.team.launch(name, { runId: 'one', ...options })
    if (isCancelled || isLeft) await asked(begun)
    if (isLeft) await first.team.close()

    const { team, clock, late } = isLeft ? teamOn(t, disk) : first
    await team.start()
    const run = team.getRun('one')!
    if (isLeft) await run.answer((await asked(run)).questionId, 'yes')
    if (isCancelled) void run.cancel('enough')
    if (options?.timeoutMs) {
      await atWork(run)
      await clock.advance(options.timeoutMs)
    }
    const result = told(await run.result)
    const summary = await team.listRuns()
    late.begins.open()
    if (isLate) await late.isDone.opened
    await team.close()

    const { team: after } = teamOn(t, disk)
    await after.start()
    const again = after.getRun('one')!
    t.strictSame(told(await again.result), result)
    t.equal(again.status, run.status)
    if (!isLate) t.strictSame(await after.listRuns(), summary)
    if (!isLate && !isCancelled) t.strictSame(factsOf(again), factsOf(run), 'else a turn was cut off by the close')
    t.same([again.usage, again.board()?.read('late')?.value], [run.usage, isLate], 'the run has what came later')
  })

t.test('data that JSON does not have are not in the log, and the run is', async (t) => {
  const disk = new MemoryDisk()
  const { team: before } = teamOn(t, disk)
  const output = z.string().transform(() => ({ big: 1n }))
  t.match(await before.execute('a text', { runId: 'one', output }), { success: true, data: { big: 1n } })
  await before.close()
  const { team: after } = teamOn(t, disk)
  await after.start()
  t.match(await after.getRun('one')!.result, { success: true, finalOutput: 'done', data: undefined })
})

t.test('a schema gets the data of the agent from a run that has ended, in this process and a later one', async (t) => {
  const disk = new MemoryDisk()
  const output = z.object({ n: z.number() })
  const { team: before } = teamOn(t, disk)
  await before.execute('data that nobody asked for', { runId: 'one' })
  await before.execute('data of a schema', {
    runId: 'two',
    output: output.transform(() => 'made'),
  })
  const results = async (team: DurableTeam) => [
    await team.resume('one', { output }),
    await team.resume('two', { output }),
  ]
  const live = await results(before)
  t.match(live, [{ data: { n: 1 } }, { data: { n: 1 } }])
  t.match(JSON.parse(JSON.stringify(live)), [{ data: { n: 1 } }, { data: { n: 1 } }], 'so has their JSON')
  await before.close()
  const { team: after } = teamOn(t, disk)
  t.strictSame((await results(after)).map(told), live.map(told))
  const missed = await after.resume('one', { output: z.number() })
  t.match(missed, { error: { code: 'REPLY_INVALID' }, messageHistory: live[0]!.messageHistory })
})

// Who reads a run along that a later process goes on with gets no piece that the log lacks, and none twice without a
// mark.

for (const durability of ['write_behind', 'commit'] as const)
  t.test(
    `with ${durability} pieces come when the log has them; a later process marks those of a call that it makes again`,
    async (t) => {
      const disk = new MemoryDisk()
      const store = new HeldStore(durability, disk)
      const next = gate()
      const said = gate()
      const before = teamOf(store, durability, async function* () {
        yield { text: 'Once ' }
        await next.opened
        yield { text: 'upon ' }
        said.open()
        await new Promise(() => {})
      })
      t.teardown(() => before.close())
      t.teardown(() => store.release())
      await before.start()
      const parts: StreamPart<unknown>[] = []
      const firstPart = gate()
      void readParts(before.launch('go', { runId: 'one' }), (part) => {
        parts.push(part)
        firstPart.open()
      })
      await firstPart.opened
      void store.hold()
      next.open()
      await said.opened
      await anotherThread()
      t.match(parts, [{ type: 'text', text: 'Once ' }], 'the log does not have the second piece')

      disk.owner = undefined // that process is dead: what it has not written will never be there
      const after = teamOf(new MemoryStore(disk), durability, async function* () {
        yield { text: 'Twice ' }
      })
      t.teardown(() => after.close())
      await after.start()
      const run = after.getRun('one')!
      const all: StreamPart<unknown>[] = []
      await readParts(run, (part) => all.push(part))
      t.match(
        all
          .slice(0, -1)
          .map(({ type, ...part }) => [type, 'text' in part ? part.text : 'reason' in part && part.reason]),
        [
          ['text', 'Once '],
          // It is written, and only its sync was held back.
          ...(durability === 'commit' ? [['text', 'upon ']] : []),
          ['superseded', 'retried'],
          ['text', 'Twice '],
        ],
      )
      const rest: StreamPart<unknown>[] = []
      await readParts(run, (part) => rest.push(part), parts[0]!.seq)
      t.same(rest, all.slice(1), 'who knows the first piece gets what follows it')
      t.match(await run.result, { success: true, finalOutput: 'Twice ' })
    },
  )

t.test('what happens to an agent while a run ends is read along, if a later process has it in the run', async (t) => {
  const disk = new MemoryDisk()
  const before = refusingTeam(t, new MemoryStore(disk))
  await before.start()
  const { directory, journal, runs } = before.host
  let isTold = false
  journal.records$.subscribe(() => {
    if (isTold || !runs.find('one')?.over) return
    isTold = true // a reader that the end of a run calls first, as that of crashes: the log does not have the end yet
    journal.record(undefined, { kind: 'agent.reloaded', ...directory.agent('ann')!.whose, epoch: 2 })
  })
  const along = await readFrom(before.launch('go', { runId: 'one' }))
  t.match(along.slice(-2), [{ type: 'agent.reloaded' }, { type: 'run.finished' }])
  await before.close()

  const after = refusingTeam(t, new MemoryStore(disk))
  await after.start()
  t.same((await readFrom(after.getRun('one')!)).map(placeOf), along.map(placeOf))
})

t.test(
  'who has read how a run ended for its caller, when its team was closed, goes on in a later process',
  async (t) => {
    const disk = new MemoryDisk()
    const team = () => {
      const made = createTeam({
        agents: [{ name: 'ann', systemPrompt: 'You are never asked.' }],
        orchestration: { strategy: 'custom', name: 'a question', run: (script) => script.ask('Really?') },
        models: { default: { offline: true, async *complete() {} } },
        stateManagement: { store: new MemoryStore(disk) },
        logger: silent,
      })
      t.teardown(() => made.close())
      return made
    }
    const before = team()
    const along: RuntimeEvent<unknown>[] = []
    let closing: Promise<void> | undefined
    for await (const event of before.launch('go', { runId: 'one' }).events()) {
      along.push(event)
      if (event.type === 'question') closing = before.flush().then(() => before.close())
    }
    await closing // the log is free when the threads have ended, which is after the last event
    const last = along.at(-1)!
    t.match(last, { type: 'run.finished', result: { error: { code: 'RUN_ABORTED' } } })

    const after = team()
    await after.start()
    const run = after.getRun('one')!
    const rest = readFrom(run, `${after.logName}.${last.seq}`)
    await run.answer(after.questions()[0]!.questionId, 'yes')
    const kept = along.filter(({ seq }) => seq < last.seq)
    t.same([...kept, ...(await rest)].map(placeOf), (await readFrom(run)).map(placeOf))
  },
)

/** A team whose script fails, with its supervisor in sight. */
function refusingTeam(t: Test, store: MemoryStore) {
  class Team extends MultiAgentPattern<string> {
    get host() {
      return this.supervisor
    }
  }
  const run = () => Promise.reject(new Error('refused'))
  const team = new Team({
    agents: [{ name: 'ann', systemPrompt: 'You are never asked.' }],
    orchestration: { strategy: 'custom', name: 'a refusal', run },
    models: { default: { offline: true, async *complete() {} } },
    stateManagement: { store },
    logger: silent,
  })
  t.teardown(() => team.close())
  return team
}

const placeOf = ({ seq, type }: RuntimeEvent<unknown>) => `${seq} ${type}`

/** A team of one role with a tool, which is played by that model. */
function teamOf(store: MemoryStore, durability: Durability, complete: ModelClient['complete']) {
  return createTeam({
    agents: [{ name: 'ann', systemPrompt: 'You tell.', tools: ['ask_user'] }],
    orchestration: { strategy: 'sequential' },
    models: { default: { offline: true, complete } },
    stateManagement: { store, durability },
    logger: silent,
  })
}

async function readParts(run: Run<unknown>, take: (part: StreamPart<unknown>) => void, after = -1): Promise<void> {
  for await (const part of run.stream({ after })) if (part.type !== 'speaker') take(part)
}

async function readFrom(run: Run<unknown>, after?: string): Promise<RuntimeEvent<unknown>[]> {
  const events: RuntimeEvent<unknown>[] = []
  for await (const event of run.events(after === undefined ? {} : { after })) events.push(event)
  return events
}
