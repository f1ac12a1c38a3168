/** The shop with a durable log, served by a process that is killed and started anew. */
import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import type { Test } from 'tap'
import { folderOf } from '../../durability/log-folders.ts'

const scriptOf = (name: string) => fileURLToPath(new URL(`../../fixtures/${name}.js`, import.meta.url))

interface Service {
  readonly child: ChildProcess
  readonly url: string
}

export class ServedShop {
  readonly #folders: readonly string[]
  readonly #script: [file: string, more: readonly string[]]
  #service: Promise<Service>

  /** `more`: what the script is told beside its folders. */
  constructor(t: Test, script = 'chat/served-shop', ...more: readonly string[]) {
    this.#script = [scriptOf(script), more]
    this.#folders = [folderOf(t), folderOf(t)]
    this.#service = this.#start()
    t.teardown(async () => void (await this.#service).child.kill('SIGKILL'))
  }

  get url(): Promise<string> {
    return this.#service.then(({ url }) => url)
  }

  /** Names of what was done: of each thing the key of its call. */
  get effects(): string[] {
    return readdirSync(this.#folders[1]!)
  }

  /** Fetches from the process that there is, whatever host a request names. */
  readonly fetch = async (url: string | URL | Request, init?: RequestInit): Promise<Response> => {
    const { pathname, search } = new URL(String(url))
    return fetch(`${await this.url}${pathname}${search}`, init)
  }

  /** Kills the process after that many ms. Resolves when another one has taken its place. */
  async killBehind(ms: number): Promise<void> {
    await new Promise((resolve) => setTimeout(resolve, ms))
    this.#service = this.#start(this.#service)
    await this.#service
  }

  async #start(killed?: Promise<Service>): Promise<Service> {
    if (killed) {
      const { child } = await killed
      const ended = once(child, 'exit')
      child.kill('SIGKILL')
      await ended
    }
    const [file, more] = this.#script
    const child = fork(file, [...this.#folders, ...more], { stdio: ['ignore', 'ignore', 'inherit', 'ipc'] })
    const [port] = await once(child, 'message')
    return { child, url: `http://127.0.0.1:${port}` }
  }
}
