/** How a task is taken apart: what counts as a list of sub-tasks, and what keeps the task whole. Source: document 000. */
import t from 'tap'
import type { AgentRole, MultiAgentResult } from '../../src/index.ts'
import type { CollaborateConfig } from '../../src/protocols.ts'
import { testTeam } from '../../src/testing.ts'
import { modelServer } from '../fixtures/model-server.ts'
import type { Answer } from '../fixtures/model-wire.ts'
import { silent } from '../kit/team.ts'
import { echo, says, stage, type Test } from '../team/stage.ts'

type Config = Omit<CollaborateConfig, 'strategy'>

/** A task for a team of a model and two agents of code; the model takes it apart, as the server says. */
async function asked(t: Test, answer: string | Answer, config: Config = {}): Promise<MultiAgentResult> {
  const server = await modelServer(t)
  server.answer(answer)
  const agents = [{ name: 'flights', capabilities: ['flight'] }, { name: 'llm', model: 'default' }, { name: 'hotels' }]
  const orchestration = { strategy: 'collaborate' as const, teammates: ['flights', 'hotels', 'llm'], ...config }
  const models = { default: { model: 'small', baseURL: server.baseURL, apiKey: 'key' } }
  const team = testTeam<string>(
    { agents, orchestration, models, logger: silent },
    { modules: { flights: echo, hotels: echo } },
  )
  t.teardown(() => team.close())
  return team.execute('A flight and a hotel')
}

const PARTS = ['Find a flight', 'Book the flight']
const DONE = 'flights: Find a flight\nflights: Book the flight'
const WHOLE = 'flights: A flight and a hotel'
const verdict = ({ orchestrationTrace }: MultiAgentResult) => orchestrationTrace.decisions[0]

