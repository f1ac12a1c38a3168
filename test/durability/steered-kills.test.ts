/**
 * A service on real threads whose run people steer, killed with SIGKILL again and again around that and started again.
 * A model server that keeps what it is asked sees the words last in the next call of each agent, and once in each prompt
 * after it.
 *
 *   npm test: 5 kills      npm run test:deep: 200
 *   DRAMATIS_KILLS=50 SEED=3 node dist/test/durability/steered-kills.test.js
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import type { Test } from 'tap'
import t from 'tap'
import { Dice } from '../dice.ts'
import { type ModelServer, modelServer, type SeenCall } from '../fixtures/model-server.ts'
import { howMany } from '../how-many.ts'
import { folderOf } from './log-folders.ts'

const { DRAMATIS_KILLS, SEED } = process.env
const KILLS = Number(DRAMATIS_KILLS ?? howMany(5, 200))

const program = fileURLToPath(new URL('../fixtures/durability/steered.js', import.meta.url))
const preload = new URL('../fixtures/durability/dies-at-write.js', import.meta.url).href

/** Words that are said while a call of that agent is under way, the one behind so many calls of its tool. */
interface Said {
  readonly id: string
  readonly agent: string
  readonly looks: number
  readonly when: 'next' | 'interrupt'
}

const LOOKS = 2

const messagesOf = ({ body }: SeenCall) => body.messages.map(({ role, content }) => `${role}: ${content}`)
const agentOf = ({ body }: SeenCall) => /^You are (\w+)/.exec(body.messages[0]!.content ?? '')?.[1] ?? ''
const looksOf = ({ body }: SeenCall) => body.messages.filter(({ role }) => role === 'tool').length
const isIn = (call: SeenCall, { id }: Said) => messagesOf(call).filter((message) => message === `user: ${id}`).length

type Child = ReturnType<typeof spawn>

/** What a life of the service dies of: a write, a call that comes, or a while after words were sent to it. */
type Death = { write: string } | { call: number } | { sent: number; waits: number }

function deathOf(dice: Dice): Death {
  const kind = dice.upTo(3)
  if (kind === 0) return { write: `${1 + dice.upTo(14)} ${dice.pick(['before', 'within', 'after'] as const)}` }
  if (kind === 1) return { call: 1 + dice.upTo(4) }
  return { sent: 1 + dice.upTo(2), waits: dice.upTo(12) }
}

class Play {
  readonly taken = new Set<string>()
  readonly #said: readonly Said[]
  readonly #waiting = new Map<string, () => void>()
  #child: Child | undefined
  #death: Death | undefined
  #calls = 0
  #sent = 0

