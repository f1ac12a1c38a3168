/**
 * What every strategy keeps, whatever it is about: it can be cancelled, its agents may die, runs of it do not mix.
 */

import type { Test } from 'tap'
import t from 'tap'
import type { MultiAgentResult, RuntimeEvent } from '../../../src/index.ts'
import type { OrchestrationConfig } from '../../../src/protocols/index.ts'
import { type TestTeam, testTeam } from '../../../src/testing.ts'
import { howMany } from '../../how-many.ts'
import { type Options, stage } from '../../team/stage.ts'
import { type Case, cases, plays, WORK_MS } from './cases.ts'

type Strategy = OrchestrationConfig['strategy']

const silent = { debug() {}, info() {}, warn() {}, error() {} }

const staged = (t: Test, { orchestration, cast }: Case, options: Options<string> = {}) =>
  stage(t, cast, { orchestration, maxConcurrentAgents: 64, logger: silent, ...options } as Options<string>)

async function played(team: TestTeam, query = 'why'): Promise<MultiAgentResult> {
  const pending = team.execute(query)
  await team.clock.runToIdle()
  return pending
}

const answers = (t: Tap, each: Case, { finalOutput, error }: MultiAgentResult, query = 'why', text = '') => {
  const wanted = each.answer(query)
  const what = `${text} ${error?.message ?? ''}`
  if (typeof wanted === 'string') t.equal(finalOutput, wanted, what)
  else t.match(finalOutput, wanted, what)
}
type Tap = Pick<typeof t, 'equal' | 'match' | 'same'>

/** Nothing is left of a run in the team, and the next one is as the first. */
async function isWellAfter(t: Tap, each: Case, team: TestTeam, text: string): Promise<void> {
  await team.clock.runToIdle()
  const { agents, runs } = team.health()
  t.same(runs, { running: 0, queued: 0 }, text)
  for (const [agent, { queued, inFlight }] of Object.entries(agents))
    t.same([queued, inFlight], [0, 0], `${text}: ${agent}`)
  answers(t, each, await played(team), 'why', text)
}

/** What happened, without what differs from run to run of one team. */
const flow = ({ messageHistory, orchestrationTrace }: MultiAgentResult) => ({
  messages: messageHistory.map(({ type, sender, recipient, content, sentAt }) => [
    type,
    sender,
    recipient,
    content,
    sentAt,
  ]),
  decisions: orchestrationTrace.decisions,
})

/** Who was asked for what. An answer may be missing where its sender was not needed any more. */
const requestsOf = ({ messageHistory }: MultiAgentResult) =>
  messageHistory
    .filter(({ type }) => type === 'request' || type === 'delegate')
    .map(({ sender, recipient, content }) => `${sender} -> ${recipient}: ${content}`)
    .sort()

/** Calls back at the n-th event of a type. */
function atThe(
  team: TestTeam,
  type: RuntimeEvent['type'],
  n: number,
  then: (event: RuntimeEvent) => void,
): () => number {
  let seen = 0
  team.events.subscribe((event) => {
    if (event.type === type && ++seen === n) then(event)
  })
  return () => seen
}

const RUNS = howMany(25, 100)

/** One test for each case of these strategies. */
export function holdsFor(...strategies: readonly [Strategy, ...Strategy[]]): void {
  for (const strategy of strategies) {
    const own = cases.filter(({ orchestration }) => orchestration.strategy === strategy)
    t.ok(own.length > 0, `${strategy} has a case`)
    for (const each of own) t.test(each.name, (t) => holds(t, each))
  }
}

