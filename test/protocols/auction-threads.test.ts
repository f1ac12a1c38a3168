/** Auctions and routing on real threads. */
import t from 'tap'
import { type AgentRole, createTeam, type OrchestrationConfig } from '../../src/index.ts'
import { silent } from '../kit/team.ts'
import type { Test } from '../team/stage.ts'
import { winners } from './bidders.ts'

const fixture = (name: string) => new URL(`../fixtures/${name}.js`, import.meta.url)
const module = fixture('team/bidder')

function start(t: Test, agents: AgentRole[], orchestration: OrchestrationConfig) {
  const team = createTeam({
    agents: agents.map((role) => ({ module, supervision: { poisonAttempts: 1, backoff: { baseMs: 1 } }, ...role })),
    orchestration,
    logger: silent,
    threads: { warmSpares: 0 },
  })
  t.teardown(() => team.close())
  return team
}

t.test('a winner whose thread dies of the work loses the task to the next one', async (t) => {
  const agents = [
    { name: 'a', data: { bid: 0.9, dies: true } },
    { name: 'b', data: { bid: 0.5 } },
  ]
  const result = await start(t, agents, { strategy: 'auction' }).execute('q')
  t.match(result, { success: true, finalOutput: 'b did it', failures: [{ agent: 'a' }] })
  t.same(winners(result), ['a', 'b'])
})

t.test('a script in a thread routes as one in the host does, by tools in modules too', async (t) => {
  const agents = [
    { name: 'a', data: { bid: 0.2 } },
    { name: 'b', data: { bid: 0.5 }, tools: [{ module: fixture('tools/echo') }] },
  ]
  const result = await start(t, agents, { strategy: 'custom', module: fixture('team/routes') }).execute('use echo')
  const found = 'capability_match: b, load_balance: b, auction: b, round_robin: a, explicit: null'
  t.match(result, { success: true, finalOutput: found })
})
