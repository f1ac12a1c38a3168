/** Document 000's coordinator: routing, votes, sub-tasks and their results. How a task is taken apart is in decompose.test.ts. */
import t from 'tap'
import { z } from 'zod'
import { type AgentDefinition, defineAgent, defineTool, type MultiAgentResult } from '../../src/index.ts'
import type { CollaborateConfig, SubTask } from '../../src/protocols.ts'
import { scriptedModel, testTeam } from '../../src/testing.ts'
import { pluck } from '../kit/lists.ts'
import { after, type Cast, echo, type Options, refuses, says, stage, type Test, throws } from '../team/stage.ts'

type Config = Omit<CollaborateConfig, 'strategy'>

const team = <N extends string>(t: Test, cast: Cast<N>, config: Config = {}, options: Options<string> = {}) =>
  stage<string>(t, cast, { ...options, orchestration: { strategy: 'collaborate', ...config } })

/** An agent that takes every task apart in that way, and echoes all else. */
const splits = (...parts: unknown[]): AgentDefinition =>
  defineAgent({
    receive: ({ content, structuredData }, { role }) =>
      structuredData === null ? JSON.stringify(parts) : `${role.name}: ${content}`,
  })

/** Does what is about that word, and refuses all else. */
const onlyFor = (word: string): AgentDefinition =>
  defineAgent({
    receive({ content }, context) {
      if (content.includes(word)) return `${content}, done`
      throw context.refuse('not for me')
    },
  })

const choices = ({ orchestrationTrace }: MultiAgentResult) => orchestrationTrace.decisions.map(({ choice }) => choice)
const asked = ({ messageHistory }: MultiAgentResult) =>
  messageHistory.filter(({ type, sender }) => type === 'request' && sender === '$orchestrator')

const MathSkill = defineTool({
  name: 'MathSkill',
  description: 'Calculates',
  input: z.object({ expression: z.string() }),
  run: ({ expression }) => expression.length,
})
const WebSearch = defineTool({
  name: 'WebSearch',
  description: 'Searches',
  input: z.object({ query: z.string() }),
  run: ({ query }) => query,
})

t.test('the three tasks of document 000 go to whom it says', async (t) => {
  const cast = {
    SearchExpert: { code: echo, capabilities: ['search', 'news lookup'], tools: [WebSearch] },
    CalcBot: { code: echo, tools: [MathSkill] },
  }
  const bench = team(t, cast, { decomposer: false, aggregation: 'vote' })
  const tasks: [task: string, agent: string][] = [
    ["search for today's weather", 'SearchExpert'],
    ['calculate value of MathSkill expression 2+2', 'CalcBot'],
    ['Use WebSearch for latest articles', 'SearchExpert'],
  ]
  for (const [task, agent] of tasks) {
    const result = await bench.execute(task)
    t.equal(result.finalOutput, `${agent}: ${task}`)
    t.same(choices(result), [agent])
  }
})

t.test('a name among the tools that no tool stands behind is a skill to route by', async (t) => {
  const cast = { CalcBot: { code: echo, tools: [MathSkill] }, SearchExpert: { code: echo, tools: ['WebSearch'] } }
  const result = await team(t, cast, { decomposer: false }).execute('Use WebSearch for latest articles')
  t.equal(result.finalOutput, 'SearchExpert: Use WebSearch for latest articles', String(result.error))
})

t.test('a task that is for nobody goes to all, whose answers are voted on', async (t) => {
  const cast = {
    x: { code: says('Alpha'), weight: 2.5, capabilities: ['fly'] },
    y: says('Beta'),
    z: says('Beta'),
  }
  const weighted = await team(t, cast, { decomposer: false }).execute('What to do?')
  t.equal(weighted.finalOutput, 'Alpha')
  t.same(choices(weighted), ['nobody', 'all', 'Alpha'])
  const byMajority = await team(t, { ...cast, y: { code: says('Beta'), weight: null } }, { decomposer: false }).execute(
    'What to do?',
  )
  t.equal(byMajority.finalOutput, 'Beta')
})

t.test('a task that is for nobody goes to those alone that take tasks', async (t) => {
  const closed = { code: says('Alpha'), canBeDelegatedTo: false, weight: 9 }
  const options = { decomposer: false, aggregation: 'join' } as const
  const result = await team(t, { x: closed, y: says('Beta'), z: says('Gamma') }, options).execute('What to do?')
  t.equal(result.finalOutput, 'Beta\nGamma')
  t.same(pluck(asked(result), 'recipient'), ['y', 'z'])
  const nobody = await team(t, { x: closed, y: closed }, { decomposer: false }).execute('What to do?')
  t.match(nobody.error, { code: 'DELEGATION_REFUSED', message: /canBeDelegatedTo is false in the roles of x, y/ })
  const planner = says(JSON.stringify(['one', 'two']))
  const parts = await team(t, { x: closed, planner }, { teammates: ['x'], decomposer: 'planner' }).execute(
    'What to do?',
  )
  t.match(parts.error, { message: /No teammate takes tasks/ })
})

