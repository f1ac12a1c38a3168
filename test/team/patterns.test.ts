/** The four patterns of communication between agents, and quorums. */
import t from 'tap'
import { type AgentContext, agentRef, type DramatisError, defineAgent } from '../../src/index.ts'
import { pluck } from '../kit/lists.ts'
import { never, openTeam } from '../kit/team.ts'
import { after, echo, type Options, refuses, says, stage, type Test, throws } from './stage.ts'

// The four patterns of communication between agents: request and response, fire and forget, publish and subscribe,
// streams.

/** A team whose agent `a` does that with its context, next to others; what it resolved to. */
async function act<T>(
  t: Test,
  does: (context: AgentContext) => Promise<T>,
  others: Parameters<typeof stage>[1] = { b: echo },
  options: Pick<Options<string>, 'enableBlackboard'> = {},
) {
  let value: T | undefined
  const a = defineAgent({
    async receive(_message, context) {
      value = await does(context)
    },
  })
  const team = stage(t, { ...others, a }, { ...options, orchestration: { strategy: 'sequential', agentOrder: ['a'] } })
  const run = team.launch('q')
  await team.clock.advance(1_000)
  const result = await run.result
  if (!result.success) throw result.error
  return { team, run, result, value: value as T }
}

const caught = (promise: Promise<unknown>) => promise.catch((error: DramatisError) => error)

t.test('a request resolves to the response of the agent that it names', async (t) => {
  const { value } = await act(t, (context) => context.request('b', 'hi'))
  t.match(value, { type: 'response', sender: 'b', recipient: 'a', content: 'b: hi', structuredData: null })
})

t.test('data goes both ways', async (t) => {
  const adder = defineAgent<{ by: number }, { sum: number }, { sum: number }>({
    initialState: { sum: 0 },
    receive({ structuredData }, context) {
      context.setState((draft) => {
        draft.sum += structuredData.by
      })
      return { structuredData: { sum: context.state.sum } }
    },
  })
  const { value } = await act(
    t,
    async (context) => {
      const ref = agentRef<typeof adder>('b')
      await context.request(ref, 'add', { structuredData: { by: 2 } })
      return (await context.request(ref, 'add', { structuredData: { by: 3 } })).structuredData.sum
    },
    { b: adder },
  )
  t.equal(value, 5)
})

t.test('all verbs that send messages take an agentRef, beside names', async (t) => {
  const { value } = await act(t, async (context) => {
    const ref = agentRef('b')
    await context.send(ref, 'sent')
    const streamed = await context.requestStream(ref, 'streamed').response
    const outcomes = await context.requestAll([ref, 'b'], 'all')
    const any = await context.requestAny([ref], 'any')
    const quorum = await context.requestQuorum([ref], 1, 'quorum')
    const nobody = await caught(context.requestAll([agentRef(''), ref], 'refused'))
    const answered = outcomes.map((outcome) => (outcome.ok ? outcome.message : outcome.error))
    return [...[streamed, ...answered, any, ...quorum].map((message) => Reflect.get(message, 'content')), nobody]
  })
  t.match(value, [
    'b: streamed',
    'b: all',
    'b: all',
    'b: any',
    'b: quorum',
    { code: 'MESSAGE_REJECTED', details: { path: 'to[0]' } },
  ])
})

t.test('a request fails with what its agent failed with', async (t) => {
  const slow = { code: after(100), communication: { responseTimeoutMs: 10 } }
  const { value } = await act(
    t,
    (context) =>
      Promise.all([
        caught(context.request('bad', 'hi')),
        caught(context.request('shy', 'hi')),
        caught(context.request('slow', 'hi')),
        caught(context.request('zoe', 'hi')),
      ]),
    { bad: throws('broken'), shy: refuses('not mine'), slow },
  )
  t.match(value, [
    { code: 'AGENT_FAILED', message: /broken/, details: { agent: 'bad' } },
    { code: 'TASK_REFUSED', details: { agent: 'shy', reason: 'not mine' } },
    { code: 'REQUEST_TIMEOUT', details: { waitedMs: 10 } },
    { code: 'UNKNOWN_AGENT', details: { agent: 'zoe' } },
  ])
})

