/** The hooks around the turns of an agent: what they throw is said, and costs no more than it must. */
import t from 'tap'
import { defineAgent } from '../../src/index.ts'
import { testTeam } from '../../src/testing.ts'
import { pluck, where } from '../kit/lists.ts'
import { refusalOf, stage, type Test } from './helpers.ts'

function teamOf(t: Test, definition: object, role: object = {}) {
  const lines: { level: string; text: string; agent?: string; error?: string }[] = []
  const note = (level: string) => (fields: object, text: string) => void lines.push({ ...fields, level, text })
  const ann = Reflect.apply(defineAgent, undefined, [{ receive: () => 'hi', ...definition }])
  const team = testTeam(
    {
      agents: [{ name: 'ann', ...role }, { name: 'bob' }],
      orchestration: { strategy: 'sequential', agentOrder: ['ann'] },
      logger: { debug() {}, info: note('info'), warn: note('warn'), error: note('error') },
    },
    { modules: { ann, bob: defineAgent({ receive: () => 'bob', observe() {} }) } },
  )
  t.teardown(() => team.close())
  return { team, lines }
}

t.test('a start hook that throws, whatever it throws, fails the start of its agent after a second try', async (t) => {
  for (const [thrown, says] of [
    [new Error('no paper'), /Error: no paper$/],
    ['no paper', /: no paper$/],
    [undefined, /: undefined$/],
    [Symbol('s'), /: Symbol\(s\)$/],
  ] as const) {
    let tries = 0
    const { team } = teamOf(t, {
      start() {
        tries += 1
        throw thrown
      },
    })
    const error = await refusalOf(team.start())
    t.match(error, { code: 'START_FAILED', details: { agent: 'ann' } })
    t.match(error.message, says)
    t.equal(tries, 2)
    const result = await team.execute('hi')
    t.match(result, { success: false, error: { code: 'AGENT_TERMINATED' } })
    t.equal(await team.getAgent('bob')?.run('hi'), 'bob', 'the others do their work')
  }
})

t.test('a start hook has no verbs that need a run, and what it logs is logged', async (t) => {
  let verbs: string[] = []
  const { team, lines } = teamOf(t, {
    start(context: { log: { warn(fields: object, text: string): void } }) {
      verbs = Object.keys(context).sort()
      context.log.warn({ a: 1 }, 'ann starts')
    },
  })
  t.ok((await team.execute('hi')).success)
  t.same(verbs, ['data', 'log', 'role', 'setState', 'signal', 'state'])
  t.match(lines, [{ level: 'warn', agent: 'ann', a: 1, text: 'ann starts' }])
})

t.test('a start hook that puts what is no JSON into the state is a ConfigurationError', async (t) => {
  const { team } = teamOf(t, {
    start(context: { setState(recipe: (draft: Record<string, unknown>) => void): void }) {
      context.setState((draft) => {
        draft.when = new Date(0)
      })
    },
  })
  t.match(await refusalOf(team.execute('hi')), { code: 'CONFIGURATION', message: /^state\.when is a Date/ })
})

t.test('a stop hook that throws is reported and does not hold up close()', async (t) => {
  for (const stop of [
    () => {
      throw new Error('stuck')
    },
    () => Promise.reject('stuck'),
  ]) {
    const { team, lines } = teamOf(t, { stop })
    await team.execute('hi')
    await team.close()
    t.match(lines, [{ level: 'error', agent: 'ann', error: /stuck$/, text: 'the stop hook of the agent threw' }])
    t.equal(team.getAgentStatus('ann'), 'stopped')
  }
})

t.test('a stop hook that never settles has its grace and no more', async (t) => {
  const { team } = teamOf(t, { stop: () => new Promise(() => {}) }, { supervision: { stopGraceMs: 20 } })
  await team.execute('hi')
  await team.close()
  t.equal(team.getAgentStatus('ann'), 'stopped')
})

t.test('an observer that throws makes its message a dead letter, and the others hear it all the same', async (t) => {
  const { team } = teamOf(t, {
    observe() {
      throw new Error('no ears')
    },
  })
  await team.broadcast('listen', '$user')
  await team.clock.advance(0)
  t.match(team.deadLetters.list(), [
    {
      reason: 'failed',
      message: { type: 'broadcast', content: 'listen' },
      errors: [
        { code: 'AGENT_FAILED', message: /^Agent "ann" failed in its turn for a broadcast from "\$user": .*ears/ },
      ],
    },
  ])
  t.equal((await team.execute('hi')).finalOutput, 'hi')
})

t.test('a log line can be anything, a text alone too', async (t) => {
  const cycle: Record<string, unknown> = {}
  cycle.itself = cycle
  const { team, lines } = teamOf(t, {
    receive(_message: unknown, { log }: { log: { info(...given: unknown[]): void } }) {
      log.info('only a text')
      log.info({ n: 1n, f: () => 1, error: new Error('why') }, 'odd fields')
      log.info(cycle, 'a cycle')
      log.info(undefined, 'no fields')
      log.info(null, 5)
      return 'hi'
    },
  })
  t.equal((await team.execute('hi')).finalOutput, 'hi')
  t.match(pluck(lines, 'text'), ['only a text', 'odd fields', 'a cycle', 'no fields', '5'])
  t.match(lines[1], { n: '1', error: { name: 'Error', message: 'why' } })
})

t.test('a send whose signal is aborted already is not sent', async (t) => {
  const { team, refusal, isWell } = stage(t)
  const signal = AbortSignal.abort(new Error('changed my mind'))
  for (const act of [
    (context: { send: Function }) => context.send('bob', 'hi', { signal }),
    (context: { request: Function }) => context.request('bob', 'hi', { signal }),
  ])
    t.match(await refusal(act as never), { code: 'CANCELLED', details: { agent: 'bob' } })
  t.same(where(team.getMessageHistory(), 'recipient', 'bob'), [])
  t.ok(await isWell())
})

t.test('a pause of nothing ends without time passing', async (t) => {
  const { play } = stage(t)
  t.equal(
    await play(async (context) => {
      await context.sleep(0)
      return 'awake'
    }),
    'awake',
  )
})
