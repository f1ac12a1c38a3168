/** Time, budgets, lists of models and unknown outcomes over a restart. */

import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import type { ModelPiece } from '../../src/actors/definition/model.ts'
import { type AgentRole, createTeam, type MultiAgentPattern, type MultiAgentPatternOptions } from '../../src/index.ts'
import { ModelError } from '../../src/shared/errors.ts'
import { virtualClock } from '../../src/testing.ts'
import { FakeModel } from '../models/fake-model.ts'
import { callerModule, ledger, recordModule, underWay } from '../toolbox/desk.ts'
import { deskOf, first, type Script } from './desk-team.ts'
import { folderOf } from './log-folders.ts'

// Time over a restart: teams with a durable log and a virtual clock, which stands still or jumps between them.

const silent = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} }
const module = new URL('../fixtures/durability/desk-agent.js', import.meta.url)
const SECOND = 1_000

type TimesScript = Extract<MultiAgentPatternOptions['orchestration'], { strategy: 'custom'; run: unknown }>['run']

/** A team that begins its life at that time of day, in epoch ms. */
function deskAt(
  t: Test,
  path: string,
  startAt: number,
  run: TimesScript,
  more: Partial<MultiAgentPatternOptions> = {},
) {
  process.env.DESK_EFFECTS = join(path, '..', 'effects')
  const clock = virtualClock({ startAt })
  const team = createTeam({
    agents: ['ann', 'bob'].map((name) => ({ name, module, env: ['DESK_EFFECTS'] })),
    stateManagement: { path },
    logger: silent,
    clock,
    orchestration: { strategy: 'custom', name: 'a desk', run },
    ...more,
  })
  t.teardown(() => team.close())
  return { team, clock }
}

t.test('a sleep ends by wall clock, whatever the time between the processes', async (t) => {
  const path = join(folderOf(t), 'log')
  const slept: number[] = []
  const script =
    (clock: () => number): TimesScript =>
    async (desk) => {
      await desk.sleep(10 * SECOND)
      slept.push(clock())
      await desk.sleep(60 * SECOND)
      slept.push(clock())
      return 'rested'
    }
  const before = deskAt(
    t,
    path,
    0,
    script(() => before.clock.now()),
  )
  await before.team.start()
  before.team.launch('go', { runId: 'one' })
  await before.clock.advance(30 * SECOND)
  t.same(slept, [10 * SECOND])
  await before.team.close()

  const after = deskAt(
    t,
    path,
    50 * SECOND,
    script(() => after.clock.now()),
  )
  await after.team.start()
  const { result } = after.team.getRun('one')!
  await after.clock.advance(20 * SECOND)
  t.same(slept, [10 * SECOND, 50 * SECOND, 70 * SECOND], 'the first is over, the second ends when it would have ended')
  t.match(await result, { finalOutput: 'rested' })
})

// Tools that had begun when their process ended: what a later process does with them, and with which key.

function unknownOutcomesDeskOf(t: Test, path: string, tools: NonNullable<AgentRole['tools']>): MultiAgentPattern {
  const team = createTeam({
    agents: [{ name: 'ann', module: callerModule, tools }],
    stateManagement: { path },
    logger: silent,
    orchestration: { strategy: 'custom', run: async (desk, call) => said(await desk.request('ann', call)) },
  })
  t.teardown(() => team.close())
  return team
}

const said = ({ structuredData }: { structuredData?: unknown }) => JSON.stringify(structuredData)

/** Ends a team in the middle of a call of the tool; returns what the next one has made of it. */
async function interrupted(t: Test, tools: NonNullable<AgentRole['tools']>, tool: string) {
  const path = join(folderOf(t), 'log')
  const { file, keys } = ledger(t)
  const call = JSON.stringify({ tool, input: { file, act: 'hold' }, times: 1 })
  const before = unknownOutcomesDeskOf(t, path, tools)
  const begun = underWay(before)
  before.launch(call, { runId: 'one' })
  await begun
  await before.flush()
  await before.close()
  writeFileSync(`${file}.go`, '')
  const after = unknownOutcomesDeskOf(t, path, tools)
  await after.start()
  return { result: await after.getRun('one')!.result, keys: keys() }
}

