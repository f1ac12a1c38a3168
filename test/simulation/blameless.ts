/**
 * Programs at random that come to their end, with all detectors on: trees of messages, work by the list,
 * rounds, pipelines, polls, and models, tools and people that take their time. What is found in one of them is a false alarm.
 */
import {
  type AgentContext,
  type AgentRole,
  type DramatisError,
  defineAgent,
  type OrchestratorContext,
} from '../../src/index.ts'
import { Dice } from '../dice.ts'
import { OpenTeam, silent } from '../kit/team.ts'
import { STRICT } from '../supervision/livelocks.ts'
import { type Action, type Plan, randomPlan } from './random-program.ts'

const NAMES = ['ann', 'bob', 'cleo', 'dan', 'eve']
const MINUTE = 60_000

export interface Blameless {
  /** What the detector has found. */
  alarms: string[]
  error: DramatisError | null
  messages: number
}

/** What an agent is asked for. */
type Work =
  | { do: 'plan'; plan: Plan }
  | { do: 'answer'; text: string; ms: number }
  | { do: 'ready'; after: number; key: string }
  | { do: 'stumble'; times: number; key: string }
  | { do: 'pass'; to: string[] }

type Part = (script: OrchestratorContext, dice: Dice, key: string) => Promise<unknown>

export async function playBlameless(seed: number): Promise<Blameless> {
  const dice = new Dice(seed)
  const asked = new Map<string, number>()
  const count = (key: string) => asked.set(key, (asked.get(key) ?? 0) + 1).get(key)!
  const definition = defineAgent({
    receive: ({ structuredData }, context) => work(structuredData as Work, context, count),
  })
  const agents: AgentRole[] = NAMES.map((name) => ({
    name,
    concurrency: dice.chance(0.3) ? 2 : 1,
    instances: dice.chance(0.3) ? 2 : 1,
  }))
  const team = new OpenTeam(
    {
      agents,
      logger: silent,
      maxConcurrentAgents: 1 + dice.upTo(4),
      globalTimeoutMs: 2 ** 31 - 1,
      supervision: { livelock: STRICT },
      communication: { responseTimeoutMs: 2 ** 31 - 1, ...(dice.chance(0.3) && { mailboxCapacity: 2 + dice.upTo(4) }) },
      orchestration: { strategy: 'custom', run: (script) => perform(script, dice) },
    },
    new Map(NAMES.map((name) => [name, definition])),
    seed,
  )
  const alarms: string[] = []
  team.events.subscribe((event) => {
    if (event.type === 'livelock' || event.type === 'stall') alarms.push(`${event.type}: ${event.evidence.join('; ')}`)
    if (event.type === 'deadlock') alarms.push(`deadlock of ${event.cycle.join(', ')}`)
  })
  const run = team.launch('go')
  await team.clock.runToIdle()
  const { error } = await run.result
  const messages = run.messageHistory.length
  const closed = team.close()
  await team.clock.runToIdle()
  await closed
  return { alarms, error, messages }
}

async function perform(script: OrchestratorContext, dice: Dice): Promise<string> {
  const count = 1 + dice.upTo(3)
  for (let n = 0; n < count; n++) {
    const part = dice.pick(PARTS)(script, dice, `part ${n}`)
    await part.catch(() => {}) // an agent of a plan fails now and then: the next part goes on
  }
  return 'done'
}

const ask = (script: OrchestratorContext, agent: string, content: string, work: Work, options = {}) =>
  script.request(agent, content, { ...options, structuredData: work })

/** How often: mostly a few times, now and then many. */
const several = (dice: Dice) => 1 + dice.upTo(dice.chance(0.1) ? 80 : 10)

/** Times from a moment to half an hour: machines, models, people. */
const slowly = (dice: Dice) => dice.pick([0, 10, 2_000, 30_000, 30 * MINUTE])

