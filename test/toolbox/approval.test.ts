/** Tools whose calls a person has to approve: in the host, in the agent's thread, and in threads of their own. */
import t from 'tap'
import { z } from 'zod'
import { defineTool, type RuntimeEvent, type Team } from '../../src/index.ts'
import { given, heard } from '../kit/team.ts'
import { asked, desk, toolModule } from './desk.ts'

type Question = Extract<RuntimeEvent, { type: 'question' }>

/** Answers each question, and keeps it. */
function answering(team: Pick<Team, 'events' | 'getRun'>, answer: string): Question[] {
  const questions: Question[] = []
  team.events.subscribe((event) => {
    if (event.type !== 'question') return
    questions.push(event)
    void team.getRun(event.runId)!.answer(event.questionId, answer)
  })
  return questions
}

function payer(approval: boolean | ((input: { euros: number }) => boolean)) {
  const paid: number[] = []
  const tool = defineTool({
    name: 'pay',
    description: 'Pays.',
    input: z.object({ euros: z.number() }),
    approval,
    timeoutMs: 100,
    run: ({ euros }) => paid.push(euros),
  })
  return { tool, paid }
}

t.test('a call waits for its approval, and its time limit begins after that', async (t) => {
  const { tool, paid } = payer(true)
  const team = given(t, { roles: { ann: { tools: [tool] } } }).team({
    ann: async (_message, context) => `${await context.tool(tool, { euros: 5 })}`,
  })
  const run = team.launch('go')
  await team.clock.advance(10_000)
  t.equal(run.status, 'waiting')
  t.same(paid, [])
  for await (const event of run.events({ types: ['question'] })) {
    const { questionId, kind, text, choices } = event as Question
    t.strictSame(
      { kind, text, choices },
      { kind: 'approval', text: 'May agent "ann" call the tool "pay" with {"euros":5}?', choices: ['yes', 'no'] },
    )
    await run.answer(questionId, 'yes')
    break
  }
  await team.clock.runToIdle()
  t.equal((await run.result).finalOutput, '1')
  t.same(paid, [5])
})

t.test('a call that is not approved fails, and nothing is done', async (t) => {
  const { tool, paid } = payer(true)
  const team = given(t, { roles: { ann: { tools: [tool] } } }).team({
    ann: (_message, context) => context.tool(tool, { euros: 5 }).then(String, (error) => error.message),
  })
  answering(team, 'no')
  const { finalOutput } = await team.execute('go')
  t.equal(
    finalOutput,
    'A person did not agree that agent "ann" calls the tool "pay". Do something else, or ask for less.',
  )
  t.same(paid, [])
})

/** A tool that takes a text and needs approval, and what it was called with. */
function shell() {
  const ran: string[] = []
  const tool = defineTool({
    name: 'shell',
    description: 'Runs a command.',
    input: z.object({ command: z.string() }),
    approval: true,
    run: ({ command }) => ran.push(command),
  })
  return { tool, ran }
}

t.test('a person is shown all of a long input, and what is invisible in it', async (t) => {
  const { tool, ran } = shell()
  const command = `echo ${'x'.repeat(15_000)} \u202e; rm -rf /`
  const team = given(t, { roles: { ann: { tools: [tool] } } }).team({
    ann: async (_message, context) => `${await context.tool(tool, { command })}`,
  })
  const questions = answering(team, 'yes')
  await team.execute('go')
  t.match(questions[0]?.text, 'xxx \\u{202e}; rm -rf /"}?')
  t.strictSame(ran, [command])
})

t.test('an input that is too long for a person is refused, and nobody is asked', async (t) => {
  const { tool, ran } = shell()
  const call = { command: `echo ${'x'.repeat(20_000)}; rm -rf /` }
  const team = given(t, { roles: { ann: { tools: [tool] } } }).team({
    ann: (_message, context) => context.tool(tool, call).then(String, (error) => error.message),
  })
  const questions = answering(team, 'yes')
  t.match((await team.execute('go')).finalOutput, /input of 20029 characters.* at most 20000\. Give the tool less/)
  t.strictSame([questions, ran], [[], []])
})

t.test('a function says of which calls; of an input that misses the schema nobody is asked', async (t) => {
  const { tool, paid } = payer(({ euros }) => euros > 100)
  const team = given(t, { roles: { ann: { tools: [tool] } } }).team({
    async ann(_message, context) {
      await context.tool(tool, { euros: 5 })
      await context.tool(tool, { euros: 500 })
      return context.tool(tool, {} as never).then(String, ({ code }) => code)
    },
  })
  const questions = answering(team, 'yes')
  t.equal((await team.execute('go')).finalOutput, 'TOOL_INPUT')
  t.equal(questions.length, 1)
  t.match(questions[0]?.text, '{"euros":500}')
  t.same(paid, [5, 500])
})

t.test('an approval is asked for once, whatever happens to who calls', async (t) => {
  const { tool, paid } = payer(true)
  const team = given(t, { roles: { ann: { tools: [tool] } } }).team({
    async ann(_message, context) {
      await context.tool(tool, { euros: 5 })
      await context.sleep(100)
    },
  })
  const questions = heard(team, 'question', (event) => event)
  const run = team.launch('go')
  await team.clock.advance(1)
  team.crash('ann')
  await team.clock.advance(1)
  await run.answer(questions[0]!.questionId, 'yes')
  await team.clock.advance(1)
  team.crash('ann')
  await team.clock.runToIdle()
  t.equal((await run.result).success, true)
  t.equal(questions.length, 1)
  t.same(paid, [5])
})

for (const isolate of [false, true])
  t.test(`a tool in a module is asked for, too${isolate ? ', in a thread of its own' : ''}`, async (t) => {
    const { team } = desk(t, [{ module: toolModule('approved'), isolate }])
    const questions = answering(team, 'yes')
    const { error, agentOutputs } = await team.execute(asked('approved', {}))
    t.equal(error, null)
    t.match(agentOutputs.ann, [{ structuredData: { outcomes: [{ output: 'done' }] } }])
    t.match(questions, [{ kind: 'approval', agent: 'ann', text: 'May agent "ann" call the tool "approved" with {}?' }])
    t.equal(questions.length, 1)
  })
