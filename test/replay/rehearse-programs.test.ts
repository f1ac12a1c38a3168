/** Old runs of all sorts come to the same with the same code: failures, deadlines, strategies with models. */
import { join } from 'node:path'
import type { Test } from 'tap'
import t from 'tap'
import { createTeam, type MultiAgentPatternOptions } from '../../src/index.ts'
import { rehearseRun } from '../../src/testing.ts'
import { folderOf } from '../durability/log-folders.ts'

const silent = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} }
const module = new URL('../fixtures/old-runs/worker.js', import.meta.url)

/** Runs each query of a team once, then once more from the log. Gives the answers. */
async function again(t: Test, options: MultiAgentPatternOptions, queries: readonly string[]): Promise<unknown[]> {
  const log = join(folderOf(t), 'log')
  const team = createTeam({ ...options, logger: silent, stateManagement: { path: log } })
  t.teardown(() => team.close())
  const answers: unknown[] = []
  for (const query of queries) {
    const result = await team.execute(query, { runId: query, threadId: 'same' })
    answers.push(result.success ? result.finalOutput : result.error.code)
  }
  await team.close()
  for (const [at, runId] of queries.entries()) {
    const { mismatches, result } = await rehearseRun({ ...options, logger: silent }, { log, runId })
    t.same(mismatches, [], runId)
    t.equal(result.success ? result.finalOutput : result.error.code, answers[at], runId)
  }
  return answers
}

t.test('steps within steps, caught errors, deadlines, crashes and new agents', async (t) => {
  process.env.WORKER_DIED = join(folderOf(t), 'died')
  const role = { module, env: ['WORKER_DIED'], trust: 'privileged' as const, data: module.href }
  const team: MultiAgentPatternOptions = {
    agents: [
      { name: 'ann', ...role },
      { name: 'bob', ...role },
    ],
    orchestration: {
      strategy: 'custom',
      name: 'work',
      run: async (desk, query) => (await desk.request('ann', query)).content,
    },
  }
  t.same(await again(t, team, ['outer', 'catches', 'late', 'makes', 'dies']), [
    'in',
    'RangeError: too far',
    'REQUEST_TIMEOUT',
    'in',
    'AGENT_CRASHED',
  ])
})

const strategies: MultiAgentPatternOptions['orchestration'][] = [
  { strategy: 'sequential' },
  { strategy: 'parallel' },
  { strategy: 'debate', debaters: ['ann', 'bob'], judge: 'cid' },
  { strategy: 'hierarchical', manager: 'ann', workers: ['bob', 'cid'] },
  { strategy: 'collaborate' },
  // one after the other: entries of the same moment have no order that a second run could have too
  { strategy: 'blackboard', interests: { ann: ['query'], bob: ['rehearsal.ann'], cid: ['rehearsal.bob'] } },
  { strategy: 'auction' },
  { strategy: 'consensus' },
]
for (const orchestration of strategies)
  t.test(`${'strategy' in orchestration && orchestration.strategy}: two runs of one thread, with models`, async (t) => {
    const agents = ['ann', 'bob', 'cid'].map((name) => ({
      name,
      systemPrompt: `You are ${name}.`,
      capabilities: [name],
    }))
    const enableBlackboard = 'strategy' in orchestration && orchestration.strategy === 'blackboard'
    const options: MultiAgentPatternOptions = { agents, orchestration, models: 'rehearsal', enableBlackboard }
    await again(t, options, ['Should we sell tea?', 'And coffee?'])
  })
