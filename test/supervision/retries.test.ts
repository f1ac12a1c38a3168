/** Rules 32 and 33, and `communication.turnRetries`: what is asked and tried again, and who is told when that was in vain. */
import { join } from 'node:path'
import t from 'tap'
import { z } from 'zod'
import { defineAgent } from '../../src/actors/definition/definition.ts'
import {
  type AgentRole,
  BudgetExceededError,
  createTeam,
  defineTool,
  type MultiAgentResult,
  type OrchestratorContext,
  type RequestOptions,
  TaskRefusedError,
} from '../../src/index.ts'
import { folderOf } from '../durability/log-folders.ts'
import { ask, given, never, openTeam, outcomeOf, type Receive, silent } from '../kit/team.ts'
import { type Answers, calls, FakeModel } from '../models/fake-model.ts'
import { modelTeam } from '../models/teams.ts'

/** Asks the worker, with those options. */
const asks =
  (options: RequestOptions = {}): Receive =>
  async (message, context) => {
    try {
      return (await context.request('worker', message.content, options)).content
    } catch (error) {
      const { code, details } = error as { code: string; details: { tried?: number; waitedMs?: number } }
      return `${code} ${details.tried} ${details.waitedMs} at ${context.now()}`
    }
  }

/** Sleeps as long as it is told; counts how often it began. */
function sleeper() {
  const began: string[] = []
  const worker: Receive = async (message, context) => {
    began.push(`${context.attempt} at ${context.now()}`)
    await context.sleep(Number(message.content))
    return `slept ${message.content}`
  }
  return { began, worker }
}

t.test('rule 32: a request is asked again as often as its sender says, and then fails, with how often', async (t) => {
  for (const [retries, role] of [
    [0, undefined],
    [2, undefined],
    [2, 7],
    [undefined, 1],
  ] as const) {
    const { began, worker } = sleeper()
    const caller = asks({ timeoutMs: 100, ...(retries !== undefined && { retries }) })
    const team = given(t, {
      roles: { caller: { communication: { ...(role !== undefined && { retries: role }) } } },
    }).team({ caller, worker })
    const asked = outcomeOf(ask(team, 'caller', '100000'))
    const tries = (retries ?? role ?? 0) + 1
    await team.clock.advance(tries * 100 - 1)
    t.notOk(asked.settled)
    await team.clock.advance(1)
    t.equal(asked.value, `REQUEST_TIMEOUT ${tries} ${tries * 100} at ${tries * 100}`)
    t.same(began, ['1 at 0'])
    await team.clock.runToIdle()
  }
})

t.test("rule 32: a team's retries are those of its script and of callers outside, too", async (t) => {
  const { worker } = sleeper()
  const team = openTeam(t, { worker }, { communication: { retries: 1, responseTimeoutMs: 100 } })
  const [outside, script] = [ask(team, 'worker', '150'), team.execute('140')]
  await team.clock.runToIdle()
  t.equal(await outside, 'slept 150')
  t.match(await script, { success: true, finalOutput: 'slept 140' })
})

t.test('rule 32: the trace of a retried request has one message, with one id', async (t) => {
  const { worker } = sleeper()
  const team = openTeam(t, { caller: asks({ timeoutMs: 10, retries: 5 }), worker })
  const run = team.launch('35')
  await team.clock.runToIdle()
  const { messageHistory } = await run.result
  const [request, ...more] = messageHistory.filter(
    ({ type, recipient }) => type === 'request' && recipient === 'worker',
  )
  t.same(more, [])
  t.match(
    messageHistory.find(({ sender }) => sender === 'worker'),
    { content: 'slept 35', correlationId: request?.id },
  )
})

t.test('rule 32: a request can be asked again up to 126 times', async (t) => {
  for (const idempotent of [false, true]) {
    const caller = asks({ timeoutMs: 10, retries: 126, idempotent })
    const worker: Receive = (_message, context) => team.clock.sleep(1_265).then(() => `attempt ${context.attempt}`)
    const team = openTeam(t, { caller, worker })
    const asked = ask(team, 'caller')
    await team.clock.runToIdle()
    t.equal(await asked, idempotent ? 'REQUEST_TIMEOUT 127 1270 at 1270' : 'attempt 1')
  }
})

