/** What the last speaker says is read along as it comes, and ends with the answer of the run. */
import t from 'tap'
import { z } from 'zod'
import { textOf } from '../../src/actors/definition/content.ts'
import {
  type AgentDefinition,
  defineAgent,
  type Guardrail,
  type MultiAgentPatternOptions,
  type Run,
} from '../../src/index.ts'
import type { OrchestrationConfig } from '../../src/protocols/index.ts'
import { testTeam } from '../../src/testing.ts'
import { Dice } from '../dice.ts'
import { howMany } from '../how-many.ts'
import { pluck } from '../kit/lists.ts'
import { silent } from '../kit/team.ts'
import { type Answer, type Answers, calls, FakeModel } from './fake-model.ts'
import { modelTeam } from './teams.ts'

const pieces = (...texts: string[]): Answer => texts.map((text) => ({ text }))

async function read(run: Pick<Run, 'text'>): Promise<string[]> {
  const texts: string[] = []
  for await (const text of run.text()) texts.push(text)
  return texts
}

/** What was said as final, and by whom. */
async function finals(run: Pick<Run<unknown>, 'events'>): Promise<{ agent: string; chunk: string }[]> {
  const said: { agent: string; chunk: string }[] = []
  for await (const event of run.events({ types: ['output.delta'] }))
    if (event.type === 'output.delta' && event.final) said.push({ agent: event.agent, chunk: event.chunk })
  return said
}

const streamed = ({ requests }: FakeModel) => requests.map(({ stream }) => stream === true)

t.test('who reads the run gets the words of the last speaker as they come, and once', async (t) => {
  const answers: Answers = ({ agent }) => (agent === 'ann' ? pieces('A ', 'draft') : pieces('The ', 'last ', 'word'))
  const { team, model } = modelTeam(t, answers, [{ name: 'ann' }, { name: 'bob' }])
  const run = team.launch('go')
  const events = finals(run)
  t.same(await read(run), ['The ', 'last ', 'word'])
  t.same(
    await events,
    ['The ', 'last ', 'word'].map((chunk) => ({ agent: '$orchestrator', chunk })),
  )
  t.equal((await run.result).finalOutput, 'The last word')
  t.same(streamed(model), [true, true])
})

t.test('whether models answer in pieces is an option of the run: readers change nothing', async (t) => {
  const { team, model } = modelTeam(t, () => pieces('The ', 'whole'), [{ name: 'ann' }])
  t.equal((await team.execute('go')).finalOutput, 'The whole')
  const whole = team.launch('go', { stream: false })
  t.same(await read(whole), ['The whole'], 'it comes in one piece')
  const run = team.launch('go')
  t.equal((await run.result).finalOutput, 'The whole')
  t.same(await read(run), ['The ', 'whole'], 'who comes later gets the pieces too')
  await team.execute('go', { runId: 'mine', stream: true })
  t.same(await read(team.getRun('mine')!), ['The ', 'whole'])
  for await (const { type } of team.stream('go')) if (type === 'run.finished') break
  t.same(streamed(model), [false, false, true, true, true])
})

t.test('who asks an agent for pieces reads along, whoever reads the run', async (t) => {
  const read: string[] = []
  const orchestration: OrchestrationConfig = {
    strategy: 'custom',
    async run(script, query) {
      for await (const piece of script.requestStream('ann', query)) read.push(piece)
      return 'done'
    },
  }
  const { team, model } = modelTeam(t, () => pieces('a', 'b'), [{ name: 'ann' }], { orchestration })
  await team.execute('go')
  t.same(read, ['a', 'b'])
  t.same(streamed(model), [true])
})

t.test('what a model says before it calls a tool is read as it comes; a gap is before the next round', async (t) => {
  const answers: Answers = ({ agent }, nth) => {
    if (agent === 'bob') return 'three'
    return nth === 0
      ? [{ text: 'Let me ask.' }, ...(calls(['request', { to: 'bob', content: 'How many?' }]) as [])]
      : pieces('There ', 'are three.')
  }
  const agents = [{ name: 'ann', canDelegateTo: ['bob'] }, { name: 'bob' }]
  const orchestration: OrchestrationConfig = { strategy: 'sequential', agentOrder: ['ann'] }
  const { team } = modelTeam(t, answers, agents, { orchestration })
  const run = team.launch('go')
  const events = finals(run)
  t.same(await read(run), ['Let me ask.', '\n\n', 'There ', 'are three.'])
  t.same(pluck(await events, 'chunk'), ['There are three.'], 'the pieces that are final are the answer alone')
})