  constructor(said: readonly Said[], server: ModelServer, seen: (call: SeenCall) => void) {
    this.#said = said
    server.always((call) => {
      seen(call)
      this.#calls += 1
      if (this.#death && 'call' in this.#death && this.#death.call === this.#calls) this.#kill()
      const looks = looksOf(call)
      const due = said.find(
        ({ id, agent, looks }) => !this.taken.has(id) && agent === agentOf(call) && looks <= looksOf(call),
      )
      const after = due ? this.#send(due) : undefined
      return looks < LOOKS
        ? { toolCalls: [{ name: 'look', input: {} }], after }
        : { text: `by ${agentOf(call)}`, after }
    })
  }

  /** Lets the service live until it dies or its run ends; returns how the run has ended. */
  async live(t: Test, folder: string, baseURL: string, death: Death | undefined): Promise<Ended | undefined> {
    this.#death = death
    this.#calls = 0
    this.#sent = 0
    const env = { ...process.env, ...(death && 'write' in death && { DIES_AT_WRITE: death.write }) }
    const args = ['--import', preload, program, join(folder, 'log'), baseURL]
    const child = spawn(process.execPath, args, { stdio: ['pipe', 'pipe', 'inherit'], env })
    t.teardown(() => child.kill('SIGKILL'))
    child.stdin.on('error', () => {}) // it may be dead
    this.#child = child
    const exited = once(child, 'exit')
    let ended: Ended | undefined
    for await (const line of createInterface(child.stdout)) {
      const said = JSON.parse(line) as { taken?: string; refused?: string } & Partial<Ended>
      if (said.refused) throw new Error(`words were refused: ${said.refused}`)
      if (said.taken === undefined) ended = said as Ended
      else this.#takes(said.taken)
    }
    const [code, signal] = await exited
    if (signal !== 'SIGKILL' && code !== 0) throw new Error(`the service ended with ${code ?? signal}`)
    for (const goesOn of this.#waiting.values()) goesOn()
    this.#waiting.clear()
    return signal === 'SIGKILL' ? undefined : ended
  }

  #takes(id: string): void {
    this.taken.add(id)
    this.#waiting.get(id)?.()
    this.#waiting.delete(id)
  }

  /** Sends the words, and waits until they are taken or the service is dead: the call has no answer before. */
  #send({ id, when }: Said): Promise<void> {
    this.#sent += 1
    this.#child!.stdin!.write(`${JSON.stringify({ words: id, id, when, to: undefined })}\n`)
    const death = this.#death
    if (death && 'sent' in death && death.sent === this.#sent) this.#dieIn(death.waits)
    return new Promise((resolve) => {
      const before = this.#waiting.get(id)
      this.#waiting.set(id, () => {
        before?.()
        resolve()
      })
    })
  }

  #dieIn(turns: number): void {
    if (turns === 0) this.#kill()
    else setImmediate(() => this.#dieIn(turns - 1))
  }

  #kill(): void {
    this.#child?.kill('SIGKILL')
  }

  isTaken(said: Said): boolean {
    return this.taken.has(said.id)
  }

  get all(): readonly Said[] {
    return this.#said
  }
}

interface Ended {
  success: boolean
  finalOutput: string
  steers: { id: string; settled: string; readBy: string[] }[]
}

t.test('words that are taken stand in each prompt from the next call on, whenever the service dies', async (t) => {
  const dice = new Dice(Number(SEED ?? 5))
  for (let kills = 0; kills < KILLS; ) {
    const folder = folderOf(t)
    const server = await modelServer(t)
    const said: Said[] = ['ann', 'bob', 'bob'].map((agent, n) => ({
      id: `words ${n}`,
      agent,
      looks: dice.upTo(LOOKS + 1),
      when: dice.pick(['next', 'interrupt'] as const),
    }))
    const first = new Set<string>()
    const faults: string[] = []
    const play: Play = new Play(said, server, (call) => {
      const agent = agentOf(call)
      const messages = messagesOf(call)
      const words = new Set(said.map(({ id }) => `user: ${id}`))
      for (const each of said) {
        const count = isIn(call, each)
        const key = `${agent} ${each.id}`
        const mustBe = first.has(key) || play.isTaken(each)
        if (count > 1 || (mustBe && count === 0)) faults.push(`${key} ${count} times in ${messages.join(' | ')}`)
        if (count === 0 || first.has(key)) continue
        first.add(key)
        const behind = messages.slice(messages.indexOf(`user: ${each.id}`))
        if (!behind.every((message) => words.has(message))) faults.push(`${key} is not last: ${messages.join(' | ')}`)
      }
    })
    let ended: Ended | undefined
    while (!ended) {
      const death = kills < KILLS ? deathOf(dice) : undefined
      ended = await play.live(t, folder, server.baseURL, death)
      if (!ended) kills += 1
    }
    t.same(faults, [])
    t.match(ended, { success: true, finalOutput: 'by bob' })
    t.same(
      ended.steers.map(({ id, settled }) => `${id} ${settled}`).sort(),
      said.map(({ id }) => `${id} read`),
    )
    t.ok(ended.steers.every(({ readBy }) => readBy.includes('bob')))
    await server.close()
  }
})
