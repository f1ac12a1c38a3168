/** Deadlines do not count the time that models and people take, however far down the chain of requests; those have limits of their own. */
import t from 'tap'
import { z } from 'zod'
import { type AgentContext, defineTool, type RuntimeEvent } from '../../src/index.ts'
import { given, type OpenTeam, openTeam, outcomeOf, type Receive } from '../kit/team.ts'
import { FakeModel } from '../models/fake-model.ts'
import { modelTeam } from '../models/teams.ts'

const SECOND = 1_000
const MINUTE = 60 * SECOND

/** Answers after so long. */
const slow = (ms: number) =>
  new FakeModel(async ({ clock }) => {
    await clock!.sleep(ms)
    return 'thought'
  })

const thinks = async (context: AgentContext) => (await context.complete({ prompt: 'go' })).text
const asks =
  (agent: string): Receive =>
  async (_message, context) =>
    (await context.request(agent, 'go')).content

/** All that happens until `ms` have passed. */
async function playedFor(team: Pick<OpenTeam, 'clock'>, ms: number): Promise<void> {
  for (let left = ms; left > 0; left -= SECOND) await team.clock.advance(Math.min(left, SECOND))
}

t.test("a model's answer that takes longer than responseTimeoutMs and turnTimeoutMs is taken, paid once", async (t) => {
  const model = slow(4.5 * MINUTE)
  const { team } = modelTeam(t, model, [{ name: 'ann' }])
  const run = outcomeOf(team.execute('go'))
  await playedFor(team, 4.5 * MINUTE)
  t.match(run.value, { success: true, finalOutput: 'thought', totalTokenUsage: { calls: 1 } })
  t.equal(model.requests.length, 1)
})

t.test('who waits for an agent that waits for a model waits as long, through several agents', async (t) => {
  const team = given(t, { models: { default: slow(4 * MINUTE) } }).team({
    first: asks('second'),
    second: asks('third'),
    third: (_message, context) => thinks(context),
  })
  const run = outcomeOf(team.execute('go'))
  await playedFor(team, 4 * MINUTE)
  t.equal(run.value?.finalOutput, 'thought')
})

t.test('an agent that is handed the task off may think as long', async (t) => {
  const team = given(t, { models: { default: slow(4 * MINUTE) } }).team({
    first: asks('second'),
    second: (_message, context) => context.handoff('third', 'go'),
    third: (_message, context) => thinks(context),
  })
  const run = outcomeOf(team.execute('go'))
  await playedFor(team, 4 * MINUTE)
  t.equal(run.value?.finalOutput, 'thought')
})

t.test('the time before a call of a model and after it counts', async (t) => {
  const team = given(t, { models: { default: slow(100 * SECOND) } }).team({
    ann: async (_message, context) => {
      await context.sleep(30 * SECOND)
      await thinks(context)
      await context.sleep(40 * SECOND)
    },
  })
  const run = outcomeOf(team.execute('go'))
  await playedFor(team, 160 * SECOND - 1)
  t.notOk(run.settled)
  await playedFor(team, 1)
  t.match(run.value?.error, {
    code: 'REQUEST_TIMEOUT',
    message:
      /within 60000 ms of the start of its turn, not counting 100000 ms in which a model or a person was waited for/,
  })
})

t.test('calls that overlap count once', async (t) => {
  const team = given(t, { models: { default: slow(100 * SECOND) } }).team({
    ann: async (_message, context) => {
      const later = context.sleep(50 * SECOND).then(() => thinks(context))
      await Promise.all([thinks(context), later])
      await context.sleep(61 * SECOND)
    },
  })
  const run = outcomeOf(team.execute('go'))
  await playedFor(team, 210 * SECOND - 1)
  t.notOk(run.settled)
  await playedFor(team, 1)
  t.match(run.value?.error, { code: 'REQUEST_TIMEOUT', message: /not counting 150000 ms/ })
})

t.test('an agent that hangs is not excused by another one that thinks', async (t) => {
  const team = given(t, { models: { default: slow(90 * SECOND) } }).team({
    ann: async (_message, context) => {
      const outcomes = await context.requestAll(['thinker', 'hangs'], 'go')
      return outcomes.map((outcome) => (outcome.ok ? outcome.message.content : outcome.error.code)).join(' ')
    },
    thinker: (_message, context) => thinks(context),
    hangs: async (_message, context) => context.sleep(10 * MINUTE),
  })
  const failed: number[] = []
  team.events.subscribe((event) => {
    if (event.type === 'message' && event.message.sender === 'hangs') failed.push(team.clock.now())
  })
  const run = outcomeOf(team.execute('go'))
  await playedFor(team, 90 * SECOND)
  t.equal(run.value?.finalOutput, 'thought REQUEST_TIMEOUT')
  t.same(failed, [MINUTE])
})