t.test('rule 32: when it has been asked often enough it is escalated, and then fails', async (t) => {
  const reports: [string, unknown][] = []
  const order: string[] = []
  const team = given(t, { unfinished: true, roles: { caller: { escalateTo: 'boss' } } }).team({
    async caller(message, context) {
      await context.request('worker', message.content, { timeoutMs: 100, retries: 1 }).catch(() => order.push('failed'))
    },
    worker: () => never,
    boss: defineAgent({
      receive: () => '',
      observe(message) {
        order.push('escalated')
        reports.push([`${message.type} of ${message.sender} at ${message.sentAt}`, message.structuredData])
      },
    }),
  })
  const asked = ask(team, 'caller')
  await team.clock.advance(200)
  await asked
  t.match(reports, [
    ['report of caller at 200', { event: 'unanswered', agent: 'worker', code: 'REQUEST_TIMEOUT', tried: 2 }],
  ])
  t.same(order.sort(), ['escalated', 'failed'])
})

t.test('rule 32: nobody is told of himself', async (t) => {
  for (const escalateTo of ['worker', 'caller']) {
    const caller = asks({ timeoutMs: 100 })
    const team = openTeam(t, { caller, worker: () => never }, { unfinished: true, roles: { caller: { escalateTo } } })
    t.equal(await team.within(100, ask(team, 'caller')), 'REQUEST_TIMEOUT 1 100 at 100')
    t.same(team.host.directory.byIndex.map(({ mailbox }) => mailbox.accepted).sort(), [0, 0, 0, 1, 1])
  }
})

t.test('rule 33: asked again while it is still queued it keeps its place, and is done once', async (t) => {
  const { began, worker } = sleeper()
  const team = given(t, { roles: { worker: { communication: { queueTimeoutMs: 100 } } } }).team({
    caller: asks({ retries: 2 }),
    worker,
  })
  void ask(team, 'worker', '250')
  await team.clock.advance(0)
  const asked = outcomeOf(ask(team, 'caller', '10'))
  await team.clock.advance(0)
  const later = outcomeOf(ask(team, 'worker', '20'))
  await team.clock.advance(100)
  t.equal(later.error?.code, 'MESSAGE_EXPIRED', 'nobody asks that again')
  await team.clock.advance(160)
  t.equal(asked.value, 'slept 10')
  t.same(began, ['1 at 0', '1 at 250'])
})

t.test('rule 33: asked again in vain while it is queued it expires, with how often it was asked', async (t) => {
  const team = given(t, { unfinished: true, roles: { worker: { communication: { queueTimeoutMs: 100 } } } }).team({
    caller: asks({ retries: 1 }),
    worker: () => never,
  })
  await team.sendMessage({ recipient: 'worker', content: '' })
  await team.clock.advance(0)
  t.equal(await team.within(200, ask(team, 'caller')), 'MESSAGE_EXPIRED 2 undefined at 200')
  t.match(team.deadLetters.list(), [{ reason: 'expired', at: 200 }])
})

t.test('rule 33: asked again while its turn is under way it waits for that one', async (t) => {
  const { began, worker } = sleeper()
  const team = openTeam(t, { caller: asks({ timeoutMs: 100, retries: 3 }), worker })
  t.equal(await team.within(350, ask(team, 'caller', '350')), 'slept 350')
  t.same(began, ['1 at 0'])
  t.same(team.deadLetters.list(), [])
})

for (const idempotent of [false, true])
  t.test(`rule 33: asked again between two lives it waits for the next attempt: ${idempotent}`, async (t) => {
    let effects = 0
    const team = given(t, { supervision: { backoff: { baseMs: 300, capMs: 300 } } }).team({
      caller: asks({ timeoutMs: 100, retries: 4, idempotent }),
      async worker(_message, context) {
        await context.step('effect', () => void effects++)
        await context.sleep(30)
        if (context.attempt < 3) team.crash('worker')
        return `attempt ${context.attempt}`
      },
    })
    const asked = ask(team, 'caller')
    await team.clock.runToIdle()
    t.equal(await asked, 'attempt 3')
    t.equal(effects, 1)
  })

