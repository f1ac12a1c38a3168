/** A team of a model with tools and of code that asks a model, given orders one after another and at the same time, while its threads die. */
import { setTimeout as pause } from 'node:timers/promises'
import { z } from 'zod'
import { defineTool, type MultiAgentResult, type Run } from '../../src/index.ts'
import { silent } from '../kit/team.ts'
import { ThreadTeam } from '../models/teams.ts'
import type { countingClock } from './counting-clock.ts'
import { agentOf, endingOf, KINDS, type Order, orderOf, RUN_TOKENS, textOf } from './orders.ts'
import type { Provider } from './provider.ts'

const module = (name: string) => new URL(`../fixtures/soak/${name}.js`, import.meta.url)

const PACE_MS = 60
/** Of so many orders all but the last ones are given at a pace, some at the same time; those one after another. */
const ROUND = 40
const IN_SEQUENCE = 8
const AT_ONCE = 12
/** The thread of the solver is ended with one order of so many. */
const DEATH_EVERY = 11
/** Far beyond any: a run that is stuck fails, and shows. */
const LONGEST_RUN_MS = 100_000
const ABORT_AFTER_MS = 150
const ANSWER_AFTER_MS = 100
/** Each kind, however slow the machine is. */
const LEAST_ORDERS = KINDS.length * 2

export interface Account {
  orders: number
  questions: number
  /** What did not end as it must. */
  wrong: string[]
}

export class ModelLoad {
  readonly team: ThreadTeam
  readonly #provider: Provider
  readonly #runs = new Map<string, Run>()
  readonly #account: Account = { orders: 0, questions: 0, wrong: [] }

  constructor(provider: Provider, clock: ReturnType<typeof countingClock>) {
    this.#provider = provider
    const next = defineTool({
      name: 'next',
      description: 'Adds one.',
      input: z.object({ n: z.number() }),
      run: ({ n }) => n + 1,
    })
    const sums = module('sums')
    this.team = new ThreadTeam({
      agents: [
        { name: 'clerk', module: module('clerk'), instances: 2 },
        {
          name: 'solver',
          systemPrompt: 'Do what the order says.',
          tools: [
            next,
            { module: sums, export: 'twice' },
            { module: sums, export: 'square', isolate: true },
            'ask_user',
          ],
        },
      ],
      orchestration: {
        strategy: 'custom',
        run: async (script, query) => {
          const order = query.startsWith('order read')
          if (!order) return (await script.request(query.split('/')[0]!, query.split('/')[1]!)).content
          let text = ''
          for await (const piece of script.requestStream('solver', query)) text += piece
          return text
        },
      },
      models: { default: { model: 'small', baseURL: provider.baseURL, apiKey: 'key-of-the-soak-1' } },
      globalTimeoutMs: LONGEST_RUN_MS,
      budget: { perRun: { tokens: RUN_TOKENS } },
      supervision: {
        maxRestarts: Number.POSITIVE_INFINITY,
        backoff: { baseMs: 0, capMs: 0 },
        poisonAttempts: 20,
        watchdogMs: 1_000,
      },
      clock,
      logger: silent,
    })
    this.team.events.subscribe((event) => {
      if (event.type === 'question' && event.runId) void this.#answer(event.runId, event.questionId, event.text)
    })
  }

  /** Until the time is over and each kind has come; then what is under way ends. */
  async play(ms: number): Promise<Account> {
    const under = new Set<Promise<void>>()
    const until = performance.now() + ms
    for (let n = 1; n <= LEAST_ORDERS || performance.now() < until; n++) {
      if (n % DEATH_EVERY === 0) this.#endSolver()
      const work = this.#play(orderOf(n))
        .catch((error: unknown) => void this.#account.wrong.push(String(error)))
        .finally(() => under.delete(work))
      under.add(work)
      if (n % ROUND >= ROUND - IN_SEQUENCE) await work
      else if (under.size >= AT_ONCE) await Promise.race(under)
      else await pause(PACE_MS)
    }
    while (under.size > 0) await Promise.all(under)
    return this.#account
  }

  /** Not while it starts: one that fails twice in that is stopped for good. */
  #endSolver(): void {
    if (this.team.host.directory.agent('solver')?.incarnation?.ready) this.team.end('solver')
  }

  async #play(order: Order): Promise<void> {
    this.#provider.begin(order)
    const text = textOf(order)
    const run = this.team.launch(order.kind === 'read' ? text : `${agentOf(order)}/${text}`)
    this.#runs.set(run.id, run)
    const abort = order.kind === 'aborted' ? setTimeout(() => run.cancel(), ABORT_AFTER_MS) : undefined
    const result = await run.result
    clearTimeout(abort)
    this.#runs.delete(run.id)
    this.#provider.end(order)
    this.#account.orders += 1
    const wrong = wrongIn(order, result)
    if (wrong) this.#account.wrong.push(`${text}: ${wrong}`)
  }

  /** Rejects where the run was over before. */
  async #answer(runId: string, questionId: string, text: string): Promise<void> {
    await pause(ANSWER_AFTER_MS)
    this.#account.questions += 1
    const number = text.split(' ')[2]!.replace('?', '')
    try {
      await this.#runs.get(runId)?.answer(questionId, `yes to ${number}`)
    } catch (error) {
      this.#account.wrong.push(`${text}: ${error}`)
    }
  }
}

function wrongIn(order: Order, result: MultiAgentResult): string | undefined {
  const ending = endingOf(order)
  if ('output' in ending) {
    if (!result.success) return `${result.error.code}: ${result.error.message}`
    return result.finalOutput === ending.output ? undefined : `answered ${result.finalOutput}`
  }
  if (result.success) return `answered ${result.finalOutput}, must fail with ${ending.code}`
  const error = JSON.stringify(result.error)
  return error.includes(`"code":"${ending.code}"`) ? undefined : `failed with ${error}, not with ${ending.code}`
}