async function holds(t: Test, each: Case): Promise<void> {
  const whole = await played(staged(t, each))
  answers(t, each, whole)
  const messages = whole.messageHistory.length
  const turns = whole.orchestrationTrace.agentActivations.length

  t.test('the same seed is the same run', async (t) => {
    t.same(flow(await played(staged(t, each))), flow(whole))
  })

  t.test(`cancelled at any of its ${messages} messages it ends at once, and leaves nothing behind`, async (t) => {
    for (let n = 1; n <= messages; n += howMany(3, 1)) {
      const team = staged(t, each)
      const run = team.launch('why')
      atThe(team, 'message', n, () => void run.cancel('enough'))
      await team.clock.advance(0)
      await team.clock.runToIdle()
      const { success, error } = await run.result
      if (success) t.equal(n, messages, `done before message ${n} could stop it`)
      else t.match(error, { code: 'RUN_ABORTED', message: /enough/ }, `message ${n}`)
      await isWellAfter(t, each, team, `after message ${n}`)
    }
  })

  t.test(`any of its ${turns} turns may lose its thread, and nobody is asked twice`, async (t) => {
    for (let n = 1; n <= turns; n += howMany(2, 1)) {
      for (const afterMs of [WORK_MS - 1, WORK_MS + 1]) {
        const team = staged(t, each, { supervision: { backoff: { baseMs: 1, capMs: 1 } } })
        let died = ''
        atThe(team, 'turn.started', n, (event) => {
          if (event.type !== 'turn.started' || event.agent.startsWith('$')) return
          died = event.agent
          void team.clock.sleep(afterMs).then(() => team.crash(event.agent))
        })
        const result = await played(team)
        const text = `${died} died in turn ${n}, after ${afterMs} ms`
        answers(t, each, result, 'why', text)
        t.same(requestsOf(result), requestsOf(whole), text)
      }
    }
  })

  t.test('agents that never answer end the run by its time limit', async (t) => {
    const mute = plays(async (_message, context) => {
      await context.sleep(10_000_000)
      return undefined
    })
    const cast = Object.fromEntries(Object.keys(each.cast).map((name) => [name, mute]))
    const team = staged(t, { ...each, cast })
    const pending = team.execute('why', { timeoutMs: 50_000 })
    await team.clock.advance(50_000)
    t.match(await pending, { success: false, error: { code: 'RUN_TIMEOUT' } })
    await team.clock.runToIdle()
    t.same(team.health().runs, { running: 0, queued: 0 })
  })

  t.test('agents that all fail, or refuse, end the run with a reason', async (t) => {
    const ways: Record<string, ReturnType<typeof plays>> = {
      fails: plays(() => {
        throw new Error('broken')
      }),
      refuses: plays((_message, context) => {
        throw context.refuse('not mine')
      }),
    }
    for (const [way, definition] of Object.entries(ways)) {
      const cast = Object.fromEntries(Object.keys(each.cast).map((name) => [name, definition]))
      const result = await played(staged(t, { ...each, cast }))
      if (each.orchestration.strategy === 'custom') continue // it says itself what came of each
      const reason = { message: /broken|not mine/ }
      const apology = { message: /^Sorry/, details: { failures: [reason] } }
      const error = each.orchestration.strategy === 'supervisor' ? apology : reason
      t.match(result, { success: false, finalOutput: null, error }, way)
      t.ok(result.failures.length > 0, way)
    }
  })

  t.test('played by models it ends within its budget, whatever that is', async (t) => {
    const agents = Object.keys(each.cast).map((name) => ({ name, maxOutputTokens: 100 }))
    let enough = false
    for (let tokens = 50; !enough; tokens *= 2) {
      const team = testTeam({
        agents,
        orchestration: each.orchestration,
        budget: { perRun: { tokens } },
        logger: silent,
      })
      t.teardown(() => team.close())
      const { error, failures, totalTokenUsage } = await played(team)
      t.ok(totalTokenUsage.totalTokens <= tokens, `${totalTokenUsage.totalTokens} of ${tokens}`)
      const codes = [error, ...failures.map((failure) => failure.error)].map((each) => String(each?.message))
      const isShort = codes.some((text) => text.includes('BudgetExceeded') || text.includes('budget'))
      enough = !isShort || tokens > 1_000_000
    }
    t.ok(enough)
  })

  t.test(`${RUNS} runs at once do not mix`, async (t) => {
    const team = staged(t, each, { maxConcurrentRuns: RUNS })
    const queries = Array.from({ length: RUNS }, (_, i) => `why ${i}`)
    const pending = Promise.all(queries.map((query) => team.execute(query)))
    await team.clock.runToIdle()
    for (const [i, result] of (await pending).entries()) {
      answers(t, each, result, queries[i])
      t.ok(result.messageHistory.every(({ runId }) => runId === result.runId))
    }
  })
}