t.test('votes are by structure, and a tie goes to the first', async (t) => {
  const data = (structuredData: object) => says({ structuredData })
  const cast = { a: data({ n: 2, m: 1 }), b: data({ m: 3, n: 1 }), c: data({ n: 1, m: 3 }) }
  t.equal((await team(t, cast, { decomposer: false }).execute('?')).finalOutput, '{"m":3,"n":1}')
  const tie = { a: says('A'), b: says('B') }
  t.equal((await team(t, tie, { decomposer: false }).execute('?')).finalOutput, 'A')
})

t.test('answers to a whole task are joined or synthesized where the aggregation says so', async (t) => {
  const cast = { a: says('A'), b: throws('no idea'), c: says('C') }
  const lines = (await team(t, cast, { decomposer: false, aggregation: 'join' }).execute('?')).finalOutput
  t.match(lines, /^A\n\("b" failed: .*no idea.*\)\nC$/)

  const config: Config = { decomposer: false, aggregation: 'synthesize', synthesizer: 'editor' }
  const result = await team(t, { editor: echo, ...cast }, config).execute('Why?')
  t.match(result.finalOutput, /^editor: Members of a team/)
  t.match(
    result.finalOutput,
    /# Task\n\nWhy\?\n\n# Results\n\n## a\n\nA\n\n## b\n\n\(no answer: .*no idea.*\)\n\n## c\n\nC$/,
  )
  t.match(asked(result).at(-1)?.structuredData, {
    query: 'Why?',
    outputs: [{ agent: 'a', content: 'A' }, { ok: false }, {}],
  })
})

