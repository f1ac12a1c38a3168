/** The strategy auction, in virtual time and on real threads. */
import t from 'tap'
import {
  type AgentContext,
  type AgentMessage,
  type AgentRole,
  createTeam,
  defineAgent,
  type OrchestrationConfig,
} from '../../src/index.ts'
import { scriptedModel, type TestTeam, testTeam, virtualClock } from '../../src/testing.ts'
import { silent } from '../kit/team.ts'
import { refuses, says, stage, type Test } from '../team/stage.ts'
import { answers, bids, isBid, reason, refusalOf, sell, sellWhileBusy, takes, winners } from './bidders.ts'

// The strategy auction, option by option, and what becomes of bids that are none: document 002, 2.2.1; requirement
// P8.

t.test('the best bid gets the task, and its answer is the result', async (t) => {
  const result = await sell(t, { a: bids(0.4), b: bids(0.9), c: bids(0.5) })
  t.match(result, { success: true, finalOutput: 'b did it' })
  t.same(winners(result), ['b'])
  t.equal(reason(result), 'The best bid, 0.633333333.')
  const { decisions } = result.orchestrationTrace
  t.match(decisions[0], { question: 'What does "a" bid?', choice: '0.4', reason: 'Fit 0, load 0, score 0.466666667.' })
})

t.test('everybody is asked at once, and only the winner is given the task', async (t) => {
  const { messageHistory } = await sell(t, { a: bids(1), b: bids(0) })
  const asked = messageHistory.filter(({ type }) => type === 'request').slice(1) // the first is the caller's own
  t.same(
    asked.map((message) => [message.recipient, isBid(message)]),
    [
      ['a', true],
      ['b', true],
      ['a', false],
    ],
  )
  t.match(asked[0], { metadata: { bidFor: 'fix the bike' }, content: /fix the bike/ })
  t.equal(asked[2]?.content, 'fix the bike')
})

t.test('a bid may be data, a number alone, or JSON in words', async (t) => {
  for (const said of [
    { structuredData: { bid: 0.9, reason: 'I like bikes' } },
    { structuredData: 0.9 },
    '0.9',
    'Here it is:\n```json\n{"bid": 0.9}\n```',
    'I would say {"bid": 0.9}',
  ])
    t.same(winners(await sell(t, { a: bids(0.8), b: answers(said) })), ['b'], JSON.stringify(said))
  const wordy = await sell(t, { a: answers({ structuredData: { bid: 0.9, reason: 'I like bikes' } }) })
  t.equal(wordy.orchestrationTrace.decisions[0]?.reason, 'Fit 0, load 0, score 0.633333333. I like bikes')
})

t.test('declared capabilities count, and how sure their agent is of them', async (t) => {
  const a = { code: bids(0.5), capabilities: [{ name: 'bike', confidence: 0.3 }] }
  const b = { code: bids(0.5), capabilities: [{ name: 'Bike', confidence: 0.6 }] }
  t.same(winners(await sell(t, { a, b })), ['b'])
  const weights = { capability: 0 }
  t.same(winners(await sell(t, { a, b }, { weights })), ['a'])
  t.same(winners(await sell(t, { a: { ...a, code: bids(0.6) }, b }, { weights: { confidence: 10 } })), ['a'])
  t.same(winners(await sell(t, { a: { ...a, code: bids(0.6) }, b })), ['b'])
})

t.test('who has more to do has less weight, as far as weights.load says', async (t) => {
  const cast = { a: bids(0.9, takes(50)), b: bids(0.5) }
  t.same(winners(await sell(t, cast)), ['a'])
  t.same(winners(await sellWhileBusy(t, cast)), ['b'])
  t.same(winners(await sellWhileBusy(t, cast, { weights: { load: 0 } })), ['a'])
})

t.test('bidders says who may bid', async (t) => {
  const result = await sell(t, { a: bids(1), b: bids(0.2), c: bids(0.3) }, { bidders: ['c', 'b'] })
  t.same(winners(result), ['c'])
  t.notOk(result.messageHistory.some(({ recipient }) => recipient === 'a'))
})

t.test('who is stopped for good or takes no tasks is not asked', async (t) => {
  const dead = { code: defineAgent({ receive: () => '', start: () => Promise.reject(new Error('no')) }) }
  const result = await sell(t, { dead, proud: { code: bids(1), canBeDelegatedTo: false }, c: bids(0.1) })
  t.same(winners(result), ['c'])
  t.notOk(result.messageHistory.some(({ recipient }) => recipient === 'dead' || recipient === 'proud'))
})

