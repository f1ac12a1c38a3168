/** Questions to people, how they are closed, and answers that are more than a word. */
import t, { type Test } from 'tap'
import { z } from 'zod'
import { defineTool, type RuntimeEvent } from '../../src/index.ts'
import { pluck } from '../kit/lists.ts'
import { given, heard, type OpenTeam, openTeam, outcomeOf, type Receive } from '../kit/team.ts'

// Open questions, how they are closed, and answers that are more than a word.

type Closed = Extract<RuntimeEvent, { type: 'question.closed' }>

function closingsOf(team: Pick<OpenTeam, 'events'>): Closed[] {
  const closings = heard(team, 'question.closed', (event) => event)
  return closings
}

/** A team whose agent pays after an approval, and what was paid. */
function shop(t: Test, receive?: Receive, options: { answerWithinMs?: number } = {}) {
  const paid: unknown[] = []
  const pay = defineTool({
    name: 'pay',
    description: 'Pays.',
    input: z.object({ to: z.string(), euros: z.number().max(100) }),
    approval: true,
    ...options,
    run: (input) => {
      paid.push(input)
      return 'paid'
    },
  })
  const asks: Receive = (_message, context) =>
    context.tool(pay, { to: 'ann', euros: 90 }).then(String, ({ code, message }) => `${code} ${message}`)
  return { paid, team: openTeam(t, { ann: receive ?? asks }, { roles: { ann: { tools: [pay] } } }) }
}

const refusal = (promise: Promise<void>) =>
  promise.then(
    () => undefined,
    (error) => error,
  )

t.test('an open approval is listed with its tool, its input and who asks', async (t) => {
  const { team } = shop(t)
  const run = team.launch('go')
  await team.clock.advance(1)
  const [open] = team.questions()
  t.match(open, {
    runId: run.id,
    agent: 'ann',
    kind: 'approval',
    tool: 'pay',
    callId: String,
    input: { to: 'ann', euros: 90 },
    inputSchema: { type: 'object', required: ['to', 'euros'] },
    choices: ['yes', 'no'],
    answerBy: null,
  })
  t.same(run.questions, [open])
  t.same(team.questions('another'), [])
  await team.answer(open!.questionId, 'yes')
  t.same(team.questions(), [])
  await team.clock.runToIdle()
  const calls: RuntimeEvent[] = []
  for await (const event of run.events({ types: ['question', 'tool.started'] })) calls.push(event)
  t.match(calls, [
    { type: 'question', tool: 'pay', input: { euros: 90 } },
    { type: 'tool.started', callId: open!.callId },
  ])
})

t.test('an answer changes the input of the tool', async (t) => {
  const { team, paid } = shop(t)
  const closings = closingsOf(team)
  const run = team.launch('go')
  await team.clock.advance(1)
  const [open] = run.questions
  await run.answer(open!.questionId, { approved: true, input: { to: 'bob', euros: 5 } })
  await team.clock.runToIdle()
  t.equal((await run.result).finalOutput, 'paid')
  t.same(paid, [{ to: 'bob', euros: 5 }])
  t.match(closings, [{ how: 'answered', answer: 'yes', input: { to: 'bob', euros: 5 }, agent: 'ann' }])
})

t.test('an input that the tool would refuse is refused as an answer, and the question stays open', async (t) => {
  const { team, paid } = shop(t)
  const run = team.launch('go')
  await team.clock.advance(1)
  const { questionId } = run.questions[0]!
  const refused = await refusal(run.answer(questionId, { approved: true, input: { to: 'bob', euros: 500 } }))
  t.match(refused, {
    code: 'CONFIGURATION',
    message: /^answer\.input: it misses the schema of the tool "pay": euros: .*The question stays open\.$/,
    details: { path: 'answer.input', tool: 'pay' },
  })
  const bad: [unknown, string][] = [
    [{ approved: true, input: () => 1 }, 'answer.input'],
    [{ approved: 'yes' }, 'answer.approved'],
    [{ approved: true, reason: 'why not' }, 'answer.reason'],
    [{ approved: false, input: {} }, 'answer.input'],
    [{ approved: false, reason: '' }, 'answer.reason'],
    [{ approved: true, inputs: {} }, 'answer.inputs'],
    ['perhaps', 'answer'],
    [null, 'answer'],
  ]
  for (const [answer, path] of bad)
    t.match(await refusal(run.answer(questionId, answer as string)), { code: 'CONFIGURATION', details: { path } })
  await run.answer(questionId, { approved: true, input: { to: 'bob', euros: 50 } })
  await team.clock.runToIdle()
  t.same(paid, [{ to: 'bob', euros: 50 }])
})

t.test('an answer says why not, and the caller of the tool reads it', async (t) => {
  const { team, paid } = shop(t)
  const closings = closingsOf(team)
  const run = team.launch('go')
  await team.clock.advance(1)
  await team.answer(run.questions[0]!.questionId, { approved: false, reason: 'Ann has been paid.' })
  await team.clock.runToIdle()
  t.match(
    (await run.result).finalOutput,
    'TOOL_FAILED A person did not agree that agent "ann" calls the tool "pay". The reason: Ann has been paid.',
  )
  t.same(paid, [])
  t.match(closings, [{ how: 'answered', answer: 'no', reason: 'Ann has been paid.' }])
})

t.test('an edited input is for approvals alone', async (t) => {
  const { team } = shop(t, async (_message, context) => context.ask('Which color?'))
  const run = team.launch('go')
  await team.clock.advance(1)
  const { questionId } = run.questions[0]!
  t.match(await refusal(run.answer(questionId, { approved: true })), { details: { path: 'answer' } })
  await run.answer(questionId, 'blue')
  await team.clock.runToIdle()
  t.equal((await run.result).finalOutput, 'blue')
})

