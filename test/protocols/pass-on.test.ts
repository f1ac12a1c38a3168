/** What agents have said, on its way to the next one: whole, and for a model a summary where it is long. */
import t from 'tap'
import { type AgentDefinition, type AgentRole, defineAgent, type MultiAgentPatternOptions } from '../../src/index.ts'
import { type Script, scriptedModel, testTeam } from '../../src/testing.ts'
import { silent } from '../kit/team.ts'
import { says, type Test } from '../team/stage.ts'

const LONG = 'word '.repeat(8_000) // 40,000 characters
const summing: Script = {
  agent: '$orchestrator',
  when: /^Sum up what agents of your team have said/,
  reply: 'In short: 7.',
}

function stage(
  t: Test,
  script: Script[],
  modules: Record<string, AgentDefinition>,
  roles: Record<string, Partial<AgentRole>>,
  orchestration: MultiAgentPatternOptions['orchestration'],
) {
  const model = scriptedModel(script)
  const names = [...new Set([...Object.keys(modules), ...Object.keys(roles)])]
  const agents = names.map((name) => ({ name, ...roles[name] }))
  const team = testTeam<string>({ agents, orchestration, logger: silent }, { model, modules })
  t.teardown(() => team.close())
  return { team, model }
}

const inOrder = (...agentOrder: string[]) => ({ strategy: 'sequential' as const, agentOrder, passFullContext: true })
const told = (model: ReturnType<typeof scriptedModel>, agent: string) =>
  model.calls.find((call) => call.agent === agent)?.prompt ?? ''

t.test('a model gets a summary of long answers, and the last one whole', async (t) => {
  const script = [summing, { agent: 'c', reply: 'fine' }]
  const { team, model } = stage(t, script, { a: says(LONG), b: says(`b ${LONG}`) }, { c: {} }, inOrder('a', 'b', 'c'))
  const { finalOutput, orchestrationTrace, tokenUsage } = await team.execute('Count.')
  t.equal(finalOutput, 'fine')
  const prompt = told(model, 'c')
  t.match(prompt, /^Count\.\n\n\(This is a summary.*\)\n\nIn short: 7\.\n\n## b\n\nb word word/s)
  t.ok(prompt.length > LONG.length && prompt.length < LONG.length + 300)
  t.match(told(model, '$orchestrator'), /for "c".*## a\n\nword/s)
  t.match(orchestrationTrace.decisions, [
    { question: /passed on to "c"/, choice: 'as a summary', reason: /40006 char.*32768/ },
  ])
  t.ok(tokenUsage.$orchestrator!.calls > 0)
  model.assertDone()
})

t.test('what is short, and what code gets, stays whole, and costs nothing', async (t) => {
  const short = 'word '.repeat(1_000)
  const script = [{ agent: 'c', reply: 'fine' }]
  const { team, model } = stage(t, script, { a: says(short), b: says(short) }, { c: {} }, inOrder('a', 'b', 'c'))
  await team.execute('Count.')
  t.equal(told(model, 'c'), `Count.\n\n## a\n\n${short}\n\n## b\n\n${short}`)
  const measures = defineAgent({ receive: ({ content }) => `${content.length}` })
  const code = stage(t, [], { a: says(LONG), b: says(LONG), c: measures }, {}, inOrder('a', 'b', 'c'))
  t.ok(Number((await code.team.execute('Count.')).finalOutput) > 2 * LONG.length)
  t.equal(code.model.calls.length, 0)
})

t.test('what was summed up once is not summed up again', async (t) => {
  const script = [summing, { agent: 'c', reply: 'fine' }, { agent: 'd', reply: 'done' }]
  const cast = { a: says(LONG), b: says('short') }
  const { team, model } = stage(t, script, cast, { c: {}, d: {} }, inOrder('a', 'b', 'c', 'd'))
  t.equal((await team.execute('Count.')).finalOutput, 'done')
  t.match(told(model, 'd'), /\nIn short: 7\.\n\n## b\n\nshort\n\n## c\n\nfine$/)
  model.assertDone()
})

t.test('a small window makes less long, and a summary that fails is a text that is cut short', async (t) => {
  const script: Script[] = [
    { agent: '$orchestrator', fail: 'server' },
    { agent: 'c', reply: 'fine' },
  ]
  const text = `begin ${'word '.repeat(2_000)}end`
  const { team, model } = stage(
    t,
    script,
    { a: says(text), b: says('b') },
    { c: { maxTokens: 4_000 } },
    inOrder('a', 'b', 'c'),
  )
  const pending = team.execute('Count.')
  await team.clock.advance(100_000)
  const { orchestrationTrace, finalOutput } = await pending
  t.equal(finalOutput, 'fine')
  const prompt = told(model, 'c')
  t.match(prompt, /## a\n\nbegin word.*characters left out.*end\n\n## b\n\nb$/s)
  t.ok(prompt.length < 4_200)
  t.match(orchestrationTrace.decisions, [{ choice: 'cut short' }])
})

t.test('results that a task builds on are summed up for a model', async (t) => {
  const tasks = [
    { agent: 'a', task: 'Find.' },
    { agent: 'c', task: 'Tell.', dependsOn: [1] },
  ]
  const chief = defineAgent({
    receive: ({ structuredData }) =>
      Object(structuredData).results ? 'over' : { structuredData: { tasks, reasoning: 'so' } },
  })
  const script = [summing, { agent: 'c', reply: 'fine' }]
  const supervised = { strategy: 'supervisor' as const, supervisor: 'chief', experts: ['a', 'c'] }
  const { team, model } = stage(t, script, { chief, a: says(LONG) }, { c: {} }, supervised)
  const { messageHistory } = await team.execute('Count.')
  const given = messageHistory.find(({ recipient }) => recipient === 'c')
  t.match(given?.structuredData, { contextSummary: /^\(This is a summary.*In short: 7\.$/s })
  model.assertDone()

  const plan = tasks.map(({ agent, ...task }) => ({ ...task, worker: agent }))
  const manager = defineAgent({
    receive: ({ metadata }) =>
      Object(metadata.hierarchical).step === 'plan' ? { structuredData: { tasks: plan, reasoning: 'so' } } : 'over',
  })
  const led = {
    strategy: 'hierarchical' as const,
    manager: 'boss',
    workers: ['a', 'c'],
    workerAutonomy: 'high' as const,
  }
  const second = stage(t, [summing, { agent: 'c', reply: 'fine' }], { boss: manager, a: says(LONG) }, { c: {} }, led)
  await second.team.execute('Count.')
  t.match(told(second.model, 'c'), /In short: 7\./)
  t.ok(told(second.model, 'c').length < 2_000)
  second.model.assertDone()
})
