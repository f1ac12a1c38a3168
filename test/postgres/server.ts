/** A PostgreSQL server of a test's own, in a temporary folder, from where it is installed on this machine. */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import {
  chmodSync,
  chownSync,
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { delimiter, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import type { Test } from 'tap'

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

/** The program PgBouncer, or nothing. */
export function poolerFile(): string | undefined {
  const folders = ['/usr/sbin', ...(process.env.PATH ?? '').split(delimiter)]
  return folders.map((folder) => join(folder, 'pgbouncer')).find((file) => existsSync(file))
}

/** Runs PgBouncer before a server, until the test has ended. Returns its URL. */
export async function poolerIn(t: Test, mode: string, server: PostgresServer): Promise<string> {
  const [port, file] = [await freePort(), join(server.folder, `${mode}.ini`)]
  const settings = [
    '[databases]',
    `postgres = host=127.0.0.1 port=${server.port} user=dramatis`,
    '[pgbouncer]',
    'auth_type = any',
  ]
  const own = [`pool_mode = ${mode}`, 'listen_addr = 127.0.0.1', `listen_port = ${port}`, 'unix_socket_dir =']
  const passed = ['ignore_startup_parameters = extra_float_digits']
  writeFileSync(file, [...settings, ...own, ...passed].join('\n'))
  chmodSync(file, 0o644)
  const user = process.getuid?.() === 0 ? otherUser() : undefined
  const pooler = spawn(poolerFile()!, [file], { ...user, stdio: 'ignore' })
  t.teardown(() => pooler.kill('SIGKILL'))
  const url = `postgres://dramatis@127.0.0.1:${port}/postgres`
  await reached(url, pooler)
  return url
}

async function reached(url: string, program: ChildProcess): Promise<void> {
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

function otherUser(): { uid: number; gid: number } {
  const users = readFileSync('/etc/passwd', 'utf8')
    .split('\n')
    .map((line) => line.split(':'))
  const found = users.find(([name]) => name === 'postgres') ?? users.find(([name]) => name === 'nobody')
  return { uid: Number(found?.[2]), gid: Number(found?.[3]) }
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as { port: number }
  server.close()
  await once(server, 'close')
  return port
}