t.test('timeoutMs of a request goes before that of its agent, and counts from the start of its turn', async (t) => {
  const { value } = await act(
    t,
    (context) =>
      Promise.all([
        context.request('b', 'first', { timeoutMs: 60 }),
        context.request('b', 'second', { timeoutMs: 60 }),
        caught(context.request('b', 'third', { timeoutMs: 40 })),
      ]),
    { b: after(50) },
  )
  t.match(value, [{ content: 'done' }, { content: 'done' }, { code: 'REQUEST_TIMEOUT', details: { waitedMs: 40 } }])
})

t.test('who withdraws a request no longer waits, and its agent is told to stop', async (t) => {
  let told: unknown
  const listens = defineAgent({
    receive: (_message, { signal }) =>
      new Promise<void>((_resolve, reject) => {
        signal.addEventListener('abort', () => {
          told = signal.reason
          reject(signal.reason)
        })
      }),
  })
  const { value, team } = await act(
    t,
    async (context) => {
      const controller = new AbortController()
      const pending = caught(context.request('b', 'hi', { signal: controller.signal }))
      await context.sleep(10)
      controller.abort()
      return [await pending, await caught(context.request('b', 'hi', { signal: controller.signal }))]
    },
    { b: listens },
  )
  t.match(value, [{ code: 'CANCELLED' }, { code: 'CANCELLED' }])
  t.match(told, { code: 'CANCELLED' })
  t.equal(team.getAgentStatus('b'), 'idle')
})

t.test('requestAll gives each outcome in the order of the agents', async (t) => {
  const { value } = await act(t, (context) => context.requestAll(['slow', 'bad', 'b'], 'hi'), {
    slow: after(50),
    bad: throws('broken'),
    b: echo,
  })
  t.match(value, [
    { agent: 'slow', ok: true, message: { content: 'done' } },
    { agent: 'bad', ok: false, error: { code: 'AGENT_FAILED' } },
    { agent: 'b', ok: true, message: { content: 'b: hi' } },
  ])
})

t.test('requestAny gives the first response, whoever fails before', async (t) => {
  const { value, run } = await act(t, (context) => context.requestAny(['slow', 'bad', 'quick'], 'hi'), {
    slow: after(500),
    bad: throws('broken'),
    quick: after(50, 'quick'),
  })
  t.match(value, { sender: 'quick', content: 'quick' })
  t.equal((await run.result).executionTimeMs, 50)
})

t.test('requestAny of agents that all fail names each', async (t) => {
  const { value } = await act(t, (context) => caught(context.requestAny(['x', 'y'], 'hi')), {
    x: throws('broken'),
    y: refuses('not mine'),
  })
  t.match(value, {
    code: 'AGENT_FAILED',
    details: { failures: [{ agent: 'x' }, { agent: 'y', code: 'TASK_REFUSED' }] },
  })
})

t.test('a send waits for its acceptance, not for its handling', async (t) => {
  const handled: string[] = []
  const slow = defineAgent({
    async receive({ content }, context) {
      await context.sleep(10)
      handled.push(content)
    },
  })
  const { value } = await act(
    t,
    async (context) => {
      for (const content of ['one', 'two', 'three']) await context.send('b', content)
      return context.now()
    },
    { b: slow },
  )
  t.equal(value, 0)
  t.same(handled, ['one', 'two', 'three'])
})

t.test('a send to nobody, or to a full mailbox that rejects, is refused', async (t) => {
  const full = { code: after(100), communication: { mailboxCapacity: 1, overflow: 'reject' as const } }
  const { value, team } = await act(
    t,
    async (context) => {
      await context.send('full', 'one')
      return [await caught(context.send('zoe', 'hi')), await caught(context.send('full', 'two'))]
    },
    { full },
  )
  t.match(value, [{ code: 'UNKNOWN_AGENT' }, { code: 'MAILBOX_FULL', details: { capacity: 1 } }])
  t.same(pluck(team.deadLetters.list(), 'reason'), ['unknown_agent', 'rejected'])
})

