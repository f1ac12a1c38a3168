/** What agents ask people: once, with an answer, and not for ever. */
import t from 'tap'
import type { RuntimeEvent } from '../../src/index.ts'
import { heard, type OpenTeam, openTeam, outcomeOf, type Receive } from '../kit/team.ts'

type Question = Extract<RuntimeEvent, { type: 'question' }>

function questionsOf(team: Pick<OpenTeam, 'events'>): Question[] {
  const questions = heard(team, 'question', (event) => event)
  return questions
}

const asks: Receive = async (_message, context) =>
  `it is ${await context.ask('Which color?', { choices: ['red', 'blue'] })}`

t.test('a question is an event of the run, whose status says that it waits, and its answer goes on', async (t) => {
  const team = openTeam(t, { ann: asks })
  const run = team.launch('go')
  await team.clock.advance(1_000)
  t.equal(run.status, 'waiting')
  t.match(await team.listRuns({ status: 'waiting' }), [{ id: run.id }])
  const events: Question[] = []
  for await (const event of run.events({ types: ['question'] })) {
    events.push(event as Question)
    await run.answer(events[0]!.questionId, 'blue')
    break
  }
  t.match(events, [{ agent: 'ann', kind: 'ask', text: 'Which color?', choices: ['red', 'blue'] }])
  await team.clock.runToIdle()
  t.equal(run.status, 'finished')
  const result = await run.result
  t.equal(result.finalOutput, 'it is blue')
  t.match(
    result.orchestrationTrace.events.filter(({ eventType }) => eventType === 'question' || eventType === 'answer'),
    [
      { agent: 'ann', details: { text: 'Which color?' } },
      { agent: 'ann', details: { answer: 'blue' } },
    ],
  )
})

t.test('an answer that is no choice is refused, and the question stays open', async (t) => {
  const team = openTeam(t, { ann: asks })
  const questions = questionsOf(team)
  const run = team.launch('go')
  await team.clock.advance(0)
  const { questionId } = questions[0]!
  const wrong = await run.answer(questionId, 'green').catch((error) => error)
  t.match(wrong, { code: 'CONFIGURATION', details: { path: 'answer', got: '"green"', accepted: '"red", "blue"' } })
  const unknown = await run.answer('no-such', 'red').catch((error) => error)
  t.match(unknown, { code: 'CONFIGURATION', details: { path: 'questionId', accepted: questionId } })
  await run.answer(questionId, 'red')
  const twice = await run.answer(questionId, 'blue').catch((error) => error)
  t.match(twice, { code: 'CONFIGURATION', details: { path: 'questionId', accepted: 'none' } })
  await team.clock.runToIdle()
  t.equal((await run.result).finalOutput, 'it is red')
})

t.test('a question is asked once, whatever happens to who has asked, before the answer and after it', async (t) => {
  const team = openTeam(t, {
    ann: async (_message, context) => {
      const color = await context.ask('Which color?')
      await context.sleep(100)
      return `${color} at attempt ${context.attempt}`
    },
  })
  const questions = questionsOf(team)
  const run = team.launch('go')
  await team.clock.advance(10)
  team.crash('ann')
  await team.clock.advance(10)
  await run.answer(questions[0]!.questionId, 'blue')
  await team.clock.advance(10)
  team.crash('ann')
  await team.clock.runToIdle()
  t.equal((await run.result).finalOutput, 'blue at attempt 3')
  t.equal(questions.length, 1)
})

t.test('an answer that comes while nobody is there to take it is not lost', async (t) => {
  const team = openTeam(t, { ann: asks }, { supervision: { backoff: { baseMs: 1_000 } } })
  const questions = questionsOf(team)
  const run = team.launch('go')
  await team.clock.advance(0)
  team.crash('ann')
  await team.clock.advance(0)
  team.crash('ann')
  await team.clock.advance(0)
  t.equal(team.getAgentStatus('ann'), 'restarting')
  await run.answer(questions[0]!.questionId, 'red')
  await team.clock.runToIdle()
  t.equal((await run.result).finalOutput, 'it is red')
})

t.test('a person is waited for: that is no deadlock and no stall, until the time of the question is up', async (t) => {
  const team = openTeam(t, {
    ann: async (_message, context) => context.ask('Anybody?', { answerWithinMs: 50_000 }).catch(({ code }) => code),
  })
  const alarms: string[] = []
  team.events.subscribe(({ type }) => {
    if (type === 'deadlock' || type === 'stall') alarms.push(type)
  })
  const run = team.launch('go')
  await team.clock.advance(49_999)
  t.equal(run.status, 'waiting')
  await team.clock.advance(1)
  await team.clock.runToIdle()
  t.equal((await run.result).finalOutput, 'REQUEST_TIMEOUT')
  t.same(alarms, [])
})

t.test('a question goes with its run', async (t) => {
  const team = openTeam(t, { ann: asks })
  const questions = questionsOf(team)
  const run = team.launch('go')
  await team.clock.advance(0)
  await run.cancel()
  t.equal(run.status, 'aborted')
  const late = await run.answer(questions[0]!.questionId, 'red').catch((error) => error)
  t.match(late, { code: 'CONFIGURATION', details: { path: 'questionId' } })
  await team.clock.runToIdle()
})

t.test('bad questions are refused by name', async (t) => {
  const bad: [unknown, object | undefined, string][] = [
    ['', undefined, 'question'],
    [7, undefined, 'question'],
    ['x'.repeat(24_001), undefined, 'question'],
    ['ok?', { choices: [] }, 'choices'],
    ['ok?', { choices: ['a', 'a'] }, 'choices'],
    ['ok?', { choices: ['a', 7] }, 'choices'],
    ['ok?', { choices: 'a' }, 'choices'],
    ['ok?', { timeoutMs: 0 }, 'timeoutMs'],
    ['ok?', { timeoutMs: 'soon' }, 'timeoutMs'],
    ['ok?', { timeoutMs: 2 ** 31 }, 'timeoutMs'],
  ]
  const refused: unknown[] = []
  const team = openTeam(t, {
    ann: async (_message, context) => {
      for (const [question, options] of bad)
        refused.push(await context.ask(question as string, options).catch(({ code, details }) => [code, details.path]))
    },
  })
  const result = outcomeOf(team.execute('go'))
  await team.clock.runToIdle()
  t.same(
    refused,
    bad.map(([, , path]) => ['MESSAGE_REJECTED', path]),
  )
  t.equal(result.value?.success, true)
})

t.test('in a turn that a message from outside has caused nobody can answer', async (t) => {
  const team = openTeam(t, { ann: (_message, context) => context.ask('Who?').catch(({ details }) => details.path) })
  const answer = outcomeOf(team.sendMessage({ recipient: 'ann', content: 'hi', requiresResponse: true }))
  await team.clock.runToIdle()
  t.equal(answer.value?.content, 'ask')
})
