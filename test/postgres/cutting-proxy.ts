/** A proxy before a database, which can cut its connections where a test wants it. */
import { once } from 'node:events'
import { connect, createServer, type Server, type Socket } from 'node:net'

export class CuttingProxy {
  readonly #server: Server
  readonly #sockets = new Set<Socket>()
  /** Bytes of answers that still go through; then all connections are cut, once. */
  #left = Number.POSITIVE_INFINITY

  private constructor(server: Server) {
    this.#server = server
  }

  static async before(port: number): Promise<CuttingProxy> {
    const server = createServer()
    const proxy = new CuttingProxy(server)
    server.on('connection', (client) => proxy.#join(client, connect(port, '127.0.0.1')))
    server.listen(0, '127.0.0.1')
    await once(server, 'listening')
    return proxy
  }

  get url(): string {
    const { port } = this.#server.address() as { port: number }
    return `postgres://dramatis@127.0.0.1:${port}/postgres`
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
    client.pipe(database)
    database.on('data', (bytes) => {
      const through = bytes.subarray(0, this.#left)
      client.write(through)
      this.#left -= through.length
      if (through.length < bytes.length) client.end(() => this.cut())
    })
  }
}