t.test('a send to a full mailbox that blocks waits until there is room', async (t) => {
  const { value } = await act(
    t,
    async (context) => {
      const times: number[] = []
      for (let i = 0; i < 3; i++) {
        await context.send('slow', String(i))
        times.push(context.now())
      }
      return times
    },
    { slow: { code: after(10), communication: { mailboxCapacity: 1 } } },
  )
  t.same(value, [0, 10, 20])
})

t.test('messages from one agent to another keep their order', async (t) => {
  const heard: string[] = []
  await act(
    t,
    async (context) => {
      const sends = Array.from({ length: 200 }, (_, i) => context.send('b', String(i)))
      await context.request('b', 'last')
      await Promise.all(sends)
    },
    { b: defineAgent({ receive: ({ content }) => void heard.push(content) }) },
  )
  t.same(heard, [...Array.from({ length: 200 }, (_, i) => String(i)), 'last'])
})

t.test('of messages that wait the higher priority is handled first', async (t) => {
  const heard: string[] = []
  const b = defineAgent({
    async receive({ content }, context) {
      heard.push(content)
      if (content === 'first') await context.sleep(10)
    },
  })
  await act(
    t,
    async (context) => {
      await context.send('b', 'first')
      await context.sleep(5)
      for (const [content, priority] of [
        ['low', -1],
        ['plain', 0],
        ['high', 9],
      ] as const)
        await context.send('b', content, { priority })
    },
    { b },
  )
  t.same(heard, ['first', 'high', 'plain', 'low'])
})

const streams = (pieces: string[], reply = pieces.join('')) =>
  defineAgent({
    async receive(_message, context) {
      for (const piece of pieces) {
        context.emit(piece)
        await context.sleep(1)
      }
      return reply
    },
  })

t.test('a stream gives the pieces as they come, then the whole response', async (t) => {
  const { value } = await act(
    t,
    async (context) => {
      const stream = context.requestStream('b', 'hi')
      const pieces: [string, number][] = []
      for await (const piece of stream) pieces.push([piece, context.now()])
      return { pieces, content: (await stream.response).content }
    },
    { b: streams(['one ', 'two ', 'three']) },
  )
  t.same(value, {
    pieces: [
      ['one ', 0],
      ['two ', 1],
      ['three', 2],
    ],
    content: 'one two three',
  })
})

t.test('a stream of an agent that emits nothing is empty, and has its response', async (t) => {
  const { value } = await act(t, async (context) => {
    const stream = context.requestStream('b', 'hi')
    let pieces = 0
    for await (const _piece of stream) pieces += 1
    return [pieces, (await stream.response).content]
  })
  t.same(value, [0, 'b: hi'])
})

t.test('a stream throws what its agent fails with, after the pieces', async (t) => {
  const breaks = defineAgent({
    receive(_message, context) {
      context.emit('so far')
      throw new Error('broken')
    },
  })
  const { value } = await act(
    t,
    async (context) => {
      const seen: unknown[] = []
      try {
        for await (const piece of context.requestStream('b', 'hi')) seen.push(piece)
      } catch (error) {
        seen.push(error)
      }
      return seen
    },
    { b: breaks },
  )
  t.match(value, ['so far', { code: 'AGENT_FAILED', message: /broken/ }])
})

t.test('who leaves a stream cancels the request', async (t) => {
  let reason: unknown
  const endless = defineAgent({
    async receive(_message, context) {
      context.signal.addEventListener('abort', () => {
        reason = context.signal.reason
      })
      for (;;) {
        context.emit('more')
        await context.sleep(1)
      }
    },
  })
  const { value, team } = await act(
    t,
    async (context) => {
      const stream = context.requestStream('b', 'hi')
      for await (const _piece of stream) break
      return caught(stream.response)
    },
    { b: endless },
  )
  t.match(value, { code: 'CANCELLED', message: /left the loop/ })
  t.match(reason, { code: 'CANCELLED' })
  t.equal(team.getAgentStatus('b'), 'idle')
})

