/** A team of hostile agents, of one who calls hostile tools and reads hostile pages, of one whose model is hostile, and of neighbours. */
import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import type { Test } from 'tap'
import { z } from 'zod'
import { DramatisError, defineTool } from '../../src/index.ts'
import { calculator, convert, readWebpage, runCode } from '../../src/tools/index.ts'
import { silent } from '../kit/team.ts'
import { ThreadTeam } from '../models/teams.ts'
import { asked, callerModule, toolModule } from '../toolbox/desk.ts'
import { ended } from './loop-watch.ts'

const fixture = (name: string) => new URL(`../fixtures/${name}.js`, import.meta.url)

export const MALLORIES = ['mallory-a', 'mallory-b', 'mallory-c']
const NEIGHBOURS = ['adder-a', 'adder-b']
/** Far beyond any: who is stuck fails, and shows. */
const LONGEST_MS = 120_000

/**
 * Far above what any part takes at once: where one allocation passes the limit by more than 16 MiB, Node.js ends the whole process,
 * which nothing within it can prevent.
 */
const HEAP_MB = 256

/** What a run or a call came to: `answered`, or the code of its error. */
export type Ending = string

export class Stage {
  #team: ThreadTeam | undefined
  readonly #web: ChildProcess
  readonly #origin: string

  private constructor(web: ChildProcess, port: number) {
    this.#web = web
    this.#origin = `http://127.0.0.1:${port}`
    this.#team = teamBeside(port)
  }

  static async start(t: Pick<Test, 'teardown'>): Promise<Stage> {
    const web = fork(fixture('hostile/web'), { stdio: 'ignore', execArgv: [] })
    t.teardown(() => ended(web))
    const [port] = (await once(web, 'message')) as [number]
    const stage = new Stage(web, port)
    t.teardown(() => stage.close())
    await stage.team.start()
    return stage
  }

  get team(): ThreadTeam {
    if (!this.#team) throw new Error('the stage is closed')
    return this.#team
  }

  /** Ends it all, and lets go of the team. Twice is fine. */
  async close(): Promise<void> {
    await this.#team?.close()
    this.#team = undefined
    await ended(this.#web)
  }

  pageOf(name: string): string {
    return `${this.#origin}/page/${encodeURIComponent(name)}`
  }

  /** A run in which that agent has that message. */
  async run(agent: string, content: string): Promise<Ending> {
    const result = await this.team.execute(`${agent}/${content}`)
    if (result.success) return 'answered'
    return codeOf(result.error)
  }

  /** Calls of a tool, in a run. */
  async tool(name: string, input: object, times = 1): Promise<Ending> {
    const result = await this.team.execute(`caller/${asked(name, input, times)}`)
    if (!result.success) return codeOf(result.error)
    const { outcomes } = JSON.parse(result.finalOutput) as { outcomes: { code?: string }[] }
    return outcomes.map(({ code = 'answered' }) => code).join(' ')
  }

  /** What is wrong with the neighbours: each adds two numbers. */
  async wrongWithNeighbours(a: number, b: number): Promise<string[]> {
    const found = NEIGHBOURS.map(async (recipient) => {
      const fields = { recipient, content: `${a} ${b}`, requiresResponse: true, responseTimeoutMs: LONGEST_MS }
      const said = await this.team.sendMessage(fields).then((reply) => reply?.content, String)
      return said === String(a + b) ? [] : [`${recipient} adds ${a} and ${b} to ${said}`]
    })
    return (await Promise.all(found)).flat()
  }

  /** Ends the thread of an agent that has changed what all code of a thread uses. */
  disinfect(agent: string): void {
    if (this.team.host.directory.agent(agent)?.incarnation?.ready) this.team.end(agent)
  }
}

/** Of an error that is one of this library's; else it is nothing that anybody knows. */
export function codeOf(error: unknown): Ending {
  return error instanceof DramatisError && error.constructor !== DramatisError ? error.code : `unknown: ${error}`
}

function teamBeside(port: number): ThreadTeam {
  const add = defineTool({
    name: 'add',
    description: 'Adds one.',
    input: z.object({ n: z.number() }),
    run: ({ n }) => n + 1,
  })
  const limits = { maxHeapMb: HEAP_MB, maxExternalMb: 96, turnTimeoutMs: 4_000 }
  const supervision = { watchdogMs: 1_000, stopGraceMs: 50, poisonAttempts: 1 }
  const hostile = { limits, supervision, communication: { overflow: 'drop_newest' } } as const
  const isolated = (name: string, tool?: string) => ({
    module: toolModule(name),
    ...(tool && { export: tool }),
    isolate: true,
    limits: { maxHeapMb: HEAP_MB },
  })
  const harm = { ...isolated(''), module: fixture('hostile/tools') }
  return new ThreadTeam({
    agents: [
      ...NEIGHBOURS.map((name) => ({
        name,
        module: fixture('hostile/adder'),
        supervision: { watchdogMs: false } as const,
      })),
      { name: 'sink', module: fixture('hostile/adder'), communication: { overflow: 'drop_newest' } },
      ...MALLORIES.map((name) => ({
        name,
        module: fixture('hostile/agent'),
        trust: 'privileged' as const,
        ...hostile,
      })),
      { name: 'vandal', module: fixture('bad-input/hostile'), ...hostile },
      { name: 'clumsy', module: fixture('bad-input/agent'), ...hostile },
      {
        name: 'caller',
        module: callerModule,
        instances: 3,
        tools: [
          harm,
          isolated('hostile', 'posting'),
          isolated('hostile', 'infecting'),
          isolated('hostile', 'honest'),
          readWebpage({ allow: [`127.0.0.1:${port}`], timeoutMs: 3_000 }),
          runCode,
          calculator,
          convert,
        ],
      },
      { name: 'oracle', systemPrompt: 'Answer.', tools: [add], concurrency: 8 },
    ],
    communication: { modelTimeoutMs: 3_000 },
    orchestration: {
      strategy: 'custom',
      run: async (script, query) => {
        const at = query.indexOf('/')
        const { content, structuredData } = await script.request(query.slice(0, at), query.slice(at + 1))
        return content === '' ? JSON.stringify(structuredData ?? null) : content
      },
    },
    models: {
      default: {
        model: 'small',
        baseURL: `http://127.0.0.1:${port}/v1`,
        apiKey: 'key-of-nobody',
        maxRetryAfterMs: 100,
      },
    },
    globalTimeoutMs: LONGEST_MS,
    maxSpawnedAgents: 3,
    supervision: { maxRestarts: Number.POSITIVE_INFINITY, coolDownMs: 100, backoff: { baseMs: 0, capMs: 0 } },
    logger: silent,
  })
}
