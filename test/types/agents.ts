/** What goes into an agent and what comes out of it is inferred from its definition, here and at whoever asks it. */
import { agentRef, defineAgent } from 'dramatis'
import { testAgent } from 'dramatis/testing'
import { z } from 'zod'

export const counter = defineAgent({
  input: z.object({ by: z.number().optional() }),
  output: z.object({ count: z.number() }),
  data: z.object({ step: z.number() }),
  initialState: { count: 0, seen: [] as string[] },
  initialRunState: () => ({ asked: 0 }),
  start(context) {
    context.log.info({ step: context.data.step }, 'starts')
    // @ts-expect-error no message is under way yet, so there is nobody to answer
    context.request('caller', 'hi')
  },
  async receive(message, context) {
    const { by } = message.structuredData
    if (by === undefined) throw context.refuse('no "by"')
    context.setState((draft) => {
      draft.count += by * context.data.step
      draft.seen.push(message.sender)
    })
    context.setRunState((draft) => {
      draft.asked += 1
    })
    // @ts-expect-error state is changed by setState alone
    context.state.count = 5
    // @ts-expect-error and through and through
    context.state.seen.push('nobody')
    // @ts-expect-error it has no such field
    context.setState((draft) => void draft.cuont)
    const drawn = await context.step('draw', () => context.random(), { idempotent: true })
    return { content: drawn.toFixed(1), structuredData: { count: context.state.count + context.runState.asked } }
  },
  observe(message) {
    // @ts-expect-error anything may be told to it
    message.structuredData.count
  },
})

/** What a schema fills in need not be given, and is there in the handler. */
export const greeter = defineAgent({
  input: z.object({ name: z.string(), times: z.number().default(1) }),
  receive: ({ structuredData: { name, times } }) => name.repeat(times),
})

/** Types that are named in place of inferred ones are those of the handler. */
export const named = defineAgent<{ name: string; times: number }, { text: string }>({
  input: greeting(),
  receive: ({ structuredData: { name, times } }) => ({ structuredData: { text: name.repeat(times) } }),
})

function greeting() {
  return z.object({ name: z.string(), times: z.number().default(1) })
}

/** Without an output schema the reply's type is what the handler returns. */
export const plain = defineAgent({
  initialState: { n: 0 },
  receive: (_message, context) => ({ structuredData: { n: context.state.n } }),
})

/** The data of a reply may differ from branch to branch, and some replies have none. */
export const payer = defineAgent({
  async receive({ content }) {
    if (content === '') return 'say how much'
    const euros = Number(content)
    if (euros > 100) return { content: 'refused', structuredData: { paid: false as const, why: 'too much' } }
    return { structuredData: { paid: true as const, euros } }
  },
})

/** A reply that comes later is as good. */
export const sleeper = defineAgent({ receive: () => new Promise((resolve) => setTimeout(resolve, 1_000)) })

export const estimator = defineAgent({
  async receive(_message, context) {
    const { generation, arrived, data } = await context.sync('revealed', 5)
    const mine: number | undefined = data.estimator
    // @ts-expect-error everybody brings what this one brings
    const others: string | undefined = data.other
    await context.sync('revealed')
    return `${generation} ${arrived.join()} ${mine} ${others}`
  },
})

export const sharer = defineAgent({
  async receive(_message, context) {
    const team = context.shared('team_shared')
    const n: number = await team.update<number>('count', (count = 0) => count + 1)
    const draft: string | undefined = await context.shared('agent_shared', 'writer').get<string>('draft')
    const page = await context.shared('persistent').get('page', z.object({ rows: z.number() }))
    // @ts-expect-error there is no such scope
    context.shared('private')
    // @ts-expect-error it may be that nobody has written it
    page.rows
    // @ts-expect-error a change says what the new value is
    await team.update<number>('count', () => {})
    return `${n} ${draft} ${page?.rows}`
  },
})

