/** Escalation: an agent that cannot go on asks its manager, and gets one of four answers. Document 002, 2.6.2. */
import t from 'tap'
import { type AgentMessage, defineAgent, type EscalationOutcome, type TypedMessage } from '../../src/index.ts'
import { imbalances, leftovers } from './accounts.ts'
import { ask, type Extras, type OpenTeam, openTeam, outcomeOf, type Receive } from './teams.ts'

/** Escalates what it is asked, and answers with the outcome as JSON. */
const worker: Receive = async (_message, context) =>
  JSON.stringify(await context.escalate('no spade', { tried: ['hands'] }))

const decides =
  (decision: string, fields: object = {}): Receive =>
  ({ metadata }) =>
    'escalation' in metadata ? { content: 'as you like', structuredData: { decision, ...fields } } : 'not asked'

const digs: Receive = ({ content }, { role }) => `${role.name} did ${content}`

const chart: Extras['roles'] = { worker: { escalateTo: 'lead' }, lead: { escalateTo: 'boss' } }

const isWell = (team: OpenTeam) => [...imbalances(team.host), ...leftovers(team.host)]

/** What a worker is told that escalates to "lead", whose own manager is "boss". */
async function outcomeFor(
  test: Pick<typeof t, 'teardown' | 'same'>,
  cast: Record<string, Receive>,
  roles = chart,
): Promise<EscalationOutcome> {
  const team = openTeam(test, { worker, boss: decides('guidance'), other: digs, ...cast }, { roles })
  const answer = outcomeOf(ask(team, 'worker', 'dig'))
  await team.clock.runToIdle()
  test.same(isWell(team), [])
  if (answer.error) throw answer.error
  return JSON.parse(answer.value!) as EscalationOutcome
}

t.test('a plain answer of the manager is guidance', async (t) => {
  t.same(await outcomeFor(t, { lead: () => 'take a spoon' }), { kind: 'guidance', guidance: 'take a spoon' })
  t.same(await outcomeFor(t, { lead: decides('guidance') }), { kind: 'guidance', guidance: 'as you like' })
})

t.test('the manager is told who, why, of what task, and what there is', async (t) => {
  const heard: TypedMessage[] = []
  const lead: Receive = (message) => {
    heard.push(JSON.parse(JSON.stringify(message)) as TypedMessage)
    return 'ok'
  }
  const team = openTeam(t, { worker, lead }, { roles: { worker: { escalateTo: 'lead' } } })
  const run = team.launch('dig')
  await run.result
  t.match(heard, [
    {
      type: 'request',
      sender: 'worker',
      content: 'Agent "worker" cannot go on: no spade',
      metadata: {
        escalation: {
          from: 'worker',
          reason: 'no spade',
          details: { tried: ['hands'] },
          task: { id: run.tasks[0]!.id, description: 'dig', structuredData: null },
          passedBy: [],
        },
      },
    },
  ])
})

t.test('the manager reassigns: the task goes to the other, and its answer is the result', async (t) => {
  const heard: AgentMessage[] = []
  const other: Receive = (message, context) => {
    heard.push(JSON.parse(JSON.stringify(message)) as AgentMessage)
    return digs(message, context)
  }
  const outcome = await outcomeFor(t, { lead: decides('reassign', { to: 'other' }), other })
  t.match(outcome, { kind: 'reassigned', to: 'other', result: { sender: 'other', content: 'other did dig' } })
  t.match(heard, [
    {
      sender: 'worker',
      content: 'dig',
      metadata: { reassigned: { from: 'worker', by: 'lead', guidance: 'as you like' } },
    },
  ])
})

t.test('the data of the task goes with it', async (t) => {
  const other = defineAgent({ receive: ({ structuredData }) => ({ structuredData }) })
  const team = openTeam(
    t,
    { worker, lead: decides('reassign', { to: 'other' }), other },
    { roles: { worker: { escalateTo: 'lead' } } },
  )
  const message = { recipient: 'worker', content: 'dig', structuredData: { deep: 3 }, requiresResponse: true }
  const answer = await team.sendMessage(message)
  t.match(JSON.parse(answer!.content), { result: { structuredData: { deep: 3 } } })
})

t.test('the manager takes over: its own answer is the result', async (t) => {
  const outcome = await outcomeFor(t, { lead: decides('take_over', { hole: 1 }) })
  t.match(outcome, {
    kind: 'taken_over',
    to: 'lead',
    result: { sender: 'lead', content: 'as you like', structuredData: { hole: 1 } },
  })
})

t.test('the manager escalates further: its own manager decides, and knows who has passed it on', async (t) => {
  let passedBy: unknown
  const boss: Receive = ({ metadata }) => {
    passedBy = Object(metadata.escalation).passedBy
    return 'buy a spade'
  }
  const outcome = await outcomeFor(t, { lead: decides('escalate'), boss })
  t.same(outcome, { kind: 'guidance', guidance: 'buy a spade' })
  t.same(passedBy, ['lead'])
})