t.test('a model reads a sub-task once, and the answers to a whole task once', async (t) => {
  const model = scriptedModel([
    { agent: 'digger', reply: 'dug up' },
    { agent: 'editor', when: /# Results/, reply: 'All done.' },
    { agent: 'digger', reply: 'dug up' },
    { agent: 'editor', when: /# Results/, reply: 'All done.' },
  ])
  const agents = [{ name: 'planner' }, { name: 'digger', capabilities: ['dig'] }, { name: 'editor' }]
  for (const parts of [['dig deep'], []]) {
    const orchestration = {
      strategy: 'collaborate' as const,
      decomposer: 'planner',
      teammates: ['planner', 'digger'],
      aggregation: 'synthesize' as const,
      synthesizer: 'editor',
    }
    const bench = testTeam<string>({ agents, orchestration }, { model, modules: { planner: splits(...parts) } })
    t.teardown(() => bench.close())
    t.equal((await bench.execute('What?')).finalOutput, 'All done.')
  }
  model.assertDone()
  for (const { agent, prompt } of model.calls) {
    t.notMatch(prompt, /subTaskId|"outputs"|"results"/, agent)
    t.equal(prompt.split('dug up').length - 1, agent === 'editor' ? 1 : 0)
  }
})

t.test('a teammate that fails fails the run of its task, and so do all', async (t) => {
  const one = await team(
    t,
    { a: { code: throws('out of order'), capabilities: ['sing'] }, b: echo },
    { decomposer: false },
  ).execute('Sing!')
  t.match(one, { success: false, error: { code: 'AGENT_FAILED', message: /out of order/ } })
  const all = await team(t, { a: throws('no'), b: refuses('not mine') }, { decomposer: false }).execute('Dance!')
  t.match(all.error?.message, /1 of 2 agents had to answer, 0 did.*"a".*no.*"b".*not mine/)
})

t.test('a teammate that is added while a run is under way gets what is routed from then on', async (t) => {
  const model = scriptedModel([{ agent: 'pilot', reply: 'flown' }])
  const modules = {
    planner: splits('walk', 'fly'),
    walker: defineAgent({
      async receive() {
        await bench.addAgent({ name: 'pilot', capabilities: ['fly'] })
        return 'walked'
      },
    }),
  }
  const agents = [{ name: 'planner' }, { name: 'walker', capabilities: ['walk'] }]
  const orchestration = { strategy: 'collaborate' as const, decomposer: 'planner' }
  const bench = testTeam<string>({ agents, orchestration }, { modules, model })
  t.teardown(() => bench.close())
  t.equal((await bench.execute('Go!')).finalOutput, 'walked\nflown')
})

t.test('teammates says who takes part, and a synthesizer does not by itself', async (t) => {
  const cast = { a: echo, b: echo, editor: echo }
  const two = await team(t, cast, { decomposer: false, teammates: ['editor', 'b'], aggregation: 'join' }).execute('Hi')
  t.equal(two.finalOutput, 'editor: Hi\nb: Hi')
  const config: Config = { decomposer: false, aggregation: 'synthesize', synthesizer: 'editor' }
  t.same(pluck(asked(await team(t, cast, config).execute('Hi')), 'recipient'), ['a', 'b', 'editor'])
})

t.test('sub-tasks are routed one by one, and done one after the other', async (t) => {
  const cast = {
    llm: splits('Find flights', 'Find a hotel', 'Find flights back'),
    air: { code: after(50, 'by air'), capabilities: ['Flight'] },
    bed: { code: after(20, 'in bed'), capabilities: ['hotel'] },
  }
  const trip = team(t, cast, { decomposer: 'llm' })
  const pending = trip.execute('Plan a trip')
  await trip.clock.advance(1_000)
  const result = await pending
  t.equal(result.finalOutput, 'by air\nin bed\nby air')
  t.same(choices(result), ['into 3', 'air', 'bed', 'air'])
  const turns = result.orchestrationTrace.agentActivations.filter(({ agent }) => agent === 'air' || agent === 'bed')
  t.same(
    turns.map(({ startedAt, endedAt }) => endedAt - startedAt),
    [50, 20, 50],
  )
  t.ok(turns.every(({ startedAt }, at) => at === 0 || startedAt >= turns[at - 1]!.endedAt))
})

t.test('a sub-task comes with its id, its parent and its input', async (t) => {
  const cast = { llm: splits('Find flights'), air: { code: echo, capabilities: ['flight'] } }
  const result = await team(t, cast, { decomposer: 'llm' }).execute('Plan a trip')
  t.same(asked(result)[1]?.structuredData, {
    subTaskId: `${result.runId}.1`,
    parentTaskId: result.runId,
    assignedAgentRole: 'air',
    subTaskInput: { task: 'Find flights' },
  })
})

t.test('errors and sub-tasks that nobody takes stand in their lines', async (t) => {
  const cast = {
    llm: splits('sing', 'fly', 'dance'),
    singer: { code: throws('hoarse'), capabilities: ['sing'] },
    dancer: { code: after(1, 'danced'), capabilities: ['dance'] },
  }
  const config: Config = { decomposer: 'llm', teammates: ['singer', 'dancer'] }
  const first = team(
    t,
    {
      ...cast,
      dancer: { code: onlyFor('dance'), capabilities: ['dance'] },
      singer: { code: onlyFor('x'), capabilities: ['sing'] },
    },
    config,
  )
  const lines = (await first.execute('Show!')).finalOutput?.split('\n')
  t.match(lines?.[0], /^\(sub-task 1 failed: .*not for me.*\)$/)
  t.match(lines?.[1], /^\(sub-task 2 failed: Nobody takes it\. "singer": .*not for me.*; "dancer": .*not for me.*\)$/)
  t.equal(lines?.[2], 'dance, done')

  const second = team(t, cast, config)
  const pending = second.execute('Show!')
  await second.clock.advance(100)
  t.match(await pending, { success: true, finalOutput: /^\(sub-task 1 failed: .*hoarse.*\)\ndanced\ndanced$/ })
})

t.test('the run fails if no sub-task comes to a result, and says of each why', async (t) => {
  const result = await team(
    t,
    { llm: splits('sing', 'fly'), a: throws('hoarse') },
    { decomposer: 'llm', teammates: ['a'] },
  ).execute('Show!')
  t.match(result, { success: false, error: { code: 'AGENT_FAILED' } })
  t.match(result.error?.message, /sub-task 1 failed: .*hoarse.*\n.*sub-task 2 failed: .*hoarse/)
})

t.test('a sub-task for which no teammate is left says so', async (t) => {
  const modules = {
    planner: splits('walk', 'rest'),
    walker: defineAgent({
      async receive(_message, context) {
        void bench.removeAgent('walker')
        await context.sleep(0)
        return 'walked'
      },
    }),
  }
  const agents = [{ name: 'planner' }, { name: 'walker' }]
  const orchestration = { strategy: 'collaborate' as const, decomposer: 'planner', teammates: ['walker'] }
  const bench = testTeam<string>({ agents, orchestration }, { modules })
  t.teardown(() => bench.close())
  const { error } = await bench.execute('Go!')
  t.match(error?.message, /sub-task 2 failed: There is no teammate to take it/)
})

t.test('the results of sub-tasks are synthesized with who found what, or voted on', async (t) => {
  const cast = {
    llm: splits('fly', 'sleep'),
    air: { code: says('BA 12'), capabilities: ['fly'] },
    bed: { code: throws('full'), capabilities: ['sleep'] },
  }
  const one = await team(t, cast, { decomposer: 'llm', aggregation: 'synthesize' }).execute('Go!')
  const last = asked(one).at(-1)
  t.equal(last?.recipient, 'llm', 'the decomposer, as no synthesizer is named')
  t.match(
    last?.content,
    /# Task\n\nGo!\n\n# Results\n\n## 1\. fly \(by air\)\n\nBA 12\n\n## 2\. sleep \(by bed\)\n\n\(sub-task 2 failed: .*full/,
  )
  t.match(last?.structuredData, {
    query: 'Go!',
    results: [
      { task: 'fly', status: 'COMPLETED', resultData: 'BA 12' },
      { status: 'FAILED', errorDetails: { message: /full/, type: 'AGENT_FAILED' } },
    ],
  })

  const three = {
    llm: splits('a', 'b', 'c'),
    x: { code: says('X'), capabilities: ['a'] },
    y: { code: says('Y'), capabilities: ['b', 'c'] },
  }
  t.equal((await team(t, three, { decomposer: 'llm', aggregation: 'vote' }).execute('Go!')).finalOutput, 'Y')
})

t.test('sub-tasks run in the order of their dependencies, those that have none side by side', async (t) => {
  const diamond = splits(
    { task: 'shop', dependsOn: [] },
    { task: 'cook', dependsOn: [1] },
    { task: 'lay', dependsOn: [1] },
    { task: 'eat', dependsOn: [2, 3] },
  )
  const cast = {
    llm: diamond,
    cook: { code: after(100, 'well'), capabilities: ['shop', 'cook', 'eat'] },
    host: { code: after(100, 'fine'), capabilities: ['lay'] },
  }
  const dinner = team(t, cast, { decomposer: 'llm', order: 'dependencies' })
  const pending = dinner.execute('Dinner!')
  await dinner.clock.advance(1_000)
  const result = await pending
  t.equal(result.finalOutput, 'well\nwell\nfine\nwell')
  t.equal(result.executionTimeMs, 300)
  t.same(choices(result), ['into 4', 'cook', 'cook', 'host', 'cook'])
  const [, , cook, , eat] = asked(result).map(({ structuredData }) => structuredData as SubTask)
  t.equal(cook?.contextSummary, '## 1. shop (by cook)\n\nwell')
  t.equal(eat?.contextSummary, '## 2. cook (by cook)\n\nwell\n\n## 3. lay (by host)\n\nfine')
})

t.test('what builds on a failed sub-task is not run, and says so; others go on', async (t) => {
  const parts = splits(
    { task: 'shop', dependsOn: [] },
    { task: 'cook', dependsOn: [1] },
    { task: 'lay', dependsOn: [] },
  )
  const cast = {
    llm: parts,
    cook: { code: throws('closed'), capabilities: ['shop', 'cook'] },
    host: { code: says('fine'), capabilities: ['lay'] },
  }
  const result = await team(t, cast, { decomposer: 'llm', order: 'dependencies' }).execute('Dinner!')
  t.match(
    result.finalOutput,
    /^\(sub-task 1 failed: .*closed.*\)\n\(sub-task 2 failed: It was not run\. It builds on what failed: sub-task 1\.\)\nfine$/,
  )
  t.match(result.orchestrationTrace.decisions.at(-1), { question: 'Is sub-task 2 (cook) run?', choice: 'no' })
  t.equal(asked(result).length, 3)
})

t.test('workers of one role share its sub-tasks, and two of a role do two at a time', async (t) => {
  for (const [instances, ms] of [
    [1, 200],
    [2, 100],
  ] as const) {
    const parts = splits({ task: 'dig', dependsOn: [] }, { task: 'dig more', dependsOn: [] })
    const cast = { llm: parts, digger: { code: after(100, 'dug'), capabilities: ['dig'], instances } }
    const garden = team(t, cast, { decomposer: 'llm', order: 'dependencies' })
    const pending = garden.execute('Dig!')
    await garden.clock.advance(1_000)
    t.match(await pending, { finalOutput: 'dug\ndug', executionTimeMs: ms })
  }
})

t.test('texts of the strategy can be replaced', async (t) => {
  const prompts = { decompose: 'Split: {query}', synthesize: '{results} => {query}' }
  const result = await team(
    t,
    { llm: splits('fly') },
    { decomposer: 'llm', aggregation: 'synthesize', prompts },
  ).execute('Go!')
  t.same(pluck(asked(result), 'content'), ['Split: Go!', 'fly', '## 1. fly (by llm)\n\nllm: fly => Go!'])
})
