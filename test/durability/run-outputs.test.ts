/** The schema of a run's answer over restarts: models are asked in it again, and `data` fits it. */

import type { Test } from 'tap'
import t from 'tap'
import { z } from 'zod'
import type { ModelRequest } from '../../src/actors/definition/model.ts'
import { createTeam, jsonOutput, type MultiAgentPatternOptions } from '../../src/index.ts'
import { compactLog } from '../../src/runtime/durability/log-tools.ts'
import type { LogEntry } from '../../src/runtime/log/records.ts'
import { httpApi } from '../../src/service/api/index.ts'
import { hashOf } from '../../src/shared/random.ts'
import { canonical } from '../../src/shared/values.ts'
import { gate, silent } from '../kit/team.ts'
import { FakeModel } from '../models/fake-model.ts'
import { callerOf, send } from '../service/http/stage.ts'
import { encoded, entriesIn } from './log-entries.ts'
import { MemoryDisk, MemoryStore } from './memory-store.ts'

type Answers = (request: ModelRequest) => string | Promise<string>
type More = Partial<MultiAgentPatternOptions>

const roles = { agents: [{ name: 'ann' }, { name: 'bob' }], orchestration: { strategy: 'sequential' } } as const
const output = z.object({ n: z.number() })
/** A model that answers in words, unless it is asked for something else. */
const obedient: Answers = ({ jsonSchema }) => (jsonSchema ? '{"n":1}' : 'in words')