t.test('a question is answered once, and a second answer is told so', async (t) => {
  const { team, paid } = shop(t)
  const run = team.launch('go')
  await team.clock.advance(1)
  const { questionId } = run.questions[0]!
  const [first, second] = await Promise.all([
    refusal(run.answer(questionId, { approved: true, input: { to: 'bob', euros: 1 } })),
    refusal(run.answer(questionId, { approved: true, input: { to: 'bob', euros: 2 } })),
  ])
  t.equal(first, undefined)
  t.match(second, { code: 'CONFIGURATION', message: /: it is answered\. Open: none/, details: { how: 'answered' } })
  t.match(await refusal(team.answer(questionId, 'no')), { details: { how: 'answered' } })
  t.match(await refusal(team.answer('no-such', 'no')), { details: { path: 'questionId', accepted: 'none' } })
  await team.clock.runToIdle()
  t.same(paid, [{ to: 'bob', euros: 1 }])
})

t.test('an answer that comes too late is told so, and the question is closed as late', async (t) => {
  const { team, paid } = shop(t, undefined, { answerWithinMs: 1_000 })
  const closings = closingsOf(team)
  const run = team.launch('go')
  await team.clock.advance(1)
  const { questionId, askedAt, answerBy } = run.questions[0]!
  t.equal(answerBy, askedAt + 1_000)
  await team.clock.advance(1_000)
  t.match(await refusal(run.answer(questionId, 'yes')), { message: /its time was up/, details: { how: 'late' } })
  await team.clock.runToIdle()
  t.match((await run.result).finalOutput, /^REQUEST_TIMEOUT Nobody answered .* within 1000 ms/)
  t.match(closings, [{ how: 'late', questionId }])
  t.same(paid, [])
})

for (const [what, withdraw] of [
  ['its signal', (stop: AbortController) => stop.abort()],
  ['the end of its run', (_stop: AbortController, run: { cancel(): Promise<void> }) => void run.cancel()],
] as const)
  t.test(`a question that ${what} withdraws is closed, and its answer is refused`, async (t) => {
    const stop = new AbortController()
    const { team } = shop(t, (_message, context) =>
      context.ask('Which color?', { signal: stop.signal }).catch(({ code }) => code),
    )
    const closings = closingsOf(team)
    const run = team.launch('go')
    await team.clock.advance(1)
    const { questionId } = run.questions[0]!
    withdraw(stop, run)
    await team.clock.runToIdle()
    t.match(closings, [{ how: 'withdrawn', questionId, agent: 'ann' }])
    t.match(await refusal(run.answer(questionId, 'blue')), { details: { how: 'withdrawn' } })
    const kinds: string[] = []
    for await (const { type } of run.events({ types: ['question', 'question.closed', 'run.finished'] }))
      kinds.push(type)
    t.same(kinds, ['question', 'question.closed', 'run.finished'])
  })

const HOUR = 3_600_000

t.test('no time of request, turn or run counts while a person is asked', async (t) => {
  const team = given(t, {
    communication: { responseTimeoutMs: 1_000 },
    roles: { ann: { limits: { turnTimeoutMs: 1_000 } }, bob: { limits: { turnTimeoutMs: 1_000 } } },
    globalTimeoutMs: 5_000,
  }).team({
    ann: async (_message, context) => (await context.request('bob', 'ask')).content,
    bob: async (_message, context) => context.ask('Which color?'),
  })
  const run = team.launch('go')
  await team.clock.advance(48 * HOUR)
  t.equal(run.status, 'waiting')
  await run.answer(run.questions[0]!.questionId, 'blue')
  await team.clock.runToIdle()
  t.match(await run.result, { success: true, finalOutput: 'blue' })
})

t.test('the time of a run goes on when its last question is closed', async (t) => {
  const team = given(t, { globalTimeoutMs: 5_000 }).team({
    ann: async (_message, context) => {
      await Promise.all([context.ask('First?'), context.ask('Second?')])
      await context.sleep(60_000)
    },
  })
  const run = team.launch('go')
  await team.clock.advance(2_000)
  await run.answer(run.questions[0]!.questionId, 'yes')
  await team.clock.advance(10 * HOUR)
  await run.answer(run.questions[0]!.questionId, 'yes')
  await team.clock.advance(4_999)
  t.equal(run.status, 'running')
  await team.clock.advance(1)
  t.match(await run.result, {
    error: {
      code: 'RUN_TIMEOUT',
      message: /^The run did not end within 5000 ms, not counting 36002000 ms in which a person was asked/,
    },
  })
})

t.test('a question that is answered is closed once, whatever time it had', async (t) => {
  const { team } = shop(t, undefined, { answerWithinMs: 100 })
  const closings = closingsOf(team)
  const run = team.launch('go')
  await team.clock.advance(50)
  await run.answer(run.questions[0]!.questionId, 'yes')
  await team.clock.advance(1_000)
  t.same(pluck(closings, 'how'), ['answered'])
})

t.test('the time of a turn counts again when its question is withdrawn', async (t) => {
  const receive: Receive = async (_message, context) => {
    const ending = new AbortController()
    const asked = context.ask('Which color?', { signal: ending.signal }).catch(({ code }) => code)
    await context.sleep(100)
    ending.abort()
    await asked
    await context.sleep(10_000)
    return 'in time'
  }
  const team = openTeam(t, { ann: receive }, { roles: { ann: { limits: { turnTimeoutMs: 1_000 } } } })
  const run = team.launch('go')
  await team.clock.advance(5_000)
  t.match((await run.result).error, { code: 'TURN_TIMEOUT' })
})

// What agents ask people: once, with an answer, and not for ever.

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
