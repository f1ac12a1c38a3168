/** Handlers that throw, answer what is no reply, never answer, or will not do their task. */
import t from 'tap'
import {
  AgentFailedError,
  type DramatisError,
  defineAgent,
  type MultiAgentResult,
  type OrchestrationConfig,
  TaskRefusedError,
} from '../../src/index.ts'
import { testTeam } from '../../src/testing.ts'
import { leftovers } from '../kit/accounts.ts'
import { type Cast, type Extras, openTeam, type Receive } from '../kit/team.ts'
import type { Test } from './helpers.ts'

// Handlers that throw what is no error, answer what is no reply, or never answer: their caller hears it, they go on.

const hostile = Object.defineProperty(new Error('hidden'), 'message', {
  get() {
    throw new Error('do not look at me')
  },
})
const cycle: Record<string, unknown> = {}
cycle.itself = cycle

/** An agent whose handler is what the test says; 'are you well?' it answers by itself. */
function teamWith(
  t: Test,
  receive: () => unknown,
  { def = {}, options = {} }: { def?: object; options?: object } = {},
) {
  const ann = defineAgent({
    receive: ({ content }) => (content === 'are you well?' ? 'well' : receive()) as never,
    ...def,
  })
  const team = testTeam(
    { agents: [{ name: 'ann' }], orchestration: { strategy: 'sequential' }, ...options },
    { modules: { ann } },
  )
  t.teardown(() => team.close())
  return {
    team,
    /** What the run fails with. */
    async failure(): Promise<DramatisError> {
      const result = await team.execute('a secret question')
      if (result.success) throw new Error(`it succeeded with "${result.finalOutput}"`)
      return result.error
    },
    async isWell(): Promise<boolean> {
      return (await team.execute('are you well?')).finalOutput === 'well'
    },
  }
}

const thrown: [what: string, receive: () => unknown, says: string][] = [
  ['undefined', () => throwIt(undefined), 'a handler threw undefined'],
  ['null', () => throwIt(null), 'a handler threw null'],
  ['a string', () => throwIt('out of paper'), 'out of paper'],
  ['a number', () => throwIt(0), '0'],
  ['a bigint', () => throwIt(1n), '1n'],
  ['a symbol', () => throwIt(Symbol('why')), 'Symbol(why)'],
  ['a function', () => throwIt(function why() {}), 'a function (why)'],
  ['an object', () => throwIt({ paper: 0 }), '{"paper":0}'],
  ['a cycle', () => throwIt(cycle), '[object Object]'],
  ['an error that throws when it is read', () => throwIt(hostile), '[object Error]'],
  ['a rejection with nothing', () => Promise.reject(undefined), 'a handler threw undefined'],
  ['a rejection with a string', () => Promise.reject('out of paper'), 'out of paper'],
  [
    'what only looks like a promise',
    () => ({
      // biome-ignore lint/suspicious/noThenProperty: that is the point
      then() {
        throw new Error('no promise')
      },
    }),
    'Error: no promise',
  ],
  [
    'a promise that cannot be looked at',
    () => ({
      // biome-ignore lint/suspicious/noThenProperty: that is the point
      get then() {
        throw new Error('no look')
      },
    }),
    'Error: no look',
  ],
]

t.test('whatever a handler throws, its caller gets AGENT_FAILED with words for it', async (t) => {
  for (const [what, receive, says] of thrown) {
    const { team, failure, isWell } = teamWith(t, receive)
    const error = await failure()
    t.ok(error instanceof AgentFailedError, what)
    t.equal(error.code, 'AGENT_FAILED', what)
    t.match(error.message, 'Agent "ann" failed in its turn for a request from "$orchestrator": ', what)
    t.ok(error.message.endsWith(says), `${what}: ${error.message}`)
    t.equal(error.details.agent, 'ann')
    t.ok(JSON.stringify(error), what)
    t.ok(await isWell(), what)
    t.same(team.deadLetters.list(), [], 'the caller knows, so nothing is lost')
  }
})

t.test('details of a thrown error that are no JSON arrive as words', async (t) => {
  const { failure, isWell } = teamWith(t, () =>
    throwIt(new TaskRefusedError('busy', { until: 1n, itself: cycle, why: () => 1, fine: { a: 1 }, none: undefined })),
  )
  const error = await failure()
  t.equal(error.code, 'TASK_REFUSED')
  t.same(error.toJSON(), {
    code: 'TASK_REFUSED',
    message: 'busy',
    details: { until: '1n', itself: '[object Object]', why: 'a function (why)', fine: { a: 1 } },
  })
  t.ok(await isWell())
})

t.test('a very long error is cut, not lost', async (t) => {
  const { failure, isWell } = teamWith(t, () => throwIt(new Error('x'.repeat(20_000_000))))
  const error = await failure()
  t.equal(error.code, 'AGENT_FAILED')
  t.ok(error.message.length < 3_000)
  t.ok(await isWell())
})