export const silent = defineAgent({ receive() {} })

export const caller = defineAgent({
  async receive(_message, context) {
    const counted = await context.request(agentRef<typeof counter>('counter'), 'hi', { structuredData: { by: 1 } })
    const total: number = counted.structuredData.count
    const answered = await context.request(agentRef<typeof plain>('plain'), 'hi')
    const n: number = answered.structuredData.n
    // @ts-expect-error wrong input
    await context.request(agentRef<typeof counter>('counter'), 'hi', { structuredData: { by: 'x' } })
    // @ts-expect-error no such field in the answer
    counted.structuredData.total
    await context.request(agentRef<typeof greeter>('greeter'), 'hi', { structuredData: { name: 'ann' } })
    // @ts-expect-error the name has no default
    await context.request(agentRef<typeof greeter>('greeter'), 'hi', { structuredData: { times: 2 } })
    // @ts-expect-error a named type has no defaults
    await context.request(agentRef<typeof named>('named'), 'hi', { structuredData: { name: 'ann' } })
    const untyped = await context.request('counter', 'hi', { structuredData: { anything: 1 } })
    // @ts-expect-error a name alone says nothing about the answer
    untyped.structuredData.count
    const { structuredData: receipt } = await context.request(agentRef<typeof payer>('payer'), '50')
    const what: string | number = receipt.paid ? receipt.euros : receipt.why
    // @ts-expect-error there is a reason only where nothing was paid
    receipt.why.length
    for await (const chunk of context.requestStream('plain', 'hi')) context.emit(chunk)
    const counters = agentRef<typeof counter>('counter')
    const streamed = await context.requestStream(counters, 'hi', { structuredData: { by: 1 } }).response
    const first = await context.requestAny([counters, agentRef<typeof counter>('other')], 'hi')
    const both: number[] = [streamed, first].map(({ structuredData }) => structuredData.count)
    const any = await context.requestAny([counters, agentRef<typeof plain>('plain')], 'hi')
    const either: { count: number } | { n: number } = any.structuredData
    const outcomes = await context.requestAll([counters], 'hi', { structuredData: { by: 1 }, concurrency: 1 })
    for (const outcome of outcomes) if (outcome.ok) both.push(outcome.message.structuredData.count)
    const names: string[] = ['plain', 'counter']
    const [some] = await context.requestQuorum(names, 1, 'hi', { structuredData: { anything: 1 } })
    // @ts-expect-error a name alone says nothing about the answer
    some?.structuredData.count
    // @ts-expect-error one of them has no name for "by"
    await context.requestQuorum([counters, agentRef<typeof named>('named')], 1, 'hi', { structuredData: { by: 1 } })
    await context.send(counters, 'hi')
    void [both, either]
    return `${total} ${n} ${what}`
  },
})

export const wrong = defineAgent({
  output: z.object({ count: z.number() }),
  // @ts-expect-error the reply misses the output schema
  receive: () => ({ structuredData: { cuont: 1 } }),
})

// @ts-expect-error a list is no reply
export const list = defineAgent({ receive: () => ['a', 'b'] })

// @ts-expect-error the one thing that an agent needs
export const deaf = defineAgent({ observe() {} })

export async function alone(): Promise<number> {
  const agent = testAgent(counter, { role: { data: { step: 2 } }, replies: { oracle: ({ content }) => `${content}!` } })
  const reply = await agent.request('hi', { by: 2 })
  // @ts-expect-error wrong input
  await agent.request('hi', { by: '2' })
  await agent.observe({ type: 'report', content: 'news' })
  await agent.restart()
  const seen: readonly string[] = agent.state.seen
  return reply.structuredData.count + agent.state.count + seen.length + agent.sent.length
}

// @ts-expect-error a number is no reply
export const number = defineAgent({ receive: () => 5 })

// @ts-expect-error a reply has no such field
export const misspelled = defineAgent({ receive: async () => ({ contents: 'x' }) })
