/** Rules 28 to 30 on programs of the literature that are busy for ever, and on their neighbours that are not. */
import t from 'tap'
import { type AgentContext, type AgentDefinition, defineAgent } from '../../src/index.ts'
import { isFine, OFTEN, play, type Script, SECOND, watched } from './livelocks.ts'
import type { Cast } from './teams.ts'

/** A philosopher who takes the left fork, finds the right one taken, puts the left one back and tries again. */
const polite = (left: string, right: string) => async (_message: unknown, context: AgentContext) => {
  for (let n = 0; n < OFTEN; n++) {
    await context.request(left, 'take')
    if ((await context.request(right, 'take')).content === 'taken') {
      await context.request(left, 'put back')
      await context.sleep(SECOND)
      continue
    }
    await context.sleep(SECOND) // eats
    await context.request(right, 'put back')
    await context.request(left, 'put back')
    return 'ate'
  }
  return 'hungry'
}

/** A fork that one can hold at a time: who comes then is turned away. */
function fork(): AgentDefinition {
  let holder: string | undefined
  return defineAgent({
    async receive({ content, sender }, context) {
      await context.sleep(10)
      if (content === 'put back') {
        if (holder === sender) holder = undefined
        return 'free'
      }
      if (holder !== undefined && holder !== sender) return 'taken'
      holder = sender
      return 'yours'
    },
  })
}

function table(seats: number): Cast {
  const cast: Record<string, Cast[string]> = {}
  for (let seat = 0; seat < seats; seat++) cast[`phil${seat}`] = polite(`fork${seat}`, `fork${(seat + 1) % seats}`)
  for (let seat = 0; seat < seats; seat++) cast[`fork${seat}`] = fork()
  return cast
}

t.test('polite philosophers, who release and retry in step, are a livelock', async (t) => {
  const script: Script = async (script) => {
    const philosophers = Array.from({ length: 5 }, (_, seat) => `phil${seat}`)
    const outcomes = await script.requestAll(philosophers, 'eat')
    return outcomes.map(({ ok }) => ok).join()
  }
  const { team, found } = watched(t, table(5), { script, maxConcurrentAgents: 10 })
  const { error } = await play(team)
  t.equal(error?.code, 'LIVELOCK')
  t.match(found[0]?.evidence, [/^"phil\d" asked "fork\d" the same 4 times/])
})

t.test('one philosopher who comes later eats, and there is no alarm', async (t) => {
  const script: Script = async (script) => {
    const one = script.request('phil0', 'eat')
    await script.sleep(100)
    const other = script.request('phil1', 'eat')
    return (await one).content + (await other).content
  }
  await isFine(t, table(3), { script, maxConcurrentAgents: 10 })
})

t.test('a task that is sent back and forth is a livelock', async (t) => {
  const sendsTo = (to: string) => defineAgent({ receive: ({ content }, context) => context.send(to, content) })
  const script: Script = async (script) => {
    await script.send('ann', 'write the report')
    await script.sleep(60 * SECOND)
    return 'nobody did'
  }
  const { team, found } = watched(t, { ann: sendsTo('bob'), bob: sendsTo('ann') }, { script })
  t.equal((await play(team)).error?.code, 'LIVELOCK')
  t.match(found[0]?.evidence, [/wrote to each other and back 6 times/])
})
