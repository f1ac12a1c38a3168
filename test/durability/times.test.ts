/** What outlasts a process: approvals, times that runs wait for, answers and data of runs. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { z } from 'zod'
import type { ModelPiece, ModelRequest } from '../../src/actors/definition/model.ts'
import {
  type AgentRole,
  type ApprovalPolicy,
  createTeam,
  defineTool,
  jsonOutput,
  type MultiAgentPattern,
  type MultiAgentPatternOptions,
} from '../../src/index.ts'
import { compactLog } from '../../src/runtime/durability/log-tools.ts'
import type { LogEntry } from '../../src/runtime/log/records.ts'
import { answerInLog, openQuestionsIn, recordedRuns } from '../../src/runtime/views/recorded-runs.ts'
import { httpApi } from '../../src/service/api/index.ts'
import { ModelError } from '../../src/shared/errors.ts'
import { hashOf } from '../../src/shared/random.ts'
import { canonical } from '../../src/shared/values.ts'
import { virtualClock } from '../../src/testing.ts'
import { howMany } from '../how-many.ts'
import { gate, silent } from '../kit/team.ts'
import { calls, FakeModel } from '../models/fake-model.ts'
import { callerOf, send } from '../service/http/stage.ts'
import { callerModule, ledger, recordModule, underWay } from '../toolbox/desk.ts'
import { deskOf, first, type Script } from './desk-team.ts'
import { encoded, entriesIn } from './log-entries.ts'
import { folderOf } from './log-folders.ts'
import { MemoryDisk, MemoryStore } from './memory-store.ts'

const DAY_MS = 86_400_000
const by = (id: string) => ({ by: { id, groups: ['finance'] } })
const edited = { approved: true, input: { cents: 1 } } as const

/** A desk that pays 500 cents if people agree. `paid`: cents by the key of the call, as a bank would have them. */
function teamOn(t: Test, disk: MemoryDisk, paid: Map<string, number>, policy: ApprovalPolicy = {}, withinMs = DAY_MS) {
  const pay = defineTool({
    name: 'pay',
    description: 'Pays.',
    input: z.object({ cents: z.number() }),
    approval: { groups: ['finance'], quorum: 2, ...policy },
    answerWithinMs: withinMs,
    idempotent: true,
    run: ({ cents }, { idempotencyKey }) => void paid.set(idempotencyKey, cents),
  })
  const model = new FakeModel(({ messages }) =>
    messages.some(({ role }) => role === 'tool') ? `done: ${messages.at(-1)!.content}` : calls(['pay', { cents: 500 }]),
  )
  const team = createTeam({
    agents: [{ name: 'ann', tools: [pay] }],
    orchestration: { strategy: 'sequential' },
    models: { default: Object.assign(model, { offline: true }) },
    stateManagement: { store: new MemoryStore(disk) },
    logger: silent,
  })
  t.teardown(() => team.close())
  return { team, model }
}

type Teams = ReturnType<typeof teamOn>['team']

async function asked(team: Teams) {
  await team.start()
  const run = team.getRun('one')!
  if (team.questions('one').length === 0)
    for await (const { type } of run.events({ types: ['question', 'run.finished'] }))
      if (type === 'run.finished' || team.questions('one').length > 0) break
  return team.questions('one')[0]
}

/** Has bob agree in one process and eve in the next; returns what that has left. */
async function whole(
  t: Test,
  answers: Parameters<Teams['answer']>[1][],
  paid: Map<string, number>,
): Promise<MemoryDisk> {
  const disk = new MemoryDisk()
  for (const [n, answer] of answers.entries()) {
    const { team } = teamOn(t, disk, paid)
    void team.execute('go', { runId: 'one', caller: 'joe' })
    const question = await asked(team)
    await team.answer(question!.questionId, answer, by(['bob', 'eve', 'kim'][n]!))
    if (n === answers.length - 1) t.match(await team.getRun('one')!.result, { success: true })
    await team.close()
  }
  return disk
}