t.test('a writer that is far ahead of its reader waits at its next verb', async (t) => {
  let ahead = 0
  let written = 0
  let read = 0
  const eager = defineAgent({
    async receive(_message, context) {
      for (; written < 1_000; written++) {
        context.emit('.')
        await context.step(`piece ${written}`, () => {})
        ahead = Math.max(ahead, written - read)
      }
    },
  })
  const { value } = await act(
    t,
    async (context) => {
      for await (const _piece of context.requestStream('b', 'hi')) {
        read += 1
        if (read % 50 === 0) await context.sleep(1)
      }
      return read
    },
    { b: eager },
  )
  t.equal(value, 1_000)
  t.ok(ahead < 150, `never more than ${ahead} pieces ahead`)
})

t.test('who passes a stream on is no faster than its own reader, and nor is the first writer', async (t) => {
  let written = 0
  let passed = 0
  let read = 0
  let ahead = 0
  const source = defineAgent({
    async receive(_message, context) {
      for (; written < 1_000; written++) {
        context.emit(`${written}`)
        await context.step(`piece ${written}`, () => {})
        ahead = Math.max(ahead, written - read)
      }
    },
  })
  const relay = defineAgent({
    async receive(_message, context) {
      for await (const piece of context.requestStream('source', 'hi')) {
        context.emit(piece)
        passed += 1
        ahead = Math.max(ahead, passed - read)
      }
    },
  })
  const { value } = await act(
    t,
    async (context) => {
      const pieces: string[] = []
      for await (const piece of context.requestStream('relay', 'hi')) {
        pieces.push(piece)
        read += 1
        if (read % 50 === 0) await context.sleep(1)
      }
      return pieces
    },
    { source, relay },
  )
  t.same(
    value,
    Array.from({ length: 1_000 }, (_, n) => `${n}`),
  )
  t.ok(ahead < 300, `never more than ${ahead} pieces ahead`)
})

t.test('a stream goes on after the crash of its writer, and no piece comes twice', async (t) => {
  const team = stage(
    t,
    { b: streams(['one ', 'two ', 'three']) },
    {
      orchestration: {
        strategy: 'custom',
        async run(orchestrator) {
          const pieces: string[] = []
          for await (const piece of orchestrator.requestStream('b', 'hi')) pieces.push(piece)
          return pieces.join('|')
        },
      },
    },
  )
  const pending = team.execute('q')
  await team.clock.advance(1)
  team.crash('b')
  await team.clock.advance(10)
  t.equal((await pending).finalOutput, 'one |two |three')
})

t.test('an agent publishes, and who has subscribed observes it', async (t) => {
  const heard: string[] = []
  const listens = defineAgent({
    receive: (_message, context) => context.subscribe('news.*'),
    observe: ({ content, sender }, { role }) => void heard.push(`${role.name} heard ${content} from ${sender}`),
  })
  await act(
    t,
    async (context) => {
      await context.requestAll(['b', 'c'], 'listen')
      await context.publish('news.today', 'rain', 'fact')
    },
    { b: listens, c: listens, d: says('D') },
    { enableBlackboard: true },
  )
  t.same(heard.sort(), ['b heard news.today from a', 'c heard news.today from a'])
})

// requestQuorum: the first answers of several, as they come; the rest is withdrawn, and a quorum that cannot come
// fails at once.

const contents = (messages: { content: string }[]) => messages.map(({ content }) => content)

/** What agent `a` gets by that, and when. */
async function quorumAct(
  t: Parameters<typeof stage>[0],
  others: Parameters<typeof stage>[1],
  does: (context: AgentContext) => Promise<unknown>,
) {
  let value: unknown
  const a = defineAgent({
    async receive(_message, context) {
      value = await does(context)
    },
  })
  const team = stage(t, { ...others, a }, { orchestration: { strategy: 'sequential', agentOrder: ['a'] } })
  const run = team.launch('q')
  await team.clock.advance(1_000)
  const { executionTimeMs } = await run.result
  return { team, value, executionTimeMs }
}

