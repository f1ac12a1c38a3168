/** The tools of a role in the hands of its model: offered, called, answered in words, and called once whatever dies. */
import t from 'tap'
import { ToolTimeoutError } from '../../src/index.ts'
import { pluck } from '../kit/lists.ts'
import { ledger, recordModule } from '../toolbox/desk.ts'
import { adder, doing, toolEvents } from '../toolbox/tools.ts'
import { type Answers, calls } from './fake-model.ts'
import { modelTeam } from './teams.ts'

t.test('a model is offered the tools of the team and of its role, and told what they give', async (t) => {
  const { tool, calls: made } = adder()
  const text = doing(() => 'in words', { name: 'text' })
  const nothing = doing(() => undefined, { name: 'nothing' })
  const answers: Answers = [calls(['add', { a: 2, b: 3 }], ['text', ''], ['nothing', {}]), 'done']
  const { team, model } = modelTeam(t, answers, [{ name: 'ann', tools: [text, nothing] }], { tools: [tool] })
  const events = toolEvents(team)
  const result = await team.execute('go')
  t.equal(result.finalOutput, 'done')
  t.match(model.requests[0]!.tools, [
    { name: 'add', description: 'Adds two numbers.', inputSchema: { type: 'object', required: ['a'] } },
    { name: 'text' },
    { name: 'nothing' },
  ])
  t.match(model.requests[1]!.messages.slice(-3), [
    { role: 'tool', toolCallId: 'call-0', content: '{"sum":5}' },
    { role: 'tool', toolCallId: 'call-1', content: 'in words' },
    { role: 'tool', toolCallId: 'call-2', content: '' },
  ])
  t.equal(made.length, 1)
  t.match(events[0], { type: 'tool.started', agent: 'ann', tool: 'add', input: { a: 2, b: 3 } })
})

t.test('wrong input, failures and time limits go back to the model, not to the user', async (t) => {
  const { tool, calls: made } = adder()
  const fails = doing(
    () => {
      throw new Error('the disk is full')
    },
    { name: 'fails' },
  )
  const late = doing(
    () => {
      throw new ToolTimeoutError('the service is late', { tool: 'late' })
    },
    { name: 'late' },
  )
  const answers: Answers = [
    calls(['add', { a: 'two' }], ['add', '{"a": 2'], ['fails', {}], ['late', {}]),
    calls(['add', { a: 2 }]),
    'done',
  ]
  const { team, model } = modelTeam(t, answers, [{ name: 'ann', tools: [tool, fails, late] }])
  const result = await team.execute('go')
  t.equal(result.finalOutput, 'done')
  t.match(pluck(model.requests[1]!.messages.slice(-4), 'content'), [
    /misses its schema: a: /,
    /is no JSON/,
    /failed: Error: the disk is full/,
    /^Error: the service is late/,
  ])
  t.equal(made.length, 1)
})

t.test('a model whose thread dies after each call of a tool calls each once', async (t) => {
  const { tool, calls: made } = adder()
  const { file, runs } = ledger(t)
  const steps = [calls(['add', { a: 1 }]), calls(['record', { file }]), calls(['add', { a: 2 }]), 'done']
  const agents = [{ name: 'ann', tools: [tool, { module: recordModule }] }]
  const { team, model } = modelTeam(t, steps, agents, { supervision: { poisonAttempts: 10, maxRestarts: 10 } })
  await team.start()
  let crashes = 0
  team.events.subscribe((event) => {
    if (event.type !== 'tool.finished' || crashes === 3) return
    crashes += 1
    queueMicrotask(() => team.crash('ann'))
  })
  const result = await finished(team, team.execute('go'))
  t.match(result, { success: true, finalOutput: 'done' })
  t.equal(crashes, 3)
  t.same([made.length, runs(), model.requests.length], [2, 1, 4])
})

/** In virtual time that does not run ahead of what a new life imports. */
async function finished<T>(team: { clock: { advance(ms: number): Promise<void> } }, promise: Promise<T>): Promise<T> {
  let open = true
  const done = () => {
    open = false
  }
  promise.then(done, done)
  while (open) {
    await team.clock.advance(1)
    await new Promise((resolve) => setImmediate(resolve))
  }
  return promise
}