/** Goes on from each block of a log, with whoever still has to agree, and returns what was paid in each. */
async function goneOn(t: Test, disk: MemoryDisk): Promise<{ paid: Map<string, number>; voters: string[] }[]> {
  const ends: { paid: Map<string, number>; voters: string[] }[] = []
  const launched = disk.blocks.findIndex(({ entries }) => Buffer.from(entries).includes('"run.launched"'))
  for (let length = launched + 1; length <= disk.blocks.length; length++) {
    const copy = Object.assign(new MemoryDisk(), { position: disk.position, incarnation: 3 })
    copy.blocks.push(...disk.blocks.slice(0, length))
    const paid = new Map<string, number>()
    const { team } = teamOn(t, copy, paid)
    void team.execute('go', { runId: 'one', caller: 'joe' })
    const voters: string[] = []
    for (let open = await asked(team); open; open = team.questions('one')[0]) {
      t.same(paid.size, 0)
      const next = ['bob', 'eve', 'kim'].find((id) => !open!.agreed!.some((each) => each.id === id))!
      voters.push(next)
      await team.answer(open.questionId, 'yes', { ...by(next), digest: open.digest! })
    }
    t.match(await team.getRun('one')!.result, { success: true }, `with ${length} blocks`)
    await team.close()
    ends.push({ paid, voters })
  }
  return ends
}

t.test('who has agreed in one process has agreed in the next, wherever it dies, and it is paid once', async (t) => {
  const bank = new Map<string, number>()
  const disk = await whole(t, ['yes', 'yes'], bank)
  t.equal(bank.size, 1)
  const votes = entriesIn(disk.blocks).filter(({ kind }) => kind === 'question.voted')
  t.match(votes, [{ by: 'bob' }, { by: 'eve' }])
  const voters = new Set<string>()
  for (const end of await goneOn(t, disk)) {
    if (end.voters.length < 2) for (const [key, cents] of end.paid) bank.set(key, cents)
    else t.equal(end.paid.size, 1, 'nothing was paid before')
    voters.add(end.voters.join())
  }
  t.same([...bank.values()], [500], 'under one key, whoever has called it again')
  t.same([...voters].sort(), ['', 'bob,eve', 'eve'])
})

t.test('a yes with another input voids the earlier one over restarts, too', async (t) => {
  const bank = new Map<string, number>()
  const disk = await whole(t, ['yes', edited, 'yes'], bank)
  t.same([...bank.values()], [1])
  const seen = new Set<string>()
  for (const { paid, voters } of await goneOn(t, disk)) seen.add(`${voters.join()} ${[...paid.values()].join()}`.trim())
  t.ok(seen.has('bob 1'), 'eve has agreed to her input, and bob not yet')
  t.ok(seen.has('eve 500'), 'before that, bob had agreed to the one of the agent')
  t.notOk(seen.has('kim 1'))
})

t.test('time goes on while no process runs, by the log and not by the options of today', async (t) => {
  const disk = new MemoryDisk()
  const paid = new Map<string, number>()
  const first = teamOn(t, disk, paid, {}, 200)
  void first.team.execute('go', { runId: 'one' })
  const question = await asked(first.team)
  await first.team.close()
  const [record] = entriesIn(disk.blocks).flatMap((entry) => (entry.kind === 'question' ? [entry] : []))
  t.equal(record?.answerBy, question?.answerBy)
  const later = teamOn(t, disk, paid, {}, DAY_MS)
  t.match(await later.team.execute('go', { runId: 'one' }), { finalOutput: /done: .*Nobody answered/ })
  t.equal(paid.size, 0)
})

t.test('votes can be put into a log that nobody has, by those who may', async (t) => {
  const disk = new MemoryDisk()
  const paid = new Map<string, number>()
  const first = teamOn(t, disk, paid)
  void first.team.execute('go', { runId: 'one', caller: 'joe' })
  const { questionId, digest } = (await asked(first.team))!
  await first.team.close()
  const say = async (answer: Parameters<typeof answerInLog>[2], who: Parameters<typeof answerInLog>[3]) => {
    const store = new MemoryStore(disk)
    return answerInLog(store, questionId, answer, who).finally(() => store.close())
  }
  const refusals: [id: string, groups: string[], message: RegExp][] = [
    ['joe', ['finance'], /^joe began this run and cannot approve it; finance may\.$/],
    ['cli:bob@here', [], /^cli:bob@here is in none of: finance\.$/],
  ]
  for (const [id, groups, message] of refusals)
    await t.rejects(say('yes', { by: { id, groups } }), { code: 'ANSWER_REFUSED', message })
  t.match(await say('yes', { ...by('bob'), digest: digest! }), { missing: 1 })
  await t.rejects(say('yes', by('bob')), { message: 'bob has agreed already; 1 more is needed.' })
  const { runs } = await recordedRuns(() => new MemoryStore(disk).read())
  t.match(openQuestionsIn(runs), [{ approval: { agreed: [{ id: 'bob' }], digest } }])
  t.match(await say(edited, by('eve')), { missing: 1 })
  await t.rejects(say('yes', { ...by('kim'), digest: digest! }), { message: /look again/ })
  t.match(await say('yes', by('bob')), { missing: 0 })
  const later = teamOn(t, disk, paid)
  t.match(await later.team.execute('go', { runId: 'one', caller: 'joe' }), { success: true })
  t.same([...paid.values()], [1])
})

