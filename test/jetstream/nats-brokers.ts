/** Brokers of NATS in a temporary folder, one cluster: each can be killed, frozen and started again. */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createConnection } from 'node:net'
import { tmpdir } from 'node:os'
import { delimiter, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { type JetStreamManager, jetstreamManager } from '@nats-io/jetstream'
import { connect, type NatsConnection } from '@nats-io/transport-node'
import { freePort } from '../../examples/cluster-demo/postgres-server.ts'

/** The program, where one of 2.11 or later is installed. */
export function natsServer(): string | undefined {
  const folders = ['/usr/local/bin', '/usr/sbin', ...(process.env.PATH ?? '').split(delimiter)]
  return folders.map((folder) => join(folder, 'nats-server')).find((file) => existsSync(file) && isRecent(file))
}

export const WHY_NOT = 'no nats-server of 2.11 or later is installed here'

function isRecent(file: string): boolean {
  const [, major = '0', minor = '0'] =
    /v(\d+)\.(\d+)/.exec(execFileSync(file, ['--version'], { encoding: 'utf8' })) ?? []
  return Number(major) > 2 || (Number(major) === 2 && Number(minor) >= 11)
}

export interface Broker {
  readonly name: string
  readonly port: number
  readonly file: string
  process: ChildProcess | undefined
}

export interface BrokerSettings {
  /** Lines that say who may come, in place of a user of this class's own. */
  readonly login?: string
  readonly sync?: 'always'
  /** Folders of what they keep, in place of their own. */
  readonly stores?: readonly string[]
}

export class NatsBrokers {
  readonly folder = mkdtempSync(join(tmpdir(), 'dramatis-nats-'))
  readonly #password = randomUUID()
  readonly #program: string
  readonly all: readonly Broker[]
  #admin: NatsConnection | undefined

  private constructor(program: string, ports: readonly number[], { login, sync, stores }: BrokerSettings) {
    this.#program = program
    const routes = ports.slice(ports.length / 2).map((port) => `nats://127.0.0.1:${port}`)
    this.all = routes.map((route, i) => {
      const [name, port] = [`n${i + 1}`, ports[i]!]
      const file = join(this.folder, `${name}.conf`)
      const lines = [
        `server_name: ${name}`,
        `listen: 127.0.0.1:${port}`,
        'ping_interval: "2s"',
        'ping_max: 2',
        login ?? `authorization { user: dramatis, password: "${this.#password}" }`,
        `jetstream { store_dir: "${stores?.[i] ?? join(this.folder, name)}"${sync ? `, sync_interval: ${sync}` : ''} }`,
        ...(routes.length > 1
          ? [`cluster { name: c, no_advertise: true, listen: "${route.slice(7)}", routes: [${routes.join(', ')}] }`]
          : []),
      ]
      writeFileSync(file, lines.join('\n'))
      return { name, port, file, process: undefined }
    })
  }

  static async start(program: string, count = 3, settings: BrokerSettings = {}): Promise<NatsBrokers> {
    const ports = await Promise.all(Array.from({ length: 2 * count }, freePort))
    const brokers = new NatsBrokers(program, ports, settings)
    for (const broker of brokers.all) brokers.run(broker)
    if (settings.login === undefined) await brokers.ready()
    else for (const { port } of brokers.all) await listens(port)
    return brokers
  }

  get url(): string {
    return this.urlBy(this.all.map(({ port }) => port))
  }

  urlBy(ports: readonly number[]): string {
    return `nats://dramatis:${this.#password}@${ports.map((port) => `127.0.0.1:${port}`)}`
  }

  run(broker: Broker): void {
    broker.process = spawn(this.#program, ['-c', broker.file], { stdio: 'ignore', cwd: this.folder })
  }

  async kill(broker: Broker): Promise<void> {
    const { process } = broker
    if (!process || process.exitCode !== null || process.signalCode !== null) return
    process.kill('SIGKILL')
    await once(process, 'exit')
  }

  /** Connection of a test's own. */
  async admin(): Promise<{ connection: NatsConnection; manager: JetStreamManager }> {
    this.#admin ??= await this.#connected()
    return {
      connection: this.#admin,
      manager: await jetstreamManager(this.#admin, { checkAPI: false, timeout: 2_000 }),
    }
  }

  /** Resolves when all brokers take connections, and all streams have a leader and every replica. */
  async ready(): Promise<void> {
    const { manager } = await this.admin()
    for (let isReady = false; !isReady; ) {
      isReady = await this.#isReady(manager).catch(() => false)
      if (!isReady) await sleep(100)
    }
  }

  async #isReady(manager: JetStreamManager): Promise<boolean> {
    await manager.getAccountInfo()
    for (const { port } of this.all) {
      const connection = await connect({ ...this.#login, servers: `127.0.0.1:${port}`, timeout: 1_000 })
      await connection.close()
    }
    const streams = await manager.streams.list().next()
    return streams.every(({ cluster }) => this.all.length === 1 || this.#isWhole(cluster))
  }

  #isWhole(cluster: { leader?: string; replicas?: { current: boolean }[] } | undefined): boolean {
    const replicas = cluster?.replicas ?? []
    return cluster?.leader !== undefined && replicas.every(({ current }) => current)
  }

  /** The broker that leads a stream now. */
  async leaderOf(stream: string): Promise<Broker> {
    const { manager } = await this.admin()
    for (;;) {
      const info = await manager.streams.info(stream).catch(() => undefined)
      const leader = this.all.find(({ name }) => name === info?.cluster?.leader)
      if (leader) return leader
      await sleep(50)
    }
  }

  /** Another broker leads a stream from now on. */
  async moveLeader(stream: string): Promise<void> {
    const { connection } = await this.admin()
    await connection.request(`$JS.API.STREAM.LEADER.STEPDOWN.${stream}`, '', { timeout: 2_000 }).catch(() => {})
  }

  async remove(): Promise<void> {
    await this.#admin?.close()
    for (const broker of this.all) {
      broker.process?.kill('SIGCONT')
      await this.kill(broker)
    }
    rmSync(this.folder, { recursive: true, force: true })
  }

  get #login() {
    return { user: 'dramatis', pass: this.#password }
  }

  async #connected(): Promise<NatsConnection> {
    const servers = this.all.map(({ port }) => `127.0.0.1:${port}`)
    const options = { ...this.#login, servers, maxReconnectAttempts: -1, reconnectTimeWait: 100, timeout: 1_000 }
    for (;;) {
      try {
        return await connect({ ...options, pingInterval: 1_000, maxPingOut: 2 })
      } catch {
        await sleep(50)
      }
    }
  }
}

async function listens(port: number): Promise<void> {
  for (;;) {
    const socket = createConnection(port, '127.0.0.1')
    try {
      return void (await once(socket, 'data'))
    } catch {
      await sleep(50)
    } finally {
      socket.destroy()
    }
  }
}