for (const [where, options] of [
  ['in the mailbox of a model', {}],
  ['for the permit of a run', { maxConcurrentAgents: 1, roles: { thinker: { instances: 4 } } }],
] as const)
  t.test(`the time that a request waits ${where} behind turns that think does not count`, async (t) => {
    const workers = ['a', 'b', 'c', 'd']
    const cast = Object.fromEntries(workers.map((name) => [name, asks('thinker')]))
    const team = given(t, {
      models: { default: slow(50 * SECOND) },
      ...options,
      script: async (script) => {
        const outcomes = await script.requestAll(workers, 'go')
        return outcomes.map((outcome) => (outcome.ok ? outcome.message.content : outcome.error.message)).join(' ')
      },
    }).team({ ...cast, thinker: (_message, context) => thinks(context) })
    const run = outcomeOf(team.execute('go'))
    await playedFor(team, 4 * 50 * SECOND + SECOND)
    t.equal(run.value?.finalOutput, 'thought thought thought thought')
  })

t.test('who waits in line behind an agent that does nothing is not excused', async (t) => {
  const team = given(t, { unfinished: true }).team({
    ann: asks('bob'),
    bob: async (_message, context) => context.sleep(4 * MINUTE),
  })
  void team.sendMessage({ recipient: 'bob', content: 'first' })
  await playedFor(team, 0)
  const run = outcomeOf(team.execute('go'))
  await playedFor(team, MINUTE)
  t.match(run.value?.error, { code: 'REQUEST_TIMEOUT', details: { agent: 'ann' } })
})

t.test('turnTimeoutMs does not count it either, and each attempt has all of it', async (t) => {
  let attempts = 0
  const team = given(t, {
    models: { default: slow(100 * SECOND) },
    roles: { ann: { limits: { turnTimeoutMs: 20 * SECOND }, communication: { responseTimeoutMs: 10 * MINUTE } } },
  }).team({
    ann: async (_message, context) => {
      attempts = context.attempt
      await thinks(context)
      await context.sleep(10 * MINUTE)
    },
  })
  const run = outcomeOf(team.execute('go'))
  await playedFor(team, 110 * SECOND)
  team.crash('ann')
  await playedFor(team, 20 * SECOND - 1)
  t.notOk(run.settled)
  await playedFor(team, 1)
  t.equal(attempts, 2)
  t.match(run.value?.error, { code: 'TURN_TIMEOUT' })
})

t.test('a call of a model that goes on while its thread is dead stops the deadline all the same', async (t) => {
  const model = slow(3 * MINUTE)
  const team = openTeam(t, { ann: (_message, context) => thinks(context) }, { models: { default: model } })
  const run = outcomeOf(team.execute('go'))
  await playedFor(team, 30 * SECOND)
  team.crash('ann')
  await playedFor(team, 150 * SECOND)
  t.equal(run.value?.finalOutput, 'thought')
  t.equal(model.requests.length, 1)
})

t.test('a person may take longer than any deadline of agents, for a question and for an approval', async (t) => {
  const pay = defineTool({
    name: 'pay',
    description: 'Pays.',
    input: z.object({}),
    approval: true,
    run: () => 'paid',
  })
  const team = given(t, { roles: { second: { tools: [pay] } }, globalTimeoutMs: 60 * MINUTE }).team({
    first: asks('second'),
    second: async (_message, context) => `${await context.ask('Which color?')} ${await context.tool(pay, {})}`,
  })
  const questions: Extract<RuntimeEvent, { type: 'question' }>[] = []
  team.events.subscribe((event) => void (event.type === 'question' && questions.push(event)))
  const run = team.launch('go')
  for (const answer of ['red', 'yes']) {
    await playedFor(team, 20 * MINUTE)
    await run.answer(questions.at(-1)!.questionId, answer)
  }
  await playedFor(team, SECOND)
  t.equal((await run.result).finalOutput, 'red paid')
})

t.test('modelTimeoutMs ends a call of a model, which its agent is told', async (t) => {
  const { team, model } = modelTeam(t, slow(20 * MINUTE), [{ name: 'ann' }], {
    communication: { modelTimeoutMs: 90 * SECOND, turnRetries: 0 },
  })
  const run = outcomeOf(team.execute('go'))
  await playedFor(team, 90 * SECOND - 1)
  t.notOk(run.settled)
  await playedFor(team, 1)
  t.match(run.value?.error, { message: /within 90000 ms.*communication\.modelTimeoutMs/ })
  t.ok(model.requests[0]!.signal.aborted)
})