t.test('rule 33: a reply that comes just as its deadline does is the only one', async (t) => {
  for (const idempotent of [false, true])
    for (let seed = 1; seed < 10; seed++) {
      const worker: Receive = async (_message, context) => {
        await context.sleep(context.attempt === 1 ? 100 : 10)
        return `attempt ${context.attempt}`
      }
      const team = openTeam(t, { caller: asks({ timeoutMs: 100, retries: 1, idempotent }), worker }, { seed })
      const asked = ask(team, 'caller')
      await team.clock.runToIdle()
      t.match(await asked, idempotent ? /^attempt [12]$/ : /^attempt 1$/)
      t.equal(team.agent('worker').mailbox.handled, 1)
      t.same(team.deadLetters.list(), [])
    }
})

t.test('rule 33: an idempotent request has its turn begin again, with the steps that it had finished', async (t) => {
  let steps = 0
  const team = openTeam(t, {
    caller: asks({ timeoutMs: 100, retries: 1, idempotent: true }),
    async worker(_message, context) {
      await context.step('first', () => void steps++)
      await context.request('helper', 'help').catch((error) => {
        if (context.signal.aborted) throw error
      })
      return `attempt ${context.attempt} at ${context.now()}`
    },
    helper: (_message, context) => (steps++ < 2 ? context.sleep(1_000) : ''),
  })
  const asked = ask(team, 'caller')
  await team.clock.advance(100)
  await team.clock.runToIdle()
  t.equal(await asked, 'attempt 2 at 100')
  t.equal(steps, 3, 'the first was not taken again, the helper was asked again')
})

t.test('rule 33: a turn that does not stop when it is to begin again costs its thread, and begins again', async (t) => {
  const began: number[] = []
  const team = given(t, { supervision: { stopGraceMs: 50 } }).team({
    caller: asks({ timeoutMs: 100, retries: 3, idempotent: true }),
    worker(_message, { attempt }) {
      began.push(attempt)
      return attempt === 1 ? never : `attempt ${attempt}`
    },
  })
  const asked = ask(team, 'caller')
  await team.clock.advance(149)
  t.same(began, [1])
  await team.clock.advance(1)
  t.equal(await asked, 'attempt 2')
})

t.test('rule 33: the attempt that has begun again is not ended by the grace of the one before', async (t) => {
  const team = given(t, { supervision: { stopGraceMs: 50 } }).team({
    caller: asks({ timeoutMs: 100, retries: 1, idempotent: true }),
    async worker(_message, context) {
      await context.sleep(context.attempt === 1 ? 1_000 : 80)
      return `attempt ${context.attempt} of life ${team.agent('worker').epoch}`
    },
  })
  const asked = ask(team, 'caller')
  await team.clock.runToIdle()
  t.equal(await asked, 'attempt 2 of life 1')
})

t.test('rule 33: a step that may not run twice is waited for, not begun again', async (t) => {
  let effects = 0
  const team = openTeam(t, {
    caller: asks({ timeoutMs: 100, retries: 1, idempotent: true }),
    async worker(_message, context) {
      await context.step('effect', async () => {
        effects++
        await team.clock.sleep(150)
      })
      return `attempt ${context.attempt}`
    },
  })
  const asked = ask(team, 'caller')
  await team.clock.runToIdle()
  t.equal(await asked, 'attempt 1')
  t.equal(effects, 1)
})

t.test('a caller that dies meanwhile does not begin to count anew', async (t) => {
  const { began, worker } = sleeper()
  const team = openTeam(t, { caller: asks({ timeoutMs: 100, retries: 2 }), worker })
  const asked = ask(team, 'caller', '100000')
  await team.clock.advance(150)
  team.crash('caller')
  await team.clock.advance(150)
  t.match(await asked, /^REQUEST_TIMEOUT 3 300/)
  t.same(began, ['1 at 0'])
})

