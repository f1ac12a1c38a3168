/** Large parts of messages are stored once, whoever passes them on, and are there after crashes and restarts. */
import { createHash, randomBytes } from 'node:crypto'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Test } from 'tap'
import t from 'tap'
import { type MessagePart, type ModelClient, toolParts } from '../../src/index.ts'
import { compactLog } from '../../src/runtime/durability/log-tools.ts'
import { TraceArchive } from '../../src/runtime/durability/trace-archive.ts'
import { FileStore } from '../../src/runtime/store/file-store.ts'
import type { LogStore } from '../../src/runtime/store/log-files.ts'
import { folderOf } from '../durability/log-folders.ts'
import { MemoryDisk, MemoryStore } from '../durability/memory-store.ts'
import { gate, localTeam, openTeam, type Receive, silent } from '../kit/team.ts'
import { doing } from '../toolbox/tools.ts'
import { calls, FakeModel } from './fake-model.ts'
import { killAt } from './killed-turns.ts'
import { modelTeam, ThreadTeam } from './teams.ts'

const MB = 2 ** 20
const BYTES = 100_000
const module = new URL('../fixtures/models/passes-parts.js', import.meta.url)
const PASSING = ['ann', 'bob', 'cat', 'dan']

const photo = (bytes: number): MessagePart => ({
  type: 'image',
  data: new Uint8Array(randomBytes(bytes)),
  mediaType: 'image/jpeg',
})
const dataUrl = ({ data }: MessagePart & { data?: unknown }) =>
  `data:image/jpeg;base64,${Buffer.from(data as Uint8Array).toString('base64')}`
const dataOf = (content: unknown) => String((content as { data: unknown }[])[0]?.data)
const digest = (text: string) => createHash('sha1').update(text).digest('hex')

/** A model that keeps digests of the media that it is shown. */
class Viewer implements ModelClient {
  readonly offline = true
  readonly seen: string[] = []
  async *complete({ messages }: Parameters<ModelClient['complete']>[0]) {
    for (const { content } of messages)
      for (const part of typeof content === 'string' ? [] : content)
        if ('data' in part) this.seen.push(digest(String(part.data)))
    yield { text: 'A cat' }
  }
}

/** Four agents with code on threads pass on what they get; a fifth one asks its model. */
const [model, disk] = [new Viewer(), new MemoryDisk()]
const passing = new ThreadTeam({
  agents: [...PASSING.map((name) => ({ name, module })), { name: 'eve', systemPrompt: 'Look.' }],
  orchestration: { strategy: 'sequential', agentOrder: ['ann'] },
  models: { default: model },
  stateManagement: { store: new MemoryStore(disk) },
  threads: { warmSpares: 0 },
  logger: silent,
})
t.teardown(() => passing.close())

const bytesOn = (disk: MemoryDisk) => disk.blocks.reduce((sum, { entries }) => sum + entries.byteLength, 0)
const query = (image: MessagePart): MessagePart[] => [{ type: 'text', text: 'bob cat dan eve' }, image]

t.test('an image of 30 MB goes through five agents and is stored once', async (t) => {
  const image = photo(30 * MB)
  const result = await passing.execute(query(image), { runId: 'one' })
  t.match(result, { success: true, finalOutput: 'A cat' })
  t.same(model.seen.splice(0), [digest(dataUrl(image))])
  const run = passing.host.runs.find('one')!
  t.equal(passing.host.parts.bytes, 30 * MB)
  t.match(passing.metrics('prometheus'), /^dramatis_stored_part_bytes(\{[^}]*\})? 31457280$/m)
  t.ok(run.log.bytes < MB, `the messages of the run take ${run.log.bytes} bytes`)
  const written = bytesOn(disk) - 30 * MB
  t.ok(written > 0 && written < MB, `the log has ${written} bytes beside the image`)
  const shown = dataOf(result.messageHistory[4]?.parts?.slice(1))
  t.equal(digest(shown), digest(dataUrl(image)), 'who reads the history gets the bytes')
})

t.test('each of the agents may end in the middle', async (t) => {
  const image = photo(BYTES)
  const before = bytesOn(disk)
  const agents = [...PASSING, 'eve']
  for (const [nth, agent] of agents.entries()) {
    const places = killAt(passing, agent, (at) => at === 1 + 2 * nth + (nth % 2))
    const { finalOutput } = await passing.execute(query(image))
    t.match([finalOutput, model.seen.splice(0)], ['A cat', [digest(dataUrl(image))]], agent)
    t.ok(places() > 0)
  }
  t.ok(bytesOn(disk) - before < 2 * BYTES)
})

t.test('code in a thread reads the bytes of a part that it got, and gives large ones itself', async (t) => {
  const image = photo(BYTES)
  const read = await passing.execute([{ type: 'text', text: 'read' }, image])
  t.equal(digest(`${read.finalOutput}`), digest(`read ${dataUrl(image)}`))
  const made = await passing.execute('make bob')
  const text = Buffer.from('made '.repeat(20_000)).toString('base64')
  t.equal(digest(`${made.finalOutput}`), digest(`data:text/plain;base64,${text}`))
})