t.test('the first teammate with a model is asked for a JSON array of strings', async (t) => {
  const result = await asked(t, JSON.stringify(PARTS))
  t.equal(result.finalOutput, DONE)
  t.match(verdict(result), { choice: 'into 2', reason: '"llm" named them.' })
  const [first] = result.messageHistory.filter(({ recipient }) => recipient === 'llm')
  t.match(first?.content, /JSON array of strings.*\n\n# Task\n\nA flight and a hotel$/s)
})

t.test('the array may stand in a fence or behind prose, and blank sub-tasks are none', async (t) => {
  const answers = [
    `\`\`\`json\n${JSON.stringify(PARTS)}\n\`\`\``,
    `These are the parts:\n${JSON.stringify(PARTS)}`,
    JSON.stringify(['', ...PARTS, '  ']),
  ]
  for (const answer of answers) t.equal((await asked(t, answer)).finalOutput, DONE, answer)
})

t.test('a role that a model plays has a model, also by default, and also as the synthesizer', async (t) => {
  const server = await modelServer(t)
  const models = { default: { model: 'small', baseURL: server.baseURL, apiKey: 'key' } }
  const play = async (agents: AgentRole[], config: Config = {}) => {
    server.answer(JSON.stringify(PARTS))
    const team = testTeam<string>(
      { agents, orchestration: { strategy: 'collaborate', ...config }, models, logger: silent },
      { modules: { flights: echo } },
    )
    t.teardown(() => team.close())
    return verdict(await team.execute('A flight'))
  }
  const flights = { name: 'flights', capabilities: ['flight'] }
  const named = { choice: 'into 2', reason: '"llm" named them.' }
  t.match(await play([flights, { name: 'llm' }]), named)
  t.match(await play([flights, { name: 'llm' }], { aggregation: 'synthesize', synthesizer: 'llm' }), named)
  t.match(await play([flights]), { choice: 'no', reason: /no teammate has a model/ })
})

t.test('an empty array, or one of blanks, means that the task is atomic', async (t) => {
  for (const answer of ['[]', '["", "  \\n"]']) {
    const result = await asked(t, answer)
    t.equal(result.finalOutput, WHOLE)
    t.match(verdict(result), { choice: 'no', reason: /"llm" finds that it is done best in one piece/ })
  }
})

t.test('whatever else is answered, the task stays whole', async (t) => {
  const answers = [
    'First find a flight, then book it.',
    '["Find a flight"',
    '["Find a flight"] is what I would do',
    '"Find a flight"',
    '{"tasks": ["Find a flight"]}',
    '["Find a flight", 7]',
    '[["Find a flight"]]',
    'null',
    '[{"task": "Find a flight"}]',
  ]
  for (const answer of answers) {
    const result = await asked(t, answer)
    t.equal(result.finalOutput, WHOLE, answer)
    t.match(verdict(result), { choice: 'no', reason: /"llm" was asked for a list of sub-tasks in JSON/ }, answer)
  }
})

t.test('the task stays whole if the model fails', async (t) => {
  const result = await asked(t, { status: 400 })
  t.match(result, { success: true, finalOutput: WHOLE, failures: [{ agent: 'llm' }] })
  t.match(verdict(result), { choice: 'no', reason: /^"llm" failed: AGENT_FAILED: .*ModelError/ })
})

t.test('the task stays whole if nobody has a model, or nobody is to take it apart', async (t) => {
  const cast = { a: { code: echo, capabilities: ['fly'] }, b: echo }
  const none = await stage(t, cast, { orchestration: { strategy: 'collaborate' } }).execute('Fly!')
  t.equal(none.finalOutput, 'a: Fly!')
  t.match(verdict(none), { choice: 'no', reason: /no teammate has a model/ })
  const result = await asked(t, JSON.stringify(PARTS), { decomposer: false })
  t.equal(result.finalOutput, WHOLE)
  t.notOk(result.agentOutputs.llm)
})

t.test('an agent of code answers with data', async (t) => {
  const cast = { a: { code: echo, capabilities: ['fly'] }, b: says({ structuredData: ['fly there', 'fly back'] }) }
  const config = { strategy: 'collaborate', decomposer: 'b' } as const
  t.equal((await stage(t, cast, { orchestration: config }).execute('Travel!')).finalOutput, 'a: fly there\na: fly back')
})

t.test('ten thousand sub-tasks are not carried out', async (t) => {
  const result = await asked(t, JSON.stringify(Array.from({ length: 10_000 }, (_, i) => `Find flight ${i}`)))
  t.equal(result.finalOutput, WHOLE)
  t.match(verdict(result), { choice: 'no', reason: '"llm" named 10000 sub-tasks, and 100 are the most.' })
})

const dependencies = (tasks: object, config: Config = {}) =>
  [JSON.stringify(tasks), { order: 'dependencies', ...config }] as const
const tasksOf = (...needs: number[][]) => needs.map((dependsOn, at) => ({ task: `flight ${at + 1}`, dependsOn }))

t.test('with dependencies it is asked for them, and may leave them out', async (t) => {
  for (const plan of [{ tasks: tasksOf([], [1]), reasoning: 'first things first' }, tasksOf([], [1])]) {
    const result = await asked(t, ...dependencies(plan))
    t.equal(result.finalOutput, 'flights: flight 1\nflights: flight 2')
    t.match(result.messageHistory[0]?.content, /A flight/)
    t.match(result.messageHistory.find(({ recipient }) => recipient === 'llm')?.content, /"dependsOn": \[1\]/)
  }
  const strings = await asked(t, ...dependencies(PARTS))
  t.equal(strings.finalOutput, DONE)
})

t.test('a dependency that is null is none, and one that is named twice is one', async (t) => {
  const [first, second] = tasksOf([], [1, 1])
  const result = await asked(t, ...dependencies([{ ...first, dependsOn: null }, second!]))
  t.equal(result.finalOutput, 'flights: flight 1\nflights: flight 2')
  const told = result.messageHistory.find(({ content }) => content === 'flight 2')
  t.match(told?.structuredData, { contextSummary: /^## 1\. flight 1 \(by flights\)\n\nflights: flight 1$/ })
})

t.test('dependencies on what is not there are no plan', async (t) => {
  const odd = [{ task: 'flight', runIf: { task: 0 } }]
  for (const plan of [tasksOf([], [3]), tasksOf([0]), tasksOf([1.5]), [{ task: '  ', dependsOn: [] }], odd]) {
    const result = await asked(t, ...dependencies(plan))
    t.equal(result.finalOutput, WHOLE)
    t.match(verdict(result), { reason: /a list of sub-tasks in JSON/ })
  }
})

t.test('a circle of dependencies is an error that names it', async (t) => {
  const circles: [number[][], string][] = [
    [[[2], [3], [1]], '1 -> 2 -> 3 -> 1'],
    [[[], [2]], '2 -> 2'],
    [[[], [1, 3], [4], [2]], '2 -> 3 -> 4 -> 2'],
  ]
  for (const [needs, circle] of circles) {
    const { success, error } = await asked(t, ...dependencies(tasksOf(...needs)))
    t.notOk(success)
    t.match(error, { code: 'REPLY_INVALID', message: `its tasks wait for each other in a circle, ${circle}.` })
  }
})