t.test('rule 32: with who takes a request over by a handoff its deadlines begin anew', async (t) => {
  const outcomes: Record<string, string> = {
    '190': 'slept 190',
    '210': 'REQUEST_TIMEOUT 2 200 at 350',
  }
  for (const [ms, outcome] of Object.entries(outcomes)) {
    const { worker: target } = sleeper()
    const team = openTeam(t, {
      caller: asks({ timeoutMs: 100, retries: 1 }),
      async worker(message, context) {
        await context.sleep(150) // by then it was asked a second time
        await context.handoff('target', message.content)
      },
      target,
    })
    const asked = ask(team, 'caller', ms)
    await team.clock.runToIdle()
    t.equal(await asked, outcome)
  }
})

t.test('rule 33: a turn of an idempotent request that fails is not begun again: an error is an answer', async (t) => {
  let began = 0
  const team = openTeam(t, {
    caller: asks({ timeoutMs: 100, retries: 3, idempotent: true }),
    worker: () => {
      began += 1
      throw new Error('it does not work')
    },
  })
  t.match(await ask(team, 'caller'), /^AGENT_FAILED/)
  t.equal(began, 1)
})

// `communication.turnRetries`: a turn that threw or was late is tried again, then its failure is escalated.

const oneAfterOther = { strategy: 'sequential' } as const

/** Which tries there were, by the events of the trace. */
const tries = ({ orchestrationTrace }: Pick<MultiAgentResult<unknown>, 'orchestrationTrace'>) =>
  orchestrationTrace.events
    .filter(({ eventType }) => eventType === 'turn.retried')
    .map(({ agent, details }) => [agent, Reflect.get(details, 'tried'), Reflect.get(details, 'error')?.code])

const reports = ({ messageHistory }: Pick<MultiAgentResult<unknown>, 'messageHistory'>) =>
  messageHistory
    .filter(({ type }) => type === 'report')
    .map(({ sender, recipient, structuredData }) => [sender, recipient, structuredData])

t.test('a model turn that threw is tried once more, and what it had finished is not done again', async (t) => {
  let used = 0
  const count = defineTool({ name: 'count', description: 'Counts.', input: z.object({}), run: () => ++used })
  const answers: Answers = ({ messages }, nth) => {
    if (messages.length === 2) return calls(['count', {}])
    return nth === 1 ? [new Error('no line')] : 'done'
  }
  const { team, model } = modelTeam(t, answers, [{ name: 'ann', systemPrompt: 'Count.' }], { tools: [count] })
  const result = await team.execute('go')
  t.match(result, { success: true, finalOutput: 'done' })
  t.equal(used, 1)
  t.equal(model.requests.length, 3, 'the first answer stands in the log')
  t.same(tries(result), [['ann', 2, 'AGENT_FAILED']])
})

t.test('it is tried as often as turnRetries says', async (t) => {
  for (const [turnRetries, asked] of [
    [undefined, 2],
    [0, 1],
    [3, 4],
  ] as const) {
    const role = { name: 'ann', communication: { turnRetries: 5 } }
    const ofTeam = { communication: { ...(turnRetries !== undefined && { turnRetries }) } }
    const fails = () => [new Error('no line')]
    const { team, model } = modelTeam(t, fails, [{ name: 'ann' }], ofTeam)
    t.match(await team.execute('go'), { success: false, error: { code: 'AGENT_FAILED' } })
    t.equal(model.requests.length, asked)
    const own = modelTeam(t, fails, [role], ofTeam)
    await own.team.execute('go')
    t.equal(own.model.requests.length, 6, 'of a role before that of the team')
  }
})

t.test('code is tried again only if it says so', async (t) => {
  for (const turnRetries of [undefined, 1]) {
    let tried = 0
    const ann = () => {
      tried += 1
      throw new Error('no')
    }
    const communication = turnRetries === undefined ? {} : { turnRetries }
    t.match(await openTeam(t, { ann }, { communication }).execute('go'), { success: false })
    t.equal(tried, turnRetries === undefined ? 1 : 2)
  }
})

