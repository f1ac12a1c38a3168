/** Agents of code alone, so no model is needed: they crash, start again and answer; then once more in a test kit. */
import { createTeam } from 'dramatis'
import { testTeam, virtualClock } from 'dramatis/testing'
import analyst from './analyst.js'

const module = new URL('./analyst.js', import.meta.url)
const team = createTeam({
  agents: [
    { name: 'a', module },
    { name: 'b', module },
    { name: 'writer', module },
  ],
  enableBlackboard: true,
  orchestration: {
    strategy: 'custom',
    run: async (orchestrator, query) => {
      const outcomes = await orchestrator.requestAll(['a', 'b'], query)
      const board = await orchestrator.blackboard.query({ entryType: 'fact' })
      const first = await orchestrator.requestAny(['a', 'b'], 'again')
      return `${outcomes.filter((outcome) => outcome.ok).length} answered, ${board.length} findings, ${first.sender} first`
    },
  },
})
const crashes: string[] = []
team.events.subscribe((event) => {
  if (event.type === 'agent.crashed') crashes.push(event.agent)
})
const result = await team.execute('crash once')
console.log(result.success ? result.finalOutput : result.error.message)
console.log('crashed:', crashes.sort().join(' '))
console.log('ready:', team.health().ready)
await team.close()

const test = testTeam(
  {
    agents: [{ name: 'a' }, { name: 'b' }],
    orchestration: { strategy: 'parallel', waitFor: 'all' },
  },
  { clock: virtualClock({ seed: 1 }), modules: { a: analyst, b: analyst } },
)
console.log('test team:', (await test.execute('go')).success)
await test.close()