t.test('a lower bid than minimumBid is none', async (t) => {
  const cast = { a: { code: bids(0.49), capabilities: ['bike'] }, b: bids(0.5) }
  const result = await sell(t, cast, { minimumBid: 0.5 })
  t.same(winners(result), ['b'])
  t.equal(refusalOf(result, 'a'), 'It bids 0.49, and minimumBid is 0.5.')
})

t.test('bids that weigh the same: by priority, by load, or the first asked', async (t) => {
  const cast = { a: bids(0.5), b: { code: bids(0.5), priority: 1 }, c: { code: bids(0.5), priority: 1 } }
  const tie = await sell(t, cast)
  t.same(winners(tie), ['b'])
  t.equal(reason(tie), 'A tie with "c" at 0.5, broken by priority, then by load.')
  t.same(winners(await sell(t, cast, { tieBreak: 'first' })), ['a'])
  t.same(winners(await sell(t, cast, { tieBreak: 'first', bidders: ['c', 'b'] })), ['c'])
})

t.test('equal bids of auctions at one moment: each agent wins one of them', async (t) => {
  for (const tieBreak of ['priority', 'least_loaded'] as const) {
    const work = takes(1_000)
    const cast = { a: bids(0.5, work), b: bids(0.5, work), c: bids(0.5, work), low: bids(0.2, work) }
    const team = stage<string>(t, cast, { orchestration: { strategy: 'auction', tieBreak } })
    const sales = Promise.all(['bike', 'car', 'boat'].map((broken) => team.execute(`fix the ${broken}`)))
    await team.clock.advance(200_000)
    t.same((await sales).map(({ finalOutput }) => finalOutput).sort(), ['a did it', 'b did it', 'c did it'], tieBreak)
  }
})

t.test('tieBreak least_loaded looks at what waits, also where it weighs nothing', async (t) => {
  const cast = { a: { code: bids(0.5, takes(50)), priority: 9 }, b: bids(0.5) }
  const weights = { load: 0 }
  t.same(winners(await sellWhileBusy(t, cast, { weights, tieBreak: 'least_loaded' })), ['b'])
  t.same(winners(await sellWhileBusy(t, cast, { weights, tieBreak: 'priority' })), ['a'])
})

t.test('a bid that comes after bidTimeoutMs is none, however busy its agent was', async (t) => {
  const slow = answers(async (_message, context) => {
    await context.sleep(200)
    return '1'
  })
  const result = await sell(t, { slow, b: bids(0.1) }, { bidTimeoutMs: 100 })
  t.same(winners(result), ['b'])
  t.equal(refusalOf(result, 'slow'), 'It did not bid within 100 ms.')
  t.same(winners(await sell(t, { slow, b: bids(0.1) }, { bidTimeoutMs: 300 })), ['slow'])

  const busy = { a: bids(1, takes(5_000)), b: bids(0.1) }
  t.same(winners(await sellWhileBusy(t, busy, { bidTimeoutMs: 100 })), ['b'])
})

t.test('what is no bid never wins, and the trace says why', async (t) => {
  const number = 'Its answer has no number in bid.'
  const wrong: [said: Parameters<typeof answers>[0], why: string | RegExp][] = [
    ['the most', number],
    [{ structuredData: {} }, number],
    [{ structuredData: { bid: '1' } }, number],
    [{ structuredData: { bid: null } }, number],
    [{ structuredData: [1] }, number],
    ['{"bid": NaN}', number],
    ['{"bid": 1e999}', 'It bids Infinity; a bid is from 0 to 1.'],
    ['{"bid": -1e999}', 'It bids -Infinity; a bid is from 0 to 1.'],
    ['-0.1', 'It bids -0.1; a bid is from 0 to 1.'],
    [{ structuredData: { bid: 1.01 } }, 'It bids 1.01; a bid is from 0 to 1.'],
    [() => ({ structuredData: { bid: Number.NaN } }), /^It failed: .*structuredData\.bid is NaN/],
    [() => Promise.reject(new Error('no idea')), /^It failed: AGENT_FAILED: .*no idea/],
    [(_message, context) => Promise.reject(context.refuse('not for me')), /^It failed: TASK_REFUSED: .*not for me/],
  ]
  for (const [said, why] of wrong) {
    const result = await sell(t, { a: answers(said), b: bids(0) })
    t.same(winners(result), ['b'])
    t.match(refusalOf(result, 'a'), why)
  }
})

t.test('an answer of an agent that was not asked is no bid of the one that was', async (t) => {
  const passesOn = answers(async (_message, context) => {
    await context.handoff('c', 'bid for me')
    return ''
  })
  const result = await sell(t, { a: passesOn, b: bids(0.1), c: says('{"bid": 1}') }, { bidders: ['a', 'b'] })
  t.same(winners(result), ['b'])
  t.equal(refusalOf(result, 'a'), '"c" answered, which was not asked.')
})

