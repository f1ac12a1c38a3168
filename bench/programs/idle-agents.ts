/**
 * What a process takes whose agents have each answered once and now wait, with the defaults on: resident memory in MB.
 *
 *   idle-agents.js <agents>
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { createTeam } from 'dramatis'

/** For what the start has left behind to go, and for the spare thread to get ready. */
const SETTLE_MS = 1_000
const names = Array.from({ length: Number(process.argv[2] ?? 1) }, (_, i) => `greeter-${i + 1}`)

const team = createTeam({
  agents: names.map((name) => ({ name, module: new URL('../agents/greeter.js', import.meta.url) })),
  orchestration: {
    strategy: 'custom',
    run: async (orchestrator) => {
      const outcomes = await orchestrator.requestAll(names, 'hello')
      for (const outcome of outcomes) if (!outcome.ok) throw outcome.error
      return 'done'
    },
  },
})
const result = await team.execute('go')
if (!result.success) throw result.error
await sleep(SETTLE_MS)
const rss = process.memoryUsage.rss() / 2 ** 20
await team.close()
console.log(JSON.stringify(rss))