const replies: [what: string, receive: () => unknown, says: RegExp][] = [
  ['a function', () => () => 'later', /answered a request with a function; a reply is a string, nothing, or /],
  ['a number', () => 5, /with 5;/],
  ['true', () => true, /with true;/],
  ['a list', () => ['secret'], /with a list of 1;/],
  ['a symbol', () => Symbol('s'), /with a symbol;/],
  ['an object without content', () => ({ answer: 'secret' }), /with an object;/],
  ['a map', () => new Map([['content', 'secret']]), /with a Map;/],
  ['an error', () => new Error('secret'), /with an Error;/],
  ['content that is no string', () => ({ content: { text: 'secret' } }), /in which content is an object;/],
  ['data that is no JSON', () => ({ structuredData: { at: [new Date(0)] } }), /structuredData\.at\[0\] is a Date;/],
  ['data in a cycle', () => ({ content: 'secret', structuredData: cycle }), /structuredData\.itself is a cycle/],
  ['a promise of a function', async () => () => 'later', /with a function;/],
]

t.test('what is no reply is REPLY_INVALID, and says what came and what is accepted', async (t) => {
  for (const [what, receive, says] of replies) {
    const { team, failure, isWell } = teamWith(t, receive)
    const error = await failure()
    t.equal(error.code, 'REPLY_INVALID', `${what}: ${error.message}`)
    t.match(error.message, says, what)
    t.match(error.message, /^Agent "ann" /)
    t.notMatch(error.message, 'secret')
    t.ok(await isWell(), what)
    t.same(team.deadLetters.list(), [])
  }
})

t.test('nothing, null, {} and a message of another agent are replies', async (t) => {
  const passed = { id: 'x', type: 'response', content: 'passed on', structuredData: { n: 1 } }
  for (const [reply, text] of [
    [undefined, ''],
    [null, ''],
    [{}, ''],
    [passed, 'passed on'],
  ]) {
    const { team } = teamWith(t, () => reply)
    t.equal((await team.execute('hi')).finalOutput, text)
  }
})

t.test('a reply above the limit is REPLY_INVALID with both numbers', async (t) => {
  const { failure, isWell } = teamWith(t, () => 'x'.repeat(5_000), {
    options: { communication: { maxMessageBytes: 4_096 } },
  })
  const error = await failure()
  t.match(error, { code: 'REPLY_INVALID', details: { agent: 'ann', bytes: Number } })
  t.match(error.message, /reply of agent "ann" is \d+ bytes encoded; at most 4096 .*maxMessageBytes/)
  t.ok(await isWell())
})

t.test('a handler that never settles ends with TURN_TIMEOUT; another life takes its place', async (t) => {
  let asked = 0
  const limits = { agents: [{ name: 'ann', limits: { turnTimeoutMs: 50 } }] }
  const { team, isWell } = teamWith(t, () => (asked++ === 0 ? new Promise(() => {}) : 'now'), { options: limits })
  const run = team.execute('a secret question')
  await team.clock.advance(50)
  const result = await run
  t.match(result.error, { code: 'TURN_TIMEOUT', details: { agent: 'ann', turnTimeoutMs: 50 } })
  t.match(result.error?.message, /A turn of agent "ann" did not end within 50 ms\. Raise limits\.turnTimeoutMs/)
  await team.clock.advance(5_000) // stopGraceMs
  t.ok(await isWell())
  t.match(team.deadLetters.list(), [{ reason: 'cancelled', message: { content: 'a secret question' } }])
})

t.test('a handler that never settles does not hold up close()', async (t) => {
  const { team } = teamWith(t, () => new Promise(() => {}), { options: { supervision: { stopGraceMs: 20 } } })
  const run = team.execute('hi')
  await team.clock.advance(1)
  await team.close()
  t.match((await run).error, { code: 'RUN_ABORTED' })
})

t.test('a failed turn leaves neither state nor runState behind', async (t) => {
  let fails = true
  const ann = defineAgent({
    initialState: { turns: 0 },
    receive(_message, context) {
      context.setState((draft) => {
        draft.turns += 1
      })
      if (fails) throw new Error('after the change')
      return String(context.state.turns)
    },
  })
  const team = testTeam({ agents: [{ name: 'ann' }], orchestration: { strategy: 'sequential' } }, { modules: { ann } })
  t.teardown(() => team.close())
  await team.execute('one')
  fails = false
  t.equal((await team.execute('two')).finalOutput, '1')
})