t.test('an approval of an older log goes on, with the digest that its words give', async (t) => {
  const disk = new MemoryDisk()
  const paid = new Map<string, number>()
  const first = teamOn(t, disk, paid, { groups: undefined as never, quorum: 1 })
  void first.team.execute('go', { runId: 'one', caller: 'joe' })
  const { digest } = (await asked(first.team))!
  await first.team.close()
  const { team } = teamOn(t, disk, paid, { groups: undefined as never, quorum: 1 })
  const question = await asked(team)
  t.equal(question?.digest, digest)
  await team.answer(question!.questionId, 'yes')
  t.match(await team.getRun('one')!.result, { success: true })
  t.equal(paid.size, 1)
})

// Time, budgets, lists of models and unknown outcomes over a restart.

// Time over a restart: teams with a durable log and a virtual clock, which stands still or jumps between them.

const module = new URL('../fixtures/durability/desk-agent.js', import.meta.url)
const SECOND = 1_000

type TimesScript = Extract<MultiAgentPatternOptions['orchestration'], { strategy: 'custom'; run: unknown }>['run']

/** A team that begins its life at that time of day, in epoch ms. */
function deskAt(
  t: Test,
  path: string,
  startAt: number,
  run: TimesScript,
  more: Partial<MultiAgentPatternOptions> = {},
) {
  process.env.DESK_EFFECTS = join(path, '..', 'effects')
  const clock = virtualClock({ startAt })
  const team = createTeam({
    agents: ['ann', 'bob'].map((name) => ({ name, module, env: ['DESK_EFFECTS'] })),
    stateManagement: { path },
    logger: silent,
    clock,
    orchestration: { strategy: 'custom', name: 'a desk', run },
    ...more,
  })
  t.teardown(() => team.close())
  return { team, clock }
}

t.test('a sleep ends by wall clock, whatever the time between the processes', async (t) => {
  const path = join(folderOf(t), 'log')
  const slept: number[] = []
  const script =
    (clock: () => number): TimesScript =>
    async (desk) => {
      await desk.sleep(10 * SECOND)
      slept.push(clock())
      await desk.sleep(60 * SECOND)
      slept.push(clock())
      return 'rested'
    }
  const before = deskAt(
    t,
    path,
    0,
    script(() => before.clock.now()),
  )
  await before.team.start()
  before.team.launch('go', { runId: 'one' })
  await before.clock.advance(30 * SECOND)
  t.same(slept, [10 * SECOND])
  await before.team.close()

  const after = deskAt(
    t,
    path,
    50 * SECOND,
    script(() => after.clock.now()),
  )
  await after.team.start()
  const { result } = after.team.getRun('one')!
  await after.clock.advance(20 * SECOND)
  t.same(slept, [10 * SECOND, 50 * SECOND, 70 * SECOND], 'the first is over, the second ends when it would have ended')
  t.match(await result, { finalOutput: 'rested' })
})

// Tools that had begun when their process ended: what a later process does with them, and with which key.

function unknownOutcomesDeskOf(t: Test, path: string, tools: NonNullable<AgentRole['tools']>): MultiAgentPattern {
  const team = createTeam({
    agents: [{ name: 'ann', module: callerModule, tools }],
    stateManagement: { path },
    logger: silent,
    orchestration: { strategy: 'custom', run: async (desk, call) => said(await desk.request('ann', call)) },
  })
  t.teardown(() => team.close())
  return team
}

const said = ({ structuredData }: { structuredData?: unknown }) => JSON.stringify(structuredData)

