/** A PostgreSQL server of a program's own, in a temporary folder, from where it is installed on this machine. */

import { type ChildProcess, spawn } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { chownSync, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { delimiter, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'

const INSTALLED = '/usr/lib/postgresql'

/** The folder with `initdb` and `postgres`, or nothing. */
export function postgresFolder(): string | undefined {
  const versions = existsSync(INSTALLED)
    ? readdirSync(INSTALLED)
        .map(Number)
        .sort((a, b) => b - a)
    : []
  const folders = [
    ...versions.map((version) => join(INSTALLED, String(version), 'bin')),
    ...(process.env.PATH ?? '').split(delimiter),
  ]
  return folders.find((folder) => existsSync(join(folder, 'initdb')) && existsSync(join(folder, 'postgres')))
}

export class PostgresServer {
  /** The server takes any; the processes know each other by it. */
  readonly #password = randomUUID()
  readonly folder: string
  readonly port: number
  readonly #bin: string
  readonly #settings: readonly string[]
  readonly #user = process.getuid?.() === 0 ? otherUser() : undefined // it refuses to run as root
  #process: ChildProcess | undefined

  private constructor(bin: string, port: number, settings: readonly string[]) {
    this.#bin = bin
    this.folder = mkdtempSync(join(tmpdir(), 'dramatis-postgres-'))
    if (this.#user) chownSync(this.folder, this.#user.uid, this.#user.gid)
    this.port = port
    this.#settings = settings
  }

  get url(): string {
    return this.urlBy(this.port)
  }

  /** Its address by the port of a proxy. */
  urlBy(port: number): string {
    return `postgres://dramatis:${this.#password}@127.0.0.1:${port}/postgres`
  }

  static async start(bin: string, settings: readonly string[] = []): Promise<PostgresServer> {
    const server = new PostgresServer(bin, await freePort(), settings)
    const options = ['-U', 'dramatis', '-A', 'trust', '-E', 'UTF8', '--locale=C', '--no-sync']
    await server.#tool('initdb', ['-D', server.#data, ...options])
    await server.run()
    return server
  }

  /** Starts a standby of a server that runs. `settings` say where it finds what is written from now on. */
  static async startStandby(
    bin: string,
    primary: PostgresServer,
    settings: readonly string[],
  ): Promise<PostgresServer> {
    const server = new PostgresServer(bin, await freePort(), settings)
    await server.follow(primary)
    return server
  }

  /** Becomes a standby of a server that runs: what this one had is gone. */
  async follow(primary: PostgresServer): Promise<void> {
    await this.kill()
    rmSync(this.#data, { recursive: true, force: true })
    const from = ['-h', '127.0.0.1', '-p', String(primary.port), '-U', 'dramatis']
    await this.#tool('pg_basebackup', ['-D', this.#data, '-R', '-c', 'fast', '--no-sync', ...from])
    await this.run()
  }

  get #data(): string {
    return join(this.folder, 'data')
  }

  async #tool(name: string, options: readonly string[]): Promise<void> {
    const tool = spawn(join(this.#bin, name), options, { ...this.#user, stdio: 'ignore', cwd: this.folder })
    const [code] = await once(tool, 'exit')
    if (code !== 0) throw new Error(`${name} has ended with ${code}`)
  }

  /** Runs the server, and resolves when it takes connections. */
  async run(): Promise<void> {
    const settings = ['listen_addresses=127.0.0.1', `unix_socket_directories=${this.folder}`, 'fsync=off']
    const options = [...settings, ...this.#settings].flatMap((each) => ['-c', each])
    this.#process = spawn(join(this.#bin, 'postgres'), ['-D', this.#data, '-p', String(this.port), ...options], {
      ...this.#user,
      stdio: 'ignore',
      cwd: this.folder,
    })
    await reached(this.url, this.#process)
  }

  async query<Row extends pg.QueryResultRow>(text: string): Promise<Row[]> {
    const client = new pg.Client(this.url)
    await client.connect()
    try {
      return (await client.query<Row>(text)).rows
    } finally {
      await client.end()
    }
  }

  /** Ends it at once, as a machine that goes down does. */
  async kill(): Promise<void> {
    const child = this.#process
    if (!child || child.exitCode !== null || child.signalCode !== null) return
    child.kill('SIGQUIT') // SIGKILL would leave its children with the shared memory
    await once(child, 'exit')
  }

  async remove(): Promise<void> {
    await this.kill()
    rmSync(this.folder, { recursive: true, force: true })
  }
}

/** Resolves when a program takes connections at that address. */
export async function reached(url: string, program: ChildProcess): Promise<void> {
  for (let tries = 1_000; ; ) {
    const client = new pg.Client(url)
    try {
      await client.connect()
      await client.end()
      return
    } catch (error) {
      if (program.exitCode !== null || --tries === 0)
        throw new Error(`${program.spawnfile} takes no connections`, { cause: error })
      await sleep(20)
    }
  }
}

export function otherUser(): { uid: number; gid: number } {
  const users = readFileSync('/etc/passwd', 'utf8')
    .split('\n')
    .map((line) => line.split(':'))
  const found = users.find(([name]) => name === 'postgres') ?? users.find(([name]) => name === 'nobody')
  return { uid: Number(found?.[2]), gid: Number(found?.[3]) }
}

export async function freePort(): Promise<number> {
  for (;;) {
    const port = FIRST_PORT + (process.pid % PROCESSES) * PORTS + (asked++ % PORTS)
    const server = createServer().listen(port, '127.0.0.1')
    try {
      await once(server, 'listening')
      server.close()
      await once(server, 'close')
      return port
    } catch {} // somebody has it
  }
}

/** Below those that systems give to connections: a server that is down for a while has its port still. */
const FIRST_PORT = 10_000
const PORTS = 100
const PROCESSES = 200
let asked = 0