t.test('a state that is no JSON is found before any message, and named', async (t) => {
  for (const [def, says] of [
    [{ initialState: { list: [new Date(0)] } }, 'initialState.list[0] of agent "ann" is a Date'],
    [{ initialState: { f: () => 1 } }, 'initialState.f of agent "ann" is function'],
    [{ initialState: 5 }, 'initialState of agent "ann" is 5'],
    [{ initialState: async () => ({}) }, 'initialState of agent "ann" is a Promise'],
    [{ initialRunState: { m: new Map() } }, 'initialRunState.m of agent "ann" is a Map'],
  ] as const) {
    let asked = false
    const { team } = teamWith(
      t,
      () => {
        asked = true
      },
      { def },
    )
    await t.rejects(team.execute('hi'), {
      code: 'CONFIGURATION',
      message: `${says}; a state is an object of JSON values.`,
    })
    await t.rejects(team.start(), { code: 'CONFIGURATION' })
    t.notOk(asked)
  }
})

t.test('a definition with the wrong fields is refused where it is written', async (t) => {
  const receive = () => 'hi'
  const define = (definition: unknown) => () => Reflect.apply(defineAgent, undefined, [definition])
  for (const [definition, path, says] of [
    [undefined, 'receive', /"receive" is missing; give it a function/],
    [{ receive: 5 }, 'receive', /"receive" is missing/],
    [{ receive, observe: 5 }, 'observe', /"observe": it is 5; a function is needed/],
    [{ receive, start: 'now' }, 'start', /"start": it is "now"/],
    [{ receive, input: {} }, 'input', /"input": it is an object; a Standard Schema/],
    [{ receive, output: null }, 'output', /"output": it is null/],
    [{ receive, onMessage: receive }, 'onMessage', /"onMessage": there is no such field; there are receive, input/],
    [{ receive, buildContext: 'all' }, 'buildContext', /"buildContext": it is "all"; a function is needed/],
  ] as const)
    t.throws(define(definition), { code: 'CONFIGURATION', message: says, details: { path } })
  t.doesNotThrow(define({ ...defineAgent({ receive }), observe: undefined }))
})

function throwIt(what: unknown): never {
  throw what
}

// Agents that will not do their task: who refuses it, hands it on, or asks again and again. The run ends, and says
// so.

const refuses: Receive = (_message, context) => {
  throw context.refuse('not my job')
}

const passes =
  (to: string): Receive =>
  ({ content }, context) =>
    context.handoff(to, content)

async function play(
  test: Pick<typeof t, 'teardown' | 'same' | 'ok'>,
  cast: Cast,
  extras: Extras = {},
): Promise<MultiAgentResult> {
  const team = openTeam(test, cast, extras)
  const run = team.launch('do it')
  await team.clock.runToIdle()
  const result = await run.result
  test.same(leftovers(team.host), [])
  test.ok(result.messageHistory.length < 100, 'within its limits')
  const open = run.tasks.filter(({ status }) => ['assigned', 'in_progress', 'blocked'].includes(status))
  test.same(open, [])
  return result
}

const strategies: readonly OrchestrationConfig[] = [{ strategy: 'sequential' }, { strategy: 'parallel' }]
for (const orchestration of strategies)
  t.test(`agents that refuse everything end a run: ${orchestration.strategy}`, async (t) => {
    const result = await play(t, { a: refuses, b: refuses }, { orchestration })
    t.equal(result.success, false)
    t.match(JSON.stringify(result.failures), 'not my job')
    t.match(result.failures[0], { agent: 'a', error: { code: 'TASK_REFUSED' } })
    t.equal(Object.values(result.taskCompletion)[0], 'refused')
  })

t.test('an agent that refuses everything, and one that asks again and again', async (t) => {
  const lead: Receive = async ({ content }, context) => {
    for (;;) {
      try {
        return `${(await context.delegate('worker', content)).result}`
      } catch (error) {
        if (context.signal.aborted) throw error
      }
    }
  }
  const result = await play(
    t,
    { lead, worker: refuses },
    { supervision: { livelock: { maxRepeats: 4, onFound: 'end' } } },
  )
  t.match(result, { success: false, error: { code: 'LIVELOCK' } })
  t.match(result.error?.message, /"worker" failed \d+ times in a row .*TASK_REFUSED/)
})

t.test('agents that hand their task back and forth', async (t) => {
  const result = await play(t, { a: passes('b'), b: passes('a') })
  t.equal(result.success, false)
  t.match(result.error?.message, /maxHandoffs is 10/)
})

t.test('agents that hand their task on in a ring, and refuse it when it comes back', async (t) => {
  const again =
    (to: string): Receive =>
    async (message, context) => {
      if (Object(message.structuredData).parentTask) throw context.refuse('I had it')
      return passes(to)(message, context)
    }
  const result = await play(t, { a: again('b'), b: again('a') })
  t.match(result, { success: false, failures: [{ agent: 'b', error: { code: 'TASK_REFUSED' } }, {}] })
})

t.test('a manager that delegates to itself', async (t) => {
  const boss: Receive = async (_message, context) => `${(await context.delegate('boss', 'x')).result}`
  const result = await play(t, { boss })
  t.match(result, { success: false, error: { code: 'AGENT_FAILED' } })
  t.match(JSON.stringify(result.failures), 'nobody delegates to itself')
})