/** Ends a team in the middle of a call of the tool; returns what the next one has made of it. */
async function interrupted(t: Test, tools: NonNullable<AgentRole['tools']>, tool: string) {
  const path = join(folderOf(t), 'log')
  const { file, keys } = ledger(t)
  const call = JSON.stringify({ tool, input: { file, act: 'hold' }, times: 1 })
  const before = unknownOutcomesDeskOf(t, path, tools)
  const begun = underWay(before)
  before.launch(call, { runId: 'one' })
  await begun
  await before.flush()
  await before.close()
  writeFileSync(`${file}.go`, '')
  const after = unknownOutcomesDeskOf(t, path, tools)
  await after.start()
  return { result: await after.getRun('one')!.result, keys: keys() }
}

for (const isolate of [true, false]) {
  const place = isolate ? 'an isolated tool' : "a tool in the agent's thread"
  const tools = [
    { module: recordModule, ...(isolate && { isolate }) },
    { module: recordModule, export: 'again', ...(isolate && { isolate }) },
  ] as NonNullable<AgentRole['tools']>

  t.test(`${place} that may run twice runs again in the next process, with the same key`, async (t) => {
    const { result, keys } = await interrupted(t, tools, 'again')
    t.match(result, { success: true, finalOutput: /"runs":2/ })
    t.equal(keys.length, 2)
    t.equal(keys[0], keys[1])
  })

  t.test(`${place} that may not run twice has an unknown outcome`, async (t) => {
    const { result, keys } = await interrupted(t, tools, 'record')
    // the call of an isolated tool fails; in the thread nobody can tell how far the turn was
    if (isolate) t.match(result, { success: true, finalOutput: /OUTCOME_UNKNOWN/ })
    else t.match(result, { success: false, error: { code: 'OUTCOME_UNKNOWN', details: { tool: 'record' } } })
    t.equal(keys.length, 1)
  })
}

// A list of models, on real threads, in a team that goes on with the log of an earlier one.

t.test('a run stays with the model that it was switched to, also in the next process', async (t) => {
  const path = join(folderOf(t), 'log')
  const limited = new ModelError('Later.', { reason: 'rate_limit', status: 429, retryable: true, retryAfterMs: 40_000 })
  const modelsOf = (fast: FakeModel) => ({
    models: { fast, spare: new FakeModel(() => 'spare'), default: { anyOf: ['fast', 'spare'] as [string, string] } },
  })
  const script: Script = async (desk) => {
    const one = await desk.complete({ prompt: 'One.' })
    await desk.request('ann', 'ask really')
    const two = await desk.complete({ prompt: 'Two.' })
    return `${one.text} ${two.text}`
  }
  const before = deskOf(t, path, script, modelsOf(new FakeModel(() => [limited])))
  await first(before.launch('go', { runId: 'run' }).events(), 'question')
  await before.close()
  const fast = new FakeModel(() => 'fast')
  const after = deskOf(t, path, script, modelsOf(fast))
  await after.start()
  const run = after.getRun('run')!
  await run.answer(after.questions()[0]!.questionId, 'yes')
  t.match(await run.result, { success: true, finalOutput: 'spare spare' })
  t.equal(fast.requests.length, 0)
})

// Budgets, on real threads, in a team that goes on with the log of an earlier one.

/** Each call costs 100 tokens. */
const model = () => {
  const made = {
    calls: 0,
    async *complete(): AsyncGenerator<ModelPiece> {
      made.calls += 1
      yield { text: 'ok' }
      yield { usage: { inputTokens: 50, outputTokens: 50, totalTokens: 100, calls: 1 } }
    },
  }
  return made
}

const think = async (desk: Parameters<Script>[0], times: number): Promise<void> => {
  for (let n = 0; n < times; n++) await desk.complete({ prompt: `thought ${n}`, maxOutputTokens: 50 })
}

t.test('what a team and a run have spent is spent in the next process too', async (t) => {
  const path = join(folderOf(t), 'log')
  const client = model()
  const script: Script = async (desk, query) => {
    if (query === 'other') await think(desk, 1)
    else {
      await think(desk, 2)
      await desk.request('ann', 'ask really')
      await think(desk, 3)
    }
    return 'done'
  }
  const more = {
    models: { default: client },
    budget: { perRun: { tokens: 350 }, perTeam: { tokens: 450, windowMs: 3_600_000 } },
  }
  const before = deskOf(t, path, script, more)
  await first(before.launch('go', { runId: 'run' }).events(), 'question')
  await before.close()
  const after = deskOf(t, path, script, more)
  await after.start()
  const run = after.getRun('run')!
  await run.answer(after.questions()[0]!.questionId, 'yes')
  t.match((await run.result).error, { code: 'BUDGET_EXCEEDED', details: { path: 'budget.perRun.tokens', used: 300 } })
  t.equal(client.calls, 3)
  t.equal((await after.execute('other')).success, true)
  await after.close()
  const last = deskOf(t, path, script, more)
  t.match((await last.execute('other')).error, { details: { path: 'budget.perTeam.tokens', used: 400 } })
})

