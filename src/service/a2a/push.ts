/**
 * Push notifications of A2A 1.0: the URLs that clients name are told how their tasks stand. What is owed to a URL is in
 * the durable log until it has been told the end of its task: at least once, also after a crash.
 * Source: https://a2a-protocol.org/v1.0.0/specification, section 4.3.
 */
import { isIP } from 'node:net'
import { type Outbox, outboxes } from '../../runtime/host/outbox.ts'
import type { RuntimeEvent } from '../../runtime/runs/events.ts'
import { describe, ToolFailedError } from '../../shared/errors.ts'
import { onAbort, Slots } from '../../shared/on-abort.ts'
import { digestOf } from '../../shared/random.ts'
import { send, within } from '../../tools/http-request.ts'
import { ownAddresses, refusal, systemResolve } from '../../tools/page.ts'
import type { A2aSettings, Caller } from '../http/options.ts'
import { HttpError } from '../http/problem.ts'
import { firstOf } from '../http/streams.ts'
import { type FoundTask, isOver, type ServedTeam } from '../http/task-view.ts'
import { type Service, written } from '../http/tasks.ts'
import { taskOf } from './task.ts'
import { Fault, type PushConfig } from './wire.ts'

/** Entry of the outbox of a team. */
interface Owed extends PushConfig {
  readonly id: string
  readonly taskId: string
  readonly caller: Caller
  /** Digest of the task as the URL was told it last. */
  readonly told?: string
  /** How often in succession it could not be told. */
  readonly failed?: number
}

const MOST_OF_TASK = 10
const AT_ONCE = 16
const MOST_BYTES = 65_536
const REPLY_MS = 10_000
/** Pauses before it is told again, in ms. Behind the last one it is given up. */
const RETRIES = [1_000, 10_000, 60_000, 300_000, 1_200_000, 3_600_000]
/** Pause between two looks at a task that goes on when somebody resumes it, in ms. */
const INTERRUPTED_MS = 30_000

/** Events with which a task may stand otherwise. */
const CHANGES: RuntimeEvent['type'][] = ['run.started', 'question', 'question.voted', 'question.closed']

export class Pushes {
  readonly #service: Pick<Service, 'settings' | 'tasks'>
  readonly #push: A2aSettings['push']
  readonly #slots = new Slots(AT_ONCE)
  /** URLs that are being told, by key. */
  readonly #going = new Map<string, AbortController>()

