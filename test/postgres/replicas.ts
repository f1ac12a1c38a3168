/**
 * A primary of PostgreSQL with two standbys, and before each server a door for every process of a cluster: what they
 * reach can be taken from them one by one. Standbys follow the primary through a link that can fall silent.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { PostgresServer } from '../../examples/cluster-demo/postgres-server.ts'
import { CuttingProxy } from './cutting-proxy.ts'

/**
 * How the primary is lost. 'kill': it ends. 'gone': its host falls silent. 'split': it lives on, and one process reaches
 * it alone, and nothing else, for some seconds.
 */
export type Loss = 'kill' | 'gone' | 'split'

interface Node {
  readonly server: PostgresServer
  /** By it this one follows whoever is the primary. */
  readonly link: CuttingProxy
  /** One for each process. */
  readonly doors: readonly CuttingProxy[]
}

export class Replicas {
  readonly #nodes: readonly Node[]
  #primary: Node

  private constructor(nodes: readonly Node[]) {
    this.#nodes = nodes
    this.#primary = nodes[0]!
  }

  static async start(bin: string, processes: number, synchronous: boolean): Promise<Replicas> {
    const names = ['a', 'b', 'c']
    const links = await Promise.all(names.map(() => CuttingProxy.before(0)))
    const settings = (i: number) => [
      `cluster_name=${names[i]}`,
      `synchronous_standby_names=${synchronous ? `ANY 1 (${names})` : ''}`,
      `primary_conninfo=host=127.0.0.1 port=${links[i]!.port} user=dramatis`,
      'wal_keep_size=128MB',
      'wal_retrieve_retry_interval=200ms',
      'shared_buffers=32MB',
    ]
    const first = await PostgresServer.start(bin, settings(0))
    for (const link of links) link.lead(first.port)
    const standbys = [1, 2].map((i) => PostgresServer.startStandby(bin, first, settings(i)))
    const servers = [first, ...(await Promise.all(standbys))]
    const doors = (server: PostgresServer) =>
      Promise.all(Array.from({ length: processes }, () => CuttingProxy.before(server.port)))
    const nodes = servers.map(async (server, i) => ({ server, link: links[i]!, doors: await doors(server) }))
    const replicas = new Replicas(await Promise.all(nodes))
    await replicas.#followed()
    return replicas
  }

  get primary(): PostgresServer {
    return this.#primary.server
  }

  /** Address of the database as a process has it: all three hosts. */
  urlOf(process: number): string {
    const hosts = this.#nodes.map(({ doors }) => `127.0.0.1:${doors[process]!.port}`)
    return `postgres://dramatis:dramatis@${hosts.join(',')}/postgres`
  }

  /** Keeps all that is written from now on from the standbys. */
  fallBehind(): void {
    for (const { link } of this.#standbys) link.fallSilent()
  }

  /** The standbys get what they have missed. */
  async catchUp(): Promise<void> {
    for (const { link } of this.#standbys) link.lead()
    await this.#followed()
  }

  /** Door of a process to the primary. */
  doorOf(process: number): CuttingProxy {
    return this.#primary.doors[process]!
  }

  /**
   * Loses the primary, and promotes the standby that has most a second later.
   *
   * @param apart the process that reaches the old primary alone, until `heal`
   */
  async failOver(loss: Loss, apart: number, detectMs = 1_000): Promise<void> {
    const old = this.#primary
    this.fallBehind()
    if (loss === 'kill') await old.server.kill()
    if (loss === 'gone') for (const door of old.doors) door.fallSilent()
    if (loss === 'split')
      for (const { doors } of this.#nodes)
        for (const [process, door] of doors.entries()) if ((process === apart) !== (doors === old.doors)) door.refuse()
    for (const { link } of this.#nodes) link.refuse()
    await sleep(detectMs)
    await this.promote()
  }

  /** Who reached the old primary alone finds the others, and that one no more. */
  heal(apart: number): void {
    for (const { server, doors } of this.#nodes) {
      if (server === this.primary) doors[apart]!.lead()
      else doors[apart]!.refuse()
    }
  }

  /** Makes the standby that has most the primary; the other one follows it. */
  async promote(): Promise<void> {
    const standbys = await Promise.all(
      this.#standbys.map(async (node) => {
        const has = "select (coalesce(pg_last_wal_receive_lsn(), pg_last_wal_replay_lsn()) - '0/0')::float8 as has"
        return { node, has: (await node.server.query<{ has: number }>(has))[0]!.has }
      }),
    )
    const [best] = standbys.sort((one, other) => other.has - one.has)
    await best!.node.server.query('select pg_promote()')
    const old = this.#primary
    this.#primary = best!.node
    for (const node of this.#nodes) if (node !== old) node.link.lead(this.primary.port)
  }

  /** The one that was lost comes back as a standby. Its doors lead to it again. */
  async restore(): Promise<void> {
    for (const { server, link, doors } of this.#nodes) {
      if (server === this.primary) continue
      const [row] = await server.query<{ standby: boolean }>('select pg_is_in_recovery() as standby').catch(() => [])
      if (!row?.standby) {
        link.lead(this.primary.port)
        await server.follow(this.primary)
      }
      for (const door of doors) door.lead()
    }
    await this.#followed()
  }

  async remove(): Promise<void> {
    for (const { link, doors } of this.#nodes) for (const proxy of [link, ...doors]) proxy.close()
    await Promise.all(this.#nodes.map(({ server }) => server.remove()))
  }

  get #standbys(): readonly Node[] {
    return this.#nodes.filter((node) => node !== this.#primary)
  }

  async #followed(): Promise<void> {
    const text = "select count(*)::int as count from pg_stat_replication where state = 'streaming'"
    while ((await this.primary.query<{ count: number }>(text))[0]!.count < 2) await sleep(50)
  }
}
