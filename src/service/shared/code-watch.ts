/**
 * Reloads agents whose files have changed (`--watch`). Folders are watched, since editors replace files. A file counts
 * as changed when its content is another one.
 */

import { type FSWatcher, watch } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { constants } from 'node:os'
import { dirname } from 'node:path'
import type { AgentRole, Team, ToolReference } from '../../index.ts'
import { folderFrom, moduleFrom } from '../../runtime/settings/module.ts'
import { sourcesOf } from '../../runtime/threads/bundle-cache.ts'
import { hashOf, shownPath } from '../../runtime/threads/bundler.ts'
import { failureWords, oneLine } from './failure.ts'

export interface Closing {
  /** Resolves at the first signal. */
  readonly begun: Promise<void>
  /** Gives the signals their usual meaning back. */
  stop(): void
}

const SIGNALS = ['SIGINT', 'SIGTERM'] as const

/** Listens until `stop()`. `leave` ends the process. */
export function listenForClosing(leave: (code: number) => void = (code) => process.exit(code)): Closing {
  let isBegun = false
  let begin = () => {}
  const begun = new Promise<void>((resolve) => {
    begin = resolve
  })
  const onSignal = (signal: (typeof SIGNALS)[number]) => {
    if (isBegun) return leave(128 + constants.signals[signal])
    isBegun = true
    begin()
  }
  for (const signal of SIGNALS) process.on(signal, onSignal)
  return {
    begun,
    stop() {
      for (const signal of SIGNALS) process.off(signal, onSignal)
    },
  }
}

/** An editor writes in several steps, and a formatter after it. */
const SETTLE_MS = 100

export type Reloadable = Pick<Team, 'events' | 'getAgentStatus' | 'listAgents' | 'reloadAgent' | 'restartAgent'>

export interface CodeWatchOptions {
  /** Tools of all agents. */
  tools?: readonly ToolReference[]
  /** File or folder from which packages are resolved; the working directory. */
  resolveFrom?: string | URL
}

interface WatchedAgent {
  readonly name: string
  readonly modules: readonly string[]
  /** The hash of each of its files when the agent was loaded last; null for one that was not there. */
  files: Map<string, string | null>
  isBusy: boolean
  /** True if something happened while it was busy: it looks again. */
  again: boolean
}

export class CodeWatch {
  readonly #team: Reloadable
  readonly #tools: readonly ToolReference[]
  readonly #from: string
  readonly #print: (line: string) => void
  readonly #agents = new Map<string, WatchedAgent>()
  readonly #folders = new Map<string, FSWatcher>()
  readonly #closed = new AbortController()
  readonly #newcomers: { unsubscribe(): void }
  #settling: NodeJS.Timeout | undefined
  /** Resolves when the files of all agents are known. */
  ready: Promise<void>

  /** `print` gets one line for each reload, and for each that failed. */
  constructor(team: Reloadable, options: CodeWatchOptions, print: (line: string) => void) {
    this.#team = team
    this.#tools = options.tools ?? []
    this.#from = options.resolveFrom === undefined ? process.cwd() : folderFrom(options.resolveFrom, 'resolveFrom')
    this.#print = print
    this.#newcomers = team.events.subscribe((event) => {
      if (event.type === 'agent.status' && event.status === 'starting')
        this.ready = Promise.all([this.ready, this.#followAll()]).then(() => {})
    })
    this.ready = this.#followAll()
  }

  async #followAll(): Promise<void> {
    const fresh = this.#team.listAgents().filter(({ name }) => !this.#agents.has(name))
    await Promise.all(fresh.map(({ name, role }) => this.#follow(name, role)))
  }

  async #follow(name: string, { module, tools = [] }: AgentRole): Promise<void> {
    const inModules = [...this.#tools, ...tools].flatMap((tool) =>
      typeof tool === 'object' && 'module' in tool ? [tool.module] : [],
    )
    const modules = [module ?? [], inModules].flat().map((each) => moduleFrom(each, 'module'))
    const agent: WatchedAgent = { name, modules, files: new Map(), isBusy: false, again: false }
    this.#agents.set(name, agent)
    await this.#findFiles(agent)
  }

  /** Finds out which files an agent has now. Those of a module that does not compile stay what they were. */
  async #findFiles(agent: WatchedAgent): Promise<void> {
    const found = await Promise.all(agent.modules.map((module) => sourcesOf(module, this.#from).catch(() => undefined)))
    const known = found.includes(undefined) ? agent.files : []
    agent.files = new Map([...known, ...found.flatMap((files) => [...(files ?? [])])])
    for (const file of agent.files.keys()) this.#watchFolder(dirname(file))
  }

  #watchFolder(folder: string): void {
    if (this.#folders.has(folder) || this.#closed.signal.aborted) return
    try {
      const watcher = watch(folder, { persistent: false }, () => this.#lookSoon())
      watcher.on('error', () => this.#forget(folder))
      this.#folders.set(folder, watcher)
      this.#lookSoon() // a file may have changed since it was read
    } catch (error) {
      this.#print(`${shownPath(folder)} cannot be watched: ${failureWords(error)}`)
    }
  }

  /** Forgets a folder that is gone. It is watched again when an agent has files in it. */
  #forget(folder: string): void {
    this.#folders.get(folder)?.close()
    this.#folders.delete(folder)
  }

  #lookSoon(): void {
    clearTimeout(this.#settling)
    if (this.#closed.signal.aborted) return
    this.#settling = setTimeout(() => {
      for (const agent of this.#agents.values()) void this.#lookAt(agent)
    }, SETTLE_MS).unref()
  }

  async #lookAt(agent: WatchedAgent): Promise<void> {
    agent.again = agent.isBusy
    if (agent.isBusy) return
    agent.isBusy = true
    const changed = await this.#changedFiles(agent)
    if (changed.length > 0 && !this.#closed.signal.aborted) {
      await this.#findFiles(agent)
      await this.#reload(agent, changed)
    }
    agent.isBusy = false
    if (agent.again) this.#lookSoon()
  }

  /** Returns the files that are not what they were, and notes what they are now. */
  async #changedFiles({ files }: WatchedAgent): Promise<string[]> {
    const changed: string[] = []
    await Promise.all(
      Array.from(files, async ([file, before]) => {
        const now = await readFile(file).then(hashOf, () => null)
        if (now === before) return
        changed.push(file)
        files.set(file, now)
      }),
    )
    return changed.sort()
  }

  async #reload({ name }: WatchedAgent, changed: readonly string[]): Promise<void> {
    const why = `${changed.map(shownPath).join(', ')} changed`
    const { signal } = this.#closed
    try {
      if (this.#team.getAgentStatus(name) === 'failed') {
        await this.#team.restartAgent(name)
        this.#print(`${name} is restarted: ${why}`)
      } else {
        await this.#team.reloadAgent(name, { signal })
        this.#print(`${name} is reloaded: ${why}`)
      }
    } catch (error) {
      if (!signal.aborted) this.#print(oneLine(`${why}: ${failureWords(error)}`, 500))
    }
  }

  /** Ends the watch. A reload that waits for a turn is given up. */
  close(): void {
    this.#closed.abort(new Error('the watch has ended'))
    clearTimeout(this.#settling)
    this.#newcomers.unsubscribe()
    for (const folder of [...this.#folders.keys()]) this.#forget(folder)
  }
}