const vain: Record<string, { cast: Record<string, Receive>; says: RegExp }> = {
  'when nobody is above': {
    cast: { lead: decides('escalate'), boss: decides('escalate') },
    says: /^"boss" passed it on, and has no manager .* What it escalated: no spade/,
  },
  'when the manager refuses': {
    cast: {
      lead: (_message, context) => {
        throw context.refuse('not mine')
      },
    },
    says: /^"lead" was asked in vain: .*not mine/,
  },
  'when the manager fails': {
    cast: {
      lead: () => {
        throw new Error('broken')
      },
    },
    says: /"lead" was asked in vain: .*broken/,
  },
  'when the manager answers nothing': { cast: { lead: () => {} }, says: /"lead" answered nothing/ },
  'when the manager decides what is no decision': {
    cast: { lead: decides('shrug') },
    says: /a decision that is none of guidance, reassign, take_over, escalate/,
  },
  'when it is reassigned to nobody': { cast: { lead: decides('reassign') }, says: /but to nobody else/ },
  'when it is reassigned to who has escalated': {
    cast: { lead: decides('reassign', { to: 'worker' }) },
    says: /but to nobody else/,
  },
  'when it is reassigned to somebody who refuses': {
    cast: {
      lead: decides('reassign', { to: 'other' }),
      other: (_message, context) => {
        throw context.refuse('nor mine')
      },
    },
    says: /^"lead" reassigned the task to "other", in vain: .*nor mine/,
  },
  'when it is reassigned to a name that nobody has': {
    cast: { lead: decides('reassign', { to: 'othr' }) },
    says: /in vain: .*did you mean "other"/,
  },
}
for (const [title, { cast, says }] of Object.entries(vain))
  t.test(`it is unresolved ${title}`, async (t) => {
    t.match(await outcomeFor(t, cast), { kind: 'unresolved', reason: says })
  })

t.test('managers who are above each other are asked once each', async (t) => {
  const asked: string[] = []
  const passes: Receive = (message, context) => {
    asked.push(context.role.name)
    return decides('escalate')(message, context)
  }
  const roles = { ...chart, boss: { escalateTo: 'lead' } }
  const outcome = await outcomeFor(t, { lead: passes, boss: passes }, roles)
  t.same(asked, ['lead', 'boss'])
  t.match(outcome, { kind: 'unresolved', reason: /"boss" passed it on/ })
})

t.test('a manager that is gone for good leaves it unresolved', async (t) => {
  const lead: Receive = (_message, { signal }) =>
    new Promise<never>((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)))
  const team = openTeam(t, { worker, lead }, { roles: { worker: { escalateTo: 'lead' } } })
  const answer = outcomeOf(ask(team, 'worker'))
  await team.clock.advance(0)
  void team.removeAgent('lead')
  await team.clock.runToIdle()
  t.match(JSON.parse(answer.value!), { kind: 'unresolved', reason: /"lead" was asked in vain: .*stopped/ })
})

t.test('who has no manager is told at once, and its report stands in history', async (t) => {
  const team = openTeam(t, { worker })
  const run = team.launch('dig')
  const { finalOutput, messageHistory } = await run.result
  t.match(JSON.parse(finalOutput!), { kind: 'unresolved', reason: /^Agent "worker" has no manager \(escalateTo\)/ })
  t.match(
    messageHistory.filter(({ type }) => type === 'report'),
    [{ sender: 'worker', recipient: '$orchestrator', structuredData: { escalation: { reason: 'no spade' } } }],
  )
})

t.test('a script has nobody above it', async (t) => {
  const orchestration = {
    strategy: 'custom' as const,
    run: async (script: { escalate(reason: string): Promise<EscalationOutcome> }) =>
      JSON.stringify(await script.escalate('estimators missing')),
  }
  const team = openTeam(t, { worker }, { orchestration })
  const { finalOutput, messageHistory } = await team.execute('q')
  t.match(JSON.parse(finalOutput!), {
    kind: 'unresolved',
    reason: /"\$orchestrator" has no manager.* estimators missing/,
  })
  t.match(
    messageHistory.filter(({ type }) => type === 'report'),
    [{ sender: '$orchestrator', recipient: '$orchestrator' }],
  )
})

t.test('an escalation that is cut off by a crash asks nobody twice', async (t) => {
  const asked: string[] = []
  const thinks =
    (decision: string, fields = {}): Receive =>
    async (message, context) => {
      asked.push(context.role.name)
      await context.sleep(10)
      return decides(decision, fields)(message, context)
    }
  const other: Receive = async (message, context) => {
    asked.push('other')
    await context.sleep(10)
    return digs(message, context)
  }
  const team = openTeam(
    t,
    { worker, lead: thinks('escalate'), boss: thinks('reassign', { to: 'other' }), other },
    { roles: chart, supervision: { maxRestarts: 10, poisonAttempts: 10 } },
  )
  const answer = outcomeOf(ask(team, 'worker', 'dig'))
  for (let n = 0; n < 3; n++) {
    await team.clock.advance(5)
    team.crash('worker')
    await team.clock.advance(5)
  }
  await team.clock.runToIdle()
  t.match(JSON.parse(answer.value!), { kind: 'reassigned', to: 'other' })
  t.same(asked, ['lead', 'boss', 'other'])
  t.same(isWell(team), [])
})

t.test('an escalation whose turn is to stop is no outcome', async (t) => {
  const outcomes: unknown[] = []
  const lead: Receive = async (_message, context) => context.sleep(100)
  const impatient: Receive = (_message, context) =>
    context.escalate('no spade').then(
      (outcome) => void outcomes.push(outcome),
      (error) => {
        outcomes.push(error.code)
        throw error
      },
    )
  const team = openTeam(t, { worker: impatient, lead }, { roles: { worker: { escalateTo: 'lead' } } })
  const answer = outcomeOf(ask(team, 'worker', 'dig', { responseTimeoutMs: 20 }))
  await team.clock.runToIdle()
  t.equal(answer.error?.code, 'REQUEST_TIMEOUT')
  t.same(outcomes, ['REQUEST_TIMEOUT'])
  t.same(isWell(team), [])
})