for (const isolate of [true, false]) {
  const place = isolate ? 'an isolated tool' : "a tool in the agent's thread"
  const tools = [
    { module: recordModule, ...(isolate && { isolate }) },
    { module: recordModule, export: 'again', ...(isolate && { isolate }) },
  ] as NonNullable<AgentRole['tools']>

  t.test(`${place} that may run twice runs again in the next process, with the same key`, async (t) => {
    const { result, keys } = await interrupted(t, tools, 'again')
    t.match(result, { success: true, finalOutput: /"runs":2/ })
    t.equal(keys.length, 2)
    t.equal(keys[0], keys[1])
  })

  t.test(`${place} that may not run twice has an unknown outcome`, async (t) => {
    const { result, keys } = await interrupted(t, tools, 'record')
    // the call of an isolated tool fails; in the thread nobody can tell how far the turn was
    if (isolate) t.match(result, { success: true, finalOutput: /OUTCOME_UNKNOWN/ })
    else t.match(result, { success: false, error: { code: 'OUTCOME_UNKNOWN', details: { tool: 'record' } } })
    t.equal(keys.length, 1)
  })
}

// A list of models, on real threads, in a team that goes on with the log of an earlier one.

t.test('a run stays with the model that it was switched to, also in the next process', async (t) => {
  const path = join(folderOf(t), 'log')
  const limited = new ModelError('Later.', { reason: 'rate_limit', status: 429, retryable: true, retryAfterMs: 40_000 })
  const modelsOf = (fast: FakeModel) => ({
    models: { fast, spare: new FakeModel(() => 'spare'), default: { anyOf: ['fast', 'spare'] as [string, string] } },
  })
  const script: Script = async (desk) => {
    const one = await desk.complete({ prompt: 'One.' })
    await desk.request('ann', 'ask really')
    const two = await desk.complete({ prompt: 'Two.' })
    return `${one.text} ${two.text}`
  }
  const before = deskOf(t, path, script, modelsOf(new FakeModel(() => [limited])))
  await first(before.launch('go', { runId: 'run' }).events(), 'question')
  await before.close()
  const fast = new FakeModel(() => 'fast')
  const after = deskOf(t, path, script, modelsOf(fast))
  await after.start()
  const run = after.getRun('run')!
  await run.answer(after.questions()[0]!.questionId, 'yes')
  t.match(await run.result, { success: true, finalOutput: 'spare spare' })
  t.equal(fast.requests.length, 0)
})

// Budgets, on real threads, in a team that goes on with the log of an earlier one.

/** Each call costs 100 tokens. */
const model = () => {
  const made = {
    calls: 0,
    async *complete(): AsyncGenerator<ModelPiece> {
      made.calls += 1
      yield { text: 'ok' }
      yield { usage: { inputTokens: 50, outputTokens: 50, totalTokens: 100, calls: 1 } }
    },
  }
  return made
}

const think = async (desk: Parameters<Script>[0], times: number): Promise<void> => {
  for (let n = 0; n < times; n++) await desk.complete({ prompt: `thought ${n}`, maxOutputTokens: 50 })
}

t.test('what a team and a run have spent is spent in the next process too', async (t) => {
  const path = join(folderOf(t), 'log')
  const client = model()
  const script: Script = async (desk, query) => {
    if (query === 'other') await think(desk, 1)
    else {
      await think(desk, 2)
      await desk.request('ann', 'ask really')
      await think(desk, 3)
    }
    return 'done'
  }
  const more = {
    models: { default: client },
    budget: { perRun: { tokens: 350 }, perTeam: { tokens: 450, windowMs: 3_600_000 } },
  }
  const before = deskOf(t, path, script, more)
  await first(before.launch('go', { runId: 'run' }).events(), 'question')
  await before.close()
  const after = deskOf(t, path, script, more)
  await after.start()
  const run = after.getRun('run')!
  await run.answer(after.questions()[0]!.questionId, 'yes')
  t.match((await run.result).error, { code: 'BUDGET_EXCEEDED', details: { path: 'budget.perRun.tokens', used: 300 } })
  t.equal(client.calls, 3)
  t.equal((await after.execute('other')).success, true)
  await after.close()
  const last = deskOf(t, path, script, more)
  t.match((await last.execute('other')).error, { details: { path: 'budget.perTeam.tokens', used: 400 } })
})
