/** What the agents of a program do, and the outside that they do it to. The outside lives on when their process dies. */
import { crc32 } from 'node:zlib'
import * as z from 'zod'
import type { Reply } from '../../src/actors/definition/definition.ts'
import type { ModelClient, ModelPiece, ModelRequest } from '../../src/actors/definition/model.ts'
import { type AgentContext, DramatisError, defineTool, type Tool } from '../../src/index.ts'
import type { SteppedClock } from '../../src/runtime/testing/virtual-clock.ts'
import type { Dice } from '../dice.ts'
import { type Action, MEETING, type Telling } from '../simulation/random-program.ts'
import { never } from './mortal-store.ts'

/** Kinds of what a step of a plan is, by chance. The first ones may be done twice if nobody knows whether they were done. */
const AGAIN = ['step', 'model', 'tool', 'question', 'shared'] as const
const ONCE = ['stepOnce', 'toolOnce'] as const
type Effect = (typeof AGAIN)[number] | (typeof ONCE)[number]

/** How often what was done. `resumed`: processes whose runs went on by hand. */
export const NOTHING_SEEN = {
  step: 0,
  model: 0,
  tool: 0,
  question: 0,
  shared: 0,
  stepOnce: 0,
  toolOnce: 0,
  spawn: 0,
  moved: 0,
  observed: 0,
  posted: 0,
  resumed: 0,
}

/** Everything that is done outside of the team. */
export class Outside {
  readonly #problem: (what: string) => void
  readonly #times = new Map<string, number>()
  /** What had an outcome in the log when a process died. */
  settled: ReadonlySet<string> = new Set()
  readonly counts = { ...NOTHING_SEEN }

  constructor(problem: (what: string) => void) {
    this.#problem = problem
  }

