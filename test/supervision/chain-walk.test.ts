/** The chain of open turns that led to what a turn does, as the host follows it. */
import t from 'tap'
import { chainOf, isNested, MAX_CHAIN_DEPTH } from '../../src/runtime/host/delegation.ts'
import { never, type OpenTeam, openTeam } from './teams.ts'

/** The chain of the only turn that agent is at, nearest first. */
function chainAt(team: OpenTeam, agent: string): string[] {
  const cell = team.host.directory.cell(agent)!
  const last = [...cell.mailbox.handed.values()].at(-1)!
  return [...chainOf(team.host.requests, cell, last.turn)].map(
    ({ cell, envelope }) => `${cell.name}${isNested(envelope) ? ' nested' : ''}`,
  )
}

t.test('it goes from turn to turn up to the script, over those that run within others', async (t) => {
  const team = openTeam(
    t,
    {
      a: async (_message, context) => void (await context.request('b', 'go')),
      b: async ({ sender }, context) => void (await context.request(sender === 'a' ? 'c' : 'd', 'go')),
      c: async (_message, context) => void (await context.request('b', 'go')),
      d: () => never,
    },
    { roles: { b: { reentrancy: 'chain' } }, supervision: { stopGraceMs: 1 } },
  )
  const run = team.launch('go')
  await team.clock.advance(0)
  const chain = ['d', 'b nested', 'c', 'b', 'a', '$orchestrator']
  t.same(chainAt(team, 'd'), chain)
  t.same(chainAt(team, 'c'), chain.slice(2))
  team.crash('a') // it waits for its next life, and others go on waiting for it
  t.same(chainAt(team, 'd'), chain)
  team.crash('d')
  await team.clock.advance(0)
  t.same(chainAt(team, 'd'), chain)
  void run.cancel('enough')
  await team.clock.advance(1)
  await run.result
})

t.test('it ends at a turn that nobody waits for', async (t) => {
  const team = openTeam(
    t,
    {
      a: async (_message, context) => {
        await context.send('b', 'go')
        await never
      },
      b: async (_message, context) => void (await context.request('c', 'go')),
      c: () => never,
    },
    { supervision: { stopGraceMs: 1 } },
  )
  const run = team.launch('go')
  await team.clock.advance(0)
  t.same(chainAt(team, 'c'), ['c', 'b'])
  void run.cancel('enough')
  await team.clock.advance(1)
  await run.result
  t.equal(MAX_CHAIN_DEPTH, 8)
})