t.test('the first word of a model with tools, or with a schema, is read before its last one is said', async (t) => {
  const schema = z.object({ x: z.number() })
  for (const options of [{}, { output: schema }]) {
    let goOn = () => {}
    const isRead = new Promise<void>((resolve) => {
      goOn = resolve
    })
    const model = {
      async *complete() {
        yield { text: '{"x":' }
        await isRead
        yield { text: '1}' }
      },
    }
    const agents = [{ name: 'ann', canDelegateTo: ['bob'] }, { name: 'bob' }]
    const orchestration: OrchestrationConfig = { strategy: 'sequential', agentOrder: ['ann'] }
    const team = testTeam({ agents, orchestration, logger: silent }, { model })
    t.teardown(() => team.close())
    const texts: string[] = []
    for await (const text of team.launch('go', options).text()) {
      texts.push(text)
      goOn()
    }
    t.same(texts, ['{"x":', '1}'])
  }
})

t.test('where several may have the answer, it comes as a whole', async (t) => {
  const orchestration: OrchestrationConfig = { strategy: 'parallel', aggregationStrategy: 'vote' }
  const answers: Answers = ({ agent }) => (agent === 'cid' ? pieces('n', 'o') : pieces('y', 'es'))
  const { team } = modelTeam(t, answers, [{ name: 'ann' }, { name: 'bob' }, { name: 'cid' }], { orchestration })
  t.same(await read(team.launch('go')), ['yes'])
})

t.test('a model that says something and then calls a tool that nobody has offered: the run fails', async (t) => {
  const answers: Answers = () => [{ text: 'Let me see.' }, ...(calls(['search', {}]) as [])]
  const { team, model } = modelTeam(t, answers, [{ name: 'ann' }])
  const run = team.launch('go')
  t.same(await read(run), ['Let me see.'])
  t.match((await run.result).error, { code: 'AGENT_FAILED', message: /tools that do not exist, after words.*search/ })
  t.equal(model.requests.length, 1)
})

t.test('an answer that misses its schema is read too: the one that fits comes behind it', async (t) => {
  const { team } = modelTeam(t, [pieces('{"x"', ':"one"}'), pieces('{"x"', ':1}')], [{ name: 'ann' }])
  const run = team.launch('go', { output: z.object({ x: z.number() }) })
  t.same(await read(run), ['{"x"', ':"one"}', '\n\n', '{"x"', ':1}'])
  t.match(await run.result, { data: { x: 1 } })
})

t.test('an answer that breaks after a part of it was read is made again, and the readers are told', async (t) => {
  const broken: Answer = [{ text: 'Once ' }, new Error('the line broke')]
  const options = { supervision: { onHandlerError: 'retry' as const } }
  const { team } = modelTeam(t, [broken, 'Twice upon a time'], [{ name: 'ann' }], options)
  const run = team.launch('go')
  const marks: string[] = []
  const marked = (async () => {
    for await (const part of run.stream()) if (part.type === 'superseded') marks.push(part.reason)
  })()
  const events = finals(run)
  t.same(await read(run), ['Once ', '\n\n', 'Twice upon a time'])
  await marked
  t.same(marks, ['retried'])
  t.same(pluck(await events, 'chunk'), ['Once '], 'pieces that cannot be taken back end where the answer is another')
  t.equal((await run.result).finalOutput, 'Twice upon a time')
  const only: string[] = []
  for await (const text of run.text({ only: 'answer' })) only.push(text)
  t.same(only, ['Twice upon a time'])

  const { team: unread } = modelTeam(t, [broken, 'Twice upon a time'], [{ name: 'ann' }], options)
  t.equal((await unread.execute('go')).finalOutput, 'Twice upon a time')
  const { team: before } = modelTeam(t, [[new Error('no line')], 'Once upon a time'], [{ name: 'ann' }], options)
  t.same(await read(before.launch('go')), ['Once upon a time'], 'before the first word it may be')
})

t.test('a request that may be made again is not, when a part of the answer was read', async (t) => {
  let asked = 0
  const model = {
    async *complete({ clock }: { clock?: { sleep(ms: number): Promise<void> } }) {
      asked += 1
      yield { text: 'slow ' }
      await clock?.sleep(150)
      yield { text: `but sure ${asked}` }
    },
  }
  const agents = [{ name: 'ann' }]
  const orchestration: OrchestrationConfig = {
    strategy: 'custom',
    async run(script, query) {
      const stream = script.requestStream('ann', query, { timeoutMs: 100, retries: 3, idempotent: true })
      for await (const piece of stream) script.emit(piece)
      return (await stream.response).content
    },
  }
  const team = testTeam({ agents, orchestration, logger: silent }, { model })
  t.teardown(() => team.close())
  const run = team.launch('go')
  const texts = read(run)
  await team.clock.advance(1_000)
  t.same(await texts, ['slow ', 'but sure 1'])
  t.equal((await run.result).finalOutput, 'slow but sure 1')
})

