/** A PostgreSQL server of a program's own, in a temporary folder, from where it is installed on this machine. */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
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
  readonly folder: string
  readonly port: number
  readonly #bin: string
  readonly #user: { uid: number; gid: number } | undefined
  #process: ChildProcess | undefined

  private constructor(bin: string, folder: string, port: number, user: { uid: number; gid: number } | undefined) {
    this.#bin = bin
    this.folder = folder
    this.port = port
    this.#user = user
  }

  get url(): string {
    return `postgres://dramatis@127.0.0.1:${this.port}/postgres`
  }

  static async start(bin: string): Promise<PostgresServer> {
    const folder = mkdtempSync(join(tmpdir(), 'dramatis-postgres-'))
    const user = process.getuid?.() === 0 ? otherUser() : undefined // it refuses to run as root
    if (user) chownSync(folder, user.uid, user.gid)
    const data = join(folder, 'data')
    const options = ['-D', data, '-U', 'dramatis', '-A', 'trust', '-E', 'UTF8', '--locale=C', '--no-sync']
    execFileSync(join(bin, 'initdb'), options, { ...user, stdio: 'pipe', cwd: folder })
    const server = new PostgresServer(bin, folder, await freePort(), user)
    await server.run()
    return server
  }

  /** Runs the server, and resolves when it takes connections. */
  async run(): Promise<void> {
    const settings = ['listen_addresses=127.0.0.1', `unix_socket_directories=${this.folder}`, 'fsync=off']
    const options = [
      '-D',
      join(this.folder, 'data'),
      '-p',
      String(this.port),
      ...settings.flatMap((each) => ['-c', each]),
    ]
    this.#process = spawn(join(this.#bin, 'postgres'), options, { ...this.#user, stdio: 'ignore', cwd: this.folder })
    await reached(this.url, this.#process)
  }

  async query(text: string): Promise<void> {
    const client = new pg.Client(this.url)
    await client.connect()
    await client.query(text)
    await client.end()
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
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as { port: number }
  server.close()
  await once(server, 'close')
  return port
}
