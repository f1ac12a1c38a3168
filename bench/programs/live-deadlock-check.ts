/**
 * Processor time in ms of a whole look for a deadlock in a team whose turns really wait, each for the next, and the last for
 * its time: the waits are read from the host's books and searched. One of them also waits for an entry of the blackboard, so that
 * who may write it is looked for, and another has messages waiting.
 *
 *   live-deadlock-check.js <turns> <checks> <waiting>
 */
import { defineAgent } from '../../src/index.ts'
import { stuckNow } from '../../src/runtime/observers/stalls.ts'
import { MultiAgentPattern } from '../../src/team.ts'
import { virtualClock } from '../../src/testing.ts'

const [turns = 0, checks = 0, waiting = 0] = process.argv.slice(2).map(Number)
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
    if (context.role.name === names[0]) context.blackboard.waitFor('an entry').catch(() => {})
    if (next) await context.request(next, 'go')
    else await context.sleep(LONG_MS)
  },
})
const clock = virtualClock()
const team = new OpenTeam(
  {
    agents: names.map((name) => ({ name })),
    orchestration: { strategy: 'custom', run: async (script) => (await script.request(names[0]!, 'go')).content },
    communication: { responseTimeoutMs: LONG_MS, mailboxCapacity: 100_000, mailboxBytes: 2 ** 30 },
    clock,
  },
  { definitions: new Map(names.map((name) => [name, asksNext])) },
)
// Of a caller who only waits for its end, or whoever has the handle might write the entry.
void team.execute('go')
await clock.advance(1)
for (let i = 0; i < waiting; i++) void team.sendMessage({ recipient: names[1]!, content: `${i}` })
await clock.advance(1)
for (let i = 0; i < checks; i++) team.look()
const before = process.cpuUsage()
for (let i = 0; i < checks; i++) team.look()
const { user, system } = process.cpuUsage(before)
console.log(JSON.stringify((user + system) / 1_000 / checks))
process.exit() // what the team still waits for is of no interest
