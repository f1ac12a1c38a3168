/** What a model that repeats itself is told, when, what it can do about it, and what ends its run; and programs of models on real threads. */

import t, { type Test } from 'tap'
import { textOf } from '../../src/actors/definition/content.ts'
import type { ModelRequest } from '../../src/actors/definition/model.ts'
import { AgentCrashedError, type AgentDefinition, defineAgent } from '../../src/index.ts'
import type { OrchestrationConfig } from '../../src/protocols/index.ts'
import type { MultiAgentPatternOptions } from '../../src/team.ts'
import { testTeam } from '../../src/testing.ts'
import { howMany } from '../how-many.ts'
import { given, heard, OpenTeam, silent } from '../kit/team.ts'
import { type Answers, calls, FakeModel } from '../models/fake-model.ts'
import { modelTeam, ThreadTeam } from '../models/teams.ts'
import type { Livelock } from '../supervision/livelocks.ts'
import { modelLoops } from './model-loops.ts'
import { modelPrograms } from './model-programs.ts'
import {
  answersIn,
  DONE,
  isToldOff,
  lastResult,
  MANY_ROUNDS,
  type ModelProgram,
  problemsOf,
  rolesOf,
  tool,
} from './program.ts'

const search = () => tool('search', () => 'nothing found')
const ann = (more: object = {}) => [{ name: 'ann', tools: [search()], maxRounds: MANY_ROUNDS, ...more }]
const notices = ({ messages }: ModelRequest) =>
  messages.filter(({ content }) => textOf(content).startsWith('No progress: '))
const again: Answers = () => calls(['search', {}])

async function played(
  t: Parameters<typeof modelTeam>[0],
  answers: Answers,
  agents: MultiAgentPatternOptions['agents'] = ann(),
  options: Partial<MultiAgentPatternOptions> = {},
) {
  const { team, model } = modelTeam(t, answers, agents, options)
  const found = heard(team, 'livelock', (event) => event)
  const result = await team.execute('go')
  return { result, found, requests: model.requests }
}

t.test('a model that repeats itself is told in its open turn, and goes on with something else', async (t) => {
  const answers: Answers = (request) => (isToldOff(request) ? DONE : calls(['search', {}]))
  const { result, found, requests } = await played(t, answers)
  t.equal(result.finalOutput, DONE)
  t.equal(requests.length, 9, 'eight equal rounds, and the one after the notice')
  t.same(notices(requests[7]!), [])
  t.match(requests[8]?.messages.at(-1), {
    role: 'user',
    content:
      /^No progress: you called "search" with the same input 8 times in a row, and each time got the same result\. Do something else/,
  })
  t.match(found, [
    { evidence: ['"ann" called "search" with the same input 8 times in a row, and each time got the same result'] },
  ])
})

t.test('each notice leaves as many rounds again, and the last one ends the turn', async (t) => {
  const { result, found, requests } = await played(t, again)
  t.match(result.error, { code: 'LIVELOCK', details: { agent: 'ann', evidence: { length: 8 } } })
  t.equal(requests.length, 64)
  t.same(
    requests.map((request) => notices(request).length),
    Array.from({ length: 64 }, (_, nth) => Math.floor(nth / 8)),
  )
  t.same(
    found.map(({ evidence }) => evidence.length),
    [1, 2, 8],
    'the notice, the one for the protocol, and the end',
  )
  const steps = result.orchestrationTrace.events.filter(({ eventType }) => eventType === 'livelock')
  t.same(
    steps.map(({ details }) => Reflect.get(details, 'step')),
    ['notice', 'replan', 'abort'],
  )
})

t.test('a result that is new takes all signs back', async (t) => {
  const changing = [tool('search', (_input, nth) => `part ${Math.floor(nth / 12)}`)]
  const answers: Answers = ({ messages }) => (answersIn(messages) < 120 ? calls(['search', {}]) : DONE)
  const { result, found } = await played(t, answers, ann({ tools: changing }))
  t.equal(result.error, null)
  t.equal(found.length, 10, 'each time a first one')
  for (const { evidence } of found) t.equal(evidence.length, 1)
})

t.test('the bound is an option, and reports alone end nothing', async (t) => {
  const strict = await played(t, again, ann(), { supervision: { livelock: { maxRepeats: 3 } } })
  t.equal(strict.requests.length, 24)
  const report = await played(t, again, ann({ maxRounds: 90 }), { supervision: { livelock: { onFound: 'report' } } })
  t.match(report.result.error, { code: 'TASK_REFUSED', message: /after 90 rounds/ })
  t.equal(report.found.length, 2)
})

t.test('a team that is not watched has neither notices nor events', async (t) => {
  const { found, requests } = await played(t, again, ann({ maxRounds: 40 }), { supervision: { livelock: false } })
  t.same(found, [])
  t.same(notices(requests.at(-1)!), [])
})