t.test('modelTimeoutMs is five minutes unless said otherwise: a run outlives a model that hangs', async (t) => {
  const { team } = modelTeam(t, slow(20 * MINUTE), [{ name: 'ann' }])
  const run = outcomeOf(team.execute('go'))
  await playedFor(team, 5 * MINUTE - 1)
  t.notOk(run.settled)
  await playedFor(team, 1)
  t.match(run.value?.error, { code: 'AGENT_FAILED', modelFailure: { reason: 'timeout' } })
})

t.test('a question that nobody answers within answerWithinMs is named', async (t) => {
  const ask = (context: AgentContext) => context.ask('Which color?').catch((error) => error)
  const team = given(t, { communication: { answerWithinMs: 5 * MINUTE } }).team({
    ann: async (_message, context) => {
      const { code, message, details } = await ask(context)
      return `${code} ${details.question}: ${message}`
    },
  })
  const run = outcomeOf(team.execute('go'))
  await playedFor(team, 5 * MINUTE)
  t.match(
    run.value?.finalOutput,
    /^REQUEST_TIMEOUT Which color\?: Nobody answered the question of agent "ann" within 300000 ms: "Which color\?"\..*answerWithinMs/,
  )
})

/** A team whose expert thinks for 70 s. */
function thinkers(t: Parameters<typeof modelTeam>[0], orchestration: object = {}) {
  const model = new FakeModel(async ({ agent, messages, clock, answerFunction }) => {
    if (agent === 'lead' && answerFunction)
      return JSON.stringify({ tasks: [{ agent: 'expert', task: 'go' }], reasoning: 'one' })
    if (agent === 'expert') await clock!.sleep(70 * SECOND)
    return agent === 'expert' ? 'expertise' : `all of ${messages.length > 0}`
  })
  return modelTeam(t, model, [{ name: 'lead' }, { name: 'expert' }], {
    orchestration: { strategy: 'supervisor', supervisor: 'lead', experts: ['expert'], ...orchestration },
  })
}

t.test('the limit of an expert counts the time of its model, and the failure says what raises it', async (t) => {
  const { team, model } = thinkers(t)
  const run = outcomeOf(team.execute('go'))
  await playedFor(team, 2 * MINUTE)
  t.notOk(run.value?.success)
  const [failure] = run.value?.failures ?? []
  t.match(failure, { agent: 'expert', error: { code: 'REQUEST_TIMEOUT', message: /60000 ms.*timeoutPerAgentMs/ } })
  t.ok(model.requests.find(({ agent }) => agent === 'expert')?.signal.aborted, 'its call was cancelled')
  t.match(run.value?.tokenUsage.expert, { calls: 1 }, 'and is counted')

  const { team: patient } = thinkers(t, { timeoutPerAgentMs: 2 * MINUTE })
  const other = outcomeOf(patient.execute('go'))
  await playedFor(patient, 2 * MINUTE)
  t.match(other.value, { success: true, failures: [] })
})

t.test('a limit by wall clock counts models and all tries of a turn, and not the time of a person', async (t) => {
  for (const [how, ms] of [
    ['thinks', 60 * SECOND],
    ['asks', 20 * MINUTE + 60 * SECOND],
  ] as const) {
    const team = given(t, {
      models: { default: slow(45 * SECOND) },
      globalTimeoutMs: 60 * MINUTE,
      roles: { second: { communication: { turnRetries: 3 } } },
    }).team({
      first: async (_message, context) =>
        (await context.request('second', 'go', { timeoutMs: 60 * SECOND, wallClock: true, retries: 3 })).content,
      second: async (_message, context) => {
        if (how === 'asks') await context.ask('Which color?')
        await thinks(context)
      },
    })
    const questions: string[] = []
    team.events.subscribe((event) => void (event.type === 'question' && questions.push(event.questionId)))
    const run = team.launch('go')
    const outcome = outcomeOf(run.result)
    if (how === 'asks') {
      await playedFor(team, 20 * MINUTE)
      await run.answer(questions[0]!, 'red')
    }
    t.notOk(outcome.settled)
    await playedFor(team, 45 * SECOND)
    t.match(outcome.value, { success: true }, `${how} within ${ms} ms`)
  }
  const team = given(t, {
    models: { default: slow(25 * SECOND) },
    roles: { second: { communication: { turnRetries: 3 } } },
  }).team({
    first: async (_message, context) =>
      (await context.request('second', 'go', { timeoutMs: 60 * SECOND, wallClock: true, retries: 3 })).content,
    second: async (_message, context) => {
      for (;;) await thinks(context)
    },
  })
  const run = outcomeOf(team.execute('go'))
  await playedFor(team, 60 * SECOND - 1)
  t.notOk(run.settled)
  await playedFor(team, 1)
  t.match(run.value?.error, { code: 'AGENT_FAILED', message: /did not answer within 60000 ms/ })
})