t.test('nobody bids: the run fails and says why', async (t) => {
  const result = await sell(t, { a: says('no'), b: bids(0.1) }, { minimumBid: 0.2 })
  t.match(result, {
    success: false,
    error: {
      code: 'AGENT_FAILED',
      message:
        /^Nobody of a, b bids.*"a": Its answer has no number in bid\. "b": It bids 0\.1, and minimumBid is 0\.2\./,
      details: { bidders: ['a', 'b'], none: [{ agent: 'a' }, { agent: 'b' }] },
    },
  })
  t.same(winners(result), ['nobody'])
})

t.test('who was not asked is named when nobody bids', async (t) => {
  const proud = { code: bids(1), canBeDelegatedTo: false }
  for (const onNoBids of ['fail', 'assign_least_loaded'] as const) {
    const { error } = await sell(t, { proud }, { onNoBids })
    t.match(error?.message, /^Nobody of proud bids for the task\. Not asked: proud .*canBeDelegatedTo/)
    t.notMatch(error?.message, /onNoBids|minimumBid/, 'they would not help')
  }
  const broken = answers(() => Promise.reject(new Error('no idea')))
  t.match((await sell(t, { a: broken, b: says('no') })).error, { message: /Error: no idea\. "b": Its/ })
  const some = await sell(t, { proud, a: says('no') })
  t.match(some.error, { message: /"a": Its answer has no number.* Not asked: proud .*onNoBids/ })
  t.match(some.error?.details, { bidders: ['proud', 'a'], notAsked: ['proud'] })
})

t.test('a bidder that has left the team is not asked', async (t) => {
  const a = bids(0.9, async (_message, context) => {
    await context.sleep(1_000)
    throw new Error('broken')
  })
  for (const listed of [{}, { bidders: ['a' as const, 'b' as const, 'c' as const] }]) {
    const team = stage(t, { a, b: bids(0.5), c: bids(0.1) }, { orchestration: { strategy: 'auction', ...listed } })
    const pending = team.execute('q')
    await team.clock.advance(500)
    const removed = team.removeAgent('b')
    await team.clock.advance(100_000)
    await removed
    const result = await pending
    t.match(result, { success: true, finalOutput: 'c did it' })
    t.same(winners(result), ['a', 'c'])
  }
})

t.test('nobody bids: assign_least_loaded gives the task to who has the least to do', async (t) => {
  const cast = { a: bids(2, takes(5_000)), b: answers('no bid'), c: answers('no bid') }
  const result = await sellWhileBusy(t, cast, { onNoBids: 'assign_least_loaded', bidTimeoutMs: 50 })
  t.match(result, { success: true, finalOutput: 'b did it' })
  t.equal(reason(result), 'Nobody bids; it has the least to do (onNoBids).')
})

t.test('where nobody is left that could get it, assign_least_loaded fails too', async (t) => {
  const proud = { code: bids(1), canBeDelegatedTo: false }
  t.match(await sell(t, { proud }, { onNoBids: 'assign_least_loaded' }), {
    success: false,
    error: { code: 'AGENT_FAILED' },
  })
})

t.test('a winner that refuses or fails: another auction without it', async (t) => {
  const cast = {
    a: bids(0.9, (_message, context) => Promise.reject(context.refuse('too hard'))),
    b: bids(0.8, () => Promise.reject(new Error('broken'))),
    c: bids(0.7),
  }
  const result = await sell(t, cast)
  t.match(result, { success: true, finalOutput: 'c did it', failures: [{ agent: 'a' }, { agent: 'b' }] })
  t.same(winners(result), ['a', 'b', 'c'])
  const again = result.orchestrationTrace.decisions.filter(({ question }) => question === 'Is there another auction?')
  t.match(again, [
    { choice: 'yes', reason: /^"a" failed: TASK_REFUSED: .*too hard/ },
    { choice: 'yes', reason: /^"b" failed: AGENT_FAILED: .*broken/ },
  ])
  t.match(await sell(t, cast, { maxReauctions: 1 }), { success: false, error: { code: 'AGENT_FAILED' } })
  t.match(await sell(t, cast, { maxReauctions: 0 }), { success: false, error: { code: 'TASK_REFUSED' } })
})

