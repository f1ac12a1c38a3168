/**
 * Customers of a served desk, who ask again when its process ends; a boss who approves what they buy; readers of events,
 * who come back; and a dashboard that is open all the time.
 */
import { setTimeout as pause } from 'node:timers/promises'

const CUSTOMERS = 6
const TASKS_A_THREAD = 25
const BOSS = 'boss'
const AGAIN_MS = 50
const LOOK_MS = 100
/** Far beyond any: a task that is stuck fails, and shows. */
const LONGEST_MS = 90_000
const OVER: ReadonlySet<string> = new Set(['finished', 'failed', 'aborted'])

interface Task {
  readonly id: string
  readonly status: string
  readonly answer?: string
  readonly error?: { readonly code: string }
}

export class Customers {
  /** Where the process listens; undefined while there is none. */
  url: string | undefined
  done = 0
  payments = 0
  streams = 0
  readonly wrong: string[] = []
  #isPaused = false
  #isOver = false
  #underWay = 0
  #number = 0
  readonly #work: Promise<unknown>[] = []
  readonly #ended = new AbortController()

  begin(): void {
    for (let n = 0; n < CUSTOMERS; n++) this.#work.push(this.#customer(n))
    this.#work.push(this.#boss(), this.#dashboard())
  }

  /** Resolves when nothing is under way, and nothing begins. */
  async rest(): Promise<void> {
    this.#isPaused = true
    while (this.#underWay > 0) await pause(AGAIN_MS)
  }

  resume(): void {
    this.#isPaused = false
  }

  async end(): Promise<void> {
    await this.rest()
    this.#isOver = true
    this.#ended.abort()
    await Promise.all(this.#work)
  }

  async #customer(customer: number): Promise<void> {
    for (let n = 0; !this.#isOver; n++) {
      while (this.#isPaused && !this.#isOver) await pause(AGAIN_MS)
      if (this.#isOver) return
      this.#underWay += 1
      const number = ++this.#number
      const kind = n % 4 === 3 ? 'pay' : 'talk'
      try {
        await this.#task(`customer-${customer}`, `order ${kind} ${number}`, Math.floor(n / TASKS_A_THREAD), n % 3 === 0)
        if (kind === 'pay') this.payments += 1
        this.done += 1
      } catch (error) {
        this.wrong.push(`order ${kind} ${number}: ${error}`)
      }
      this.#underWay -= 1
    }
  }

  async #task(who: string, query: string, thread: number, isRead: boolean): Promise<void> {
    const headers = { 'idempotency-key': query.replaceAll(' ', '-'), prefer: 'respond-async' }
    const body = JSON.stringify({ query, threadId: `${who} ${thread}` })
    const { id } = await this.#ask<Task>('/api/tasks', { method: 'POST', headers, body }, who)
    const reading = isRead ? this.#readEvents(who, id) : undefined
    const until = performance.now() + LONGEST_MS
    let task: Task | undefined
    while (!task || !OVER.has(task.status)) {
      if (performance.now() > until) throw new Error(`it is ${task?.status} still`)
      task = await this.#ask<Task>(`/api/tasks/${id}?wait=20`, {}, who)
    }
    await reading
    await this.#ask('/api/tasks?limit=12', {}, BOSS) // as the page does when a task ends
    const isUnknown = query.includes('pay') && task.error?.code === 'OUTCOME_UNKNOWN'
    if (task.answer !== `done ${query}` && !isUnknown)
      throw new Error(`it ended with ${JSON.stringify(task.error ?? task.answer)}`)
  }

  /** Reads the events of a task over restarts: none comes twice, and none is missing. */
  async #readEvents(who: string, id: string): Promise<void> {
    const seen: string[] = []
    for (;;) {
      const last = seen.at(-1)
      const status = await this.#stream(`/api/tasks/${id}/events`, who, last, (event) => {
        if (event.id) seen.push(event.id)
      })
      if (status === 204) break
    }
    this.streams += 1
    let whole: string[] = []
    const until = performance.now() + LONGEST_MS
    for (let status = 0; (status !== 200 || whole.length < seen.length) && performance.now() < until; ) {
      whole = [] // its process may have ended meanwhile
      status = await this.#stream(`/api/tasks/${id}/events`, who, undefined, (event) => {
        if (event.id) whole.push(event.id)
      })
    }
    if (seen.join() !== whole.join()) throw new Error(`its events were ${seen}, and not ${whole}`)
  }

  async #boss(): Promise<void> {
    while (!this.#isOver) {
      const { questions } = await this.#ask<{ questions: { taskId: string; questionId: string; digest: string }[] }>(
        '/api/questions',
        {},
        BOSS,
      )
      for (const { taskId, questionId, digest } of questions) {
        const body = JSON.stringify({ questionId, answer: 'yes', digest })
        await this.#ask(`/api/tasks/${taskId}/answers`, { method: 'POST', body }, BOSS, [404, 409])
      }
      await pause(LOOK_MS)
    }
  }

  async #dashboard(): Promise<void> {
    while (!this.#isOver) await this.#stream('/api/watch', BOSS, undefined, () => {})
  }

  /** Asks until there is an answer: a process that ends, begins or drains gives none. */
  async #ask<T>(path: string, init: RequestInit, who: string, fine: readonly number[] = []): Promise<T> {
    for (;;) {
      this.#ended.signal.throwIfAborted()
      try {
        const headers = { ...init.headers, authorization: `Bearer ${who}`, 'content-type': 'application/json' }
        const response = await fetch(`${this.url}${path}`, { ...init, headers })
        const text = await response.text()
        if (response.ok || fine.includes(response.status)) return JSON.parse(text || 'null')
        if (response.status !== 503 && response.status !== 429)
          this.wrong.push(`${init.method ?? 'GET'} ${path}: ${response.status} ${text}`)
        if (response.status < 500 && response.status !== 429) throw new RefusedError(text)
      } catch (error) {
        if (error instanceof RefusedError) throw error
      }
      await pause(AGAIN_MS)
    }
  }

  /** Reads a stream of events to its end, or as far as there is a process. Returns its status, 0 for none. */
  async #stream(
    path: string,
    who: string,
    last: string | undefined,
    take: (event: { id?: string }) => void,
  ): Promise<number> {
    try {
      const headers = { authorization: `Bearer ${who}`, ...(last !== undefined && { 'last-event-id': last }) }
      const response = await fetch(`${this.url}${path}`, { headers, signal: this.#ended.signal })
      let rest = ''
      for await (const piece of response.body?.pipeThrough(new TextDecoderStream()) ?? []) {
        const frames = (rest + piece).split('\n\n')
        rest = frames.pop() ?? ''
        for (const frame of frames) {
          const id = /^id: ?(.*)$/m.exec(frame)?.[1]
          take(id === undefined ? {} : { id })
        }
      }
      return response.status
    } catch {
      await pause(AGAIN_MS)
      return 0
    }
  }
}

class RefusedError extends Error {}
