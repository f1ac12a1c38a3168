/** Rules 28 to 30: agents that are busy without progress are told, then their protocol, then the run ends; nobody else is. */
import t from 'tap'
import { z } from 'zod'
import { type AgentContext, type AgentDefinition, type AgentMessage, defineAgent, defineTool } from '../../src/index.ts'
import { settingsFrom } from '../../src/runtime/settings/settings.ts'
import { leftovers } from '../kit/accounts.ts'
import { type Cast, gate, openTeam, outcomeOf, type Receive } from '../kit/team.ts'
import { calls, FakeModel } from '../models/fake-model.ts'
import { modelTeam } from '../models/teams.ts'
import { isFine, OFTEN, play, type Script, SECOND, STRICT, watched } from './livelocks.ts'

const busy = (): string => 'busy'

/** Asks the same again and again, every second. */
const asksForever =
  (to: string, options = {}) =>
  async (_message: unknown, context: AgentContext) => {
    for (let n = 0; n < OFTEN; n++) {
      await context.request(to, 'may I?', options).catch(() => {})
      await context.sleep(SECOND)
    }
  }

const asksOften =
  (to: string, times: number, options = {}) =>
  async (_message: unknown, context: AgentContext) => {
    for (let n = 0; n < times; n++) await context.request(to, 'may I?', options)
    return 'done'
  }

/** Conversations that are remembered at a time. */
const MOST_WATCHED = 10_000

// ---- signs

t.test('rule 29: the same request with the same answer 4 times, one after the other, is a sign', async (t) => {
  const { team, found } = watched(t, { ann: asksForever('bob'), bob: busy })
  const result = await play(team)
  t.match(result.error, { code: 'LIVELOCK', details: { runId: 'run' } })
  const sign =
    /^"ann" asked "bob" the same 4 times in a row, and each time got the same answer \(the last: message [\da-f-]{36}\)$/
  t.match(found, [{ evidence: [sign] }, { evidence: [sign, sign] }, { evidence: [sign, sign, sign] }])
  t.same(result.error?.details.evidence, found[2]?.evidence)
  const [first, second, third] = found.map(({ at }) => at)
  t.equal(second! - first!, 4 * SECOND, 'as much time for progress as the sign needs again')
  t.equal(third! - second!, 4 * SECOND)
})

t.test('rule 29: the same error of one agent to another 3 times is a sign', async (t) => {
  const bob = () => {
    throw new Error('the disk is full')
  }
  const { team, found } = watched(t, { ann: asksForever('bob'), bob })
  t.equal((await play(team)).error?.code, 'LIVELOCK')
  t.match(found[0]?.evidence, [/^"bob" failed 3 times in a row with the same error for "ann": AGENT_FAILED/])
  t.equal(found[1]!.at - found[0]!.at, 3 * SECOND)
})

/** Sends on whatever it gets. */
const passesTo = (to: string): AgentDefinition => {
  let left = 400
  return defineAgent({
    receive: async ({ content }, context) => {
      if (--left > 0) await context.send(to, content)
    },
  })
}

const startsWith =
  (agent: string): Script =>
  async (script) => {
    await script.send(agent, '0')
    await script.sleep(60 * SECOND)
    return 'done'
  }

t.test('rule 29: errors of other words, or from another place, are not the same', async (t) => {
  let n = 0
  const fails = [
    () => {
      throw new Error(`reason ${n}`)
    },
    () => {
      if (n % 2) throw new Error('no')
      throw new Error('no')
    },
  ]
  const ann = async (_message: unknown, context: AgentContext) => {
    for (let i = 0; i < 5; i++) await context.request('bob', 'may I?').catch(() => n++)
  }
  for (const bob of fails) {
    n = 0
    await isFine(t, { ann, bob })
  }
})