// The schema of a run's answer over restarts: models are asked in it again, and `data` fits it.

type Answers = (request: ModelRequest) => string | Promise<string>
type More = Partial<MultiAgentPatternOptions>

const roles = { agents: [{ name: 'ann' }, { name: 'bob' }], orchestration: { strategy: 'sequential' } } as const
const output = z.object({ n: z.number() })
/** A model that answers in words, unless it is asked for something else. */
const obedient: Answers = ({ jsonSchema }) => (jsonSchema ? '{"n":1}' : 'in words')

function teamOfTwo(t: Test, disk: MemoryDisk, answers: Answers = obedient, more: More = {}) {
  const model = new FakeModel(answers)
  const team = createTeam({
    ...roles,
    models: { default: Object.assign(model, { offline: true }) },
    stateManagement: { store: new MemoryStore(disk) },
    logger: silent,
    ...more,
  })
  t.teardown(() => team.close())
  return { team, model }
}

/** Begins a run in a process that is gone before its last speaker has answered. Returns what that has left. */
async function left(t: Test, options: { output?: z.ZodType } = { output }, more?: More): Promise<MemoryDisk> {
  const disk = new MemoryDisk()
  const asked = gate()
  const { team } = teamOfTwo(
    t,
    disk,
    ({ agent }) => {
      if (agent === 'ann') return 'in words'
      asked.open()
      return new Promise(() => {})
    },
    more,
  )
  void team.execute('go', { runId: 'one', ...options })
  await asked.opened
  await team.close()
  return disk
}

/** A process dies behind every second block of the log in `npm test`, and behind each in `npm run test:deep`. */
const EVERY = howMany(2, 1)

t.test('a run has its data wherever its process dies, with the schema given again and without', async (t) => {
  const disk = new MemoryDisk()
  const { team } = teamOfTwo(t, disk)
  t.match(await team.execute('go', { runId: 'one', output }), { success: true, data: { n: 1 } })
  await team.close()
  const launched = disk.blocks.findIndex(({ entries }) => Buffer.from(entries).includes('"run.launched"'))
  t.ok(disk.blocks.length - launched > 3)
  for (let length = launched + 1, life = 0; length <= disk.blocks.length; length += EVERY, life++) {
    const copy = Object.assign(new MemoryDisk(), { position: disk.position, incarnation: 1 })
    copy.blocks.push(...disk.blocks.slice(0, length))
    const { team: next, model } = teamOfTwo(t, copy)
    const result = await next.execute('go', { runId: 'one', ...(life % 2 && { output }) })
    t.match(result, { success: true, data: { n: 1 } }, `with ${length} blocks`)
    for (const { agent, jsonSchema } of model.requests) t.equal(jsonSchema !== undefined, agent === 'bob')
    await next.close()
  }
})

t.test('data of the output of a team, and of a role, are there after a restart', async (t) => {
  const even = z.object({ n: z.number().refine((n) => n % 2 === 0) })
  const [first, second] = roles.agents
  for (const more of [{ output: even }, { agents: [first, { ...second, output: even }] }]) {
    const disk = await left(t, {}, more)
    const { team, model } = teamOfTwo(t, disk, () => `{"n":${model.requests.length}}`, more)
    await team.start()
    const { result } = team.getRun('one')!
    t.match(await result, { success: true, data: { n: 2 } })
    await team.close()
    const { team: later } = teamOfTwo(t, disk, obedient, more)
    t.match(await later.execute('go', { runId: 'one' }), { success: true, data: { n: 2 } })
    await later.close()
  }
  const other = teamOfTwo(t, await left(t, {}, { output }), obedient, { output: even.extend({ m: z.number() }) })
  await t.rejects(other.team.execute('go', { runId: 'one' }), { code: 'CONFIGURATION', message: /begun with another/ })
  t.same(other.model.requests, [])
})

