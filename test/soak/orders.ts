/**
 * What the team is given to do, "order kind number": how the provider answers each kind, and what the run must end in. An order
 * tells its provider what to answer, so the provider knows nothing of runs.
 */
import { setTimeout as pause } from 'node:timers/promises'
import type { ChatBody } from '../fixtures/model-server.ts'
import type { Answer } from '../fixtures/model-wire.ts'

export interface Order {
  readonly kind: Kind
  readonly number: number
}

/** How a run must end: with that answer, or with that code somewhere in its error. */
export type Ending = { output: string } | { code: string }

/** What an order of a kind is. */
interface Plan {
  /** Code that asks a model, or a model with tools. */
  agent: 'clerk' | 'solver'
  ending?(n: number): Ending
  /** What is answered to the call that comes for the nth time, from 0 on, where that is no answer yet. */
  failing?(times: number): Answer | undefined
  /** What the model says after so many outputs of tools; left out: that the order is done. */
  answer?(n: number, outputs: readonly string[]): Answer
}

const done = (n: number) => `done ${n}`
const once = (answer: Answer) => (times: number) => (times === 0 ? answer : undefined)
const add = (n: number) => [
  { name: 'next', input: { n } },
  { name: 'twice', input: { n } },
  { name: 'square', input: { n } },
]

const plans = {
  plain: { agent: 'solver' },
  read: { agent: 'solver', failing: once({ hangUp: 'at once' }) },
  slow: { agent: 'clerk', answer: (n) => ({ text: done(n), after: pause(300) }) },
  exits: { agent: 'clerk' },
  tools: {
    agent: 'solver',
    ending: (n) => ({ output: `${n + 1} ${2 * n} ${n * n}` }),
    answer: (n, outputs) => (outputs.length === 0 ? { toolCalls: add(n) } : { text: outputs.join(' ') }),
  },
  broken: { agent: 'solver', failing: once({ text: 'half of an answer', hangUp: 'in the body' }) },
  failing: { agent: 'clerk', failing: (times) => (times < 2 ? { status: 503 } : undefined) },
  question: {
    agent: 'solver',
    ending: (n) => ({ output: `yes to ${n}` }),
    answer: (n, [said]) =>
      said === undefined
        ? { toolCalls: [{ name: 'ask_user', input: { question: `order question ${n}?` } }] }
        : { text: said },
  },
  throws: { agent: 'clerk' },
  /** Costs more than a run may: its next call is refused. */
  costly: {
    agent: 'solver',
    ending: () => ({ code: 'BUDGET_EXCEEDED' }),
    answer: (n) => ({ toolCalls: add(n), usage: { inputTokens: RUN_TOKENS, outputTokens: 9 } }),
  },
  denied: { agent: 'clerk', ending: () => ({ code: 'MODEL' }), failing: () => ({ status: 400 }) },
  aborted: {
    agent: 'solver',
    ending: () => ({ code: 'RUN_ABORTED' }),
    answer: (n) => ({ text: done(n), after: pause(400) }),
  },
  hangs: { agent: 'clerk' },
  limited: { agent: 'solver', failing: once({ status: 429, headers: { 'retry-after': '1' } }) },
} satisfies Record<string, Plan>

export type Kind = keyof typeof plans

/** What one run may cost; an order that is not costly takes a few hundred. */
export const RUN_TOKENS = 100_000
export const KINDS = Object.keys(plans) as Kind[]
/** All wait when the provider has had enough: that is one order of so many, or there would be little else. */
const LIMITED_EVERY = 50

/** The nth order. */
export function orderOf(number: number): Order {
  if (number % LIMITED_EVERY === LIMITED_EVERY / 2) return { kind: 'limited', number }
  return { kind: KINDS[number % (KINDS.length - 1)]!, number }
}

export const textOf = ({ kind, number }: Order): string => `order ${kind} ${number}`
export const agentOf = ({ kind }: Order): string => planOf(kind).agent
export const endingOf = ({ kind, number }: Order): Ending => planOf(kind).ending?.(number) ?? { output: done(number) }

/** What is answered to a call for the order that comes for the nth time, and whether that is an answer that is paid for. */
export function answerTo({ kind, number }: Order, body: ChatBody, times: number): { answer: Answer; paid: boolean } {
  const plan = planOf(kind)
  const failing = plan.failing?.(times)
  if (failing) return { answer: failing, paid: false }
  const outputs = body.messages.filter(({ role }) => role === 'tool').map(({ content }) => content ?? '')
  return { answer: plan.answer?.(number, outputs) ?? { text: done(number) }, paid: true }
}

/** The order that a call is for. */
export function orderIn({ messages }: ChatBody): Order | undefined {
  const [, kind, number] = /order (\w+) (\d+)/.exec(messages.map(({ content }) => content ?? '').join('\n')) ?? []
  return KINDS.some((known) => known === kind) ? { kind: kind as Kind, number: Number(number) } : undefined
}

const planOf = (kind: Kind): Plan => plans[kind]