  constructor(service: Service, { push, teams }: Pick<A2aSettings, 'push' | 'teams'>) {
    this.#service = service
    this.#push = push
    const { ending } = service.tasks
    const stops = service.teams.own.flatMap((served) =>
      teams.includes(served.name) ? outboxOf(served).watch((key) => this.#look(served, key)) : [],
    )
    onAbort(ending, () => {
      for (const stop of stops) stop()
      for (const going of this.#going.values()) going.abort()
    })
  }

  /** Rejects with Fault for a URL that is not told anything. */
  async assertReachable({ url }: Pick<PushConfig, 'url'>, signal: AbortSignal): Promise<void> {
    const look = () => this.#addressesOf(new URL(url))
    await within(REPLY_MS, signal, () => late(url), look)
  }

  /** Begins to tell a URL, in place of what the same id had before. Resolves when the log has it. */
  async put(found: FoundTask, { id, url, token, authentication }: PushConfig): Promise<object> {
    const { run, caller, team } = found
    const of = this.of(found)
    const named = id ?? digestOf([url]).slice(0, 16) // a message that is sent again has one
    const isKnown = of.some((config) => config.id === named)
    if (!isKnown && of.length >= MOST_OF_TASK)
      throw new Fault('INVALID_PARAMS', `A task has up to ${MOST_OF_TASK} push notification configs. Delete one first.`)
    const key = keyOf(run.id, named)
    this.#going.get(key)?.abort()
    const owed: Owed = { id: named, taskId: run.id, url, token, authentication, caller }
    outboxOf(found).put(key, JSON.parse(JSON.stringify(owed)))
    await team.flush()
    return shown(owed)
  }

  /** Returns the configs of a task, or the one of that id, without their credentials. */
  of(found: FoundTask, id?: string): { id: string }[] {
    const [from, only] = [`${PREFIX}${found.run.id}/`, id !== undefined && keyOf(found.run.id, id)]
    const owed = [...outboxOf(found).entries].filter(([key]) => (only ? key === only : key.startsWith(from)))
    return owed.map(([, value]) => shown(value as Owed))
  }

  async remove(found: FoundTask, id: string): Promise<void> {
    outboxOf(found).put(keyOf(found.run.id, id), undefined)
    await found.team.flush()
  }

  #look(served: ServedTeam, key: string): void {
    if (!key.startsWith(PREFIX)) return
    const going = this.#going.get(key)
    if (outboxOf(served).get(key) === undefined) return going?.abort()
    if (going && !going.signal.aborted) return
    const stop = new AbortController()
    this.#going.set(key, stop)
    this.#tell(served, key, stop.signal)
      .catch((error: unknown) => this.#failed(served, key, error, stop.signal))
      .finally(() => {
        if (this.#going.get(key) === stop) this.#going.delete(key)
      })
  }

  /** Tells a URL how its task stands whenever it stands otherwise, until it is over. */
  async #tell(served: ServedTeam, key: string, signal: AbortSignal): Promise<void> {
    const outbox = outboxOf(served)
    const { taskId, caller } = outbox.get(key) as Owed
    let changes: AsyncIterator<unknown> | undefined
    while (!signal.aborted) {
      const found = await this.#service.tasks.find(taskId, caller, [])
      changes ??= found.run.events({ types: CHANGES, signal })[Symbol.asyncIterator]()
      await written(found)
      const isLast = isOver(found.run)
      const task = await taskOf(found)
      const { status, ...rest } = task
      const stands = digestOf([rest, status.state, status.message]).slice(0, 16)
      const owed = outbox.get(key) as Owed | undefined
      if (!owed) return
      const isStill = found.run.status === 'interrupted' // it goes on here or elsewhere, as it stood before
      const isTold = owed.told === stands || isStill
      const failure = isTold ? undefined : await this.#post(owed, bodyOf(task), signal)
      if (signal.aborted) return
      const { failed = 0, ...same } = owed
      if (failure) {
        const pause = RETRIES[failed]
        if (failure.isFinal || pause === undefined) throw failure
        outbox.put(key, { ...owed, failed: failed + 1 })
        await firstOf(pause, (done) => onAbort(signal, done))
      } else if (isLast) outbox.put(key, undefined)
      else if (!isTold) outbox.put(key, { ...same, told: stands })
      else if ((await changes.next()).done) {
        changes = undefined
        if (!isOver(found.run)) await firstOf(INTERRUPTED_MS, (done) => onAbort(signal, done))
      }
    }
  }

  /** Resolves with why the URL could not be told. */
  async #post(
    { url: given, token, authentication }: Owed,
    body: string,
    signal: AbortSignal,
  ): Promise<Untold | undefined> {
    const url = new URL(given)
    const { scheme, credentials } = authentication ?? {}
    const headers = {
      'content-type': 'application/a2a+json',
      ...(scheme && credentials && { authorization: `${scheme} ${credentials}` }),
      ...(token && { 'x-a2a-notification-token': token }),
    }
    const post = async (signal: AbortSignal) => {
      const addresses = await this.#addressesOf(url)
      return send(url, { who: url.host, addresses, headers, body, maxBytes: 0, wants: () => false }, signal)
    }
    const free = await this.#slots.take(signal)
    try {
      const { status } = await within(REPLY_MS, signal, () => late(given), post)
      if (status < 200 || status > 299)
        return new Untold(`${url.origin} answered with status ${status}`, status === 410)
      return undefined
    } catch (error) {
      return new Untold(describe(error))
    } finally {
      free()
    }
  }

  /** Rejects with Fault for a URL that may not be told anything. */
  async #addressesOf(url: URL): Promise<readonly string[]> {
    const { hostname, origin, protocol } = url
    const isAny = this.#push === true
    if (isAny ? protocol !== 'https:' : !(this.#push as readonly string[]).includes(origin))
      throw refused(origin, isAny ? 'is no https URL' : 'is none of those that may be told (a2a.push)')
    if (url.username !== '' || url.password !== '') throw refused(origin, 'has a user name or a password')
    const literal = hostname.replace(/^\[|\]$/g, '')
    const addresses = isIP(literal)
      ? [literal]
      : await systemResolve(hostname).catch(() => {
          throw refused(origin, 'has a name that cannot be resolved')
        })
    const own = isAny ? ownAddresses() : undefined
    const reason = own && addresses.map((address) => refusal(address, own)).find(Boolean)
    if (reason) throw refused(origin, `leads to ${reason}`) // not to which one: a caller could map a network by it
    return addresses
  }

  /** Gives up a URL that cannot be told, or whose task is forgotten. All else is told by the next service. */
  #failed(served: ServedTeam, key: string, error: unknown, signal: AbortSignal): void {
    const owed = outboxOf(served).get(key) as Owed | undefined
    if (!owed || signal.aborted) return
    const { logger } = this.#service.settings
    const isForgotten = error instanceof HttpError && error.code === 'NOT_FOUND'
    const isOver = isForgotten || error instanceof Untold
    const fields = { task: owed.taskId, url: new URL(owed.url).origin, error: describe(error) }
    if (!isOver) return logger.error(fields, 'a push notification waits for the next start')
    logger.warn(fields, 'a push notification was given up')
    outboxOf(served).put(key, undefined)
  }
}

/** A URL could not be told. `isFinal`: it wants no more. */
class Untold extends Error {
  readonly isFinal: boolean

  constructor(text: string, isFinal = false) {
    super(text)
    this.isFinal = isFinal
  }
}

const PREFIX = 'a2a.push/'
const keyOf = (taskId: string, id: string): string => `${PREFIX}${taskId}/${id}`

const outboxOf = ({ team }: Pick<ServedTeam, 'team'>): Outbox => outboxes.get(team)!

const shown = ({ caller: _caller, told: _told, failed: _failed, authentication, ...config }: Owed) => ({
  ...config,
  ...(authentication && { authentication: { scheme: authentication.scheme } }),
})

/** A task whose answer is large is told without it: its client gets the task. */
function bodyOf(task: { artifacts?: object[] }): string {
  const whole = JSON.stringify({ task })
  if (Buffer.byteLength(whole) <= MOST_BYTES) return whole
  const { artifacts: _, ...rest } = task
  return JSON.stringify({ task: rest })
}

const refused = (origin: string, why: string): Fault =>
  new Fault('INVALID_PARAMS', `taskPushNotificationConfig.url: ${origin} ${why}.`)

const late = (url: string) =>
  new ToolFailedError(`${new URL(url).origin} has not answered within ${REPLY_MS} ms.`, { service: new URL(url).host })
