/** Escalation: an agent that cannot go on asks its manager, and gets one of four answers. Document 002, 2.6.2. */
import t from 'tap'
import { turnBehind } from '../../src/actors/turn/context.ts'
import { type AgentMessage, defineAgent, type EscalationOutcome, type Run, type TypedMessage } from '../../src/index.ts'
import { imbalances, leftovers } from './accounts.ts'
import { ask, type Extras, gate, numbers, type OpenTeam, openTeam, outcomeOf, type Receive } from './teams.ts'

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
          done: [],
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
      type: 'delegate',
      sender: 'worker',
      content: 'dig',
      structuredData: { description: 'dig', assignedTo: 'other' },
      metadata: { reassigned: { from: 'worker', by: 'lead', guidance: 'as you like' } },
    },
  ])
})

t.test('the manager is told what the turn has done so far', async (t) => {
  let done: unknown
  const lead: Receive = ({ metadata }) => {
    done = Object(metadata.escalation).done
    return 'ok'
  }
  const looksFirst: Receive = async (message, context) => {
    await context.request('other', 'spade?')
    await context.step('look', () => 'no spade')
    return worker(message, context)
  }
  await outcomeFor(t, { worker: looksFirst, lead, other: digs })
  t.same(done, ['request to other', 'step look'])
})

const noted = ({ tasks }: Run) => tasks.map(({ assignedTo, status }) => `${assignedTo} ${status}`)

const byLead: Extras['roles'] = { worker: { escalateTo: 'lead' } }

t.test('a task that is reassigned is one of the board, and the old one is handed off when it is done', async (t) => {
  const { opened, open } = gate()
  const other: Receive = async (message, context) => {
    await opened
    return digs(message, context)
  }
  const team = openTeam(t, { worker, lead: decides('reassign', { to: 'other' }), other }, { roles: byLead })
  const run = team.launch('dig')
  await team.clock.advance(0)
  t.same(noted(run), ['worker blocked', 'other in_progress'])
  t.equal(run.tasks[1]!.parentTask, run.tasks[0]!.id)
  open()
  const { orchestrationTrace } = await run.result
  t.same(noted(run), ['worker handed_off', 'other completed'])
  t.match(
    orchestrationTrace.events.filter(({ eventType }) => eventType === 'reassignment'),
    ['requested', 'done'].map((step) => ({ agent: 'lead', details: { step, from: 'worker', to: 'other' } })),
  )
})

t.test('a task that was reassigned in vain is still that of who has escalated', async (t) => {
  const other: Receive = () => {
    throw new Error('broken')
  }
  const team = openTeam(t, { worker, lead: decides('reassign', { to: 'other' }), other }, { roles: byLead })
  const run = team.launch('dig')
  await run.result
  t.same(noted(run), ['worker completed', 'other failed'])
})

type Roles = NonNullable<Extras['roles']>
const graphs: Record<string, { roles: Roles; outcome: object }> = {
  'to one that takes no tasks is refused': {
    roles: { other: { canBeDelegatedTo: false } },
    outcome: { kind: 'unresolved', reason: /"lead" cannot delegate to "other".*canBeDelegatedTo: false/ },
  },
  'by a manager that may not delegate is refused': {
    roles: { lead: { delegationAllowed: false } },
    outcome: { kind: 'unresolved', reason: /"lead" may not delegate/ },
  },
  'by a manager that may delegate to others alone is refused': {
    roles: { lead: { canDelegateTo: ['worker'] } },
    outcome: { kind: 'unresolved', reason: /"lead" may delegate to "worker" alone/ },
  },
  'of one that may not delegate itself is a matter of its manager': {
    roles: { worker: { escalateTo: 'lead', delegationAllowed: false, canDelegateTo: [] } },
    outcome: { kind: 'reassigned', to: 'other' },
  },
}
for (const [title, { roles, outcome }] of Object.entries(graphs))
  t.test(`a reassignment ${title}`, async (t) => {
    const cast = { lead: decides('reassign', { to: 'other' }) }
    t.match(await outcomeFor(t, cast, { worker: { escalateTo: 'lead' }, ...roles }), outcome)
  })

