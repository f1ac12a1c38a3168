import { defineAgent } from 'dramatis'
import { testTeam } from 'dramatis/testing'

const sleeper = defineAgent({
  async receive(_message, context) {
    await context.sleep(1_000)
  },
})
const agents = [{ name: 'sleeper' }]
const team = testTeam({ agents, orchestration: { strategy: 'sequential' } }, { modules: { sleeper } })
let answered = false
const asked = team.sendMessage({ recipient: 'sleeper', content: 'Well?', requiresResponse: true }).then(() => {
  answered = true
})
await team.clock.advance(1_000)
console.log(answered ? 'answered in time' : 'too late')
await team.clock.advance(1_000)
await asked
await team.close()
