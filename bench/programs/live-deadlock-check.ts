/**
 * Processor time in ms of a whole look for a deadlock in a team whose turns really wait, each for the next, and the last for
 * its time: the waits are read from the host's books and searched.
 *
 *   live-deadlock-check.js <turns> <checks>
 */
import { defineAgent } from '../../src/index.ts'
import { stuckNow } from '../../src/runtime/stuck.ts'
import { MultiAgentPattern } from '../../src/team.ts'
import { virtualClock } from '../../src/testing.ts'

const [turns = 0, checks = 0] = process.argv.slice(2).map(Number)
const LONG_MS = 600_000

class OpenTeam extends MultiAgentPattern<string> {
  look(): void {
    const { length } = stuckNow(this.supervisor)
    if (length > 0) throw new Error(`${length} deadlocks are said to be there, and none is`)
  }
}

const names = Array.from({ length: turns }, (_, i) => `agent-${i}`)
const asksNext = defineAgent({
  receive: async (_message, context) => {
    const next = names[names.indexOf(context.role.name) + 1]
    if (next) await context.request(next, 'go')
    else await context.sleep(LONG_MS)
  },
})
const clock = virtualClock()
const team = new OpenTeam(
  {
    agents: names.map((name) => ({ name })),
    orchestration: { strategy: 'custom', run: async (script) => (await script.request(names[0]!, 'go')).content },
    communication: { responseTimeoutMs: LONG_MS },
    clock,
  },
  { definitions: new Map(names.map((name) => [name, asksNext])) },
)
team.launch('go')
await clock.advance(1)
for (let i = 0; i < checks; i++) team.look()
const before = process.cpuUsage()
for (let i = 0; i < checks; i++) team.look()
const { user, system } = process.cpuUsage(before)
console.log(JSON.stringify((user + system) / 1_000 / checks))
process.exit() // what the team still waits for is of no interest