const hopeless: [what: string, thrown: Error][] = [
  ['marked final', Object.assign(new Error('never'), { final: true })],
  ['a budget', new BudgetExceededError('no tokens', {})],
  ['a refusal', new TaskRefusedError('not mine', {})],
]
for (const [what, thrown] of hopeless)
  t.test(`an error that no other try can change ends the turn at once: ${what}`, async (t) => {
    let tried = 0
    const ann = () => {
      tried += 1
      throw thrown
    }
    const team = openTeam(t, { ann }, { communication: { turnRetries: 3 } })
    t.match(await team.execute('go'), { success: false })
    t.equal(tried, 1)
  })

const refusals: [what: string, answer: Answers, role: Partial<AgentRole>, asked: number][] = [
  ['a key that is refused', () => [Object.assign(new Error('never'), { final: true })], {}, 1],
  ['an answer that misses its schema twice', () => 'no JSON', { output: z.object({ x: z.number() }) }, 2],
  ['tools that there are not', () => calls(['nothing', {}]), {}, 3],
]
for (const [what, answer, role, asked] of refusals)
  t.test(`a model turn that failed over ${what} is not tried again`, async (t) => {
    const { team, model } = modelTeam(t, answer, [{ name: 'ann', ...role }])
    const result = await team.execute('go')
    t.match(result, { success: false })
    t.same(tries(result), [])
    t.equal(model.requests.length, asked)
  })

for (const heeds of [true, false])
  t.test(`a late turn is tried again when it has ended (heeds its signal: ${heeds})`, async (t) => {
    let open = 0
    let most = 0
    let tried = 0
    const done: string[] = []
    const team = given(t, {
      communication: { turnRetries: 1 },
      roles: { ann: { limits: { turnTimeoutMs: 1_000 } } },
    }).team({
      async ann(_message, context) {
        most = Math.max(most, ++open)
        tried += 1
        await context.step('once', () => done.push('once'))
        if (tried === 2) return 'in time'
        try {
          await context.step(
            'wait',
            () => new Promise((_, reject) => heeds && context.signal.addEventListener('abort', reject)),
            {
              idempotent: true,
            },
          )
          return 'late'
        } finally {
          open -= 1
        }
      },
    })
    const run = outcomeOf(team.execute('go'))
    await team.clock.runToIdle()
    t.match(run.value, { success: true, finalOutput: 'in time' })
    t.same(done, ['once'])
    t.equal(tried, 2)
    if (heeds) t.equal(most, 1)
    t.match(tries(run.value!), [['ann', 2]])
  })

for (const heeds of [true, false])
  t.test(`a tool that may not run twice is not: the turn ends with OUTCOME_UNKNOWN (heeds: ${heeds})`, async (t) => {
    let used = 0
    const hang = defineTool({
      name: 'hang',
      description: 'Hangs.',
      input: z.object({}),
      timeoutMs: 120_000,
      run: (_input, { signal }) => {
        used += 1
        return new Promise((_, reject) => heeds && signal.addEventListener('abort', () => reject(new Error('stopped'))))
      },
    })
    const { team, model } = modelTeam(t, () => calls(['hang', {}]), [{ name: 'ann' }], { tools: [hang] })
    const run = outcomeOf(team.execute('go'))
    await team.clock.runToIdle()
    t.match(run.value, {
      success: false,
      error: { code: 'OUTCOME_UNKNOWN', message: /was late while its tool "hang"/ },
    })
    t.equal(used, 1)
    t.equal(model.requests.length, 1)
  })

t.test('the next try is at another instance where one is free', async (t) => {
  const { team } = modelTeam(t, (_, nth) => (nth % 2 === 0 ? [new Error('no line')] : 'done'), [
    { name: 'ann', instances: 2 },
  ])
  for (let i = 0; i < 4; i++) {
    const { orchestrationTrace } = await team.execute('go')
    const at = orchestrationTrace.events
      .filter(({ agent, eventType }) => agent === 'ann' && eventType === 'turn.started')
      .map(({ details }) => Reflect.get(details, 'instance'))
    t.same(new Set(at), new Set([0, 1]))
  }
})

