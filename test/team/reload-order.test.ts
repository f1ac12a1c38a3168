/** Messages to an agent that is reloaded, and dies, at random: each is handled once, and in order. */
import t from 'tap'
import { defineAgent } from '../../src/index.ts'
import { howMany } from '../how-many.ts'
import { numbers } from '../kit/team.ts'
import { changingTeam, roleOf } from './reloading.ts'

const MESSAGES = 60
const SEEDS = howMany(30, 500)

/** Notes what it handles on its state, in turns of different lengths, with a verb that a repeated turn must not repeat. */
const version = (name: string) =>
  defineAgent({
    initialState: { handled: [] as string[], by: [] as string[] },
    async receive({ content }, context) {
      if (content === 'list') return { structuredData: context.state }
      if (Number(content) % 3 === 0) await context.sleep(Number(content) % 7)
      if (Number(content) % 5 === 0) await context.request('other', content)
      context.setState(({ handled, by }) => {
        handled.push(content)
        by.push(name)
      })
      return ''
    },
  })

const other = defineAgent({
  async receive({ content }, context) {
    await context.sleep(Number(content) % 4)
    return content
  },
})

for (let seed = 1; seed <= SEEDS; seed++)
  t.test(`seed ${seed}`, async (t) => {
    const supervision = { maxRestarts: 1_000, poisonAttempts: 1_000, backoff: { baseMs: 2, capMs: 20 } }
    const agents = [roleOf('worker', { supervision }), roleOf('other')]
    const team = changingTeam(t, { worker: version('0'), other }, { agents }, seed)
    await team.start()
    const { clock } = team
    const reloads: Promise<void>[] = []
    const sent: Promise<unknown>[] = []
    let loaded = 0
    for (const content of numbers(MESSAGES)) {
      sent.push(team.sendMessage({ recipient: 'worker', content }))
      const dice = clock.random()
      if (dice < 0.1) {
        loaded += 1
        team.code.worker = version(`${loaded}`)
        reloads.push(team.reloadAgent('worker'))
      } else if (dice > 0.95) team.crash('worker')
      if (clock.random() < 0.7) await clock.advance(Math.floor(clock.random() * 5))
    }
    await clock.advance(5_000)
    await Promise.all([...sent, ...reloads])
    const list = await team.sendMessage({ recipient: 'worker', content: 'list', requiresResponse: true })
    const { handled, by } = list!.structuredData as { handled: string[]; by: string[] }
    t.strictSame(handled, numbers(MESSAGES))
    t.strictSame(
      by.map(Number),
      by.map(Number).toSorted((a, b) => a - b),
      'no old code after new code',
    )
    t.equal(team.deadLetters.list().length, 0)
    t.equal(team.getAgentStatus('worker'), 'idle')
  })
