/** What a team keeps of what happened stays within its bound, whatever causes it. */
import t from 'tap'
import { defineAgent } from '../../src/index.ts'
import { after, echo, stage } from './stage.ts'

const BOUND = 64 * 2 ** 20
const LARGE = 'x'.repeat(2 ** 20)

const bytesOf = (team: ReturnType<typeof stage>) =>
  team.metrics().find(({ name }) => name === 'dramatis_log_bytes')!.samples[0]!.value

t.test('what a message from outside causes is bounded like a run', async (t) => {
  const sends = defineAgent({
    async receive(_message, context) {
      for (let i = 0; i < 80; i++) await context.send('b', LARGE)
    },
  })
  const team = stage(t, { a: sends, b: after(10) }, { communication: { mailboxBytes: 2 * BOUND } })
  await team.sendMessage({ recipient: 'a', content: 'go' })
  await team.clock.advance(5)
  t.ok(team.health().agents.b!.queued > 70, 'it is still under way')
  t.ok(bytesOf(team) < BOUND)
  t.ok(bytesOf(team) > BOUND / 2)
})

t.test('what happens to agents while no run is under way is told and not kept', async (t) => {
  const team = stage(t, { a: echo }, { supervision: { maxRestarts: 1_000, backoff: { baseMs: 0, capMs: 0 } } })
  await team.start()
  const told: string[] = []
  team.events.subscribe(({ type }) => told.push(type))
  for (let i = 0; i < 5; i++) {
    team.crash('a')
    await team.clock.advance(1)
  }
  t.equal(told.filter((type) => type === 'agent.crashed').length, 5)
  t.equal(bytesOf(team), 0)
})