/** One agent that a model plays, with a log. */
function looking(t: Test, model: ModelClient, store: LogStore, keep?: { runs: number }) {
  const team = new ThreadTeam({
    agents: [{ name: 'eve', systemPrompt: 'Look.' }],
    orchestration: { strategy: 'sequential' },
    models: { default: model },
    stateManagement: { store, ...(keep && { keep }) },
    threads: { warmSpares: 0 },
    logger: silent,
  })
  t.teardown(() => team.close())
  return team
}

/** A run in the archive. */
interface Archived {
  messages: { parts: { data: string }[] }[]
  parts: Record<string, string>
}

/** A model that never answers its first call. */
function silentModel() {
  const asked = gate()
  let calls = 0
  const model: ModelClient = {
    offline: true,
    async *complete() {
      calls += 1
      asked.open()
      if (calls === 1) await new Promise(() => {})
      yield { text: '' }
    },
  }
  return { model, asked: asked.opened }
}

t.test('a run goes on after a restart with the image that it had', async (t) => {
  const image = photo(BYTES)
  const disk = new MemoryDisk()
  const { model: waits, asked } = silentModel()
  const before = looking(t, waits, new MemoryStore(disk))
  before.launch(query(image), { runId: 'one' })
  await asked
  await before.close()
  const model = new Viewer()
  const after = looking(t, model, new MemoryStore(disk))
  await after.start()
  t.match(await after.getRun('one')!.result, { finalOutput: 'A cat' })
  t.same(model.seen, [digest(dataUrl(image))])
  t.ok(bytesOn(disk) < 2 * BYTES)
  await after.close()
  const later = looking(t, model, new MemoryStore(disk))
  await later.start()
  t.equal(later.host.parts.bytes, 0, 'of a run that has ended nothing is in memory')
  const { messageHistory, messages } = await later.getRun('one')!.result
  for (const parts of [messageHistory[0]?.parts, messages[0]?.content])
    t.equal(digest(dataOf(parts?.slice(1))), digest(dataUrl(image)))
})

t.test('a conversation keeps its image, also over a restart', async (t) => {
  const image = photo(BYTES)
  const disk = new MemoryDisk()
  const model = new Viewer()
  const before = looking(t, model, new MemoryStore(disk))
  await before.execute([{ type: 'text', text: 'This?' }, image], { threadId: 'a' })
  await before.execute('And now?', { threadId: 'a' })
  await before.close()
  const after = looking(t, model, new MemoryStore(disk))
  const { messages } = await after.execute('And then?', { threadId: 'a' })
  t.same(
    model.seen,
    Array.from({ length: 3 }, () => digest(dataUrl(image))),
  )
  t.equal(messages.length, 2)
  t.ok(bytesOn(disk) < 2 * BYTES)
})

t.test('a caller gives the messages of one run to the next, and a message from outside brings parts', async (t) => {
  const image = photo(BYTES)
  const { team, model } = modelTeam(t, () => 'A cat', [{ name: 'eve' }])
  const lastOf = () => dataOf(model.requests.at(-1)?.messages.at(-1)?.content)
  const { messages } = await team.execute([image])
  const { messages: more } = await team.execute('And now?', { messages: JSON.parse(JSON.stringify(messages)) })
  await team.execute('And then?', { messages: more })
  t.equal(digest(dataOf(model.requests[2]?.messages[1]?.content)), digest(dataUrl(image)))
  await team.sendMessage({ recipient: 'eve', content: '', parts: [image] })
  await team.clock.advance(1_000)
  t.equal(digest(lastOf()), digest(dataUrl(image)))
})

t.test('a dead letter keeps its image over a restart', async (t) => {
  const image = photo(BYTES)
  const disk = new MemoryDisk()
  const fails = new FakeModel(() => [new Error('no')])
  const before = looking(t, fails, new MemoryStore(disk))
  const dead = gate()
  before.events.subscribe(({ type }) => type === 'message.dead' && dead.open())
  await before.sendMessage({ recipient: 'eve', content: 'See', parts: [image] })
  await dead.opened
  await before.close()
  const model = new Viewer()
  const after = looking(t, model, new MemoryStore(disk))
  await after.start()
  const handled = gate()
  after.events.subscribe(({ type }) => type === 'turn.finished' && handled.open())
  await after.deadLetters.replay(after.deadLetters.list()[0]!.id)
  await handled.opened
  t.same(model.seen, [digest(dataUrl(image))])
  t.ok(bytesOn(disk) < 2 * BYTES)
})