t.test('after a death in the middle of an answer no piece comes twice', async (t) => {
  const agents = [{ name: 'ann' }]
  const model = {
    async *complete({ clock }: { clock?: { sleep(ms: number): Promise<void> } }) {
      for (let n = 0; n < 10; n++) {
        yield { text: `${n} ` }
        await clock?.sleep(100)
      }
    },
  }
  const options: MultiAgentPatternOptions = { agents, orchestration: { strategy: 'sequential' }, logger: silent }
  const team = testTeam(options, { model })
  t.teardown(() => team.close())
  const run = team.launch('go')
  const texts = read(run)
  await team.clock.advance(450)
  team.crash('ann')
  await team.clock.advance(10_000)
  t.same(await texts, ['0 ', '1 ', '2 ', '3 ', '4 ', '5 ', '6 ', '7 ', '8 ', '9 '])
})

t.test('a key of the team that comes in two pieces is read by nobody', async (t) => {
  const key = 'k3y-of-the-team'
  const { team } = modelTeam(t, () => pieces('It is k3y-of', '-the-team', ', they say'), [{ name: 'ann' }], {
    agents: [{ name: 'ann' }],
    models: { other: { model: 'other', apiKey: key } },
  })
  const run = team.launch('go')
  const events = finals(run)
  t.same(await read(run), ['It is ', '[redacted]', ', they say'])
  t.notMatch(JSON.stringify(await events), /k3y-of|-the-team/)
  t.equal((await run.result).finalOutput, 'It is [redacted], they say')
})

t.test('the last word ends as any request does: late, failed, refused, in a circle of requests', async (t) => {
  const late: Answers = () => new Promise(() => {})
  const failed: Answers = () => [{ text: 'Once ' }, new Error('the line broke')]
  const refused: Answers = () => calls(['refuse', { reason: 'not mine' }])
  const crossed: Answers = ({ agent, messages }) =>
    messages.at(-1)?.role === 'tool'
      ? `${agent} was told: ${messages.at(-1)?.content}`
      : calls(['request', { to: agent === 'ann' ? 'bob' : 'ann', content: 'You?' }])
  const pair = [
    { name: 'ann', canDelegateTo: ['bob'] },
    { name: 'bob', canDelegateTo: ['ann'] },
  ]
  const plain: OrchestrationConfig = {
    strategy: 'custom',
    run: async (script, query) => (await script.request('ann', query)).content,
  }
  for (const [answers, agents, code] of [
    [late, [{ name: 'ann' }], 'AGENT_FAILED'],
    [failed, [{ name: 'ann' }], 'AGENT_FAILED'],
    [refused, pair, 'TASK_REFUSED'],
    [crossed, pair, undefined],
  ] as const) {
    const ends = [{ strategy: 'sequential' as const, agentOrder: ['ann'] }, plain].map(async (orchestration) => {
      const { team, model } = modelTeam(t, answers, [...agents], { orchestration, communication: { turnRetries: 0 } })
      const run = team.launch('go')
      const texts = read(run)
      await team.clock.advance(1_000_000)
      await texts
      const { error, finalOutput } = await run.result
      return { code: error?.code, message: error?.message, finalOutput, asked: model.requests.length }
    })
    const [last, asked] = await Promise.all(ends)
    t.same(last, asked)
    t.equal(last?.code, code)
    if (code === undefined) t.match(last?.finalOutput, /came back to agent "ann"/)
  }
})

// ---- every strategy, whoever is in it

const PARTS = {
  /** Says a draft, and answers something else. */
  drafts: defineAgent({
    receive(_message, context) {
      context.emit('a draft')
      return `${context.role.name} answers`
    },
  }),
  data: defineAgent({ receive: () => ({ structuredData: { best: 'b', final: true } }) }),
  refuses: defineAgent({
    receive(_message, context) {
      context.emit('Well, ')
      throw context.refuse('no')
    },
  }),
} satisfies Record<string, AgentDefinition>

const STRATEGIES: readonly OrchestrationConfig[] = [
  { strategy: 'sequential' },
  { strategy: 'sequential', passFullContext: true, allowSkip: true },
  { strategy: 'parallel' },
  { strategy: 'parallel', agents: ['a'] },
  { strategy: 'parallel', waitFor: 'first' },
  { strategy: 'parallel', aggregationStrategy: 'vote' },
  { strategy: 'parallel', aggregationStrategy: 'vote', conflictResolution: 'priority' },
  { strategy: 'parallel', aggregationStrategy: 'vote', conflictResolution: 'synthesize', judge: 'c' },
  { strategy: 'parallel', aggregationStrategy: 'best', judge: 'c' },
  { strategy: 'parallel', aggregationStrategy: 'custom', aggregator: 'c' },
  { strategy: 'auction', onNoBids: 'assign_least_loaded' },
  { strategy: 'blackboard', maxRounds: 2 },
  { strategy: 'blackboard', synthesizer: 'c', maxRounds: 2 },
  { strategy: 'handoff', start: 'a' },
]