t.test('rule 29: two that write to each other and back 6 times without progress are a sign', async (t) => {
  const { team, found } = watched(t, { ann: passesTo('bob'), bob: passesTo('ann') }, { script: startsWith('ann') })
  t.equal((await play(team)).error?.code, 'LIVELOCK')
  t.match(found[0]?.evidence, [
    /^"\w+" and "\w+" wrote to each other and back 6 times without progress \(the last: message/,
  ])
})

t.test('rule 29: a task that is handed off to one that had it is a sign', async (t) => {
  const handsTo =
    (to: string) =>
    async ({ content }: AgentMessage, context: AgentContext): Promise<void> =>
      context.handoff(to, content)
  const { team, found } = watched(t, { ann: handsTo('bob'), bob: handsTo('ann') })
  const { error } = await play(team)
  t.equal(error?.code, 'LIVELOCK')
  const evidence = [
    /^a task was delegated back to "ann", who had it: "ann" -> "bob" -> "ann" \(message [\da-f-]{36}\)$/,
  ]
  t.match(found[0], { evidence })
})

t.test('rule 29: 50 messages, each because of the one before, are a sign', async (t) => {
  const cast = { ann: passesTo('bob'), bob: passesTo('cleo'), cleo: passesTo('ann') }
  const { team, found } = watched(t, cast, { script: startsWith('ann') })
  t.equal((await play(team)).error?.code, 'LIVELOCK')
  t.match(found[0]?.evidence, [
    /^50 messages without progress, each because of the one before, between "cleo", "ann", "bob"/,
  ])
})

t.test('rule 29: entries that nobody gets do not make a conversation forgotten', async (t) => {
  const passes = (to: string) => defineAgent({ receive: (_message, context) => context.send(to, 'on') })
  let rounds = 0
  const ann = defineAgent({
    async receive(_message, context) {
      await context.send('bob', 'on')
      const entries = rounds++ === 0 ? 1 : MOST_WATCHED
      for (let n = 0; n < entries; n++) await context.publish('weather', 'rain', 'fact')
    },
  })
  const bob = defineAgent({
    async receive(_message, context) {
      await context.sleep(SECOND)
      await context.send('cleo', 'on')
    },
  })
  const script: Script = async (orchestrator) => {
    for (let n = 0; n < 2; n++) {
      await orchestrator.send('ann', 'on')
      await orchestrator.sleep(10 * SECOND)
    }
    return 'done'
  }
  const cast = { ann, bob, cleo: passes('dora'), dora: defineAgent({ receive() {} }) }
  const livelock = { ...STRICT, maxMessagesWithoutProgress: 4 }
  const { team, found } = watched(t, cast, { script, supervision: { livelock } })
  t.equal((await play(team)).success, true)
  t.match(found[0]?.evidence, [/^4 messages without progress, each because of the one before, between /])
})

t.test('rule 29: messages count in their thread', async (t) => {
  let n = 0
  const passes = (to: string) =>
    defineAgent({
      receive: async ({ content }, context) => {
        n += 1
        if (n < 90) await context.send(to, content, { threadId: `${Math.floor(n / 30)}` })
      },
    })
  const cast = { ann: passes('bob'), bob: passes('cleo'), cleo: passes('ann') }
  const { team, found } = watched(t, cast, { script: startsWith('ann') })
  t.equal((await play(team)).success, true)
  t.same(found, [])
})

t.test('rule 29: 3 rounds of the protocol without progress are a sign', async (t) => {
  const script: Script = async (script) => {
    for (let n = 0; n < OFTEN; n++) {
      await script.request('ann', 'write it')
      await script.requestAll(['bob', 'cleo'], 'judge it')
    }
    return 'done'
  }
  const answers = () => 'not good enough'
  const { team, found } = watched(t, { ann: answers, bob: answers, cleo: answers }, { script })
  t.equal((await play(team)).error?.code, 'LIVELOCK')
  t.match(found[0]?.evidence, [
    /^3 rounds of the protocol in a row without progress; they asked "ann", "bob", "cleo" \(the last task: /,
  ])
})

t.test('rule 29: a task that is handed off to one that had it is a sign', async (t) => {
  const handsTo = (to: string) => async (_message: unknown, context: AgentContext) => {
    await context.handoff(to, 'write the report')
  }
  const { team, found } = watched(t, { ann: handsTo('bob'), bob: handsTo('cleo'), cleo: handsTo('ann') })
  t.equal((await play(team)).success, false)
  const way = '"ann" -> "bob" -> "cleo" -> "ann"'
  t.match(found[0]?.evidence, [new RegExp(`^a task was delegated back to "ann", who had it: ${way} \\(message `)])
})

t.test('rule 29: two who hand off one task each to the other have none of them back', async (t) => {
  const handsTo = (to: string) => (message: AgentMessage, context: AgentContext) =>
    message.sender === to ? 'done' : context.handoff(to, message.content)
  const script: Script = async (script) => {
    for (let n = 0; n < 12; n++) await script.request(n % 2 ? 'ann' : 'bob', `task ${n}`)
    return 'done'
  }
  await isFine(t, { ann: handsTo('bob'), bob: handsTo('ann') }, { script, maxHandoffs: 12 })
})

t.test('rule 29: a conversation goes on over requests and answers, to whomever', async (t) => {
  const ann = async (_message: unknown, context: AgentContext) => {
    for (let n = 0; n < 2 * OFTEN; n++) await context.request(n % 2 ? 'bob' : 'cleo', 'may I?')
    return 'done'
  }
  const flips = () => {
    let n = 0
    return () => (n++ % 2 ? 'yes' : 'no')
  }
  const { team, found } = watched(t, { ann, bob: flips(), cleo: flips() })
  t.equal((await play(team)).error?.code, 'LIVELOCK')
  t.match(found[0]?.evidence, [/^50 messages without progress/])
})

t.test('rule 29: who answers each message to all with one to all is found', async (t) => {
  let left = 400
  const echo = defineAgent({
    receive: (_message, context) => context.broadcast('hear, hear'),
    observe: async (_message, context) => {
      if (--left > 0) await context.broadcast('hear, hear')
    },
  })
  const { team, found } = watched(t, { ann: echo, bob: echo }, { script: startsWith('ann') })
  t.equal((await play(team)).error?.code, 'LIVELOCK')
  t.match(found[0]?.evidence, [/^"\w+" and "\w+" wrote to each other and back 6 times/])
})

// ---- what is none

t.test('rule 28: a short run of code is not watched unless the team says so', async (t) => {
  for (const livelock of [undefined, false] as const)
    await isFine(t, { ann: asksOften('bob', 40), bob: busy }, { supervision: { livelock } })
})

t.test('a long run of code alone is looked at by default: its livelock is told, and it goes on', async (t) => {
  for (const [times, livelock, signs] of [
    [2_000, undefined, [1, 2]],
    [2_000, false, []],
    [900, undefined, []],
  ] as const) {
    const team = openTeam(t, { ann: asksOften('bob', times), bob: busy }, { supervision: { livelock } })
    const told: number[] = []
    team.events.subscribe((event) => void (event.type === 'livelock' && told.push(event.evidence.length)))
    t.match(await team.execute('go'), { success: true })
    t.same(told, signs)
  }
})

t.test('a long run of code that gets on is no livelock', async (t) => {
  const ann: Receive = async (_message, context) => {
    for (let i = 0; i < 2_000; i++) await context.request('bob', `${i}`)
    return 'done'
  }
  const team = openTeam(t, { ann, bob: busy })
  const told: unknown[] = []
  team.events.subscribe((event) => void (event.type === 'livelock' && told.push(event)))
  t.match(await team.execute('go'), { success: true })
  t.same(told, [])
})

t.test('an answer that is another one each time, or now and then, is progress', async (t) => {
  let n = 0
  await isFine(t, { ann: asksOften('bob', 40), bob: () => `${n++}` })
  n = 0
  await isFine(t, { ann: asksOften('bob', 9), bob: () => `${Math.floor(n++ / 3)}` })
})

t.test('rule 28: a round in which there was something new is none that stalls', async (t) => {
  const script: Script = async (script) => {
    for (let n = 0; n < OFTEN; n++) await script.request('ann', 'go on')
    return 'done'
  }
  let n = 0
  const ann = async (_message: unknown, context: AgentContext) => {
    await context.publish('draft', n++, 'draft')
    return 'written'
  }
  await isFine(t, { ann }, { script })
})

t.test('rule 28: another task is progress, also when it fails as the others did', async (t) => {
  const script: Script = async (script) => {
    for (let n = 0; n < OFTEN; n++) await script.request('ann', `task ${n}`).catch(() => {})
    return 'done'
  }
  const ann = ({ content }: AgentMessage) => {
    throw new Error(`no way to do ${content}`)
  }
  await isFine(t, { ann }, { script })
})

t.test('rule 28: a step that fails is no progress, whatever it fails with', async (t) => {
  const ann = async (_message: unknown, context: AgentContext) => {
    for (let n = 0; n < OFTEN; n++) {
      const tried = context.step('try', () => {
        throw new Error(`failure ${n}`)
      })
      await tried.catch(() => context.request('bob', 'may I?'))
    }
  }
  const { team, found } = watched(t, { ann, bob: busy })
  t.equal((await play(team)).error?.code, 'LIVELOCK')
  t.match(found[0]?.evidence, [/^"ann" asked "bob" the same 4 times in a row/])
})

t.test('rule 28: a sync point at which all have met is progress', async (t) => {
  const rounds =
    (asks: boolean) =>
    async (_message: unknown, context: AgentContext): Promise<void> => {
      for (let n = 0; n < 12; n++) {
        if (asks) await context.request('bob', 'may I?')
        await context.sync('round')
      }
    }
  const script: Script = async (orchestrator) => `${(await orchestrator.requestAll(['ann', 'cleo'], 'go')).length}`
  const { team, found } = watched(
    t,
    { ann: rounds(true), cleo: rounds(false), bob: busy },
    { script, syncPoints: [{ name: 'round', requiredAgents: ['ann', 'cleo'], timeoutMs: SECOND }] },
  )
  t.equal((await play(team)).error, null)
  t.same(found, [])
})

t.test('rule 28: a sync point that ends without some is none', async (t) => {
  const ann = async (_message: unknown, context: AgentContext) => {
    for (let n = 0; n < OFTEN; n++) {
      await context.sync('here')
      await context.request('bob', 'may I?')
    }
  }
  const { team, found } = watched(
    t,
    { ann, bob: busy, cleo: busy },
    { syncPoints: [{ name: 'here', requiredAgents: ['ann', 'cleo'], timeoutMs: SECOND }] },
  )
  t.equal((await play(team)).error?.code, 'LIVELOCK')
  t.match(found[0]?.evidence, [/^"ann" asked "bob" the same 4 times in a row/])
})

t.test('the same answer to another question is progress', async (t) => {
  const stores = async (_message: unknown, context: AgentContext) => {
    for (let n = 0; n < OFTEN; n++) await context.request('bob', 'store', { structuredData: n })
    return 'done'
  }
  await isFine(t, { ann: stores, bob: () => 'ok' })
})

t.test('rule 28: a new result, of a tool too, a new step or entry are progress; the same again are none', async (t) => {
  const moves: Record<string, (context: AgentContext, n: number) => Promise<unknown>> = {
    result: (context, n) => context.request('cleo', `${n}`),
    step: (context, n) => context.step('work', () => n),
    entry: (context, n) => context.blackboard.write('draft', n, 'draft'),
    tool: (context, n) => context.tool('act', { n }),
    'tool in a module': (context, n) => context.tool('echo', { n }),
  }
  const tools = [
    defineTool({ name: 'act', description: 'Acts.', input: z.object({ n: z.number() }), run: () => 'ok' }),
    { module: new URL('../fixtures/tools/echo.js', import.meta.url) },
  ]
  const asks =
    (move: (context: AgentContext, n: number) => Promise<unknown>, isNew: boolean) =>
    async (_message: unknown, context: AgentContext) => {
      for (let n = 0; n < 20; n++) {
        await context.request('bob', 'ready?')
        await move(context, isNew ? n : 0)
      }
      return 'done'
    }
  for (const [what, move] of Object.entries(moves)) {
    await isFine(t, { ann: asks(move, true), bob: busy, cleo: busy }, { tools })
    const { team, found } = watched(t, { ann: asks(move, false), bob: busy, cleo: busy }, { tools })
    t.equal((await play(team)).error?.code, 'LIVELOCK', what)
    t.equal(found.length, 3)
  }
})

t.test('a task that was not there before is progress, also if it fails like the others', async (t) => {
  const script: Script = async (script) => {
    for (let n = 0; n < 12; n++) await script.request('ann', `task ${n}`).catch(() => {})
    return 'done'
  }
  const ann = () => {
    throw new Error('the disk is full')
  }
  await isFine(t, { ann }, { script })
})

t.test('on a blackboard of the whole team what is new is progress too', async (t) => {
  const ann = async (_message: unknown, context: AgentContext) => {
    for (let n = 0; n < 20; n++) {
      await context.request('bob', 'ready?')
      await context.blackboard.write('draft', n, 'draft')
    }
    return 'done'
  }
  await isFine(t, { ann, bob: busy }, { enableBlackboard: { scope: 'team' } })
})

t.test('rule 29: what is marked as polling is no repetition: a request, a send, a task of the script', async (t) => {
  const polling = { polling: true }
  await isFine(t, { ann: asksOften('bob', OFTEN, polling), bob: busy })
  const polls: Script = async (script) => {
    for (let n = 0; n < OFTEN; n++) {
      await script.request('ann', 'done?', polling)
      await script.sleep(60_000)
    }
    return 'done'
  }
  await isFine(t, { ann: () => 'not yet' }, { script: polls, globalTimeoutMs: 2 ** 31 - 1 })
  const answers = defineAgent({ receive: (_message, context) => context.send('bob', 'not yet') })
  let polled = 0
  const bob = defineAgent({
    receive: async (_message, context) => {
      if (++polled < OFTEN) await context.send('ann', 'done?', polling)
    },
  })
  await isFine(t, { ann: answers, bob }, { script: startsWith('bob') })
})

t.test('rule 29: a poll is exempt alone: what is asked beside it counts', async (t) => {
  const ann = async (_message: unknown, context: AgentContext) => {
    for (let n = 0; n < OFTEN; n++) {
      await context.request('bob', 'done?', { polling: true })
      await context.request('bob', 'may I?')
    }
  }
  const { team } = watched(t, { ann, bob: busy })
  t.equal((await play(team)).error?.code, 'LIVELOCK')
})

t.test('a turn that is tried again still polls', async (t) => {
  const ann = async (_message: unknown, context: AgentContext) => {
    for (let n = 0; n < 30; n++) {
      await context.request('bob', 'done?', { polling: true })
      if (n === 10 && context.attempt === 1) team.crash('ann')
    }
    return 'done'
  }
  const { team, found } = watched(t, { ann, bob: busy })
  t.equal((await play(team)).success, true)
  t.equal(team.getMessageHistory().filter(({ content }) => content === 'done?').length, 30)
  t.same(found, [])
})

t.test('asking one agent the same many times at once is no repetition', async (t) => {
  const ann = async (_message: unknown, context: AgentContext) => {
    const outcomes = await context.requestAll(
      Array.from({ length: 40 }, () => 'bob'),
      'what do you think?',
    )
    return `${outcomes.length}`
  }
  await isFine(t, { ann, bob: () => 'yes' }, { roles: { bob: { instances: 3 } } })
})

t.test('many messages to many are no conversation, and neither are the lines of work that they begin', async (t) => {
  const ann = async (_message: unknown, context: AgentContext) => {
    for (let n = 0; n < 200; n++) await context.send(n % 2 ? 'bob' : 'cleo', `${n}`)
    return 'done'
  }
  const back = defineAgent({ receive: ({ content }, context) => context.send('dan', content) })
  await isFine(t, { ann, bob: back, cleo: back, dan: () => {} })
})

t.test('an agent that is slow is none that is stuck: missed deadlines are no errors of a kind', async (t) => {
  const ann = async (_message: unknown, context: AgentContext) => {
    for (let n = 0; n < 12; n++) await context.request('bob', 'are you there?', { timeoutMs: 10 }).catch(() => {})
    return 'done'
  }
  const bob = async (_message: unknown, context: AgentContext) => {
    await context.sleep(60_000)
  }
  await isFine(t, { ann, bob })
})

t.test('retries of a turn that fails are bounded by themselves, and no sign', async (t) => {
  let tries = 0
  const bob = () => {
    if (++tries < 12) throw new Error('not yet')
    return 'done'
  }
  const ann = async (_message: unknown, context: AgentContext) => (await context.request('bob', 'go')).content
  await isFine(t, { ann, bob }, { supervision: { livelock: {}, onHandlerError: 'retry', poisonAttempts: 20 } })
})

// ---- the ladder

/** Asks for leave until it gets it. */
const asksForLeave = (of: string) => async (_message: unknown, context: AgentContext) => {
  while ((await context.request(of, 'may I?')).content === 'busy') await context.sleep(SECOND)
  return 'done'
}

t.test('rule 30: those involved are told first, and who does something else then is left alone', async (t) => {
  const heard: AgentMessage[] = []
  const others: AgentMessage[] = []
  const bob = defineAgent({
    receive: () => (heard.length > 0 ? 'go ahead' : 'busy'),
    observe: (message) => void heard.push(message),
  })
  const cleo = defineAgent({ receive: busy, observe: (message) => void others.push(message) })
  const script: Script = async (script) => {
    await script.request('cleo', 'go')
    return (await script.request('ann', 'go')).content
  }
  const { team, found } = watched(t, { ann: asksForLeave('bob'), bob, cleo }, { script })
  t.equal((await play(team)).finalOutput, 'done')
  t.equal(found.length, 1)
  const evidence = found[0]!.evidence
  t.match(heard, [
    { type: 'report', sender: '$runtime', recipient: 'bob', structuredData: { event: 'livelock', evidence } },
  ])
  t.match(heard[0]?.content, /^No progress: "ann" asked "bob" the same 4 times/)
  t.same(others, [])
})

t.test('rule 30: progress takes the ladder back: the next sign is the first again', async (t) => {
  let n = 0
  const { team, found } = watched(t, { ann: asksOften('bob', OFTEN), bob: () => `${Math.floor(n++ / 6)}` })
  t.equal((await play(team)).success, true)
  t.equal(found.length, 10)
  for (const { evidence } of found) t.equal(evidence.length, 1)
})

t.test('rule 30: a protocol that listens can replan', async (t) => {
  const script: Script = async (script) => {
    const stuck = new AbortController()
    const listening = team.events.subscribe((event) => {
      if (event.type === 'livelock' && event.evidence.length === 2) stuck.abort()
    })
    const answer = await script.request('ann', 'go', { signal: stuck.signal }).catch(() => script.request('cleo', 'go'))
    listening.unsubscribe()
    return answer.content
  }
  const { team, found } = watched(t, { ann: asksForever('bob'), bob: busy, cleo: () => 'another way' }, { script })
  t.equal((await play(team)).finalOutput, 'another way')
  t.equal(found.length, 2)
})

t.test('rule 30: what ends the run names all signs since the last progress, in order', async (t) => {
  const ann = async (_message: unknown, context: AgentContext) => {
    const others = ['bob', 'cleo', 'dan']
    for (const to of others) await context.request(to, 'may I?') // what is new is progress
    for (const to of others) for (let n = 0; n < 4; n++) await context.request(to, 'may I?')
    await context.sleep(SECOND)
  }
  const { team } = watched(t, { ann, bob: busy, cleo: busy, dan: busy })
  const { error } = await play(team)
  t.match(error, { code: 'LIVELOCK', details: { evidence: [/bob/, /cleo/, /dan/] } })
  t.match(error?.message, /The signs: .*bob.*; .*cleo.*; .*dan/)
})

t.test('the trace and the logger have each step, with names, counts and ids, and never what was said', async (t) => {
  const lines: [fields: object, text: string][] = []
  const note = (fields: object, text: string) => void lines.push([fields, text])
  const quiet = () => {}
  const ann = async (_message: unknown, context: AgentContext) => {
    for (let n = 0; n < OFTEN; n++) await context.request('bob', 'the secret question', { structuredData: 'secret' })
  }
  const logger = { debug: quiet, info: quiet, warn: note, error: note }
  const { team } = watched(t, { ann, bob: () => 'the secret answer' }, { logger })
  const { error, orchestrationTrace } = await play(team)
  const steps = orchestrationTrace.events.filter(({ eventType }) => eventType === 'livelock')
  t.match(steps, [
    { agent: null, details: { step: 'notice', agents: ['ann', 'bob'], evidence: [/4 times/] } },
    { details: { step: 'replan' } },
    { details: { step: 'abort', evidence: { length: 3 } } },
  ])
  const told = lines.filter(([fields]) => 'event' in fields && fields.event === 'livelock')
  t.match(told, [
    [{ runId: 'run', step: 'notice', agents: ['ann', 'bob'] }, 'agents are busy without progress (notice)'],
    [{ step: 'replan' }, /replan/],
    [{ step: 'abort' }, /abort/],
  ])
  t.match(error?.details.skipped, { 'tie-breaker': /no protocol/ })
  t.notMatch(JSON.stringify([steps, told, error?.message, error]), /secret/)
})

t.test('the bounds are options', async (t) => {
  const patient = { livelock: { maxRepeats: 20, maxMessagesWithoutProgress: 200 } }
  await isFine(t, { ann: asksOften('bob', 19), bob: busy }, { supervision: patient })
  const strict = { livelock: { maxRepeats: 2 } }
  const { team, found } = watched(t, { ann: asksForever('bob'), bob: busy }, { supervision: strict })
  await play(team)
  t.match(found[0]?.evidence, [/the same 2 times/])
})

// ---- what is no run, or no longer one

t.test('what a message from outside has caused is ended, and what a run has left behind', async (t) => {
  const pair = { ann: passesTo('bob'), bob: passesTo('ann') }
  const { team, found } = watched(t, pair, {
    script: async (script) => {
      await script.send('ann', '0')
      return 'done'
    },
  })
  t.equal((await team.execute('go')).finalOutput, 'done')
  await team.sendMessage({ recipient: 'ann', content: '0' })
  await team.clock.advance(1_000)
  t.equal(found.length, 6)
  t.same(leftovers(team.host), [])
  for (const run of team.host.runs.values()) t.equal(run.open, 0)
})

t.test('agents that were made in the run are seen by their names', async (t) => {
  const ann = (_message: unknown, context: AgentContext) => context.spawn({ name: 'kid' })
  const roles = { ann: { trust: 'privileged' as const } }
  const script: Script = async (script) => {
    await script.request('ann', 'go')
    return (await script.request('bob', 'go')).content
  }
  const { team, found } = watched(t, { ann, bob: asksForever('kid') }, { roles, later: { kid: busy }, script })
  t.equal((await play(team)).error?.code, 'LIVELOCK')
  t.match(found[0]?.evidence, [/^"bob" asked "kid" the same 4 times/])
})

t.test('a message by name, to one whom its sender had not heard of yet, belongs to its conversation', async (t) => {
  const { opened, open } = gate()
  const bob = async (_message: unknown, context: AgentContext) => {
    await opened
    return delegates('kid', context)
  }
  const delegates = (to: string, context: AgentContext) =>
    context.delegate(to, 'write the report').then(
      () => 'done',
      () => 'given up',
    )
  const kid = (_message: unknown, context: AgentContext) => delegates('bob', context)
  const { team, found } = watched(t, { bob }, { later: { kid } })
  const run = outcomeOf(team.execute('go'))
  await team.clock.advance(0)
  const added = team.addAgent({ name: 'kid' })
  while (!team.host.directory.agent('kid')) await Promise.resolve()
  open() // before the news of it can have come to the thread
  await team.clock.runToIdle()
  await added
  t.equal(run.value?.success, true)
  t.match(found, [{ evidence: [/^a task was delegated back to "bob", who had it: "bob" -> "kid" -> "bob"/] }])
  t.equal(found.length, 1)
})

// Rules 28 to 30 on programs of the literature that are busy for ever, and on their neighbours that are not.

/** A philosopher who takes the left fork, finds the right one taken, puts the left one back and tries again. */
const polite = (left: string, right: string) => async (_message: unknown, context: AgentContext) => {
  for (let n = 0; n < OFTEN; n++) {
    await context.request(left, 'take')
    if ((await context.request(right, 'take')).content === 'taken') {
      await context.request(left, 'put back')
      await context.sleep(SECOND)
      continue
    }
    await context.sleep(SECOND) // eats
    await context.request(right, 'put back')
    await context.request(left, 'put back')
    return 'ate'
  }
  return 'hungry'
}

/** A fork that one can hold at a time: who comes then is turned away. */
function fork(): AgentDefinition {
  let holder: string | undefined
  return defineAgent({
    async receive({ content, sender }, context) {
      await context.sleep(10)
      if (content === 'put back') {
        if (holder === sender) holder = undefined
        return 'free'
      }
      if (holder !== undefined && holder !== sender) return 'taken'
      holder = sender
      return 'yours'
    },
  })
}

function table(seats: number): Cast {
  const cast: Record<string, Cast[string]> = {}
  for (let seat = 0; seat < seats; seat++) cast[`phil${seat}`] = polite(`fork${seat}`, `fork${(seat + 1) % seats}`)
  for (let seat = 0; seat < seats; seat++) cast[`fork${seat}`] = fork()
  return cast
}

t.test('polite philosophers, who release and retry in step, are a livelock', async (t) => {
  const script: Script = async (script) => {
    const philosophers = Array.from({ length: 5 }, (_, seat) => `phil${seat}`)
    const outcomes = await script.requestAll(philosophers, 'eat')
    return outcomes.map(({ ok }) => ok).join()
  }
  const { team, found } = watched(t, table(5), { script, maxConcurrentAgents: 10 })
  const { error } = await play(team)
  t.equal(error?.code, 'LIVELOCK')
  t.match(found[0]?.evidence, [/^"phil\d" asked "fork\d" the same 4 times/])
})

t.test('one philosopher who comes later eats, and there is no alarm', async (t) => {
  const script: Script = async (script) => {
    const one = script.request('phil0', 'eat')
    await script.sleep(100)
    const other = script.request('phil1', 'eat')
    return (await one).content + (await other).content
  }
  await isFine(t, table(3), { script, maxConcurrentAgents: 10 })
})

t.test('a task that is sent back and forth is a livelock', async (t) => {
  const sendsTo = (to: string) => defineAgent({ receive: ({ content }, context) => context.send(to, content) })
  const script: Script = async (script) => {
    await script.send('ann', 'write the report')
    await script.sleep(60 * SECOND)
    return 'nobody did'
  }
  const { team, found } = watched(t, { ann: sendsTo('bob'), bob: sendsTo('ann') }, { script })
  t.equal((await play(team)).error?.code, 'LIVELOCK')
  t.match(found[0]?.evidence, [/wrote to each other and back 6 times/])
})

// `limits.messagesPerTurn` bounds what one turn sends, and two agents with very many messages are told.

const heard: Receive = () => 'heard'

/** Sends as many messages, and says what became of those that were refused. */
const sends =
  (count: number): Receive =>
  async (_message, context) => {
    const refused: string[] = []
    for (let i = 0; i < count; i++)
      await context.send('bob', `${i}`).catch((error) => refused.push(`${error.code} ${error.details.path}`))
    return refused.join(', ')
  }

t.test('a message beyond the limit of a turn is refused, with an error that names the limit', async (t) => {
  const team = openTeam(
    t,
    { ann: sends(5), bob: heard },
    { unfinished: true, roles: { ann: { limits: { messagesPerTurn: 3 } } } },
  )
  const refusal = 'MESSAGE_REJECTED limits.messagesPerTurn'
  for (let turn = 0; turn < 2; turn++) t.equal((await team.execute('go')).finalOutput, `${refusal}, ${refusal}`)
})

t.test('code has no limit unless it says so, a model has 1,000', (t) => {
  const limitOf = (role: object) => settingsFrom({ agents: [{ name: 'ann', ...role }] }).agents[0]?.messagesPerTurn
  t.equal(limitOf({ module: 'any' }), Number.POSITIVE_INFINITY)
  t.equal(limitOf({}), 1_000)
  t.equal(limitOf({ limits: { messagesPerTurn: 5 } }), 5)
  t.end()
})

t.test('a model learns that it has sent too many', async (t) => {
  const asks = calls(
    ...Array.from({ length: 3 }, (_, i) => ['request', { to: 'bob', content: `${i}` }] as [string, object]),
  )
  const model = new FakeModel(({ agent, messages }) =>
    agent === 'bob' ? 'heard' : messages.at(-1)?.role === 'tool' ? 'done' : asks,
  )
  const agents = [{ name: 'ann', canDelegateTo: ['bob'], limits: { messagesPerTurn: 2 } }, { name: 'bob' }]
  const { team } = modelTeam(t, model, agents, { orchestration: { strategy: 'sequential', agentOrder: ['ann'] } })
  t.equal((await team.execute('go')).finalOutput, 'done')
  const told = model.requests.at(-1)?.messages.filter(({ role }) => role === 'tool') ?? []
  t.equal(told.length, 3)
  t.equal(told.filter(({ content }) => JSON.stringify(content).includes('limits.messagesPerTurn')).length, 1)
})

t.test('two agents with 1,000 messages in one run are told once, and counted', async (t) => {
  const asks: Receive = async (_message, context) => {
    for (let i = 0; i < 2_500; i++) await context.request('bob', `${i}`)
    return 'done'
  }
  const team = openTeam(t, { ann: asks, bob: heard })
  const told: string[] = []
  team.events.subscribe((event) => void (event.type === 'limit.reached' && told.push(event.option)))
  t.equal((await team.execute('go')).finalOutput, 'done')
  t.same(told, ['messages between "ann" and "bob" in one run'])
  t.match(team.metrics('prometheus'), /^dramatis_chatty_pairs_total 1$/m)
})