t.test('without the code of a schema its JSON schema checks the answer, and the model is told', async (t) => {
  const { team, model } = teamOfTwo(t, await left(t), (request) =>
    model.requests.length > 1 ? obedient(request) : '{"n":"1"}',
  )
  await team.start()
  t.match(await team.getRun('one')!.result, { success: true, data: { n: 1 } })
  t.match(model.requests[1]?.messages.at(-1)?.content, /misses the JSON schema.*n: .*number/)
})

t.test('a second try is asked once in all, over all processes', async (t) => {
  const disk = new MemoryDisk()
  const once: Answers = ({ agent, jsonSchema, messages }) => {
    if (agent === 'ann' || !jsonSchema) return 'in words'
    return /misses/.test(String(messages.at(-1)?.content)) ? '{"n":1}' : '{"n":"1"}'
  }
  const { team, model } = teamOfTwo(t, disk, once)
  t.match(await team.execute('go', { runId: 'one', output }), { data: { n: 1 } })
  t.same(
    model.requests.map(({ agent }) => agent),
    ['ann', 'bob', 'bob'],
  )
  await team.close()
  const launched = disk.blocks.findIndex(({ entries }) => Buffer.from(entries).includes('"run.launched"'))
  const asked: number[] = []
  for (let length = launched + 1; length <= disk.blocks.length; length++) {
    const copy = Object.assign(new MemoryDisk(), { position: disk.position, incarnation: 1 })
    copy.blocks.push(...disk.blocks.slice(0, length))
    const next = teamOfTwo(t, copy, once)
    t.match(await next.team.execute('go', { runId: 'one' }), { success: true, data: { n: 1 } }, `with ${length} blocks`)
    asked.push(next.model.requests.length)
    await next.team.close()
  }
  t.same(
    asked,
    asked.toSorted((a, b) => b - a),
    'what was answered is not asked again',
  )
  t.equal(asked[0], 3)
  t.ok(asked.includes(1), 'the second try alone')
})

t.test('with the code of a schema that checks too, and data are what it returns', async (t) => {
  const even = z.object({ n: z.number().refine((n) => n % 2 === 0) }).transform(({ n }) => BigInt(n))
  const disk = await left(t, { output: even })
  const { team, model } = teamOfTwo(t, disk, () => `{"n":${model.requests.length}}`)
  t.match(await team.execute('go', { runId: 'one', output: even }), { success: true, data: 2n })
  await team.close()
  const { team: later } = teamOfTwo(t, disk)
  t.match(await later.execute('go', { runId: 'one', output: even }), { data: 2n }, 'of a run that has ended, too')
})

t.test('a task over HTTP has its data after a restart of the service', async (t) => {
  const disk = new MemoryDisk()
  const task = { query: 'go', output: { type: 'object', properties: { n: { type: 'integer' } }, required: ['n'] } }
  const asked = gate()
  const serve = (answers: Answers) => {
    const { team, model } = teamOfTwo(t, disk, answers)
    return { team, model, api: httpApi({ teams: { desk: team }, authorize: callerOf, logger: silent }) }
  }
  const first = serve(() => {
    asked.open()
    return new Promise(() => {})
  })
  const { body } = await send(first.api, 'POST', '/api/tasks', { body: task, headers: { prefer: 'respond-async' } })
  await asked.opened
  await first.team.close()
  const { api, model } = serve(obedient)
  const { body: done } = await send(api, 'GET', `/api/tasks/${body.id}?wait=60`)
  t.match(done, { status: 'finished', data: { n: 1 } })
  t.same(model.requests.at(-1)?.jsonSchema, task.output, 'word for word')
})

t.test('a task over HTTP has its data wherever the service dies, and is begun once', async (t) => {
  const disk = new MemoryDisk()
  const task = { query: 'go', output: z.toJSONSchema(output) }
  const key = { 'idempotency-key': 'one' }
  const served = (of: MemoryDisk, answers: Answers = obedient) => {
    const { team, model } = teamOfTwo(t, of, answers)
    return { team, model, api: httpApi({ teams: { desk: team }, authorize: callerOf, logger: silent }) }
  }
  const first = served(disk)
  const sent = await send(first.api, 'POST', '/api/tasks', { body: task, headers: key })
  t.match(sent, { status: 200, body: { data: { n: 1 } } })
  await first.team.close()
  const launched = disk.blocks.findIndex(({ entries }) => Buffer.from(entries).includes('"run.launched"'))
  t.ok(disk.blocks.length - launched > 3)
  for (let length = launched + 1; length <= disk.blocks.length; length += EVERY) {
    const copy = Object.assign(new MemoryDisk(), { position: disk.position, incarnation: 1 })
    copy.blocks.push(...disk.blocks.slice(0, length))
    const next = served(copy)
    const again = await send(next.api, 'POST', '/api/tasks', { body: task, headers: key })
    t.match(again, { status: 200, body: { id: sent.body.id, data: { n: 1 } } }, `with ${length} blocks`)
    await next.team.close()
  }
})