t.test('what no run in memory refers to any more is given up', async (t) => {
  const team = openTeam(t, { ann: () => '' }, { orchestration: { strategy: 'sequential' } })
  for (let n = 0; n < 130; n++) await team.execute([photo(100_000)])
  t.ok(team.host.parts.size <= 101, `${team.host.parts.size} parts are stored`)
  t.equal(team.host.parts.bytes, team.host.parts.size * 100_000)
})

t.test('a part for which there is no room is refused', async (t) => {
  const answers: unknown[] = []
  const ann: Receive = async (_message, context) => {
    for (const to of ['bob', 'bob'])
      answers.push(
        await context
          .request(to, 'x', { parts: [photo(150_000)] })
          .then(({ content }) => content)
          .catch((error: Error) => error.message),
      )
    return ''
  }
  const bob: Receive = ({ parts }) => `${dataOf(parts).length}`
  const team = openTeam(t, { ann, bob }, { maxStoredBytes: 200_000 })
  await t.rejects(team.execute([photo(200_001)]), { code: 'PART_LOST', message: /no room.*maxStoredBytes/ })
  await team.execute('go')
  t.match(answers, [`${(150_000 / 3) * 4 + 23}`, /gone|no room/])
  t.equal(team.host.parts.size, 1)
})

t.test('a part whose bytes the run does not have is an error that says so', async (t) => {
  const lost: MessagePart = { type: 'image', data: `stored:sha256-${'0'.repeat(64)}:70000`, mediaType: 'image/png' }
  const errors: unknown[] = []
  const ann: Receive = async (_message, context) => {
    const asked = [
      () => context.request('bob', 'x', { parts: [lost] }),
      () => context.complete({ messages: [{ role: 'user', content: [lost] }] }),
    ]
    for (const ask of asked) errors.push(await ask().catch((error: Error) => error))
    return ''
  }
  const bob: Receive = ({ parts }) => dataOf(parts)
  const team = localTeam(t, { ann, bob }, { models: { default: new FakeModel(() => 'ok') } })
  await team.execute('go')
  t.match(errors, [{ message: /PartLostError.*70000 bytes.*are gone/ }, { code: 'PART_LOST' }])
  t.throws(() => team.launch([lost]), { code: 'PART_LOST' })
  const message = { recipient: 'bob', content: '', parts: [lost] }
  await t.rejects(team.sendMessage(message), { code: 'PART_LOST' })
})

t.test('the image that a tool gives is stored too', async (t) => {
  const image = photo(20 * MB) // more than a message may have
  const tool = doing(() => toolParts([image]))
  const model = new FakeModel((_request, nth) => (nth === 0 ? calls(['act', {}]) : 'A cat'))
  const team = new ThreadTeam({
    agents: [{ name: 'eve', tools: [tool] }],
    orchestration: { strategy: 'sequential' },
    models: { default: model },
    threads: { warmSpares: 0 },
    logger: silent,
  })
  t.teardown(() => team.close())
  t.match(await team.execute('go'), { success: true, finalOutput: 'A cat' })
  t.equal(digest(dataOf(model.requests[1]?.messages.at(-1)?.content)), digest(dataUrl(image)))
  t.equal(team.host.parts.bytes, 20 * MB)
})

t.test('a log that is compacted keeps the images of open runs, and forgets others', async (t) => {
  const path = join(folderOf(t), 'log')
  const folder = join(path, '..', 'archive')
  const image = photo(BYTES)
  const { model: waits, asked } = silentModel()
  const storeOf = () => new FileStore(path, { segmentBytes: 2 ** 18 })
  const before = looking(t, waits, storeOf(), { runs: 2 }) // it is compacted in the background too
  before.launch(query(image), { runId: 'open' })
  await asked
  for (let n = 0; n < 20; n++) await before.execute([photo(BYTES)], { runId: `short ${n}` })
  await before.close()
  const store = storeOf()
  const keep = { runs: 1, days: 30, bytes: 2 ** 30 }
  const archive = (name: (index: number) => string) =>
    new TraceArchive({ folder, redactor: { data: (value) => value }, name })
  const { after: size } = await compactLog(store, { keep, logger: silent, archive })
  await store.close()
  t.ok(size > 2 * BYTES && size < 4 * BYTES, `the log has ${size} bytes`)
  const [first] = readdirSync(folder).sort()
  const { messages, parts } = JSON.parse(readFileSync(join(folder, first!), 'utf8')) as Archived
  const [, hash = ''] = /^stored:sha256-(.*):/.exec(messages[0]!.parts[0]!.data) ?? []
  const archived = Buffer.from(parts[hash]!, 'base64')
  t.equal(createHash('sha256').update(archived).digest('hex'), hash, 'the archive has the bytes')
  const model = new Viewer()
  const after = looking(t, model, storeOf())
  await after.start()
  t.match(await after.getRun('open')!.result, { finalOutput: 'A cat' })
  t.same(model.seen, [digest(dataUrl(image))])
})
