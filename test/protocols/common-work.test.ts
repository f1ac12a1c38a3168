/** Collaborate and blackboard: agents that take their work themselves, from a list of tasks or from the entries. */
import t from 'tap'
import { z } from 'zod'
import type { OrchestratorContext } from '../../src/actors/definition/context.ts'
import { type AgentDefinition, createTeam, defineAgent, defineTool, type MultiAgentResult } from '../../src/index.ts'
import { protocolFrom } from '../../src/protocols/index.ts'
import type { CollaborateConfig, SubTask } from '../../src/protocols.ts'
import { RunAbortedError } from '../../src/shared/errors.ts'
import { scriptedModel, testTeam } from '../../src/testing.ts'
import { pluck } from '../kit/lists.ts'
import { after, type Cast, echo, type Options, refuses, says, stage, type Test, throws } from '../team/stage.ts'
import { asked, contributes, interests, play, requests, silent, survey, told, verdict, writes } from './contributors.ts'

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
const askedOf = ({ messageHistory }: MultiAgentResult) =>
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
  t.same(pluck(askedOf(result), 'recipient'), ['y', 'z'])
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
  t.match(askedOf(result).at(-1)?.structuredData, {
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
  t.same(pluck(askedOf(await team(t, cast, config).execute('Hi')), 'recipient'), ['a', 'b', 'editor'])
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
  t.same(askedOf(result)[1]?.structuredData, {
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
  const last = askedOf(one).at(-1)
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
  const [, , cook, , eat] = askedOf(result).map(({ structuredData }) => structuredData as SubTask)
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
  t.equal(askedOf(result).length, 3)
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
  t.same(pluck(askedOf(result), 'content'), ['Split: Go!', 'fly', '## 1. fly (by llm)\n\nllm: fly => Go!'])
})

// The blackboard protocol: who works when comes from the entries. Each option, and each end.

const quiet = { debug() {}, info() {}, warn() {}, error() {} }

t.test('the order of three agents emerges from the entries, until one is a solution', async (t) => {
  const result = await play(t, survey, { interests })
  t.same(asked(result), ['collector', 'analyst', 'writer', 'analyst', 'writer'])
  t.same(told(result, 'analyst'), ['data.rain', 'data.wind'])
  t.same(told(result, 'writer'), ['finding.rain', 'finding.wind'])
  t.match(result, {
    success: true,
    finalOutput: 'data.rain has 2 and data.wind has 3',
    failures: [],
    blackboardState: { query: 'q', 'data.rain': [1, 2], report: /and/ },
  })
  t.match(verdict(result), { question: 'Which entry is the solution?', choice: 'report', reason: /"writer" wrote it/ })
})

t.test('an entry is worked on while the turn that wrote it goes on', async (t) => {
  const asks = contributes(async (_keys, { blackboard }) => {
    await blackboard.write('question', 1, 'fact')
    const { value } = await blackboard.waitFor('answer')
    await blackboard.write('end', value, 'solution')
  })
  const result = await play(
    t,
    { a: asks, b: writes('answer', 'fact', 42) },
    { interests: { a: ['query'], b: ['question'] } },
  )
  t.match(result, { finalOutput: '42', executionTimeMs: 0 })
})

t.test(
  'who is at work is told of all that came meanwhile in its next turn, each key in its newest version',
  async (t) => {
    const many = contributes(async (_keys, { blackboard }) => {
      for (const [key, value] of [
        ['one', 1],
        ['two', 1],
        ['one', 2],
        ['three', 1],
      ] as const)
        await blackboard.write(key, value, 'fact')
      await blackboard.write('better', 2, 'fact', { supersedes: 'two' })
    })
    const slow = contributes((_keys, context) => context.sleep(10))
    const result = await play(t, { many, slow }, { interests: { many: ['query'], slow: ['**'] } })
    t.same(told(result, 'slow'), ['', 'one,three,better'])
  },
)

t.test('an agent gets the query alone at first, then with the new entries as text and as data', async (t) => {
  const result = await play(
    t,
    { a: writes('x.1', 'fact', { n: 1 }), b: silent },
    { interests: { a: ['query'], b: ['x.*'] } },
  )
  t.match(requests(result, 'a'), [{ content: 'q', structuredData: { query: 'q', entries: [] } }])
  t.match(requests(result, 'b'), [
    {
      content: 'q\n\n# New on the blackboard\n\n- x.1 (fact by a): {"n":1}',
      structuredData: { query: 'q', entries: [{ key: 'x.1', author: 'a', entryType: 'fact', value: { n: 1 } }] },
    },
  ])
})

t.test("with texts of one's own it says these, whatever the values contain", async (t) => {
  const prompts = {
    begin: 'Begin with {query}.',
    contribute: '{entries} / {query}',
    synthesize: 'Sum up: {entries}',
  }
  const options = { interests: { a: ['query'], b: ['x.*'] }, synthesizer: 'sum', prompts }
  const result = await play(t, { a: writes('x.1', 'fact', 'a {query}'), b: silent, sum: says('so be it') }, options)
  t.match(requests(result, 'a'), [{ content: 'Begin with q.' }])
  t.match(requests(result, 'b'), [{ content: '- x.1 (fact by a): a {query} / q' }])
  t.match(requests(result, 'sum'), [{ content: 'Sum up: - x.1 (fact by a): a {query}' }])
  const blank = await play(t, { a: silent }, { prompts: { begin: undefined } })
  t.match(requests(blank, 'a'), [{ content: 'q' }], 'a text that is undefined is left as it is')
})

t.test('without interests an agent is told of all that others write, and not of its own', async (t) => {
  const once = (key: string) =>
    contributes(async (_keys, { blackboard }) => {
      if (!(await blackboard.read(key))) await blackboard.write(key, 1, 'fact')
    })
  const result = await play(t, { a: once('a'), b: once('b') })
  t.same(
    [told(result, 'a'), told(result, 'b')],
    [
      ['', 'b'],
      ['', 'a'],
    ],
  )
  t.match(verdict(result), { choice: 'none', reason: /^All was quiet/ })
})

t.test('if the interests of nobody take the query, all begin', async (t) => {
  const result = await play(t, { a: writes('x'), b: silent }, { interests: { a: ['y'], b: ['x'] } })
  t.same(told(result, 'b'), ['', 'x'])
  t.match(result.orchestrationTrace.decisions[0], { question: 'Who begins?', choice: 'all' })
})

t.test('an agent that is interested in what it writes itself is asked again, up to maxRounds', async (t) => {
  const cast = { a: writes('draft') }
  const interests = { a: ['query', 'draft'] }
  const result = await play(t, cast, { interests, maxRounds: 3 })
  t.same(told(result, 'a'), ['', 'draft', 'draft'])
  t.match(verdict(result), { choice: 'none', reason: /^maxRounds: there is more for a, asked 3 times/ })
  t.equal(requests(await play(t, cast, { interests })).length, 10)
})

t.test('two that answer each other for ever end with maxRounds', async (t) => {
  const result = await play(t, { a: writes('ping'), b: writes('pong') }, { maxRounds: 4 })
  t.same([requests(result, 'a').length, requests(result, 'b').length], [4, 4])
  t.match(result, { success: true, finalOutput: /^- p.ng \(fact by .\): p.ng!\n- p.ng \(fact by .\): p.ng!$/ })
})

t.test('agents says who contributes', async (t) => {
  const result = await play(t, { a: throws(), b: writes('x') }, { agents: ['b'] })
  t.match(result, { finalOutput: '- x (fact by b): x!', failures: [] })
})

t.test('what is quiet without a solution ends in a list of the entries with their authors', async (t) => {
  const cast = { a: writes('x', 'fact', 'X'), b: writes('y', 'guess', { n: 1 }) }
  const result = await play(t, cast, { interests: { a: ['query'], b: ['x'] } })
  t.equal(result.finalOutput, '- x (fact by a): X\n- y (guess by b): {"n":1}')
  t.match(verdict(result), {
    question: 'Which entry is the solution?',
    choice: 'none',
    reason: /^All was quiet for 0 ms/,
  })
})

t.test('a run in which nobody wrote is no success, whoever could have made an answer of it', async (t) => {
  const message = /^Nobody wrote on the blackboard, so the team has no answer: "a", "b" answered without an entry/
  const failed = { success: false, error: { code: 'AGENT_FAILED', message } }
  t.match(await play(t, { a: silent, b: silent }), failed)
  t.match(await play(t, { a: silent, b: silent, sum: says('an answer') }, { synthesizer: 'sum' }), failed)
  const one = await play(t, { a: throws(), b: silent })
  t.match(one.error, { message: /: "b" answered without an entry/ })
})

t.test('without a key a team of models writes on its blackboard, too, in each run of a thread', async (t) => {
  const agents = ['ann', 'bob'].map((name) => ({ name }))
  const team = createTeam({ agents, models: 'rehearsal', logger: quiet, orchestration: { strategy: 'blackboard' } })
  t.teardown(() => team.close())
  for (const query of ['What is it?', 'What else?', 'What else?']) {
    const { finalOutput, error, messageHistory } = await team.execute(query, { threadId: 'talk' })
    t.equal(error, null)
    t.match(finalOutput, /\[rehearsal\].* by (ann|bob)\)/)
    t.equal(finalOutput?.split('\n').length, 2, 'each under a key of its own')
    const written = messageHistory.filter(({ type }) => type === 'publish').map(({ sender }) => sender)
    t.same(written.toSorted(), ['$orchestrator', 'ann', 'bob'], 'each once')
  }
})

t.test('a team in which nobody may write is refused at the start, and one in which one may is not', async (t) => {
  const reader = { code: silent, trust: 'untrusted' } as const
  t.throws(() => stage(t, { a: reader, b: reader }, { orchestration: { strategy: 'blackboard' } }), {
    code: 'CONFIGURATION',
    message: /may write on the blackboard.*Trust one of them more/,
    details: { path: 'orchestration.agents' },
  })
  const only = { strategy: 'blackboard', agents: ['a'] } as const
  t.throws(() => stage(t, { a: reader, b: silent }, { orchestration: only }), { code: 'CONFIGURATION' })
  t.ok(stage(t, { a: reader, b: silent }, { orchestration: { strategy: 'blackboard' } }))
})

t.test('synthesizer makes the answer if there is no solution, and does not contribute', async (t) => {
  const cast = { a: writes('x', 'fact', 'X'), sum: says('so be it') }
  const result = await play(t, cast, { synthesizer: 'sum' })
  t.equal(result.finalOutput, 'so be it')
  t.match(requests(result, 'sum'), [
    {
      content: /# Question\n\nq\n\n# Blackboard\n\n- x \(fact by a\): X$/,
      structuredData: { entries: [{ key: 'x' }] },
    },
  ])
  const solved = await play(t, { ...cast, a: writes('x', 'solution', 'X') }, { synthesizer: 'sum' })
  t.equal(solved.finalOutput, 'X')
  t.same(requests(solved, 'sum'), [])
})

t.test('solutionType says which entries are solutions; data is the result as data', async (t) => {
  const cast = { a: writes('x', 'verdict', { guilty: false }), b: writes('y', 'solution') }
  const result = await play(t, cast, { solutionType: 'verdict', interests: { b: ['never'], a: ['query'] } })
  t.equal(result.finalOutput, '{"guilty":false}')
})

t.test('a solution cancels who is at work, and lets its author end', async (t) => {
  const author = contributes(async (_keys, context) => {
    await context.sleep(10)
    await context.publish('first', 'weak', 'solution', { confidence: 0.4 })
    await context.sleep(10)
    await context.publish('second', 'strong', 'solution', { confidence: 0.9 })
    await context.publish('third', 'as strong', 'solution', { confidence: 0.9 })
  })
  const result = await play(t, { author, other: after(10_000) })
  t.match(result, {
    finalOutput: 'strong',
    executionTimeMs: 20,
    failures: [],
    agentOutputs: { author: [{ content: 'done' }] },
  })
  t.same(Object.values(result.taskCompletion).sort(), ['cancelled', 'completed'])
  t.match(verdict(result), { choice: 'second', reason: /the surest of 3\. Cancelled: other\./ })
})

t.test('quietMs keeps the run open for entries from elsewhere, and begins anew with each', async (t) => {
  const cast = { a: writes('x', 'solution'), b: silent }
  const interests = { a: ['seed'], b: ['query'] }
  const team = stage(t, cast, { orchestration: { strategy: 'blackboard', interests, quietMs: 100 } })
  const run = team.launch('q')
  await team.clock.advance(90)
  await run.blackboard?.write('noise', 1, 'fact')
  await team.clock.advance(90)
  await run.blackboard?.write('seed', 1, 'fact')
  await team.clock.advance(0)
  t.match(await run.result, { finalOutput: 'x!', executionTimeMs: 180 })

  const quiet = await play(t, { a: silent }, { quietMs: 100 })
  t.equal(quiet.executionTimeMs, 100)
  t.match(verdict(quiet), { reason: /quiet for 100 ms/ })
})

t.test('what the caller writes at once is there for those whom it interests', async (t) => {
  const team = stage(
    t,
    { a: writes('x', 'solution'), b: silent },
    { orchestration: { strategy: 'blackboard', interests: { a: ['seed'], b: ['query'] } } },
  )
  const run = team.launch('q')
  await run.blackboard?.write('seed', 1, 'fact')
  await team.clock.advance(0)
  t.match(await run.result, { finalOutput: 'x!' })
})

t.test(
  'of two that write the same version one is refused, and is asked again when it is told of the other',
  async (t) => {
    const claims = contributes(async (_keys, { blackboard }) => {
      if (await blackboard.read('claim')) return
      await blackboard.write('claim', 1, 'fact', { ifVersion: 0 })
    })
    const result = await play(t, { a: claims, b: claims })
    t.match(result, { success: true, finalOutput: '- claim (fact by a): 1' })
    t.match(result.failures, [{ agent: 'b', error: { details: { cause: { code: 'MESSAGE_REJECTED' } } } }])
    t.same(told(result, 'b'), ['', 'claim'])
  },
)

t.test('on a board of the whole team what stands is told, but an old solution ends no later run', async (t) => {
  const solver = defineAgent({
    async receive({ content }, context) {
      if (content === 'first') await context.publish('old', 'O', 'solution')
    },
  })
  const orchestration = { strategy: 'blackboard' as const, interests: { solver: ['query'] } }
  const team = stage(t, { solver, b: silent }, { enableBlackboard: { scope: 'team' }, orchestration })
  t.equal((await team.execute('first')).finalOutput, 'O')
  const result = await team.execute('second')
  t.same(told(result, 'b'), ['old'])
  t.match(verdict(result), { choice: 'none' })
})

// The blackboard protocol when agents fail, crash or collide, and when the run is cancelled.

t.test('who fails or refuses is listed in failures, and the others go on', async (t) => {
  const result = await play(t, { a: throws('broken'), b: refuses('not mine'), c: writes('x', 'solution') })
  t.match(result, { success: true, finalOutput: 'x!' })
  const later = await play(t, { a: throws('broken'), b: refuses('not mine'), c: writes('x') }, { maxRounds: 2 })
  t.match(later, { success: true, finalOutput: '- x (fact by c): x!' })
  t.same(later.failures.map(({ agent, error }) => `${agent} ${error.code}`).sort(), [
    'a AGENT_FAILED',
    'a AGENT_FAILED',
    'b TASK_REFUSED',
    'b TASK_REFUSED',
  ])
})

t.test('a run in which all fail before anybody wrote fails, and says why of each', async (t) => {
  const result = await play(t, { a: throws('one'), b: refuses('two') })
  t.match(result.error, {
    code: 'AGENT_FAILED',
    details: { failures: [{ agent: 'a' }, { agent: 'b', code: 'TASK_REFUSED' }] },
  })
})

t.test('a crash of any agent in its turn changes neither the result nor the entries', async (t) => {
  for (const agent of Object.keys(survey)) {
    const team = stage(t, survey, { orchestration: { strategy: 'blackboard', interests } })
    team.events.subscribe((event) => {
      const isAtWork =
        agent === 'collector' // after it has written one of its entries
          ? event.type === 'blackboard' && event.entry.key === 'data.rain'
          : event.type === 'turn.started' && event.agent === agent && event.attempt === 1
      if (isAtWork && team.health().agents[agent]?.restarts === 0) team.crash(agent)
    })
    const run = team.launch('q')
    await team.clock.advance(100_000)
    t.match(await run.result, { finalOutput: 'data.rain has 2 and data.wind has 3', failures: [] })
    t.equal(team.health().agents[agent]?.restarts, 1, agent)
    for (const key of ['data.rain', 'data.wind', 'finding.rain', 'finding.wind', 'report'])
      t.equal((await run.blackboard?.getHistory(key))?.length, 1, `${agent}: ${key}`)
  }
})

t.test('cancelled in the middle it ends at once, and leaves no agent at work', async (t) => {
  for (const [agents, quietMs] of [
    [['a'], 1_000], // while it waits for quiet
    [['a', 'b'], 0], // while an agent is at work
  ] as const) {
    const orchestration = { strategy: 'blackboard' as const, agents: [...agents], quietMs }
    const team = stage(t, { a: writes('x'), b: after(20) }, { orchestration })
    const run = team.launch('q')
    await team.clock.advance(10)
    await run.cancel('enough')
    t.match(await run.result, { success: false, executionTimeMs: 10, error: { code: 'RUN_ABORTED' }, failures: [] })
    await team.clock.advance(0)
    t.match(team.health().agents, { a: { status: 'idle', inFlight: 0 }, b: { status: 'idle', inFlight: 0 } })
    t.same((await run.result).orchestrationTrace.decisions, [])
    const next = team.execute('q')
    await team.clock.advance(10_000)
    t.equal((await next).success, true)
  }
})

/** A script's context in which one agent writes that and answers, and the board tells nobody of it. */
function silentBoard(written: object[], run = new AbortController()) {
  const decided: string[] = []
  const entries: object[] = []
  const verbs = {
    agents: [{ name: 'a' }],
    signal: run.signal,
    decide: (_question: string, choice: string) => void decided.push(choice),
    request: async () => {
      if (run.signal.reason) throw run.signal.reason
      entries.push(...written)
      return { content: 'done', structuredData: null }
    },
    blackboard: { query: async () => entries, subscribe: async () => () => {}, write: async () => {} },
  }
  const context: OrchestratorContext = Object.assign(Object.create(null), verbs)
  return { decided, play: () => script(context) }
}

async function script(context: OrchestratorContext): Promise<unknown> {
  const protocol = protocolFrom({ strategy: 'blackboard' }, ['a'])
  return 'run' in protocol ? protocol.run(context, 'q') : undefined
}

t.test('an entry counts although the answer of its author has overtaken the news of it', async (t) => {
  const solution = {
    key: 'x',
    value: 'X',
    author: 'a',
    entryType: 'solution',
    confidence: 1,
    supersedes: null,
    version: 1,
  }
  t.equal(await silentBoard([solution]).play(), 'X')
})

t.test('after the end of its run the script decides nothing more', async (t) => {
  const run = new AbortController()
  run.abort(new RunAbortedError('over', {}))
  const { decided, play } = silentBoard([], run)
  await t.rejects(play(), { code: 'RUN_ABORTED' })
  t.same(decided, [])
})

t.test('the same seed gives the same run, to the last event', async (t) => {
  const [one, other] = await Promise.all(
    [1, 2].map(async () => {
      const result = await play(t, survey, { interests }, { seed: 7 })
      return JSON.parse(JSON.stringify([result, result.orchestrationTrace, result.messageHistory]))
    }),
  )
  t.same(one, other)
})

t.test('no letter is dead after a run, and none of its turns is open', async (t) => {
  const team = stage(t, survey, { orchestration: { strategy: 'blackboard', interests } })
  const pending = team.execute('q')
  await team.clock.advance(100_000)
  await pending
  t.same(team.deadLetters.list(), [])
})

t.test('a team without a blackboard cannot work by this strategy', async (t) => {
  t.throws(() => stage(t, { a: silent }, { enableBlackboard: false, orchestration: { strategy: 'blackboard' } }), {
    code: 'CONFIGURATION',
    details: { path: 'enableBlackboard', got: 'false', accepted: 'true or { scope }' },
  })
})
