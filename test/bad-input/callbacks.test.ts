/** Hooks and subscribers that throw: it is said, and costs no more than it must. */

import { map, merge, of, startWith } from 'rxjs'
import t from 'tap'
import { defineAgent, type Logger, type RuntimeEvent } from '../../src/index.ts'
import { testTeam } from '../../src/testing.ts'
import { pluck, where } from '../kit/lists.ts'
import { refusalOf, stage, type Test, untyped } from './helpers.ts'

// The hooks around the turns of an agent: what they throw is said, and costs no more than it must.

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

// Subscribers that throw: they are reported and left out, everybody else goes on.

function teamWithLog(t: Test, options: { logger?: Logger } = {}) {
  const lines: { error?: string; text: string }[] = []
  const note = (fields: object, text: string) => void lines.push({ ...fields, text })
  const silent = () => {}
  const ann = defineAgent({
    async receive({ content }, context) {
      context.log.info({ content }, 'ann is at work')
      await context.publish('said', content, 'fact')
      return content
    },
  })
  const team = testTeam(
    {
      agents: [{ name: 'ann' }],
      orchestration: { strategy: 'sequential' },
      enableBlackboard: { scope: 'team' },
      logger: { debug: silent, info: silent, warn: note, error: note },
      ...options,
    },
    { modules: { ann } },
  )
  t.teardown(() => team.close())
  return { team, lines }
}

/** Fails the test if anything ends the process meanwhile. */
async function harmless(
  t: Test & { same(a: unknown, b: unknown): unknown },
  doing: () => Promise<void>,
): Promise<void> {
  const fatal: unknown[] = []
  const note = (error: unknown) => fatal.push(error)
  process.on('uncaughtException', note).on('unhandledRejection', note)
  t.teardown(() => process.off('uncaughtException', note).off('unhandledRejection', note))
  await doing()
  await new Promise((resolve) => setTimeout(resolve)) // RxJS reports on an empty stack
  t.same(fatal, [])
}

const boom = (): never => {
  throw new Error('boom')
}
const reported = [{ error: 'Error: boom', text: 'a subscriber of team.events threw; its subscription is closed' }]

t.test('a subscriber of team.events that throws is reported once and closed; the others see everything', async (t) => {
  const { team, lines } = teamWithLog(t)
  const seen: string[] = []
  let calls = 0
  await harmless(t, async () => {
    const broken = team.events.subscribe(() => {
      calls += 1
      boom()
    })
    team.events.subscribe(({ type }) => seen.push(type))
    t.equal((await team.execute('hi')).finalOutput, 'hi')
    t.ok(broken.closed)
  })
  t.equal(calls, 1)
  t.same(lines, reported)
  t.equal(seen[0], 'run.started')
  t.equal(seen.at(-1), 'run.finished')
})

t.test('an observer whose method throws, an async one, and one behind an operator: the same', async (t) => {
  for (const subscribe of [
    (events: Events) => events.subscribe({ next: boom }),
    (events: Events) => events.subscribe(async () => boom()),
    (events: Events) => events.pipe(map((event) => event.type)).subscribe(boom),
    (events: Events) => events.pipe(map(boom)).subscribe(),
    (events: Events) => events.pipe(map(boom)).subscribe({ error: boom }),
    (events: Events) => events.pipe(startWith(1)).subscribe(boom),
  ]) {
    const { team, lines } = teamWithLog(t)
    await harmless(t, async () => {
      subscribe(team.events)
      t.equal((await team.execute('hi')).finalOutput, 'hi')
    })
    t.same(lines, reported, String(subscribe))
  }
})

t.test('an operator that throws is told to the error handler, if there is one', async (t) => {
  const { team, lines } = teamWithLog(t)
  const errors: unknown[] = []
  team.events.pipe(map(boom)).subscribe({ error: (error) => errors.push(error) })
  await team.execute('hi')
  t.match(errors, [{ message: 'boom' }])
  t.same(lines, [])
})

t.test('complete that throws harms nobody, also when the team is closed already', async (t) => {
  const { team, lines } = teamWithLog(t)
  await harmless(t, async () => {
    team.events.subscribe({ complete: boom })
    await team.close()
    team.events.subscribe({ complete: boom })
  })
  t.same(lines, [...reported, ...reported])
})

t.test('what is no observer hears nothing and harms nobody', async (t) => {
  const { team, lines } = teamWithLog(t)
  await harmless(t, async () => {
    for (const observer of [undefined, null, 5, {}]) untyped(team.events).subscribe(observer)
    merge(team.events, of(1)).subscribe()
    t.ok((await team.execute('hi')).success)
  })
  t.same(lines, [])
})

t.test('a subscriber of the blackboard that throws is reported; the others and the writer go on', async (t) => {
  const { team, lines } = teamWithLog(t)
  const seen: unknown[] = []
  await harmless(t, async () => {
    await team.execute('first')
    const board = team.getBlackboard()!
    await board.subscribe('said', boom)
    await board.subscribe('said', async () => boom())
    await board.subscribe('said', ({ value }) => seen.push(value))
    t.equal((await team.execute('second')).finalOutput, 'second')
  })
  t.same(seen, ['second'])
  t.match(lines, [
    { key: 'said', error: 'Error: boom', text: 'a subscriber of the blackboard threw' },
    { key: 'said', error: 'Error: boom' },
  ])
})

t.test('a subscription without a pattern or a callback is refused', async (t) => {
  const { team } = teamWithLog(t)
  await team.execute('hi')
  const board = untyped(team.getBlackboard()!)
  for (const [args, path] of [
    [[5, () => {}], 'pattern'],
    [['', () => {}], 'pattern'],
    [['find*', () => {}], 'pattern'],
    [['said', 5], 'callback'],
    [['said'], 'callback'],
  ] as const)
    t.match(await refusalOf(() => board.subscribe(...args)), { code: 'MESSAGE_REJECTED', details: { path } })
  for (const [options, path] of [
    [{ timeoutMs: -1 }, 'timeoutMs'],
    [{ timeoutMs: Number.NaN }, 'timeoutMs'],
  ] as const)
    t.match(await refusalOf(() => board.waitFor('said', options)), { code: 'MESSAGE_REJECTED', details: { path } })
  t.match(await refusalOf(() => board.waitFor('never')), { code: 'RUN_ABORTED' }, 'its run is over')
})

t.test('a logger that throws stops nobody', async (t) => {
  const { team } = teamWithLog(t, { logger: { debug: boom, info: boom, warn: boom, error: boom } })
  await harmless(t, async () => {
    team.events.subscribe(boom)
    t.equal((await team.execute('one')).finalOutput, 'one')
    t.equal((await team.execute('two')).finalOutput, 'two')
  })
})

t.test('a reader that leaves run.events() leaves the run alone', async (t) => {
  const { team } = teamWithLog(t)
  const run = team.launch('hi')
  for await (const event of run.events()) {
    t.equal(event.type, 'run.started')
    break
  }
  t.equal((await run.result).finalOutput, 'hi')
})

type Events = import('rxjs').Observable<RuntimeEvent>
