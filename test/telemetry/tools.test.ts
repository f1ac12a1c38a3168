/** Spans of calls of tools, in the host and in the threads of agents. */
import t from 'tap'
import type { AgentContext, AgentMessage, ToolContext } from '../../src/index.ts'
import { gate, given, localTeam, never, openTeam } from '../kit/team.ts'
import { desk, ledger, recordModule } from '../toolbox/desk.ts'
import { adder, doing } from '../toolbox/tools.ts'
import { errorOf, idOf, isInternal, parentOf, Recorder, tookOf } from './recorder.ts'

t.test('a tool of the host stands below the turn that calls it', async (t) => {
  const recorder = new Recorder()
  const { tool, calls } = adder()
  const fails = doing(
    () => {
      throw new Error('a secret')
    },
    { name: 'fails' },
  )
  const ann = async (_: AgentMessage, context: AgentContext) => {
    await context.tool(tool, { a: 1 })
    await context.tool(fails, {}).catch(() => {})
    return 'done'
  }
  const tools = [tool, fails]
  const team = localTeam(t, { ann }, { telemetry: recorder.telemetry, roles: { ann: { tools } } })
  await team.execute('go', { runId: 'run-1' })
  t.same(recorder.trees, [['invoke_workflow', ['invoke_agent ann', ['execute_tool add'], ['execute_tool fails']]]])
  const add = recorder.one('execute_tool add')
  t.ok(isInternal(add))
  t.strictSame(add.attributes, {
    'gen_ai.operation.name': 'execute_tool',
    'gen_ai.tool.name': 'add',
    'gen_ai.tool.call.id': calls[0]!.key,
    'gen_ai.tool.type': 'function',
    'gen_ai.agent.name': 'ann',
    'dramatis.run.id': 'run-1',
  })
  t.equal(errorOf(add), undefined)
  t.equal(errorOf(recorder.one('execute_tool fails')), 'TOOL_FAILED')
  t.notMatch(JSON.stringify(recorder.spans.map(({ attributes, status }) => ({ attributes, status }))), /secret/)
})

t.test('what goes in and out of a tool stands there where it is asked for', async (t) => {
  const recorder = new Recorder({ captureContent: true })
  const { tool } = adder()
  const ann = async (_: AgentMessage, context: AgentContext) => `${(await context.tool(tool, { a: 1 })).sum}`
  const team = localTeam(t, { ann }, { telemetry: recorder.telemetry, roles: { ann: { tools: [tool] } } })
  await team.execute('go')
  t.match(recorder.one('execute_tool add').attributes, {
    'gen_ai.tool.call.arguments': '{"a":1}',
    'gen_ai.tool.call.result': '{"sum":2}',
  })
})

t.test("a script's tools stand below the run", async (t) => {
  const recorder = new Recorder()
  const { tool } = adder()
  const team = given(t, {
    telemetry: recorder.telemetry,
    tools: [tool],
    script: async (script) => `${(await script.tool(tool, { a: 1 })).sum}`,
  }).testTeam({ ann: () => '' })
  await team.execute('go')
  t.same(recorder.trees, [['invoke_workflow', ['execute_tool add']]])
})

t.test('a call goes on over the death of its agent, and has one span', async (t) => {
  const recorder = new Recorder()
  const called = gate()
  const answer = gate()
  const tool = doing(async () => {
    called.open()
    await answer.opened
  })
  const ann = async (_: AgentMessage, context: AgentContext) => {
    await context.tool(tool, {})
    return 'done'
  }
  const team = openTeam(t, { ann }, { telemetry: recorder.telemetry, roles: { ann: { tools: [tool] } } })
  const running = team.execute('go')
  await team.clock.advance(5)
  await called.opened
  team.crash('ann')
  await team.clock.advance(5)
  answer.open()
  await team.clock.runToIdle()
  t.ok((await running).success)
  const [first, second] = recorder.named('invoke_agent ann')
  t.equal(parentOf(recorder.one('execute_tool act')), idOf(first!))
  t.equal(errorOf(recorder.one('execute_tool act')), undefined)
  t.equal(errorOf(first!), 'AGENT_CRASHED')
  t.equal(errorOf(second!), undefined)
  t.equal(recorder.open, 0)
})