t.test('a JSON Schema without code is an output, too, and the same one as the code that it was made of', async (t) => {
  const json = jsonOutput<{ n: number }>(z.toJSONSchema(output, { io: 'input' }))
  const { team } = teamOfTwo(t, await left(t))
  const { data } = await team.execute('go', { runId: 'one', output: json })
  t.equal(data?.n, 1)
  const wrong = await teamOfTwo(t, new MemoryDisk(), () => '{"n":"x"}').team.execute('go', { output: json })
  t.match(wrong, { success: false, error: { message: /misses the output schema: n: must be number/ } })
  for (const none of ['x', { type: 'text' }, null])
    t.throws(() => jsonOutput(none as never), { code: 'CONFIGURATION', message: /^jsonSchema/ })
})

t.test('another schema is refused before anything goes on, at each moment', async (t) => {
  const more = z.object({ n: z.number(), refundedCents: z.number() })
  const refusal = {
    code: 'CONFIGURATION',
    message: /run "one" was begun with another schema/,
    details: { path: 'output' },
  }
  const disk = await left(t)
  const { team, model } = teamOfTwo(t, disk)
  const first = await team.execute('go', { runId: 'one', output: more }).catch((error: unknown) => error)
  t.match(
    first,
    {
      ...refusal,
      message: /schema: \/refundedCents is not required there\. Give the same one, or begin another run\.$/,
    },
    'before the log was read',
  )
  t.equal(team.getRun('one')?.status, 'interrupted', 'nothing has gone on')
  await t.rejects(team.resume('one', { output: more }), refusal, 'while it is interrupted')
  t.same(model.requests, [])
  t.match(await team.execute('go', { runId: 'one', output }), { data: { n: 1 } })
  await t.rejects(team.execute('go', { runId: 'one', output: more }), refusal, 'when it has ended')
  await team.close()
  const { team: later } = teamOfTwo(t, disk)
  await t.rejects(later.execute('go', { runId: 'one', output: more }), refusal, 'when a process has ended it')
  await t.rejects(later.resume('one', { output: more }), refusal)
  await later.close()
  const { team: next } = teamOfTwo(t, disk)
  await next.start()
  await t.rejects(next.execute('go', { runId: 'one', output: more }), refusal, 'when only the log has it')
  const read = next.execute('go', { runId: 'one' })
  await t.rejects(next.execute('go', { runId: 'one', output: more }), refusal, 'while it is read from there')
  t.match(await read, { data: { n: 1 } })
  t.match(await next.execute('go', { runId: 'one', output }), { data: { n: 1 } })
})

t.test('the error says where the schema of a run differs from the one that is given', async (t) => {
  const nested = (fields: z.ZodRawShape) => z.object({ n: z.number(), order: z.object(fields) })
  const cases: [z.ZodType, z.ZodType, string][] = [
    [z.object({ n: z.number(), refundedCents: z.number() }), output, '/refundedCents is required there'],
    [nested({ id: z.string(), cents: z.number() }), nested({ id: z.string() }), '/order/cents is required there'],
    [z.object({ n: z.string() }), output, 'it differs at /n/type'],
    [output, z.object({ n: z.number().max(3) }), 'it differs at /n/maximum'],
  ]
  for (const [before, now, words] of cases) {
    const { team, model } = teamOfTwo(t, await left(t, { output: before }))
    const message = `output: run "one" was begun with another schema: ${words}. Give the same one, or begin another run.`
    await t.rejects(team.execute('go', { runId: 'one', output: now }), { code: 'CONFIGURATION', message })
    t.same(model.requests, [], words)
    await team.close()
  }
})

