/**
 * Lets one process at a time have a log. The lock is a socket, which the operating system frees when the process dies,
 * however it dies. The file `owner` says who has it; it is also what fences off a process whose lock the next one could
 * not see, such as one in another container on the same volume.
 */
import { createHash, randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { readFileSync, writeFileSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { connect, createServer, type Server, type Socket } from 'node:net'
import { hostname, tmpdir } from 'node:os'
import { basename, dirname, join } from 'node:path'
import { LogHeldError, LogLostError } from '../../shared/errors.ts'
import { hasCode, type LogFiles, realFiles, writeWhole } from './log-files.ts'

interface Holder {
  pid: number
  host: string
}

interface Owner extends Holder {
  token: string
  incarnation: number
  /** True once the process has ended by itself, and not by a signal or a crash. */
  ended?: true
}

const OWNER_FILE = 'owner'

/** Time in which a process that has a log says who it is, in ms. */
const ANSWER_MS = 1_000

const held = new Set<LogLock>()

const noteEnd = () => {
  for (const lock of held) lock.noteEnd()
}

export class LogLock {
  readonly #folder: string
  readonly #files: LogFiles
  readonly #server: Server
  readonly #token = randomUUID()
  #owner: Owner | undefined
  /** Version of the file `owner` that was last seen to name this process. */
  #version: string | undefined

  private constructor(folder: string, files: LogFiles, server: Server) {
    this.#folder = folder
    this.#files = files
    this.#server = server
  }

  /** @throws LogHeldError with pid and host of the process that has it. */
  static async take(folder: string, files: LogFiles): Promise<LogLock> {
    const address = addressOf('log', await files.folder(folder))
    const server = (await listen(address)) ?? ((await removeStale(address)) ? await listen(address) : undefined)
    if (!server) throw heldBy(folder, (await holderAt(address)) ?? (await ownerOf(folder, files)))
    server.unref()
    return new LogLock(folder, files, server)
  }

  /** Returns the incarnation of the owner before, 0 if there was none, and whether it has ended by itself. */
  async before(): Promise<{ incarnation: number; ended: boolean }> {
    const owner = await ownerOf(this.#folder, this.#files)
    return { incarnation: owner?.incarnation ?? 0, ended: owner?.ended === true }
  }

  /** Writes who has the log now. From here on an earlier owner that is still at work finds itself fenced off. */
  async own(incarnation: number): Promise<void> {
    const owner: Owner = { token: this.#token, incarnation, pid: process.pid, host: hostname() }
    const path = join(this.#folder, OWNER_FILE)
    const fresh = `${path}.${this.#token}`
    try {
      await this.#write(fresh, Buffer.from(`${JSON.stringify(owner)}\n`))
      this.#version = (await this.#files.statusOf(fresh))?.version // before others can replace it
      await this.#files.rename(fresh, path)
    } catch (error) {
      await this.#files.remove(fresh).catch(() => {}) // it may not have come into being
      throw error
    }
    await this.#files.syncFolder(this.#folder)
    this.#owner = owner
    held.add(this)
    if (held.size === 1) process.on('exit', noteEnd)
  }

  /** Notes in the file that this process ends by itself. Does nothing if another process has the log by now. */
  noteEnd(): void {
    const path = join(this.#folder, OWNER_FILE)
    try {
      const { token } = JSON.parse(readFileSync(path, 'utf8'))
      if (token === this.#token) writeFileSync(path, `${JSON.stringify({ ...this.#owner, ended: true })}\n`)
    } catch {
      // The file cannot be read or written: this end counts as a death.
    }
  }

  async #write(path: string, bytes: Buffer): Promise<void> {
    const file = await this.#files.create(path)
    try {
      await writeWhole(file, bytes, 0)
      await file.sync()
    } finally {
      await file.close()
    }
  }

  /**
   * Called after each sync: one look at the file's version is enough as long as nobody has touched it.
   *
   * @throws LogLostError where another process has taken the log since.
   */
  async check(): Promise<void> {
    const version = (await this.#files.statusOf(join(this.#folder, OWNER_FILE)))?.version
    if (version !== undefined && version === this.#version) return
    const owner = await ownerOf(this.#folder, this.#files)
    if (owner?.token === this.#token) {
      this.#version = version
      return
    }
    const by = owner ? `process ${owner.pid} on ${owner.host} has taken it` : 'its file "owner" is gone'
    throw new LogLostError(
      `The log in ${this.#folder} is no longer this process's: ${by}. Let one process have a log; blocks since the last sync may be missing.`,
      { path: this.#folder, ...(owner && { pid: owner.pid, host: owner.host }) },
    )
  }

  async free(): Promise<void> {
    held.delete(this)
    if (held.size === 0) process.off('exit', noteEnd)
    const closed = once(this.#server, 'close')
    this.#server.close()
    await closed
  }
}

/** On Linux in the abstract namespace, where nothing is left behind; elsewhere a pipe or a file for temporary ones. */
function addressOf(kind: 'log' | 'file', identity: string): string {
  const name = `dramatis-${kind}-${createHash('sha256').update(identity).digest('hex').slice(0, 24)}`
  if (process.platform === 'linux') return `\0${name}`
  if (process.platform === 'win32') return `\\\\.\\pipe\\${name}`
  return join(tmpdir(), `${name}.sock`)
}

/** Resolves to undefined where somebody listens there, or has left a file. */
async function listen(path: string): Promise<Server | undefined> {
  const holder: Holder = { pid: process.pid, host: hostname() }
  const server = createServer((socket) => {
    socket.on('error', () => {}) // whoever asked has gone
    socket.end(JSON.stringify(holder))
  })
  try {
    server.listen({ path, exclusive: true }) // not shared with other workers of a cluster
    await once(server, 'listening')
    return server
  } catch (error) {
    if (hasCode(error, 'EADDRINUSE')) return undefined
    throw error
  }
}

/**
 * Asks the process that has the lock who it is: in its first moments the file `owner` still names the one before it.
 * Resolves to undefined if it does not answer in time.
 */
async function holderAt(path: string): Promise<Holder | undefined> {
  const socket = connect(path).setTimeout(ANSWER_MS, () => socket.destroy())
  try {
    let text = ''
    for await (const piece of socket.setEncoding('utf8')) text += piece
    const { pid, host } = JSON.parse(text)
    return Number.isSafeInteger(pid) ? { pid, host: String(host) } : undefined
  } catch {
    return undefined // it has died, is stopped, or is of a version that does not say it
  } finally {
    socket.destroy()
  }
}

/** A socket file stays behind when its process dies. Resolves to whether there was such a one. */
async function removeStale(path: string): Promise<boolean> {
  if (process.platform === 'linux' || process.platform === 'win32') return false
  const socket = connect(path)
  try {
    await once(socket, 'connect')
    return false
  } catch (error) {
    if (!hasCode(error, 'ECONNREFUSED')) return false
    await rm(path, { force: true })
    return true
  } finally {
    socket.destroy()
  }
}

/** Checks whether a process has the log in that folder, without taking it. */
export async function isLogHeld(folder: string, files: LogFiles = realFiles): Promise<boolean> {
  const socket = connect(addressOf('log', await files.folder(folder)))
  try {
    await once(socket, 'connect')
    return true
  } catch {
    return false
  } finally {
    socket.destroy()
  }
}

async function ownerOf(folder: string, files: LogFiles): Promise<Owner | undefined> {
  let text: string
  try {
    text = (await files.read(join(folder, OWNER_FILE))).toString('utf8')
  } catch (error) {
    if (hasCode(error, 'ENOENT')) return undefined
    throw error
  }
  try {
    const { token, incarnation, pid, host, ended } = JSON.parse(text)
    const isOwner = typeof token === 'string' && Number.isSafeInteger(incarnation) && Number.isSafeInteger(pid)
    if (!isOwner) return undefined
    return { token, incarnation, pid, host: String(host), ...(ended === true && { ended }) }
  } catch {
    return undefined // it only names who has the log: the segments have the incarnations too
  }
}

function heldBy(path: string, owner: Holder | undefined): LogHeldError {
  const who = owner ? `process ${owner.pid} on ${owner.host}` : 'another process'
  return new LogHeldError(
    `The log in ${path} is held by ${who}. Stop that process first, let the start wait for it (stateManagement.waitForLogMs), or give this team a path of its own.`,
    { path, ...(owner && { pid: owner.pid, host: owner.host }) },
  )
}

/*
 * Locks of single files, for one change each. Who waits is connected to the socket of who has the lock until it is
 * free.
 */

/** Time after which who holds a file is taken to be stuck, in ms. */
const STUCK_MS = 10_000

/** Runs `act` with the file locked. Rejects if another process holds it for ten seconds without an end. */
export async function whileLocked<T>(path: string, act: () => Promise<T>): Promise<T> {
  const address = addressOf('file', `${await realFiles.folder(dirname(path))}/${basename(path)}`)
  const free = await taken(address)
  try {
    return await act()
  } finally {
    await free()
  }
}

async function taken(address: string): Promise<() => Promise<void>> {
  for (;;) {
    const waiting = new Set<Socket>()
    const server = createServer((socket) => {
      waiting.add(socket)
      socket.on('error', () => {}).on('close', () => waiting.delete(socket)) // it has waited long enough
    })
    try {
      server.listen({ path: address, exclusive: true }) // not shared with other workers of a cluster
      await once(server, 'listening')
    } catch (error) {
      if (!hasCode(error, 'EADDRINUSE')) throw error
      if (!(await removeStale(address))) await freed(address)
      continue
    }
    return async () => {
      const closed = once(server, 'close')
      server.close()
      for (const socket of waiting) socket.destroy()
      await closed
    }
  }
}

/** Resolves when who holds the lock lets go of it, or has done so. */
async function freed(address: string): Promise<void> {
  let isStuck = false
  const socket = connect(address).setTimeout(STUCK_MS, () => {
    isStuck = true
    socket.destroy()
  })
  try {
    await once(socket.resume(), 'close')
  } catch {
    // Nobody listens there any more.
  }
  if (isStuck) throw new Error(`another process has held it for ${STUCK_MS} ms`)
}