function teamOn(t: Test, disk: MemoryDisk, answers: Answers = obedient, more: More = {}) {
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
  const { team } = teamOn(
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

t.test('a run has its data wherever its process dies, with the schema given again and without', async (t) => {
  const disk = new MemoryDisk()
  const { team } = teamOn(t, disk)
  t.match(await team.execute('go', { runId: 'one', output }), { success: true, data: { n: 1 } })
  await team.close()
  const launched = disk.blocks.findIndex(({ entries }) => Buffer.from(entries).includes('"run.launched"'))
  t.ok(disk.blocks.length - launched > 3)
  for (let length = launched + 1; length <= disk.blocks.length; length++) {
    const copy = Object.assign(new MemoryDisk(), { position: disk.position, incarnation: 1 })
    copy.blocks.push(...disk.blocks.slice(0, length))
    const { team: next, model } = teamOn(t, copy)
    const result = await next.execute('go', { runId: 'one', ...(length % 2 && { output }) })
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
    const { team, model } = teamOn(t, disk, () => `{"n":${model.requests.length}}`, more)
    await team.start()
    const { result } = team.getRun('one')!
    t.match(await result, { success: true, data: { n: 2 } })
    await team.close()
    const { team: later } = teamOn(t, disk, obedient, more)
    t.match(await later.execute('go', { runId: 'one' }), { success: true, data: { n: 2 } })
    await later.close()
  }
  const other = teamOn(t, await left(t, {}, { output }), obedient, { output: even.extend({ m: z.number() }) })
  await t.rejects(other.team.execute('go', { runId: 'one' }), { code: 'CONFIGURATION', message: /begun with another/ })
  t.same(other.model.requests, [])
})

t.test('without the code of a schema its JSON schema checks the answer, and the model is told', async (t) => {
  const { team, model } = teamOn(t, await left(t), (request) =>
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
  const { team, model } = teamOn(t, disk, once)
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
    const next = teamOn(t, copy, once)
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
  const { team, model } = teamOn(t, disk, () => `{"n":${model.requests.length}}`)
  t.match(await team.execute('go', { runId: 'one', output: even }), { success: true, data: 2n })
  await team.close()
  const { team: later } = teamOn(t, disk)
  t.match(await later.execute('go', { runId: 'one', output: even }), { data: 2n }, 'of a run that has ended, too')
})

t.test('a task over HTTP has its data after a restart of the service', async (t) => {
  const disk = new MemoryDisk()
  const task = { query: 'go', output: { type: 'object', properties: { n: { type: 'integer' } }, required: ['n'] } }
  const asked = gate()
  const serve = (answers: Answers) => {
    const { team, model } = teamOn(t, disk, answers)
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
    const { team, model } = teamOn(t, of, answers)
    return { team, model, api: httpApi({ teams: { desk: team }, authorize: callerOf, logger: silent }) }
  }
  const first = served(disk)
  const sent = await send(first.api, 'POST', '/api/tasks', { body: task, headers: key })
  t.match(sent, { status: 200, body: { data: { n: 1 } } })
  await first.team.close()
  const launched = disk.blocks.findIndex(({ entries }) => Buffer.from(entries).includes('"run.launched"'))
  t.ok(disk.blocks.length - launched > 3)
  for (let length = launched + 1; length <= disk.blocks.length; length++) {
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
  const { team } = teamOn(t, await left(t))
  const { data } = await team.execute('go', { runId: 'one', output: json })
  t.equal(data?.n, 1)
  const wrong = await teamOn(t, new MemoryDisk(), () => '{"n":"x"}').team.execute('go', { output: json })
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
  const { team, model } = teamOn(t, disk)
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
  const { team: later } = teamOn(t, disk)
  await t.rejects(later.execute('go', { runId: 'one', output: more }), refusal, 'when a process has ended it')
  await t.rejects(later.resume('one', { output: more }), refusal)
  await later.close()
  const { team: next } = teamOn(t, disk)
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
    const { team, model } = teamOn(t, await left(t, { output: before }))
    const message = `output: run "one" was begun with another schema: ${words}. Give the same one, or begin another run.`
    await t.rejects(team.execute('go', { runId: 'one', output: now }), { code: 'CONFIGURATION', message })
    t.same(model.requests, [], words)
    await team.close()
  }
})

t.test('the log has a schema once, however many runs and processes use it', async (t) => {
  const disk = new MemoryDisk()
  for (const runs of [['a', 'b'], ['c']]) {
    const { team } = teamOn(t, disk)
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
  const { team } = teamOn(t, disk)
  t.match(await team.execute('go', { runId: 'two', output }), { data: { n: 1 } })
  t.match(await team.execute('go', { runId: 'one' }), { data: { n: 1 } })
  await team.close()
  const again = await left(t)
  await compact(again, 0)
  const { team: next, model } = teamOn(t, again)
  t.match(await next.execute('go', { runId: 'one' }), { data: { n: 1 } }, 'an open run has it')
  t.ok(model.requests.at(-1)?.jsonSchema)
  await next.close()
  const parts = () => entriesIn(disk.blocks).filter(({ kind }) => kind === 'part').length
  await compact(disk, 1)
  t.equal(parts(), 1)
  const { team: later } = teamOn(t, disk)
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
    const { team, model } = teamOn(t, older(digest))
    t.match(await team.execute('go', { runId: 'one', ...given }), { data: { n: 1 } })
    t.ok(model.requests.at(-1)?.jsonSchema)
    await team.close()
  }
  const { team } = teamOn(t, older(digest))
  await t.rejects(
    team.execute('go', { runId: 'one', output: output.extend({ m: z.number() }) }),
    /\/m is not required there/,
  )
})

t.test('a schema is the same in whatever order it is written', async (t) => {
  const one = z.object({ a: z.enum(['x', 'y']), b: z.number().nullable() })
  const other = z.object({ b: z.number().nullable(), a: z.enum(['y', 'x']) })
  const { team } = teamOn(t, await left(t, { output: one }), () => '{"a":"x","b":null}')
  t.match(await team.execute('go', { runId: 'one', output: other }), { data: { a: 'x', b: null } })
})

t.test('a schema that has no JSON schema checks what comes, and nobody is asked in it', async (t) => {
  const inWords = z.custom<string>((value) => value === 'in words')
  const { team, model } = teamOn(t, await left(t, { output: inWords }))
  t.match(await team.execute('go', { runId: 'one', output: inWords }), { data: 'in words' })
  t.equal(model.requests[0]?.jsonSchema, undefined)
})