t.test('the log has a schema once, however many runs and processes use it', async (t) => {
  const disk = new MemoryDisk()
  for (const runs of [['a', 'b'], ['c']]) {
    const { team } = teamOfTwo(t, disk)
    for (const runId of runs) t.match(await team.execute('go', { runId, output }), { data: { n: 1 } })
    await team.close()
  }
  const records = entriesIn(disk.blocks)
  const launched = records.flatMap((entry) => (entry.kind === 'run.launched' ? [entry.output] : []))
  t.equal(launched.length, 3)
  const { digest, part, ...rest } = launched[0]!
  t.match(digest, /^[0-9a-f]{64}$/)
  t.same(Object.keys(rest), ['size'], 'the schema itself is elsewhere')
  for (const each of launched) t.same(each, launched[0])
  t.same(
    records.flatMap((entry) => (entry.kind === 'part' ? [entry.hash] : [])),
    [part],
  )
})

t.test('the schema of a kept run stays through compactions, and goes with the last run that uses it', async (t) => {
  const disk = await left(t)
  const { team } = teamOfTwo(t, disk)
  t.match(await team.execute('go', { runId: 'two', output }), { data: { n: 1 } })
  t.match(await team.execute('go', { runId: 'one' }), { data: { n: 1 } })
  await team.close()
  const again = await left(t)
  await compact(again, 0)
  const { team: next, model } = teamOfTwo(t, again)
  t.match(await next.execute('go', { runId: 'one' }), { data: { n: 1 } }, 'an open run has it')
  t.ok(model.requests.at(-1)?.jsonSchema)
  await next.close()
  const parts = () => entriesIn(disk.blocks).filter(({ kind }) => kind === 'part').length
  await compact(disk, 1)
  t.equal(parts(), 1)
  const { team: later } = teamOfTwo(t, disk)
  const [kept, ...none] = await later.listRuns()
  t.same(none, [])
  const other = { runId: kept!.id, output: output.extend({ m: z.number() }) }
  await t.rejects(later.execute('go', other), /another schema/)
  t.match(await later.execute('go', { runId: kept!.id, output }), { data: { n: 1 } })
  await later.close()
  await compact(disk, 0)
  t.equal(parts(), 0)
})

/** Compacts a log that nobody has. `runs`: finished ones that it keeps. */
async function compact(disk: MemoryDisk, runs: number): Promise<void> {
  const store = new MemoryStore(disk)
  await compactLog(store, { keep: { runs, days: 1, bytes: 2 ** 30 }, logger: silent })
  await store.close()
}

t.test('a log of an older version has the schema in the launch of the run, and goes on', async (t) => {
  const disk = await left(t)
  const jsonSchema = z.toJSONSchema(output, { io: 'input' })
  const older = (digest: string): MemoryDisk => {
    const entries = entriesIn(disk.blocks).flatMap((entry): LogEntry[] => {
      if (entry.kind === 'part') return []
      return [entry.kind === 'run.launched' ? { ...entry, output: { digest, jsonSchema } } : entry]
    })
    const { lastSeq } = disk.blocks.at(-1)!
    const old = Object.assign(new MemoryDisk(), { position: 1, incarnation: 1 })
    const place = { firstSeq: 0, lastSeq, carried: false, position: 0, incarnation: 1, runs: [0, 1] }
    old.blocks.push({ ...place, entries: encoded(entries) })
    return old
  }
  const digest = hashOf(canonical(jsonSchema))
  for (const given of [{ output }, {}]) {
    const { team, model } = teamOfTwo(t, older(digest))
    t.match(await team.execute('go', { runId: 'one', ...given }), { data: { n: 1 } })
    t.ok(model.requests.at(-1)?.jsonSchema)
    await team.close()
  }
  const { team } = teamOfTwo(t, older(digest))
  await t.rejects(
    team.execute('go', { runId: 'one', output: output.extend({ m: z.number() }) }),
    /\/m is not required there/,
  )
})

t.test('a schema is the same in whatever order it is written', async (t) => {
  const one = z.object({ a: z.enum(['x', 'y']), b: z.number().nullable() })
  const other = z.object({ b: z.number().nullable(), a: z.enum(['y', 'x']) })
  const { team } = teamOfTwo(t, await left(t, { output: one }), () => '{"a":"x","b":null}')
  t.match(await team.execute('go', { runId: 'one', output: other }), { data: { a: 'x', b: null } })
})

t.test('a schema that has no JSON schema checks what comes, and nobody is asked in it', async (t) => {
  const inWords = z.custom<string>((value) => value === 'in words')
  const { team, model } = teamOfTwo(t, await left(t, { output: inWords }))
  t.match(await team.execute('go', { runId: 'one', output: inWords }), { data: 'in words' })
  t.equal(model.requests[0]?.jsonSchema, undefined)
})