t.test('requestQuorum gives the first answers in order of arrival, whoever fails before', async (t) => {
  const { value, executionTimeMs } = await quorumAct(
    t,
    { slow: after(500), late: after(60, 'late'), bad: throws('broken'), quick: after(50, 'quick') },
    async (context) => contents(await context.requestQuorum(['slow', 'late', 'bad', 'quick'], 2, 'hi')),
  )
  t.same(value, ['quick', 'late'])
  t.equal(executionTimeMs, 60)
})

t.test('the losers of requestQuorum are cancelled', async (t) => {
  const told: string[] = []
  const slow = defineAgent({
    async receive(_message, context) {
      await context.sleep(500).catch(({ code }) => told.push(`${context.role.name}: ${code}`))
    },
  })
  const { value } = await quorumAct(t, { slow, one: after(5, 'one'), other: after(6, 'other') }, async (context) =>
    contents(await context.requestQuorum(['slow', 'one', 'other'], 2, 'hi')),
  )
  t.same(value, ['one', 'other'])
  t.same(told, ['slow: CANCELLED'])
})

t.test('a quorum that cannot come any more fails at once, and says who failed and why', async (t) => {
  const { value, executionTimeMs } = await quorumAct(
    t,
    { slow: after(500), one: after(5, 'one'), bad: throws('broken'), no: refuses('not mine') },
    (context) => caught(context.requestQuorum(['slow', 'one', 'bad', 'no'], 3, 'hi')),
  )
  t.match(value, {
    code: 'AGENT_FAILED',
    message:
      /^3 of 4 agents have to answer; 2 failed, so that at most 2 will\. "bad": .*broken.* "no": .*refused: not mine/,
    details: { needed: 3, answered: [], failures: [{ agent: 'bad' }, { agent: 'no', code: 'TASK_REFUSED' }] },
  })
  t.equal(executionTimeMs, 0)
})

t.test('who answered before a quorum failed is in the error', async (t) => {
  const { value } = await quorumAct(t, { one: after(5, 'one'), bad: after(10) }, (context) =>
    caught(context.requestQuorum(['one', 'nobody', 'bad'], 3, 'hi', { signal: AbortSignal.abort('enough') })),
  )
  t.match(value, { code: 'CANCELLED', message: /^The wait for "one", "nobody", "bad" was withdrawn/ })
  const late = defineAgent({
    async receive(_message, context) {
      await context.sleep(10)
      throw new Error('broken')
    },
  })
  const failed = await quorumAct(t, { one: after(5, 'one'), late }, (context) =>
    caught(context.requestQuorum(['one', 'late'], 2, 'hi')),
  )
  t.match(failed.value, { details: { answered: ['one'], failures: [{ agent: 'late' }] } })
})

t.test('a turn that ends before its quorum gives it up', async (t) => {
  let outcome: Promise<unknown> | undefined
  const { team } = await quorumAct(t, { slow: after(500), slower: after(600) }, async (context) => {
    outcome = caught(context.requestQuorum(['slow', 'slower'], 1, 'hi'))
  })
  t.match(await outcome, { code: 'TURN_ENDED' })
  t.equal(team.getAgentStatus('slower'), 'idle')
})

t.test('a redelivered turn gets the answers that it had, in the order in which they had come', async (t) => {
  let asked = 0
  const chosen: string[][] = []
  const answers = (ms: number) => async (_message: unknown, context: AgentContext) => {
    asked += 1
    await context.sleep(ms)
    return context.role.name
  }
  const team = openTeam(t, {
    async worker(_message, context) {
      const all = context.requestAll(['first', 'second', 'third'], 'hi')
      chosen.push(contents(await context.requestQuorum(['first', 'second', 'third'], 2, 'choose')))
      await all
      if (context.attempt > 1) return chosen.at(-1)!.join()
      team.crash('worker')
      return never
    },
    first: answers(30),
    second: answers(20),
    third: answers(10),
  })
  const pending = team.execute('go')
  await team.clock.advance(1_000)
  const result = await pending
  t.equal(result.finalOutput, 'third,second')
  t.same(chosen, [
    ['third', 'second'],
    ['third', 'second'],
  ])
  t.equal(asked, 6)
})