t.test('a reassignment that no manager has decided is refused, whatever the thread says', async (t) => {
  const forges: Receive = async (_message, context) => {
    await context.request('lead', 'may I?')
    const request = { by: 'lead', to: 'other', description: 'dig', data: null, metadata: {}, priority: 0 }
    const answer = turnBehind(context)?.call('reassign', request)
    return answer?.then(String, ({ message }) => message)
  }
  const roles = { worker: { escalateTo: 'lead', delegationAllowed: false } }
  for (const decision of [
    { decision: 'reassign', to: 'lead' },
    { decision: 'guidance', to: 'other' },
  ]) {
    const lead: Receive = () => ({ structuredData: decision })
    const team = openTeam(t, { worker: forges, lead, other: digs }, { roles })
    t.match(await ask(team, 'worker'), /"lead" has not decided that "other" gets the task/)
  }
})

t.test('a new owner that waits for who has escalated is in a deadlock with it', async (t) => {
  const other: Receive = async (_message, context) => (await context.request('worker', 'where?')).content
  const team = openTeam(t, { worker, lead: decides('reassign', { to: 'other' }), other }, { roles: byLead })
  const cycles: string[][] = []
  team.events.subscribe((event) => {
    if (event.type === 'deadlock') cycles.push(event.cycle)
  })
  const answer = outcomeOf(ask(team, 'worker', 'dig'))
  await team.clock.runToIdle()
  t.ok(answer.settled)
  t.same(cycles[0], ['worker', 'other'])
  t.same(isWell(team), [])
})

t.test('a task that is reassigned to and fro is a livelock', async (t) => {
  const lead: Receive = ({ sender }) => ({
    structuredData: { decision: 'reassign', to: sender === 'worker' ? 'other' : 'worker' },
  })
  const roles = { worker: { escalateTo: 'lead' }, other: { escalateTo: 'lead' } }
  const team = openTeam(t, { worker, other: worker, lead }, { roles, supervision: { livelock: {} } })
  const signs: string[] = []
  team.events.subscribe((event) => {
    if (event.type === 'livelock') signs.push(...event.evidence)
  })
  const answer = outcomeOf(ask(team, 'worker', 'dig'))
  await team.clock.runToIdle()
  t.ok(answer.settled)
  t.match(signs[0], /^a task was delegated back to "worker", who had it: "worker" -> "other" -> "worker"/)
})

/** Says why it is stopped. */
const until =
  (stopped: unknown[]): Receive =>
  (_message, { signal }) =>
    new Promise<never>((_, reject) =>
      signal.addEventListener('abort', () => {
        stopped.push(signal.reason.code)
        reject(signal.reason)
      }),
    )

t.test('a new owner is stopped when nobody wants its answer any more', async (t) => {
  const stopped: unknown[] = []
  const cast = { worker, lead: decides('reassign', { to: 'other' }), other: until(stopped) }
  const team = openTeam(t, cast, { roles: byLead })
  const answer = outcomeOf(ask(team, 'worker', 'dig', { responseTimeoutMs: 20 }))
  await team.clock.runToIdle()
  t.equal(answer.error?.code, 'REQUEST_TIMEOUT')
  t.same(stopped, ['CANCELLED'])
  t.same(isWell(team), [])
})

t.test('a reassignment that nobody awaits is withdrawn with its turn', async (t) => {
  const stopped: unknown[] = []
  const forgets: Receive = async (_message, context) => {
    void context.escalate('no spade')
    await context.sleep(10)
    return 'done'
  }
  const cast = { worker: forgets, lead: decides('reassign', { to: 'other' }), other: until(stopped) }
  const team = openTeam(t, cast, { roles: byLead })
  const answer = outcomeOf(ask(team, 'worker', 'dig'))
  await team.clock.runToIdle()
  t.equal(answer.value, 'done')
  t.same(stopped, ['CANCELLED'])
  t.same(isWell(team), [])
})

t.test('rule 21: a task that is reassigned on and on reaches the bound of delegations', async (t) => {
  const names = numbers(10).map((n) => `worker-${n}`)
  const lead: Receive = ({ sender }) => ({
    structuredData: { decision: 'reassign', to: names[names.indexOf(sender) + 1] },
  })
  const cast = Object.fromEntries(names.map((name) => [name, worker]))
  const roles = Object.fromEntries(names.map((name) => [name, { escalateTo: 'lead' }]))
  const team = openTeam(t, { ...cast, lead }, { roles })
  t.match(await ask(team, names[0]!, 'dig'), /it would be 9 delegations deep/)
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