t.test('a tool can be marked as polled once its model was told, and the tool does not see the mark', async (t) => {
  const inputs: object[] = []
  const job = tool('job', (input) => {
    inputs.push(input)
    return 'running'
  })
  const answers: Answers = (request) => {
    const own = answersIn(request.messages)
    if (own === 60) return DONE
    return calls(['job', isToldOff(request) ? { id: 7, polling: true } : { id: 7 }])
  }
  const { result, found, requests } = await played(t, answers, ann({ tools: [job] }))
  t.equal(result.finalOutput, DONE)
  t.equal(found.length, 1)
  const shown = (request: ModelRequest | undefined) => JSON.stringify(request?.tools?.map((each) => each.inputSchema))
  t.notMatch(shown(requests[0]), /polling/)
  t.match(shown(requests[8]), /polling/)
  t.ok(inputs.every((input) => JSON.stringify(input) === '{"id":7}'))
})

t.test('a verb that is polled says so to the host, and what is no mark is told to the model', async (t) => {
  const agents = [{ name: 'ann', canDelegateTo: ['bob'] }, { name: 'bob' }]
  const answers: Answers = ({ agent, messages }) => {
    if (agent === 'bob') return 'No.'
    if (answersIn(messages) === 0) return calls(['request', { to: 'bob', content: 'Ready?', polling: 'yes' }])
    return answersIn(messages) < 9 ? calls(['request', { to: 'bob', content: 'Ready?', polling: true }]) : DONE
  }
  const supervision = { livelock: { maxRepeats: 2, maxMessagesWithoutProgress: 2, onFound: 'end' } } as const
  const orchestration: OrchestrationConfig = { strategy: 'sequential', agentOrder: ['ann'] }
  const { result, found, requests } = await played(t, answers, agents, { supervision, orchestration })
  t.equal(result.finalOutput, DONE)
  t.same(found, [])
  t.match(requests[1]?.messages.at(-1)?.content, /"polling" is neither true nor false/)
})

t.test('a turn that is tried again comes to the same notices, and pays for no call twice', async (t) => {
  const model = new FakeModel((request) => (notices(request).length > 1 ? DONE : calls(['search', {}])))
  const team = new OpenTeam(
    { agents: ann(), orchestration: { strategy: 'sequential' }, models: { default: model }, logger: silent },
    new Map(),
    1,
  )
  t.teardown(() => team.close())
  const found: Livelock[] = []
  let killed = false
  team.events.subscribe((event) => {
    if (event.type === 'livelock') found.push(event)
    if (killed || event.type !== 'tool.finished' || model.requests.length !== 12) return
    killed = true
    team.crash('ann', new AgentCrashedError('the test has ended it', {}))
  })
  const result = await team.execute('go')
  t.ok(killed)
  t.equal(result.finalOutput, DONE)
  t.equal(model.requests.length, 17)
  t.equal(found.length, 2)
})

t.test('code that lets a model think is told of its loop by the error', async (t) => {
  const model = new FakeModel(again)
  const team = given(t, { models: { default: model }, tools: [search()] }).testTeam({
    ann: async (_message, context) => (await context.think({ prompt: 'Go.', maxRounds: MANY_ROUNDS })).text,
  })
  t.match((await team.execute('go')).error, { code: 'LIVELOCK', details: { agent: 'ann' } })
})

t.test('one that loops beside others ends alone', async (t) => {
  const agents = ['ann', 'bob'].map((name) => ({ name, tools: [search()], maxRounds: MANY_ROUNDS }))
  const answers: Answers = ({ agent }) => (agent === 'ann' ? calls(['search', {}]) : 'Bob has it.')
  const { result } = await played(t, answers, agents, { orchestration: { strategy: 'parallel' } })
  t.equal(result.success, true)
  t.match(result.finalOutput, /Bob has it\./)
})

// Models that give each other the same again and again: the third sign of one cause ends the run, whatever it is.

/** What ends a run that nothing else ends. */
const MANY_CALLS = howMany(800, 2_000)

const ring = ['ann', 'bob', 'cleo'] as const
const inputs = {
  delegate: (to: string, words: string) => ({ to, task: words }),
  handoff: (to: string, words: string) => ({ to, task: words }),
  request: (to: string, words: string) => ({ to, content: words }),
}
type Verb = keyof typeof inputs

/** The first so many of the ring give each other something for ever. */
const passing =
  (verb: Verb, size: number, words: (nth: number) => string = () => 'Do it.'): Answers =>
  ({ agent }, nth) => {
    if (nth > MANY_CALLS) throw new Error('nobody has ended it')
    const to = ring[(ring.indexOf(agent as 'ann') + 1) % size]!
    return calls([verb, inputs[verb](to, words(nth))])
  }

