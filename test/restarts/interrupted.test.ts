/** What goes on in a run that is interrupted, and what does not. */
import t from 'tap'
import type { AgentContext, AgentMessage, MultiAgentPatternOptions } from '../../src/index.ts'
import { Lives } from './lives.ts'

type Script = Extract<MultiAgentPatternOptions['orchestration'], { strategy: 'custom'; run: unknown }>['run']
const custom = (run: Script) => ({ strategy: 'custom' as const, run })

const script: Script = async (script) => {
  const [ann, bob] = await Promise.all([script.request('ann', 'work'), script.request('bob', 'work')])
  return `${ann.content} ${bob.content}`
}

/** Both ask eve when they have slept. */
function threeAgents() {
  const done: string[] = []
  const work = (name: string) => async (_message: AgentMessage, context: AgentContext) => {
    await context.sleep(1_000)
    done.push(name)
    return (await context.request('eve', name)).content
  }
  const lives = new Lives(
    { ann: work('ann'), bob: work('bob'), eve: ({ content }) => `eve knows ${content}` },
    { orchestration: custom(script) },
  )
  return { lives, done }
}

t.test(
  'in a run whose script has changed, what others had been asked goes on, and its answers count later',
  async (t) => {
    const { lives, done } = threeAgents()
    const before = await lives.next()
    before.launch('go', { runId: 'one' })
    await lives.clock.advance(100)
    const changed = custom(async (script) => (await script.request('eve', 'something else')).content)
    const after = await lives.next({ options: { orchestration: changed } })
    await lives.clock.runToIdle()
    t.match(await after.getRun('one')!.result, { success: false, error: { code: 'STEP_MISMATCH' } })
    t.same(done.toSorted(), ['ann', 'bob'], 'they have come to their end')
    const last = await lives.next()
    await lives.clock.runToIdle()
    t.match(await last.getRun('one')!.result, { success: true, finalOutput: 'eve knows ann eve knows bob' })
    t.equal(done.length, 2, 'and nothing is done again')
  },
)

t.test('a run that is to be resumed by hand stands still as a whole', async (t) => {
  const { lives, done } = threeAgents()
  const before = await lives.next()
  before.launch('go', { runId: 'one' })
  await lives.clock.advance(100)
  const after = await lives.next({ resume: 'manual' })
  await lives.clock.runToIdle()
  t.same(done, [])
  const resumed = after.resume('one')
  await lives.clock.runToIdle()
  t.match(await resumed, { success: true, finalOutput: 'eve knows ann eve knows bob' })
})