  does(kind: Effect, key: string): void {
    const times = (this.#times.get(key) ?? 0) + 1
    this.#times.set(key, times)
    this.counts[kind] += 1
    if (this.settled.has(key)) this.#problem(`${key} is done again, and its outcome stood in the log`)
    if (times > 1 && ONCE.some((once) => once === kind)) this.#problem(`${key} is done ${times} times`)
  }
}

/** A process, as what its agents do sees it. */
export interface Alive {
  readonly dead: boolean
  readonly clock: SteppedClock
  readonly dice: Dice
  /** Model calls under way. */
  thinking: number
}

/** A model of the outside: it answers a while later. */
export const modelOf = (outside: Outside, process: Alive): ModelClient => ({
  async *complete({ messages, signal }: ModelRequest): AsyncGenerator<ModelPiece> {
    const prompt = String(messages.at(-1)?.content ?? '')
    if (process.dead) await never()
    outside.does('model', prompt.slice(1, -1))
    process.thinking += 1
    await process.clock.sleep(process.dice.upTo(20), signal).finally(() => {
      process.thinking -= 1
    })
    if (process.dead) await never()
    yield { text: `model ${nameIn(prompt)}` }
    yield { usage: { inputTokens: 1, outputTokens: 1, totalTokens: 2, calls: 1 }, finishReason: 'stop' }
  },
})

export const toolsOf = (outside: Outside, process: Alive): Tool[] =>
  [true, false].map((idempotent) =>
    defineTool({
      name: idempotent ? 'tool' : 'toolOnce',
      description: 'Does it.',
      input: z.object({ key: z.string() }),
      idempotent,
      async run({ key }) {
        if (process.dead) await never()
        outside.does(idempotent ? 'tool' : 'toolOnce', key.slice(1, -1))
        await process.clock.sleep(process.dice.upTo(20))
        if (process.dead) await never()
        return `tool ${nameIn(key)}`
      },
    }),
  )

/** The part of a key that is the same in each play of a program. */
const nameIn = (key: string): string => key.split('|').at(-1)!.replace('>', '')

export const answerTo = (question: string): string => `answer ${nameIn(question)}`

/** Makes prompts so long that the log has the second one of a turn as its difference to the first. */
const SAID_BEFORE = ['user', 'assistant'].map((role) => ({
  role: role as 'user' | 'assistant',
  content: 'What was said before. '.repeat(10),
}))

/** How a program acts. */
export interface Manner {
  readonly outside: Outside
  readonly process: Alive
  /** Nothing of it depends on who is faster, and nothing fails. */
  readonly calm: boolean
  readonly messageId: string
  /** Perhaps nobody waits for it any more when it is done: it counts nothing up. */
  readonly isRaced: boolean
  /** Agents make others, which do a part of the work. */
  readonly spawns: boolean
}

/** Checks for what a message from outside has caused. */
export const isPosted = (path: string): boolean => path.startsWith('outside')

/** How many agents of different names are made in a run. */
export const HELPER_COUNT = 6

/** Does an action of a plan. Resolves to what the turn says of it in its answer. */
export async function act(action: Action, name: string, context: AgentContext, manner: Manner): Promise<string> {
  switch (action.do) {
    case 'fail':
      if (manner.calm) return 'failed'
      throw new Error(`${name} fails`)
    case 'sleep':
      await context.sleep(action.ms)
      return 'slept'
    case 'draw':
      context.random()
      context.now()
      return effect(name, context, manner)
    case 'step':
      return effect(name, context, manner)
    case 'meet':
      await context.sync(MEETING, name).catch((error: unknown) => passOver(error, manner.calm))
      return 'met'
    case 'broadcast':
      await context.broadcast(name)
      return 'told'
    case 'publish':
      await context.publish(action.key, name, 'note')
      return `wrote ${action.key}`
    case 'waitFor':
      await context.blackboard
        .waitFor(action.key, { timeoutMs: action.timeoutMs })
        .catch((error: unknown) => passOver(error, code(error) === 'REQUEST_TIMEOUT'))
      return 'waited'
    default:
      return tell(action, context, manner)
  }
}

async function effect(
  name: string,
  context: AgentContext,
  { outside, process, calm, messageId, isRaced, spawns }: Manner,
): Promise<string> {
  if (spawns && crc32(`spawn ${name}`) % 3 === 0) return spawned(name, context, outside)
  const kind = kindOf(name, calm)
  const key = `<${messageId}|${name}>`
  switch (kind) {
    case 'step':
    case 'stepOnce':
      return context.step(
        key,
        async () => {
          if (process.dead) await never()
          outside.does(kind, key.slice(1, -1))
          return `${kind} ${name}`
        },
        { idempotent: kind === 'step' },
      )
    case 'model':
      return (await context.complete({ messages: [...SAID_BEFORE, { role: 'user', content: key }] })).text
    case 'tool':
    case 'toolOnce':
      return String(await context.tool(kind, { key }))
    case 'question':
      outside.counts.question += 1
      return context.ask(key)
    case 'shared':
      outside.counts.shared += 1
      await context.shared('team_shared').update<number>('sum', (sum = 0) => sum + (isRaced ? 0 : 1))
      return 'counted'
  }
}

/** Lets a helper do it, which another agent may have made. */
async function spawned(name: string, context: AgentContext, outside: Outside): Promise<string> {
  const helper = `helper${crc32(name) % HELPER_COUNT}`
  outside.counts.spawn += 1
  await context.spawn({ name: helper }).catch((error: unknown) => passOver(error, code(error) === 'CONFIGURATION'))
  return (await context.request(helper, `${name}!${context.role.name}`)).content
}

function kindOf(name: string, calm: boolean): Effect {
  const kinds = calm ? AGAIN : [...AGAIN, ...ONCE]
  const kind = kinds[crc32(name) % kinds.length]!
  return kind === 'question' && isPosted(name) ? 'step' : kind // nobody has a handle of its run
}

/** What a manager says who was asked what to do: mostly it is advice. */
export function decided(content: string, path: string): string | Reply {
  const by = crc32(`decides ${path}`) % 4
  if (by === 0) return { content, structuredData: { decision: 'reassign', to: 'gus' } }
  return by === 1 ? { content, structuredData: { decision: 'take_over' } } : content
}

async function tell(action: Telling, context: AgentContext, { calm, outside }: Manner): Promise<string> {
  const { path } = action.plan
  switch (action.do) {
    case 'send':
      await context.send(action.to, path)
      return 'sent'
    case 'request':
      return (await context.request(action.to, path)).content
    case 'delegate': {
      const first = context.delegate(action.to, path)
      const second = context.delegate(action.to, { description: `${path}+`, dependencies: [await first.id] })
      const [{ result }] = await Promise.all([first, second])
      return String(result)
    }
    case 'handoff':
      await context.handoff(action.to, path)
      return 'handed off'
    case 'requestAll': {
      const outcomes = await context.requestAll(action.to, path)
      const failed = outcomes.find((each) => !each.ok)
      if (failed && !failed.ok && calm && code(failed.error) !== 'DEADLOCK') throw failed.error
      return 'all'
    }
    case 'requestAny':
      await context.requestAny(action.to, path)
      return 'any'
    case 'requestQuorum':
      await context.requestQuorum(action.to, action.count, path)
      return `${action.count}`
    case 'requestStream':
      return readAll(context.requestStream(action.to, path), action.to)
    case 'escalate': {
      const outcome = await context.escalate(path)
      if (outcome.kind === 'reassigned' || outcome.kind === 'taken_over') outside.counts.moved += 1
      return outcome.kind === 'guidance' ? outcome.guidance : outcome.kind
    }
  }
}

/** The pieces that are read have to be all that were written, in order, each once. */
async function readAll(answer: ReturnType<AgentContext['requestStream']>, to: string): Promise<string> {
  let read = ''
  for await (const piece of answer) read += piece
  const { content } = await answer.response
  // Who takes it over by a handoff has emitted for nobody.
  if (content.startsWith(`${to}(`) && content !== `${to}(${read})`) throw new Torn(`read "${read}" of "${content}"`)
  return content
}

export class Torn extends Error {}

const code = (error: unknown) => (error instanceof DramatisError ? error.code : undefined)

function passOver(error: unknown, may: boolean): void {
  if (!may) throw error
}
