/** An agent that watches another is told of its end once, over all processes. */
import t from 'tap'
import { defineAgent } from '../../src/index.ts'
import type { MultiAgentPattern } from '../../src/team.ts'
import { Lives } from './lives.ts'

/** A team whose bob watches ann, in a run that waits for a person. */
function watching() {
  const told: string[] = []
  const lives = new Lives(
    {
      ann: () => {},
      bob: defineAgent({
        receive: (_message, context) => context.watch('ann'),
        observe: (message) => void told.push(message.content),
      }),
      carl: (_message, context) => context.ask('Really?'),
    },
    {
      orchestration: {
        strategy: 'custom',
        run: async (script) => {
          await script.request('bob', 'watch')
          return (await script.request('carl', 'ask')).content
        },
      },
    },
  )
  return { lives, told }
}

async function launch({ clock }: Lives, team: MultiAgentPattern<string>): Promise<void> {
  team.launch('go', { runId: 'one' })
  await clock.advance(100)
}

async function removeAnn({ clock }: Lives, team: MultiAgentPattern<string>): Promise<void> {
  const removed = team.removeAgent('ann')
  await clock.advance(6_000)
  await removed
}

t.test('who was told of an end is not told again in the next process', async (t) => {
  const { lives, told } = watching()
  const before = await lives.next()
  await launch(lives, before)
  await removeAnn(lives, before)
  t.match(told, [/^Agent "ann" is gone for good/])
  await removeAnn(lives, await lives.next()) // the program has ann again
  t.equal(told.length, 1)
})

t.test('a watch goes on in the next process', async (t) => {
  const { lives, told } = watching()
  await launch(lives, await lives.next())
  await lives.next()
  const after = await lives.next()
  t.same(told, [])
  await removeAnn(lives, after)
  t.match(told, [/^Agent "ann" is gone for good/])
})
