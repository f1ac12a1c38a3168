/** `communication.turnRetries`: a turn that threw or was late is tried again, then its failure is escalated. */
import { join } from 'node:path'
import t from 'tap'
import { z } from 'zod'
import {
  type AgentRole,
  BudgetExceededError,
  createTeam,
  defineTool,
  type MultiAgentResult,
  TaskRefusedError,
} from '../../src/index.ts'
import { folderOf } from '../durability/log-folders.ts'
import { type Answers, calls, FakeModel } from '../models/fake-model.ts'
import { modelTeam } from '../models/teams.ts'
import { localTeam, never, outcomeOf, silent } from './teams.ts'

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
    t.match(await localTeam(t, { ann }, { communication }).execute('go'), { success: false })
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
    const team = localTeam(t, { ann }, { communication: { turnRetries: 3 } })
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
  t.test(
    `a late turn is tried again when it has ended: ${heeds ? 'it heeds' : 'it does not heed'} its signal`,
    async (t) => {
      let open = 0
      let most = 0
      let tried = 0
      const done: string[] = []
      const team = localTeam(
        t,
        {
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
        },
        { communication: { turnRetries: 1 }, roles: { ann: { limits: { turnTimeoutMs: 1_000 } } } },
      )
      const run = outcomeOf(team.execute('go'))
      await team.clock.runToIdle()
      t.match(run.value, { success: true, finalOutput: 'in time' })
      t.same(done, ['once'])
      t.equal(tried, 2)
      if (heeds) t.equal(most, 1)
      t.match(tries(run.value!), [['ann', 2]])
    },
  )

for (const heeds of [true, false])
  t.test(
    `a tool that may not run twice is not: the late turn ends with OUTCOME_UNKNOWN (heeds: ${heeds})`,
    async (t) => {
      let used = 0
      const hang = defineTool({
        name: 'hang',
        description: 'Hangs.',
        input: z.object({}),
        timeoutMs: 120_000,
        run: (_input, { signal }) => {
          used += 1
          return new Promise(
            (_, reject) => heeds && signal.addEventListener('abort', () => reject(new Error('stopped'))),
          )
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
    },
  )

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
  const team = localTeam(
    t,
    {
      ann: async (_message, context) => (await context.request('bob', 'go', { retries: 1 })).content,
      bob: () => never,
    },
    { communication: { responseTimeoutMs: 1_000 }, roles: { ann: { communication: { responseTimeoutMs: 60_000 } } } },
  )
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