t.test(
  'a try that the free instance cannot take, as a turn of the run waits for a person there, is not left to it',
  async (t) => {
    const tried: number[] = []
    const team = openTeam(
      t,
      {
        worker: async ({ content }, context) => {
          if (content === 'ask') return context.ask('May I?')
          tried.push(context.attempt)
          await context.sleep(1_000)
          if (context.attempt === 1) throw new Error('not yet')
          return 'done'
        },
      },
      {
        roles: { worker: { instances: 2, communication: { turnRetries: 1 } } },
        orchestration: {
          strategy: 'custom',
          run: async (script: OrchestratorContext) => {
            const asked = script.request('worker', 'ask')
            const { content } = await script.request('worker', 'work')
            return `${content}, ${(await asked).content}`
          },
        },
      },
    )
    const run = outcomeOf(team.execute('go', { runId: 'run' }))
    await team.clock.runToIdle()
    t.same(tried, [1, 2])
    const [question] = team.questions()
    t.ok(question)
    await team.answer(question!.questionId, 'yes')
    await team.clock.runToIdle()
    t.match(run.value, { success: true, finalOutput: 'done, yes' })
  },
)

t.test('who asked gets the error, and the manager of the agent a report', async (t) => {
  const fails: Answers = ({ agent }) => (agent === 'ann' ? [new Error('no line')] : 'I see')
  const agents = [{ name: 'ann', escalateTo: 'boss' }, { name: 'boss' }]
  const orchestration = {
    strategy: 'custom' as const,
    run: async (script: { request(to: string, content: string): Promise<{ content: string }> }) =>
      script.request('ann', 'go').then(
        ({ content }) => content,
        (error) => `${error.code}`,
      ),
  }
  const { team } = modelTeam(t, fails, agents, { orchestration })
  const result = await team.execute('go')
  t.equal(result.finalOutput, 'AGENT_FAILED')
  t.match(reports(result), [['ann', 'boss', { event: 'failed', agent: 'ann', code: 'AGENT_FAILED', tried: 2 }]])
  const [escalated] = result.orchestrationTrace.events.filter(({ eventType }) => eventType === 'escalated')
  t.match(escalated, { agent: 'ann', details: { to: 'boss', tried: 2, error: { code: 'AGENT_FAILED' } } })
})

t.test('a request that is asked again stands in the trace with its number', async (t) => {
  const team = given(t, {
    communication: { responseTimeoutMs: 1_000 },
    roles: { ann: { communication: { responseTimeoutMs: 60_000 } } },
  }).team({
    ann: async (_message, context) => (await context.request('bob', 'go', { retries: 1 })).content,
    bob: () => never,
  })
  const run = outcomeOf(team.execute('go'))
  await team.clock.runToIdle()
  const again = run.value!.orchestrationTrace.events.filter(({ eventType }) => eventType === 'request.retried')
  t.match(again, [{ agent: 'bob', details: { caller: 'ann', tried: 2 } }])
})

t.test('the tries of earlier processes count', async (t) => {
  const path = join(folderOf(t), 'log')
  let asked = 0
  const started = new FakeModel(async (_request, nth) => {
    asked += 1
    if (nth === 0) return [new Error('no line')]
    return never
  })
  const teamWith = (model: FakeModel) =>
    createTeam({
      agents: [{ name: 'ann' }],
      models: { default: model },
      logger: silent,
      orchestration: oneAfterOther,
      stateManagement: { path },
    })
  const before = teamWith(started)
  before.launch('go', { runId: 'one' })
  while (asked < 2) await new Promise((resolve) => setImmediate(resolve))
  await before.close()
  const fails = new FakeModel(() => [new Error('no line')])
  const after = teamWith(fails)
  await after.start()
  const result = await after.getRun('one')!.result
  t.match(result, { success: false, error: { code: 'AGENT_FAILED' } })
  t.equal(fails.requests.length, 1)
  t.same(tries(result), [['ann', 2, 'AGENT_FAILED']])
  await after.close()
})