t.test('when all winners fail the run ends with the last failure', async (t) => {
  const fails = bids(1, () => Promise.reject(new Error('broken')))
  const result = await sell(t, { a: fails, b: fails }, { maxReauctions: 9 })
  t.match(result, { success: false, error: { code: 'AGENT_FAILED' }, failures: [{ agent: 'a' }, { agent: 'b' }] })
  t.same(winners(result), ['a', 'b'])
  t.match(await sell(t, { a: { code: refuses() } }), { success: false, error: { code: 'AGENT_FAILED' } })
})

t.test('a winner that crashes for good loses the task to the next one', async (t) => {
  const crashes = bids(0.9, async (_message, context) => {
    team.crash('a')
    await context.sleep(60_000)
    return 'never'
  })
  const team = stage(
    t,
    { a: { code: crashes, supervision: { poisonAttempts: 1 } }, b: bids(0.5) },
    { orchestration: { strategy: 'auction' } },
  )
  const pending = team.execute('q')
  await team.clock.advance(100_000)
  const result = await pending
  t.match(result, {
    success: true,
    finalOutput: 'b did it',
    failures: [{ agent: 'a', error: { code: 'AGENT_CRASHED' } }],
  })
  t.same(winners(result), ['a', 'b'])
})

t.test('the auctioneer chooses among the bids, and does not bid', async (t) => {
  let asked: AgentMessage | undefined
  const auctioneer = defineAgent({
    receive(message) {
      asked = message
      return { structuredData: { winner: 'a', reason: 'a is cheap' } }
    },
  })
  const described = { name: 'bike', description: 'repairs of all kinds' }
  const cast = { boss: auctioneer, a: { code: bids(0.1), capabilities: [described] }, b: bids(0.9), c: bids(7) }
  const result = await sell(t, cast, { auctioneer: 'boss' })
  t.match(result, { success: true, finalOutput: 'a did it' })
  t.equal(reason(result), 'The auctioneer "boss" chose it. a is cheap')
  t.match(asked, {
    content:
      /fix the bike[\s\S]*- a: bids 0\.1, fit 1, load 0, score 0\.7\. Can: bike \(repairs of all kinds\)\.\n- b: bids 0\.9/,
    metadata: { bids: [{ agent: 'a', bid: 0.1, fit: 1 }, { agent: 'b' }] },
  })
  t.notMatch(asked?.content, '- c')
})

t.test('an auctioneer that names no bidder, or fails, leaves the best bid', async (t) => {
  for (const boss of [says('{"winner": "c"}'), says('whoever'), refuses('no time')]) {
    const result = await sell(t, { boss, a: bids(0.1), b: bids(0.9), c: bids(7) }, { auctioneer: 'boss' })
    t.same(winners(result), ['b'])
    t.match(reason(result), /^The best bid, .* The auctioneer "boss" chose nobody: /)
  }
})

t.test('with one bid there is nothing to choose', async (t) => {
  const result = await sell(t, { boss: says('?'), a: bids(0.1) }, { auctioneer: 'boss' })
  t.same(winners(result), ['a'])
  t.notOk(result.messageHistory.some(({ recipient }) => recipient === 'boss'))
})

t.test('the texts are short, and can be replaced', async (t) => {
  const prompts = { bid: 'Bid for {query}!', choose: '{query}: {bids}?' }
  const { messageHistory } = await sell(
    t,
    { boss: says('?'), a: bids(0.1), b: bids(0.2) },
    { auctioneer: 'boss', prompts },
  )
  const contents = messageHistory.filter(({ type }) => type === 'request').map(({ content }) => content)
  t.ok(contents.includes('Bid for fix the bike!'))
  t.ok(contents.some((content) => content.startsWith('fix the bike: - b: bids 0.2')))
})

t.test('models bid in the schema that they are given', async (t) => {
  const model = scriptedModel([
    { agent: 'a', reply: { bid: 0.2, reason: 'not my trade' } },
    { agent: 'b', reply: { bid: 0.8, reason: 'I repair bikes' } },
    { agent: 'b', when: 'fix the bike', reply: 'repaired' },
  ])
  const orchestration = { strategy: 'auction' } as const
  const team = testTeam({ agents: [{ name: 'a' }, { name: 'b' }], orchestration }, { model, clock: virtualClock() })
  t.teardown(() => team.close())
  const pending = team.execute('fix the bike')
  await team.clock.advance(10_000)
  t.match(await pending, { success: true, finalOutput: 'repaired' })
  model.assertDone()
})

