/** A proxy before a server, which can cut its connections where a test wants it, refuse them, or fall silent. */
import { once } from 'node:events'
import { connect, createServer, type Server, type Socket } from 'node:net'

type Way = 'to the server' | 'from the server'

export class CuttingProxy {
  readonly #server: Server
  readonly #sockets = new Set<Socket>()
  /** Where goes what is read of a socket. */
  readonly #ways = new WeakMap<Socket, Way>()
  #target: number
  #mode: 'open' | 'silent' | 'refusing' | Way = 'open'
  /** Bytes of answers that still go through; then all connections are cut, once. */
  #left = Number.POSITIVE_INFINITY
  /** Bytes that have come from the database. */
  received = 0

  private constructor(server: Server, target: number) {
    this.#server = server
    this.#target = target
  }

  static async before(port: number): Promise<CuttingProxy> {
    const server = createServer()
    const proxy = new CuttingProxy(server, port)
    server.on('connection', (client) => proxy.#take(client))
    server.listen(0, '127.0.0.1')
    await once(server, 'listening')
    return proxy
  }

  get port(): number {
    return (this.#server.address() as { port: number }).port
  }

  get url(): string {
    return `postgres://dramatis:dramatis@127.0.0.1:${this.port}/postgres`
  }

  /** Cuts what is connected and leads to that port from now on. */
  lead(port = this.#target): void {
    this.cut()
    this.#target = port
    this.#mode = 'open'
  }

  /** As a host that is gone: nothing comes any more, and nothing is refused. `way`: in one direction alone. */
  fallSilent(way?: Way): void {
    this.#mode = way ?? 'silent'
    for (const socket of this.#sockets) if (!way || way === this.#ways.get(socket)) socket.unpipe().pause()
  }

  /** Lets new connections through. What is connected stays silent. */
  hold(): void {
    this.#mode = 'open'
  }

  /** Cuts what is connected and takes nobody. */
  refuse(): void {
    this.#mode = 'refusing'
    this.cut()
  }

  /** Cuts all connections when so many more bytes have come from the database. Resolves when that has happened. */
  cutAfter(bytes: number): void {
    this.#left = bytes
  }

  get hasCut(): boolean {
    return this.#left === Number.POSITIVE_INFINITY
  }

  cut(): void {
    this.#left = Number.POSITIVE_INFINITY
    for (const socket of this.#sockets) socket.destroy()
  }

  close(): void {
    this.cut()
    this.#server.close()
  }

  #take(client: Socket): void {
    if (this.#mode === 'silent' || this.#mode === 'refusing') {
      client.on('error', () => {})
      if (this.#mode === 'refusing') return void client.destroy()
      this.#sockets.add(client.pause())
      client.on('close', () => this.#sockets.delete(client))
      return
    }
    this.#join(client, connect(this.#target, '127.0.0.1'))
    if (this.#mode !== 'open') this.fallSilent(this.#mode)
  }

  #join(client: Socket, database: Socket): void {
    for (const socket of [client, database]) {
      this.#sockets.add(socket)
      socket.on('error', () => {})
      socket.on('close', () => {
        this.#sockets.delete(socket)
        client.destroy()
        database.destroy()
      })
    }
    this.#ways.set(client, 'to the server').set(database, 'from the server')
    client.pipe(database)
    database.on('data', (bytes) => {
      this.received += bytes.length
      const through = bytes.subarray(0, this.#left)
      client.write(through)
      this.#left -= through.length
      if (through.length < bytes.length) client.end(() => this.cut())
    })
  }
}
