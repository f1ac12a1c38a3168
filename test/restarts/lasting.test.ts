/** What lasts longer than a call, in a team whose process dies: subscriptions, watches, sync points, the place in a trace. */
import t from 'tap'
import { type DramatisError, defineAgent, type MultiAgentPatternOptions } from '../../src/index.ts'
import { never } from '../kit/team.ts'
import { Lives } from './lives.ts'
import type { LivingTeam } from './living-team.ts'

type Script = Extract<MultiAgentPatternOptions['orchestration'], { strategy: 'custom'; run: unknown }>['run']
const custom = (run: Script) => ({ strategy: 'custom' as const, run })

const codeOf = (promise: Promise<unknown>): Promise<string> =>
  promise.then(
    () => 'done',
    (error: DramatisError) => error.code,
  )

t.test('a subscription that a message from outside has made lasts as long as its run', async (t) => {
  const heard: unknown[] = []
  const lives = new Lives(
    { ann: defineAgent({ receive: () => '', observe: ({ structuredData }) => void heard.push(structuredData) }) },
    {
      orchestration: custom(async (script) => {
        await script.publish('page.1', 'before', 'fact')
        await script.sleep(1_000)
        await script.publish('page.2', 'after', 'fact')
        await script.sleep(10)
        return 'done'
      }),
    },
  )
  const before = await lives.next()
  before.launch('go', { runId: 'run' })
  const subscribed = before.sendMessage({
    type: 'subscribe',
    sender: 'ann',
    recipient: null,
    content: 'page.*',
    runId: 'run',
  })
  await lives.clock.advance(500)
  await subscribed
  const after = await lives.next()
  await lives.clock.advance(2_000)
  t.equal((await after.getRun('run')!.result).finalOutput, 'done')
  t.match(heard.at(-1), { key: 'page.2', value: 'after' })
  t.ok(heard.length <= 2, 'once each')
})

t.test('who watches an agent is told of its end once, whichever process that is in', async (t) => {
  const told: string[] = []
  const ann = defineAgent({
    async receive(_message, context) {
      await context.watch('bob')
      await context.watch('cid')
      return 'watches'
    },
    observe: ({ structuredData }) => void told.push(String(Object(structuredData).agent)),
  })
  const lives = new Lives(
    { ann, bob: () => '', cid: () => '' },
    { orchestration: custom(async (script) => (await script.request('ann', '')).content + (await never)) },
  )
  const remove = async (team: LivingTeam, name: string) => {
    const removed = team.removeAgent(name)
    await lives.clock.advance(100)
    await removed
  }
  const before = await lives.next()
  before.launch('go', { runId: 'run' })
  await lives.clock.advance(100)
  await remove(before, 'bob')
  t.same(told, ['bob'])
  const after = await lives.next()
  await remove(after, 'bob')
  t.same(told, ['bob'], 'it was told of that watch')
  await remove(after, 'cid')
  t.same(told, ['bob', 'cid'])
})

t.test(
  'an agent that was missing at a sync point is late in the next process, and the script gets its result',
  async (t) => {
    const meet = (context: Parameters<Parameters<typeof defineAgent>[0]['receive']>[1]) => codeOf(context.sync('noon'))
    const lives = new Lives(
      {
        ann: (_message, context) => meet(context),
        bob: async (_message, context) => {
          await context.sleep(5_000)
          return `${await meet(context)}, ${await meet(context)}`
        },
      },
      {
        syncPoints: [{ name: 'noon', requiredAgents: ['ann', 'bob'], timeoutMs: 1_000, onTimeout: 'proceed' }],
        orchestration: custom(async (script) => {
          const late = script.request('bob', '')
          await script.request('ann', '')
          await script.sleep(1_000)
          const { generation, missing } = await script.synced('noon')
          await script.sleep(3_500)
          const again = script.request('ann', '')
          const next = await script.synced('noon')
          const said = [(await late).content, (await again).content, `${next.generation} ${next.missing}`]
          return [`${generation} ${missing}`, ...said].join(' | ')
        }),
      },
    )
    const before = await lives.next()
    before.launch('go', { runId: 'run' })
    await lives.clock.advance(1_500) // ann has gone on without bob, and nobody has told the script
    const after = await lives.next()
    await lives.clock.advance(20_000)
    const { finalOutput, error } = await after.getRun('run')!.result
    t.equal(finalOutput, '1 bob | SYNC_POINT_TIMEOUT, done | done | 2 ', error?.message ?? 'no error')
  },
)

t.test('a run keeps its place in the trace of its caller, and what goes on has a span below it', async (t) => {
  const spans: { name: string; parent: unknown; at: number }[] = []
  const telemetry: NonNullable<MultiAgentPatternOptions['telemetry']> = {
    active: () => undefined,
    continued: ({ traceparent }) => (traceparent === undefined ? undefined : { traceparent }),
    startSpan({ name, parent, at }) {
      const traceparent = `span ${spans.push({ name, parent, at })}`
      const nothing = () => {}
      const within = <T>(task: () => T) => task()
      return { place: { traceparent }, headers: { traceparent }, set: nothing, event: nothing, end: nothing, within }
    },
  }
  const lives = new Lives(
    { ann: (_message, context) => `${context.run.metadata.traceparent}` },
    {
      telemetry,
      orchestration: custom(async (script) => {
        const first = (await script.request('ann', 'first')).content
        await script.sleep(1_000)
        return `${first}, ${(await script.request('ann', 'second')).content}`
      }),
    },
  )
  const before = await lives.next()
  before.launch('go', { runId: 'run' })
  await lives.clock.advance(500)
  const own = 1 + spans.findIndex(({ name }) => name === 'invoke_workflow')
  const after = await lives.next()
  await lives.clock.advance(1_000)
  t.equal((await after.getRun('run')!.result).finalOutput, `span ${own}, span ${own}`)
  const runs = spans.filter(({ name }) => name === 'invoke_workflow')
  t.match(runs, [{ parent: undefined }, { parent: { traceparent: `span ${own}` } }])
})
