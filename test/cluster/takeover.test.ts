/**
 * Over the death of a run's owner, in streams and answers, nothing is missing, and nothing comes twice. A conversation that
 * is handed on in one process goes on from another, and its speaker outlives its process.
 */
import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import t, { type Test } from 'tap'
import type { ClusterOptions } from '../../src/index.ts'
import { howMany } from '../how-many.ts'
import { type Engine, engines } from './engines.ts'
import { handingDesk } from './handing-desk.ts'
import { type Served, served } from './served.ts'

const programAt = (file: string) => fileURLToPath(new URL(file, import.meta.url))
const SERVED = programAt('./served-member.js')
const HANDING = programAt('./handing-member.js')

/** A member in a process of its own. */
class Child {
  readonly #cluster: ClusterOptions
  readonly #program: string
  #process: ChildProcess | undefined

  constructor(t: Test, cluster: ClusterOptions, program = SERVED) {
    this.#cluster = cluster
    this.#program = program
    t.teardown(() => this.#process?.kill('SIGKILL'))
  }

  async run(): Promise<void> {
    this.#process = fork(this.#program, [JSON.stringify(this.#cluster)])
    await once(this.#process, 'message')
  }

  get pid(): number {
    return this.#process!.pid!
  }

  async held(): Promise<readonly number[]> {
    this.#process!.send('held')
    const [held] = await once(this.#process!, 'message')
    return held
  }

  signal(signal: 'SIGSTOP' | 'SIGCONT'): void {
    this.#process!.kill(signal)
  }

  async kill(): Promise<void> {
    const ended = once(this.#process!, 'exit')
    this.#process!.kill('SIGKILL')
    await ended
  }
}

for (const engine of engines)
  t.test(`a conversation that is handed on lives on, on ${engine.name}`, { skip: engine.skip }, async (t) => {
    const { urls, remove } = await engine.start('desk', 1)
    t.teardown(remove)
    const cluster = { url: urls[0]!, name: 'desk' }
    const team = handingDesk(cluster)
    t.teardown(() => team.close())
    await team.start()
    const other = new Child(t, cluster, HANDING)
    await other.run()
    while (team.held.size === 0 || (await other.held()).length === 0) await new Promise(setImmediate)

    const held = await other.held()
    let threadId = 'ann'
    for (let i = 0; !held.includes(team.shardOf(threadId)); i++) threadId = `ann ${i}`
    const say = (query: string) => team.execute(query, { threadId })
    const first = await say('My invoice is wrong.')
    t.match(first, { success: true, speaker: 'billing', finalOutput: `billing at ${other.pid} after 2` })
    t.match(await say('And this one?'), { speaker: 'billing', finalOutput: `billing at ${other.pid} after 3` })

    const run = await team.launch('Please refund it.', { threadId })
    let questionId: string | undefined
    while (questionId === undefined) questionId = (await run.questions())[0]?.questionId
    await other.kill()
    await run.answer(questionId, 'yes')
    t.match(await run.result(), {
      success: true,
      speaker: 'billing',
      finalOutput: new RegExp(`billing at ${process.pid}: .*yes`),
    })
    t.match(await say('Thanks.'), { speaker: 'billing' })
  })

// the nemesis takes shards over on each engine
for (const engine of engines.slice(0, howMany(1, engines.length)))
  t.test(`over a takeover on ${engine.name}`, { skip: engine.skip }, (t) => goesOn(t, engine, howMany(1, 100)))

async function goesOn(t: Test, engine: Engine, times: number): Promise<void> {
  const { urls, remove } = await engine.start('streams', 1)
  t.teardown(remove)

  await t.test(`a stream goes on at the next owner, ${times} times`, async (t) => {
    const { reader, children } = await cluster(t, 'streams')
    for (let time = 0; time < times; time++) {
      const { id, owner } = await begin(reader, children, 'slow')
      const at = `/api/tasks/${id}/events`
      const response = await reader.fetch('GET', at)
      let text = ''
      let killed: Promise<void> | undefined
      for await (const piece of response.body!.pipeThrough(new TextDecoderStream())) {
        text += piece
        if (idsIn(text).length > 8 + time) killed ??= owner.kill()
      }
      await killed
      t.match(text, /event: run.finished\n.*"finalOutput":"slow, done"/)
      const whole = String((await reader.send('GET', at)).body)
      t.same(idsIn(text), idsIn(whole))
      t.equal(new Set(idsIn(text)).size, idsIn(text).length)
      await owner.run()
    }
  })

  await t.test('an answer that comes while a shard has no owner is kept', async (t) => {
    const { reader, children } = await cluster(t, 'answers')
    for (let time = 0; time < Math.ceil(times / 4); time++) {
      const { id, owner } = await begin(reader, children, 'order')
      const at = `/api/tasks/${id}`
      let questionId: string | undefined
      while (questionId === undefined) questionId = (await reader.send('GET', at)).body.questions[0]?.questionId
      await owner.kill()
      const answered = await reader.send('POST', `${at}/answers`, { body: { questionId, answer: 'yes' } })
      t.ok([202, 204].includes(answered.status), JSON.stringify(answered))
      t.match((await reader.send('GET', `${at}?wait=30`)).body, { status: 'finished', answer: 'order: yes' })
      const other = await reader.send('POST', '/api/tasks', { body: { query: 'slow' } })
      t.match(other, { status: 200, body: { answer: 'slow, done' } })
      await owner.run()
    }
  })

  await t.test('a stream leaves an owner that is frozen, and does not come back to it', async (t) => {
    const { reader, children } = await cluster(t, 'frozen')
    const { id, owner } = await begin(reader, children, 'slow')
    const at = `/api/tasks/${id}`
    const response = await reader.fetch('GET', `${at}/events`)
    let text = ''
    for await (const piece of response.body!.pipeThrough(new TextDecoderStream())) {
      if (text === '') owner.signal('SIGSTOP')
      text += piece
    }
    t.match((await reader.send('GET', `${at}?wait=30`)).body, { status: 'finished', answer: 'slow, done' })
    owner.signal('SIGCONT')
    t.same(idsIn(text), idsIn(String((await reader.send('GET', `${at}/events`)).body)))
    t.match(text, /event: run.finished/)
  })

  async function cluster(t: Test, name: string): Promise<{ reader: Served; children: readonly Child[] }> {
    const options = { url: urls[0]!, name, shards: 6, times: { beatMs: 200, suspectMs: 1_000, ttlMs: 3_000 } }
    const reader = await served(t, options)
    const children = [new Child(t, options), new Child(t, options)]
    await Promise.all(children.map((child) => child.run()))
    return { reader, children }
  }
}

/** Begins a task whose shard a child holds. */
async function begin(reader: Served, children: readonly Child[], query: string): Promise<{ id: string; owner: Child }> {
  for (;;) {
    const held = await Promise.all(children.map((child) => child.held()))
    const { body } = await reader.send('POST', '/api/tasks', { body: { query }, headers: { prefer: 'respond-async' } })
    const owner = children.find((_, i) => held[i]!.includes(reader.team.shardOf(body.id)))
    if (owner) return { id: body.id, owner }
  }
}

function idsIn(text: string): string[] {
  return [...text.matchAll(/^id: (.*)$/gm)].map(([, id]) => id!)
}