async function playedBetween(
  t: Test,
  answers: Answers,
  options: Partial<MultiAgentPatternOptions> = {},
  modules: Record<string, AgentDefinition> = {},
) {
  const model = new FakeModel(answers)
  const agents = ring.map((name) => ({ name, canDelegateTo: ring.filter((other) => other !== name) }))
  const orchestration = { strategy: 'sequential' as const, agentOrder: ['ann'] }
  const team = testTeam({ agents, orchestration, logger: silent, ...options }, { model, modules })
  t.teardown(() => team.close())
  const found = heard(team, 'livelock', (event) => event)
  const running = team.execute('go', { timeoutMs: 30_000 })
  await team.clock.runToIdle()
  return { result: await running, found, calls: model.requests.length }
}

for (const verb of ['delegate', 'handoff', 'request'] as const)
  for (const size of [2, 3])
    t.test(`${size} models that ${verb} to and fro are ended`, async (t) => {
      const { result, found, calls } = await playedBetween(t, passing(verb, size))
      // Those that hand off come to a bound of handoffs first: the last one is not offered the tool, and calls it still.
      const code = verb === 'handoff' ? 'AGENT_FAILED' : 'LIVELOCK'
      t.equal(result.error?.code, code)
      if (code === 'LIVELOCK') t.match(found.at(-1)?.evidence, { length: 3 }, 'by the third sign')
      t.ok(calls < 500, `${calls} calls`)
      t.ok(found.length < 50, `${found.length} signs`)
    })

t.test("with onFound: 'report' they are told twice for each cause, and go on", async (t) => {
  const livelock = { onFound: 'report' as const }
  const { result, found } = await playedBetween(t, passing('delegate', 2), { supervision: { livelock } })
  t.not(result.error?.code, 'LIVELOCK')
  t.ok(found.length > 0 && found.every(({ evidence }) => evidence.length <= 2))
})

t.test('with livelock: false nobody is told', async (t) => {
  const { result, found } = await playedBetween(t, passing('handoff', 2), { supervision: { livelock: false } })
  t.not(result.error?.code, 'LIVELOCK')
  t.same(found, [])
})

/** Hands each task to ann, so often. */
const handsBack = (times: number) => {
  let left = times
  return defineAgent({
    async receive(message, context) {
      if (left-- > 0) await context.handoff('ann', message.content)
      else return 'enough'
    },
  })
}

t.test('where code takes part they are told only, and ended where the team says so', async (t) => {
  const modules = () => ({ bob: handsBack(3) })
  const answers = passing('handoff', 2)
  const told = await playedBetween(t, answers, { supervision: { livelock: {} } }, modules())
  t.equal(told.result.finalOutput, 'enough')
  t.same(
    told.found.map(({ evidence }) => evidence.length),
    [1, 2],
  )
  const ended = await playedBetween(t, answers, { supervision: { livelock: { onFound: 'end' } } }, modules())
  t.equal(ended.result.error?.code, 'LIVELOCK')
  const byDefault = await playedBetween(t, answers, {}, modules())
  t.same([byDefault.result.finalOutput, byDefault.found.length], ['enough', 2])
  const unwatched = await playedBetween(t, answers, { supervision: { livelock: false } }, modules())
  t.same([unwatched.result.finalOutput, unwatched.found], ['enough', []])
})

t.test('a draft that goes to and fro and gets better is no livelock, however often', async (t) => {
  let version = 0
  const answers: Answers = ({ agent, messages }) => {
    if (agent === 'bob') return `Remark ${version}`
    const isOver = version >= 40
    version += 1
    return isOver ? 'good' : calls(['request', { to: 'bob', content: `Draft ${messages.length}` }])
  }
  const agents = [{ name: 'ann', canDelegateTo: ['bob'], maxRounds: 100 }, { name: 'bob' }]
  const { result, found } = await playedBetween(t, answers, { agents })
  t.same([result.finalOutput, found], ['good', []])
})

// Programs of models on real threads and in real time: the same verdicts. All of them with --deep.

const some = [
  'a job that changes at every seventh look',
  'a job that changes at every thirteenth look',
  'a request that is polled and marked',
  'ten equal errors of a service that comes back',
  'a model that marks its calls as polls when it is told',
  'the same call with the same result',
  'the same request to another model',
  'polite philosophers, by tools',
]
const all: Readonly<Record<string, ModelProgram>> = { ...modelPrograms, ...modelLoops }

for (const name of process.env.DRAMATIS_DEEP ? Object.keys(all) : some)
  t.test(`${name}, on threads: ${all[name]!.expected.verdict}`, async (t) => {
    const program = all[name]!
    const answers: Answers = (request) =>
      program.says(answersIn(request.messages), lastResult(request.messages), request)
    const team = new ThreadTeam({
      agents: rolesOf(program),
      orchestration: { strategy: 'sequential' },
      logger: silent,
      threads: { warmSpares: 0 },
      ...program.options,
      models: { default: new FakeModel(answers) },
    })
    t.teardown(() => team.close())
    const found = heard(team, 'livelock', (event) => event)
    const result = await team.execute('go')
    t.same(problemsOf(program.expected, found, result), [])
  })