t.test('a call that is withdrawn, and one that its turn leaves behind, end', async (t) => {
  const recorder = new Recorder()
  const tool = doing(
    ({ signal }: ToolContext) => new Promise((_, reject) => (signal.onabort = () => reject(signal.reason))),
  )
  const ann = async (_: AgentMessage, context: AgentContext) => {
    const run = context.tool(tool, {})
    void run.catch(() => {})
    await context.sleep(10)
    return 'done'
  }
  const team = localTeam(t, { ann }, { telemetry: recorder.telemetry, roles: { ann: { tools: [tool] } } })
  const running = team.execute('go')
  await team.clock.runToIdle()
  t.ok((await running).success)
  t.equal(recorder.open, 0)
  t.equal(errorOf(recorder.one('execute_tool act')), 'CANCELLED')
  t.equal(tookOf(recorder.one('execute_tool act')), 10)
})

t.test('a call that is withdrawn while its turn goes on ends when it is withdrawn', async (t) => {
  const recorder = new Recorder()
  const tool = doing(() => never)
  const lingering = gate()
  const ann = async (_: AgentMessage, context: AgentContext) => {
    await context.tool(tool, {}).catch(() => {})
    await lingering.opened
    return 'done'
  }
  const team = localTeam(t, { ann }, { telemetry: recorder.telemetry, roles: { ann: { tools: [tool] } } })
  const run = team.launch('go')
  await team.clock.advance(10)
  void run.cancel()
  await team.clock.advance(20)
  lingering.open()
  await team.clock.runToIdle()
  t.equal(errorOf(recorder.one('execute_tool act')), 'CANCELLED')
  t.equal(tookOf(recorder.one('execute_tool act')), 10)
  t.equal(tookOf(recorder.one('invoke_agent ann')), 30)
  t.equal(recorder.open, 0)
})

t.test('a call whose turn is not tried again ends with it', async (t) => {
  const recorder = new Recorder()
  const tool = doing(() => never)
  const ann = async (_: AgentMessage, context: AgentContext) => `${await context.tool(tool, {})}`
  const roles = { ann: { tools: [tool], supervision: { maxRestarts: 0 } } }
  const team = openTeam(t, { ann }, { telemetry: recorder.telemetry, roles })
  const running = team.execute('go')
  await team.clock.advance(5)
  team.crash('ann')
  await team.clock.advance(5)
  t.notOk((await running).success)
  t.equal(errorOf(recorder.one('execute_tool act')), 'AGENT_TERMINATED')
  t.equal(recorder.open, 0)
})

t.test('a tool that runs in the thread of its agent stands below its turn too', async (t) => {
  const recorder = new Recorder()
  const { file } = ledger(t)
  const { call, team } = desk(t, [{ module: recordModule }], { telemetry: recorder.telemetry })
  await call('record', { file })
  await team.close()
  const turn = recorder.one('invoke_agent ann')
  const [tool] = recorder.spans.filter(({ name }) => name.startsWith('execute_tool'))
  t.equal(parentOf(tool!), idOf(turn))
  t.equal(errorOf(tool!), undefined)
  t.type(tool!.attributes['gen_ai.tool.call.id'], 'string')
  t.equal(recorder.open, 0)
})

t.test('a tool that dies with the thread of its agent is tried again with the turn', async (t) => {
  const recorder = new Recorder()
  const { file } = ledger(t)
  const { call, team } = desk(t, [{ module: recordModule, export: 'again' }], { telemetry: recorder.telemetry })
  await call('again', { file, act: 'die' })
  await team.close()
  t.same(recorder.trees, [
    ['invoke_agent ann', ['execute_tool again']],
    ['invoke_agent ann', ['execute_tool again']],
  ])
  t.strictSame(recorder.named('execute_tool again').map(errorOf), ['AGENT_CRASHED', undefined])
  t.equal(recorder.open, 0)
})