/** In pieces, with words before each call of a tool; now and then the line breaks, or the schema is missed. */
const talk =
  (dice: Dice, breaks: number): Answers =>
  ({ agent, tools = [], messages, jsonSchema }) => {
    const before =
      messages.at(-1)?.role === 'user' && tools.some(({ name }) => name === 'request' || name === 'handoff')
    if (before && dice.chance(0.7)) {
      const to = String(agent) === 'helper' ? 'a' : 'helper'
      const asks = dice.chance(0.5) && tools.some(({ name }) => name === 'request')
      const call = asks ? ['request', { to, content: 'what?' }] : ['handoff', { to, task: 'Say it.' }]
      return [{ text: 'Let me ask. ' }, ...(calls(call as [string, object]) as [])]
    }
    const isVote = messages.some(({ content }) => /the best\?/.test(textOf(content)))
    const said = isVote ? 'a' : `${agent} has ${dice.upTo(3)}`
    const end = jsonSchema && dice.chance(0.8) ? JSON.stringify({ said }) : said
    const letters = [...end].map((text) => ({ text }))
    if (!dice.chance(breaks)) return letters
    return [...letters.slice(0, dice.upTo(letters.length)), new Error('the line broke')]
  }

const shouts: Guardrail = {
  name: 'shouts',
  check: (answer) => (answer.startsWith('{') ? undefined : { change: answer.toUpperCase() }),
}

t.test('whatever the strategy: what was read ends with the answer, and the answer alone is it', async (t) => {
  t.setTimeout(3_600_000)
  let inPieces = 0
  let succeeded = 0
  let again = 0
  for (let seed = 1; seed <= howMany(4, 145); seed++)
    for (const orchestration of STRATEGIES) {
      const dice = new Dice(seed)
      const isHandoff = orchestration.strategy === 'handoff'
      const names: string[] = ['a', 'b', 'c']
      const modules: Record<string, AgentDefinition> = {}
      const isShared = dice.chance(0.3)
      const agents = names.map((name) => {
        const part = isHandoff ? 'tools' : dice.pick(['model', 'model', 'tools', 'drafts', 'data', 'refuses'] as const)
        const role = { name }
        const shared = isShared && { isolation: 'shared' as const }
        const guardrails = dice.chance(0.15) ? { guardrails: { output: [shouts] } } : {}
        if (part === 'tools') return { ...role, ...shared, ...guardrails, canDelegateTo: ['helper'] }
        if (part === 'model') return { ...role, ...shared, ...guardrails }
        modules[name] = PARTS[part]
        return role
      })
      const agentOrder = orchestration.strategy === 'sequential' && { agentOrder: [...names] }
      const breaks = dice.chance(0.3) ? 0.3 : 0
      const team = testTeam(
        {
          agents: [...agents, { name: 'helper', ...(isHandoff && { canHandoffTo: ['a'] }) }],
          orchestration: { ...orchestration, ...agentOrder } as OrchestrationConfig,
          enableBlackboard: orchestration.strategy === 'blackboard',
          communication: { turnRetries: 3 },
          logger: silent,
          ...(dice.chance(0.1) && { guardrails: { output: [shouts] } }),
        },
        { model: new FakeModel(talk(dice, breaks)), modules, seed },
      )
      const output = dice.chance(0.3) ? { output: z.object({ said: z.string() }) } : {}
      const run = team.launch('What now?', output)
      const said = Promise.all([read(run), finals(run), read({ text: () => run.text({ only: 'answer' }) })])
      const dies = dice.chance(0.2)
      if (dies) {
        await team.clock.advance(dice.upTo(20))
        team.crash(dice.pick(names))
      }
      await team.clock.advance(100_000)
      const [texts, final, only] = await said
      const result = await run.result
      const name = `${JSON.stringify(orchestration)}, seed ${seed}`
      if (result.success) {
        if (!texts.join('').endsWith(result.finalOutput)) t.equal(texts.join(''), result.finalOutput, name)
        if (only.join('') !== result.finalOutput) t.equal(only.join(''), result.finalOutput, `only the answer: ${name}`)
        const part = final.map(({ chunk }) => chunk).join('')
        if (breaks === 0 && !dies && !result.finalOutput.startsWith(part))
          t.equal(part, result.finalOutput, `final pieces: ${name}`)
        succeeded += 1
        if (breaks > 0 && texts.length > 1) again += 1
      }
      if (texts.length > 1) inPieces += 1
      await team.close()
    }
  const runs = howMany(4, 145) * STRATEGIES.length
  t.ok(succeeded > runs / 2, `${succeeded} of ${runs} runs have succeeded`)
  t.ok(inPieces > runs / 20, `${inPieces} were read in pieces`)
  t.ok(again > 0, `${again} of them where lines broke`)
})