t.test('the rehearsal model bids and works', async (t) => {
  const orchestration = { strategy: 'auction' } as const
  const agents = [{ name: 'a' }, { name: 'b' }]
  const team = testTeam({ agents, orchestration, models: 'rehearsal' }, { clock: virtualClock() })
  t.teardown(() => team.close())
  const pending = team.execute('fix the bike')
  await team.clock.advance(100_000)
  const result = await pending
  t.match(result, { success: true, rehearsed: true })
  t.equal(refusalOf(result, 'a') ?? refusalOf(result, 'b'), undefined)
})

t.test('the end of the run is no failure of a bidder, a winner or an auctioneer', async (t) => {
  const never = (_message: AgentMessage, context: AgentContext) => context.sleep(1_000_000).then(() => '1')
  const boss = { code: defineAgent({ receive: never }) }
  for (const [cast, config, last] of [
    [{ a: answers(never) }, { bidTimeoutMs: 150_000 }, undefined],
    [{ a: bids(1, never), b: bids(0) }, {}, 'Who gets the task?'],
    [{ boss, a: bids(1), b: bids(0) }, { auctioneer: 'boss' }, 'What does "b" bid?'],
  ] as const) {
    const result = await sell(t, cast, config, { globalTimeoutMs: 100 })
    t.match(result, { success: false, error: { code: 'RUN_TIMEOUT' } })
    t.equal(result.orchestrationTrace.decisions.at(-1)?.question, last)
  }
})

t.test('route by auction asks for bids too', async (t) => {
  const team = stage(
    t,
    { a: bids(0.3), b: bids(0.6), c: bids(5) },
    {
      taskRouting: 'auction',
      orchestration: {
        strategy: 'custom',
        run: async (script) =>
          `${await script.route('one')} ${await script.route('two', { among: ['a', 'c'] })} ${await script.route('three', { among: ['c'] })}`,
      },
    },
  )
  const pending = team.execute('q')
  await team.clock.advance(100_000)
  const result = await pending
  t.equal(result.finalOutput, 'b a null')
  t.same(winners(result), ['b', 'a', 'nobody'])
  t.match(refusalOf(result, 'c'), /It bids 5/)
})

t.test('a script that dies with its bids gets them again, and nobody is asked twice', async (t) => {
  let asked = 0
  const bidder = defineAgent({
    receive(message, { role }) {
      if (!isBid(message)) return `${role.name} did it`
      asked += 1
      return { structuredData: asked / 10 }
    },
  })
  const boss = defineAgent({
    async receive(_message, context) {
      if (asked === 2) team.crash('$orchestrator')
      asked = 9
      await context.sleep(100)
      return { structuredData: { winner: 'a' } }
    },
  })
  const cast = { boss, a: bidder, b: bidder }
  const team: TestTeam<string> = stage<string>(t, cast, { orchestration: { strategy: 'auction', auctioneer: 'boss' } })
  const pending = team.execute('q')
  await team.clock.advance(100_000)
  const result = await pending
  t.match(result, { success: true, finalOutput: 'a did it' })
  t.equal(asked, 9)
  const questions = result.orchestrationTrace.decisions.map(({ question, choice }) => `${question} ${choice}`)
  t.same(questions, ['What does "a" bid? 0.1', 'What does "b" bid? 0.2', 'Who gets the task? a'])
})

// Auctions and routing on real threads.

const fixture = (name: string) => new URL(`../fixtures/${name}.js`, import.meta.url)
const module = fixture('team/bidder')

function start(t: Test, agents: AgentRole[], orchestration: OrchestrationConfig) {
  const team = createTeam({
    agents: agents.map((role) => ({ module, supervision: { poisonAttempts: 1, backoff: { baseMs: 1 } }, ...role })),
    orchestration,
    logger: silent,
    threads: { warmSpares: 0 },
  })
  t.teardown(() => team.close())
  return team
}

t.test('a winner whose thread dies of the work loses the task to the next one', async (t) => {
  const agents = [
    { name: 'a', data: { bid: 0.9, dies: true } },
    { name: 'b', data: { bid: 0.5 } },
  ]
  const result = await start(t, agents, { strategy: 'auction' }).execute('q')
  t.match(result, { success: true, finalOutput: 'b did it', failures: [{ agent: 'a' }] })
  t.same(winners(result), ['a', 'b'])
})

t.test('a script in a thread routes as one in the host does, by tools in modules too', async (t) => {
  const agents = [
    { name: 'a', data: { bid: 0.2 } },
    { name: 'b', data: { bid: 0.5 }, tools: [{ module: fixture('tools/echo') }] },
  ]
  const result = await start(t, agents, { strategy: 'custom', module: fixture('team/routes') }).execute('use echo')
  const found = 'capability_match: b, load_balance: b, auction: b, round_robin: a, explicit: null'
  t.match(result, { success: true, finalOutput: found })
})