const PARTS: readonly Part[] = [
  /** A tree of messages. */
  (script, dice, key) => ask(script, NAMES[0]!, key, { do: 'plan', plan: randomPlan(dice, NAMES, key) }),
  /** Many items, and the same answer to each. */
  async (script, dice, key) => {
    const items = several(dice)
    const to = dice.pick(NAMES)
    for (let n = 0; n < items; n++) await ask(script, to, `${key}: store ${n}`, { do: 'answer', text: 'ok', ms: 1 })
  },
  /** One prompt, several opinions. */
  (script, dice, key) => {
    const to = Array.from({ length: 2 + dice.upTo(10) }, () => dice.pick(NAMES))
    return script.requestAll(to, key, { structuredData: { do: 'answer', text: 'yes', ms: slowly(dice) } })
  },
  /** Rounds in which everybody agrees. */
  async (script, dice, key) => {
    const rounds = 1 + dice.upTo(6)
    for (let n = 0; n < rounds; n++)
      await script.requestAll(NAMES, `${key}: round ${n}`, {
        structuredData: { do: 'answer', text: 'agreed', ms: slowly(dice) },
      })
  },
  /** Somebody who is not ready yet, and is asked again. */
  async (script, dice, key) => {
    const to = dice.pick(NAMES)
    const ready: Work = { do: 'ready', after: several(dice), key }
    while ((await ask(script, to, `${key}: ready?`, ready, { polling: true })).content !== 'yes')
      await script.sleep(slowly(dice))
  },
  /** The same again, less often than is too often; and errors of a kind, less often than that. */
  async (script, dice, key) => {
    const to = dice.pick(NAMES)
    const times = 1 + dice.upTo(3)
    for (let n = 0; n < times; n++) await ask(script, to, `${key}: still?`, { do: 'answer', text: 'still', ms: 5 })
    const stumbles: Work = { do: 'stumble', times: 1 + dice.upTo(2), key }
    for (let n = 0; n < 3; n++) {
      if (
        await ask(script, to, `${key}: go`, stumbles).then(
          () => true,
          () => false,
        )
      )
        return
    }
  },
  /** Lines of work that pass the same agents. */
  async (script, dice, key) => {
    const lines = several(dice)
    // In one direction: in full mailboxes those that go both ways block each other for good.
    const way = Array.from({ length: 1 + dice.upTo(6) }, () => dice.upTo(NAMES.length)).sort((a, b) => a - b)
    const [first = '', ...rest] = way.map((at) => NAMES[at]!)
    for (let n = 0; n < lines; n++)
      await script.send(first, `${key}: line ${n}`, { structuredData: { do: 'pass', to: rest } })
  },
  /** Drafts on the blackboard, while an agent is asked now and then. */
  async (script, dice, key) => {
    const drafts = several(dice)
    const to = dice.pick(NAMES)
    for (let n = 0; n < drafts; n++) {
      await script.blackboard.write(key, n, 'draft')
      if (n % 2) await ask(script, to, `${key}: comment?`, { do: 'answer', text: 'none', ms: slowly(dice) })
    }
  },
]

async function work(given: Work, context: AgentContext, count: (key: string) => number): Promise<string> {
  switch (given.do) {
    case 'plan':
      for (const action of given.plan.actions) await act(action, context)
      return `${context.role.name} did ${given.plan.path}`
    case 'answer':
      await context.sleep(given.ms)
      return given.text
    case 'ready':
      return count(given.key) > given.after ? 'yes' : 'not yet'
    case 'stumble':
      if (count(given.key) <= given.times) throw new Error('it does not work')
      return 'it works'
    case 'pass': {
      const [next, ...rest] = given.to
      if (next !== undefined && next !== context.role.name)
        await context.send(next, 'pass', { structuredData: { do: 'pass', to: rest } })
      return ''
    }
  }
}

async function act(action: Action, context: AgentContext): Promise<unknown> {
  switch (action.do) {
    case 'fail':
      throw new Error('it fails, as planned')
    case 'sleep':
      return context.sleep(action.ms * 1_000)
    case 'draw':
      return context.random()
    case 'step':
      return context.step('work', () => {})
    case 'send':
      return context.send(action.to, action.plan.path, { structuredData: { do: 'plan', plan: action.plan } })
    case 'request':
      return context.request(action.to, action.plan.path, { structuredData: { do: 'plan', plan: action.plan } })
    case 'requestAll':
      return context.requestAll(action.to, action.plan.path, { structuredData: { do: 'plan', plan: action.plan } })
    case 'requestAny':
      return context.requestAny(action.to, action.plan.path, { structuredData: { do: 'plan', plan: action.plan } })
  }
}
