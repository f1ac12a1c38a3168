/**
 * A server that is started here, and messages to and from it over stdio, one a line. The package's own transport copies
 * all that a line has so far for each chunk of it, reads on however much comes, and queues what the server does not
 * read: this one has bounds. Source: modelcontextprotocol.io, "Transports".
 */
import type { ChildProcessByStdio } from 'node:child_process'
import type { Readable, Writable } from 'node:stream'
import type { Transport } from '@modelcontextprotocol/sdk/shared/transport.js'
import type { JSONRPCMessage } from '@modelcontextprotocol/sdk/types.js'
import { MIB, MOST_TOOL_VALUES, type Refuse, tooLarge, tooMany } from '../bounded-answer.ts'
import { systemClock } from '../clock.ts'
import { valuesIn } from '../json-values.ts'
import { nextTurn } from '../timers.ts'
import { Lines } from './lines.ts'
import type { Sdk } from './sdk.ts'
import type { StdioServer } from './server-address.ts'
import { isAnswer, MOST_UNREAD, notRead } from './unread.ts'

const LONGEST_LINE = 16 * MIB
/** Lines in a row that are no message: some servers print there by mistake, but not that much. */
const MOST_NOISE = 10_000
/** Messages that are read before timers and sockets have their turn; it is at most 64 KiB at once anyway. */
const SLICE_LINES = 64
/** Time in ms that a server has to exit by itself, and then after it was told to. */
const LEAVE_MS = 2_000

type Child = ChildProcessByStdio<Writable, Readable, Readable | null>

export interface StdioParts {
  kit: Pick<Sdk, 'spawn' | 'deserializeMessage' | 'serializeMessage'>
  /** Makes the error for what is over a bound. */
  refuse: Refuse
  /** Takes what the server prints on stderr; undefined: nobody does. */
  printed: ((text: Buffer) => void) | undefined
}

export class StdioTransport implements Transport {
  onclose?: () => void
  onerror?: (error: Error) => void
  onmessage?: NonNullable<Transport['onmessage']>
  readonly #server: StdioServer
  readonly #parts: StdioParts
  #child: Child | undefined
  #exit: Promise<void> = Promise.resolve()
  #isOver = false
  #unread = 0
  #noise = 0
  readonly #lines = new Lines()

  constructor(server: StdioServer, parts: StdioParts) {
    this.#server = server
    this.#parts = parts
  }

  /** Resolves when the process runs. */
  async start(): Promise<void> {
    const { command, args = [], env = {}, cwd } = this.#server
    const { kit, printed } = this.#parts
    const child = kit.spawn(command, args, {
      env, // and nothing of this process's
      cwd,
      stdio: ['pipe', 'pipe', printed ? 'pipe' : 'ignore'],
      windowsHide: true,
    }) as Child
    this.#child = child
    const started = new Promise<void>((resolve, reject) => child.once('spawn', resolve).once('error', reject))
    this.#exit = new Promise((resolve) => {
      child.once('exit', () => resolve())
      started.catch(() => resolve())
    })
    child.on('error', (error) => this.onerror?.(error))
    child.once('close', () => this.#over())
    child.stdin.on('error', (error) => this.onerror?.(error))
    const failed = (error: unknown) => this.onerror?.(error as Error)
    this.#read(child.stdout).catch(failed)
    if (printed && child.stderr) inTurns(child.stderr, printed).catch(failed)
    await started
  }

  /** Resolves when it is written. To a server that is gone it is too: its end fails what waits for an answer. */
  send(message: JSONRPCMessage): Promise<void> {
    return new Promise((resolve, reject) => {
      if (!this.#child || this.#isOver) return reject(new Error('Not connected'))
      const isCounted = isAnswer(message)
      if (isCounted && this.#unread === MOST_UNREAD) return reject(this.end(notRead))
      if (isCounted) this.#unread += 1
      this.#child.stdin.write(this.#parts.kit.serializeMessage(message), () => {
        if (isCounted) this.#unread -= 1
        resolve()
      })
    })
  }

  /** Lets the server leave, and ends one that does not. */
  async close(): Promise<void> {
    const child = this.#child
    if (!child) return
    child.stdin.end()
    if (!(await this.#exits())) child.kill('SIGTERM')
    if (!(await this.#exits())) child.kill('SIGKILL')
    await this.#exit
    this.#over()
  }

  /** Ends server and connection at once. */
  end(what: string): Error {
    const error = this.#parts.refuse(what)
    this.#child?.kill('SIGKILL')
    this.#over()
    return error
  }

  #over(): void {
    if (this.#isOver) return
    this.#isOver = true
    this.#lines.drop() // errors of the connection, which may be kept for long, hold it
    // a process that the server started may have them too, and live on
    this.#child?.stdout.destroy()
    this.#child?.stderr?.destroy()
    this.onclose?.()
  }

  async #exits(): Promise<boolean> {
    const enough = new AbortController()
    const late = systemClock.sleep(LEAVE_MS, enough.signal).then(
      () => false,
      () => true,
    )
    const isGone = await Promise.race([this.#exit.then(() => true), late])
    enough.abort()
    return isGone
  }

  async #read(stdout: Readable): Promise<void> {
    const lines = this.#lines
    let count = 0
    await inTurns(stdout, async (chunk) => {
      let wrong: unknown
      for (const line of lines.take(chunk)) {
        const error = this.#take(line)
        wrong ??= error
        count += 1
        if (count % SLICE_LINES === 0) await nextTurn()
        if (this.#isOver) return
      }
      if (lines.pending > LONGEST_LINE) wrong ??= this.end(tooLarge('a line', LONGEST_LINE))
      if (wrong instanceof Error) this.onerror?.(wrong) // one for all of a chunk: it can be thousands
    })
  }

  /** An error: it is no message, or too much. */
  #take(line: Buffer): unknown {
    if (line.length > LONGEST_LINE) return this.end(tooLarge('a line', LONGEST_LINE))
    if (line.length > MOST_TOOL_VALUES && valuesIn(line) > MOST_TOOL_VALUES)
      return this.end(tooMany('a line', MOST_TOOL_VALUES))
    try {
      const message = this.#parts.kit.deserializeMessage(line.toString())
      this.#noise = 0
      this.onmessage?.(message)
    } catch (error) {
      this.#noise += 1
      return this.#noise > MOST_NOISE ? this.end(`sends more than ${MOST_NOISE} lines that are no message`) : error
    }
    return undefined
  }
}

/**
 * Reads at most 64 KiB before timers and sockets have their turn. Resolves when the stream is over or was destroyed.
 */
async function inTurns(stream: Readable, take: (chunk: Buffer) => unknown): Promise<void> {
  try {
    for await (const chunk of stream) {
      await take(chunk)
      await nextTurn()
    }
  } catch (error) {
    if ((Object(error) as { code?: unknown }).code !== 'ERR_STREAM_PREMATURE_CLOSE') throw error
  }
}
