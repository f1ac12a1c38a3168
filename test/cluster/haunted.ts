/** A cluster with one more member, which the test plays by a server of its own: silent, or with answers of its choice. */
import { createServer, type RequestListener } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Test } from 'tap'
import { PostgresStore } from '../../src/postgres/index.ts'

/** Returns the address at which a listener answers. */
export async function haunting(t: Test, listener: RequestListener): Promise<string> {
  const server = createServer(listener)
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

/** A store that shows, as the owner of all that is free, a member at that address. It lives for ever. */
export class Haunted extends PostgresStore {
  readonly #address: string

  constructor(url: string, name: string, address: string) {
    super({ url, name, shards: 4, times: { beatMs: 200, suspectMs: 1_000 } })
    this.#address = address
  }

  override async view() {
    const view = await super.view()
    const ghost = { id: 'ghost', host: 'elsewhere', pid: 1, address: this.#address, shards: view.free }
    return { ...view, members: [...view.members, ghost] }
  }
}
