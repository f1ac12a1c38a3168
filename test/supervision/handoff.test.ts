/** Handoffs, escalations and the task board: the duty to answer moves to another agent, or to the manager. */
import t from 'tap'
import { turnBehind } from '../../src/actors/turn/context.ts'
import {
  type AgentContext,
  type AgentMessage,
  type AgentTask,
  defineAgent,
  type EscalationOutcome,
  type OrchestratorContext,
  type Run,
  type RuntimeEvent,
  type TaskStatus,
  type TypedMessage,
} from '../../src/index.ts'
import { Dice } from '../dice.ts'
import { where } from '../kit/lists.ts'
import { ask, type Extras, gate, given, heard, numbers, openTeam, outcomeOf, type Receive } from '../kit/team.ts'

/** Hands what it is asked off, then says so to nobody. */
const handsTo =
  (to: string, then: Receive = () => 'for nobody'): Receive =>
  async (message, context) => {
    await context.handoff(to, message.content)
    return then(message, context)
  }

const works =
  (ms = 10): Receive =>
  async ({ content }, context) => {
    await context.sleep(ms)
    return `${context.role.name} did ${content}`
  }

const answers: Receive = ({ content }, { role }) => `${role.name} did ${content}`

const refuses: Receive = (_message, context) => {
  throw context.refuse('busy')
}

const statuses = (run: Run) => run.tasks.map(({ assignedTo, status }) => `${assignedTo} ${status}`)

async function steps(run: Run): Promise<string[]> {
  const { orchestrationTrace } = await run.result
  return orchestrationTrace.events
    .filter(({ eventType }) => eventType === 'handoff')
    .map(({ agent, details }) => `${agent} ${(details as { step: string }).step}`)
}

for (const [title, target] of Object.entries({ 'works for a while': works(), 'answers at once': answers }))
  t.test(`who asked gets the answer of the target, which ${title}`, async (t) => {
    const team = openTeam(t, { first: handsTo('second'), second: target })
    const run = team.launch('dig')
    await team.clock.runToIdle()
    t.equal((await run.result).finalOutput, 'second did dig')
    t.same(await steps(run), [
      'first summarized',
      'first identified',
      'first requested',
      'second acknowledged',
      'first handed_off',
      'second proceeding',
    ])
    t.same(statuses(run), ['first handed_off', 'second completed'])
    t.equal(run.tasks[1]!.parentTask, run.tasks[0]!.id)
    t.equal(run.tasks[1]!.result, 'second did dig')
  })

t.test('the source is done when the target has acknowledged, and what it returns answers nobody', async (t) => {
  const ended: number[] = []
  const team = openTeam(t, {
    first: async (message, context) => {
      await context.handoff('second', message.content)
      ended.push(context.now())
      return 'for nobody'
    },
    second: works(100),
  })
  const startedAt = team.clock.now()
  const run = team.launch('dig')
  await team.clock.advance(50)
  t.same(ended, [startedAt])
  t.equal(team.getAgentStatus('first'), 'idle')
  t.same(statuses(run), ['first handed_off', 'second in_progress'])
  await team.clock.runToIdle()
  const { finalOutput, messageHistory } = await run.result
  t.equal(finalOutput, 'second did dig')
  t.notOk(messageHistory.some(({ content }) => content === 'for nobody'))
  t.match(
    messageHistory.find(({ recipient, type }) => type === 'response' && recipient === '$orchestrator'),
    { sender: 'second', correlationId: run.tasks[1]!.id },
  )
})

t.test('the target is told from whom, of what, and what there is', async (t) => {
  const heard: TypedMessage[] = []
  const second: Receive = (message) => {
    heard.push(JSON.parse(JSON.stringify(message)) as TypedMessage)
    return 'ok'
  }
  const first: Receive = async (_message, context) => {
    const { id } = await context.delegate('helper', 'measure')
    await context.handoff('second', { description: 'dig', priority: 4, dependencies: [id] }, 'half a hole')
  }
  const run = openTeam(t, { first, second, helper: answers }).launch('go')
  await run.result
  t.match(heard, [
    {
      type: 'delegate',
      sender: 'first',
      content: 'dig',
      priority: 4,
      structuredData: { description: 'dig', assignedTo: 'second', dependencies: [run.tasks[1]!.id] },
      metadata: { handoff: { from: 'first', summary: 'half a hole', task: { description: 'dig' } } },
    },
  ])
  const { orchestrationTrace } = await run.result
  t.match(
    orchestrationTrace.events.find(({ eventType }) => eventType === 'handoff'),
    {
      agent: 'first',
      details: { step: 'summarized', summary: 'half a hole', to: 'second', messageId: run.tasks[0]!.id },
    },
  )
})

t.test('without a summary it is the task and what the turn has done', async (t) => {
  let told: unknown
  const second: Receive = ({ metadata }) => {
    told = metadata.handoff
  }
  const first: Receive = async (_message, context) => {
    await context.step('measure', () => 5)
    await context.request('third', 'how deep?')
    await context.handoff('second', 'Dig.')
  }
  await ask(openTeam(t, { first, second, third: answers }, { unfinished: true }), 'first')
  t.match(told, { summary: 'Dig. Done so far: step measure, request to third.' })
})

// ---- the target will not, or cannot

const declines: Record<string, { second: Receive; code: string }> = {
  'that refuses': { second: refuses, code: 'TASK_REFUSED' },
  'that refuses after it has thought for a moment': {
    second: async (message, context) => {
      await Promise.resolve()
      return refuses(message, context)
    },
    code: 'TASK_REFUSED',
  },
  'that fails': {
    second: () => {
      throw new Error('broken')
    },
    code: 'AGENT_FAILED',
  },
}
for (const [title, { second, code }] of Object.entries(declines))
  t.test(`a target ${title} leaves the duty where it was`, async (t) => {
    const first: Receive = async ({ content }, context) => {
      const error = await context.handoff('second', content).catch((error) => error)
      return `first did ${content} after ${error.code}`
    }
    const team = openTeam(t, { first, second })
    const run = team.launch('dig')
    await team.clock.runToIdle()
    t.equal((await run.result).finalOutput, `first did dig after ${code}`)
    t.same(await steps(run), ['first summarized', 'first identified', 'first requested', 'second declined'])
    t.same(statuses(run), ['first completed', code === 'TASK_REFUSED' ? 'second refused' : 'second failed'])
  })

t.test('a target that is gone for good before it begins leaves the duty where it was', async (t) => {
  const first: Receive = async (_message, context) => {
    const error = await context.handoff('second', 'dig').catch((error) => error)
    return error.code
  }
  const team = openTeam(t, { first, second: works(100) })
  void ask(team, 'second').catch(() => {})
  await team.clock.advance(0)
  const answer = outcomeOf(ask(team, 'first'))
  await team.clock.advance(0)
  void team.removeAgent('second')
  await team.clock.runToIdle()
  t.equal(answer.value, 'AGENT_TERMINATED')
})

t.test('a target that was stopped before it is asked leaves the duty where it was', async (t) => {
  const first: Receive = async (_message, context) =>
    (await context.handoff('second', 'dig').catch((error) => error)).code
  const team = openTeam(t, { first, second: answers }, { supervision: { maxRestarts: 0 } })
  await team.start()
  team.crash('second')
  await team.clock.advance(1)
  t.equal(team.getAgentStatus('second'), 'failed')
  t.equal(await ask(team, 'first'), 'AGENT_TERMINATED')
  t.match(team.deadLetters.list(), [{ reason: 'stopped', message: { recipient: 'second' } }])
})

t.test('a target that refuses when it has taken the task has refused to who asked', async (t) => {
  const second: Receive = async (message, context) => {
    await context.sleep(10)
    return refuses(message, context)
  }
  const team = openTeam(t, { first: handsTo('second'), second })
  const answer = outcomeOf(ask(team, 'first'))
  await team.clock.runToIdle()
  t.match(answer.error, { code: 'TASK_REFUSED', details: { agent: 'second' } })
  const tasks = [...team.host.runs.values()].flatMap((run) => [...run.tasks.values()])
  t.match(tasks, [{ assignedTo: 'second', status: 'refused' }])
})

t.test('a target that is gone for good when it has the task fails it for who asked', async (t) => {
  const team = openTeam(t, { first: handsTo('second'), second: works(100) })
  const answer = outcomeOf(ask(team, 'first'))
  await team.clock.advance(10)
  void team.removeAgent('second')
  await team.clock.runToIdle()
  t.match(answer.error, { code: 'AGENT_TERMINATED' })
})

const DIG = { description: 'dig', requiredCapabilities: ['spade'] }
for (const [title, to, roles, code, task = 'dig'] of [
  ['to nobody', 'secnd', {}, 'UNKNOWN_AGENT'],
  ['to itself', 'first', {}, 'DELEGATION_REFUSED'],
  ['outside of the graph', 'second', { first: { delegationAllowed: false } }, 'DELEGATION_REFUSED'],
  ['to who takes none', 'second', { second: { canBeDelegatedTo: false } }, 'DELEGATION_REFUSED'],
  ['to who lacks what it needs', 'second', {}, 'DELEGATION_REFUSED', DIG],
] as const)
  t.test(`a handoff ${title} is refused, and the source goes on`, async (t) => {
    const first: Receive = async (_message, context) => (await context.handoff(to, task).catch((error) => error)).code
    const team = openTeam(t, { first, second: answers }, { roles })
    const run = team.launch('go')
    t.equal((await run.result).finalOutput, code)
    t.same(await steps(run), ['first summarized'])
    t.same(statuses(run), ['first completed'])
  })

t.test('a second handoff of the same turn is refused: the duty is gone', async (t) => {
  const codes: string[] = []
  const first = handsTo('second', async (_message, context) => {
    await context.handoff('third', 'dig').catch(({ code }) => codes.push(code))
  })
  const team = openTeam(t, { first, second: works(), third: answers })
  const answer = outcomeOf(ask(team, 'first', 'dig'))
  await team.clock.runToIdle()
  t.equal(answer.value, 'second did dig')
  t.same(codes, ['DELEGATION_REFUSED'])
})

// ---- the caller's wait sees the target

t.test('the deadline of who asked holds for the target', async (t) => {
  const team = openTeam(t, { first: handsTo('second'), second: works(100) })
  const answer = outcomeOf(ask(team, 'first', 'dig', { responseTimeoutMs: 50 }))
  await team.clock.advance(60)
  t.match(answer.error, { code: 'REQUEST_TIMEOUT', details: { agent: 'second' } })
  await team.clock.runToIdle()
})

t.test('the deadline of a task goes with it', async (t) => {
  const lead: Receive = async (_message, context) => {
    const deadline = context.now() + 50
    return context.delegate('first', { description: 'dig', deadline }).then(String, (error) => error.code)
  }
  const team = openTeam(t, { lead, first: handsTo('second'), second: works(100) })
  const answer = outcomeOf(ask(team, 'lead'))
  await team.clock.advance(50)
  t.equal(answer.value, 'REQUEST_TIMEOUT')
  await team.clock.runToIdle()
})

t.test('who asked and wants no answer any more stops the target', async (t) => {
  const stop = new AbortController()
  let signal: AbortSignal | undefined
  const second: Receive = async (_message, context) => {
    signal = context.signal
    await context.sleep(100)
  }
  const lead: Receive = (_message, context) =>
    context.request('first', 'dig', { signal: stop.signal }).catch((error) => error.code)
  const team = openTeam(t, { lead, first: handsTo('second'), second })
  const answer = outcomeOf(ask(team, 'lead'))
  await team.clock.advance(10)
  stop.abort()
  await team.clock.advance(0)
  t.equal(answer.value, 'CANCELLED')
  t.ok(signal?.aborted)
  await team.clock.runToIdle()
})

t.test('an answer of a target is one that a quorum waits for: who can still be answered is not stuck', async (t) => {
  const asksBack: Receive = async (_message, context) => (await context.request('lead', 'back')).content
  const lead: Receive = async ({ content }, context) => {
    if (content === 'back') return 'never in time'
    const answers = await context.requestQuorum(['first', 'slow', 'back'], 2, content)
    return answers.map(({ sender }) => sender).join()
  }
  const team = openTeam(t, { lead, first: handsTo('second'), second: works(1), slow: works(1_000), back: asksBack })
  const deadlocks = heard(team, 'deadlock', (event) => event.cycle)
  const answer = outcomeOf(ask(team, 'lead', 'dig'))
  await team.clock.runToIdle()
  t.equal(answer.value, 'second,slow')
  t.same(deadlocks, [])
})

t.test('a handoff that nobody awaits is withdrawn with its turn, which answers itself', async (t) => {
  const held = gate()
  const second: Receive = async () => {
    await held.opened
    return 'too late'
  }
  const first: Receive = async (_message, context) => {
    void context.handoff('second', 'dig')
    return 'first did it'
  }
  const team = openTeam(t, { first, second })
  t.equal(await ask(team, 'first'), 'first did it')
  held.open()
  await team.clock.runToIdle()
})

t.test('a run that is aborted ends the target', async (t) => {
  const team = openTeam(t, { first: handsTo('second'), second: works(1_000) })
  const run = team.launch('dig')
  await team.clock.advance(10)
  await run.cancel('enough')
  await team.clock.runToIdle()
  t.equal((await run.result).error?.code, 'RUN_ABORTED')
  t.same(statuses(run), ['first handed_off', 'second cancelled'])
})

t.test('a task can be handed on from agent to agent, and who delegated it gets the last answer', async (t) => {
  const lead: Receive = async (_message, context) => {
    const { assignedTo, result } = await context.delegate('first', 'dig')
    return `${assignedTo}: ${result}`
  }
  const team = openTeam(t, { lead, first: handsTo('second'), second: handsTo('third'), third: works() })
  const run = team.launch('go')
  await team.clock.runToIdle()
  t.equal((await run.result).finalOutput, 'third: third did dig')
  t.same(statuses(run), ['lead completed', 'first handed_off', 'second handed_off', 'third completed'])
})

t.test('rule 21: a task that is handed back and forth reaches the bound of handoffs', async (t) => {
  let turns = 0
  const passes =
    (to: string): Receive =>
    async ({ content }, context) => {
      turns += 1
      await context.handoff(to, content)
    }
  const team = openTeam(t, { a: passes('b'), b: passes('a') })
  const answer = outcomeOf(ask(team, 'a'))
  await team.clock.runToIdle()
  t.match(JSON.stringify(answer.error), 'maxHandoffs is 10')
  t.equal(turns, 11)
})

t.test('a target that hands the task back before it has acknowledged it is in no deadlock', async (t) => {
  for (let seed = 1; seed <= 20; seed++) {
    const passes =
      (to: string): Receive =>
      async ({ content }, context) =>
        context.handoff(to, content)
    const team = openTeam(t, { a: passes('b'), b: passes('a') }, { seed })
    const answer = outcomeOf(ask(team, 'a'))
    await team.clock.runToIdle()
    t.match(JSON.stringify(answer.error), 'maxHandoffs is 10', `seed ${seed}`)
  }
})

t.test('rule 21: delegations below a handoff count what it has taken the place of', async (t) => {
  const passes =
    (to: string): Receive =>
    async ({ content }, context) => {
      if (content === 'hand') return context.handoff(to, 'give')
      await context.sleep(1) // the handoff is acknowledged
      return `${(await context.delegate(to, 'hand')).result}`
    }
  const names = Array.from({ length: 20 }, (_, i) => `n${i}`)
  const team = openTeam(t, Object.fromEntries(names.map((name, i) => [name, passes(names[i + 1] ?? 'n0')])))
  const answer = outcomeOf(ask(team, 'n0', 'hand'))
  await team.clock.runToIdle()
  t.match(JSON.stringify(answer.error), 'it would be 9 delegations deep')
})

t.test('a script can hand its run off', async (t) => {
  const orchestration = {
    strategy: 'custom' as const,
    async run(script: OrchestratorContext, query: string) {
      await script.handoff('worker', query)
      return 'for nobody'
    },
  }
  const team = openTeam(t, { worker: works() }, { orchestration })
  const run = team.launch('dig')
  await team.clock.runToIdle()
  t.equal((await run.result).finalOutput, 'worker did dig')
  t.same(statuses(run), ['worker completed'])
})

t.test('who reads in pieces gets those of the source, and then the answer of the target', async (t) => {
  const first = handsTo('second', async (_message, context) => {
    for (let n = 0; n < 200; n++) context.emit('for nobody')
    await context.sleep(1) // would wait for its reader
  })
  const lead: Receive = async ({ content }, context) => {
    const stream = context.requestStream('first', content)
    const pieces: string[] = []
    for await (const piece of stream) pieces.push(piece)
    return `${pieces.join()} ${(await stream.response).content}`
  }
  const emits: Receive = async (message, context) => {
    context.emit('one')
    return first(message, context)
  }
  const team = openTeam(t, { lead, first: emits, second: works() })
  const answer = outcomeOf(ask(team, 'lead', 'dig'))
  await team.clock.advance(50)
  t.equal(answer.value, 'one second did dig')
  t.equal(team.getAgentStatus('first'), 'idle')
})

// ---- nobody had asked

t.test('a turn that nobody asked hands its task off all the same', async (t) => {
  const done: string[] = []
  const second: Receive = async ({ content }, context) => {
    await context.sleep(10)
    done.push(content)
  }
  const team = openTeam(t, { first: handsTo('second'), second })
  await team.sendMessage({ recipient: 'first', content: 'dig' })
  await team.clock.runToIdle()
  t.same(done, ['dig'])
  t.same(team.deadLetters.list(), [])
})

t.test('where nobody had asked, a task that comes to nothing is a dead letter', async (t) => {
  const second: Receive = async (message, context) => {
    await context.sleep(10)
    return refuses(message, context)
  }
  const team = openTeam(t, { first: handsTo('second'), second })
  await team.sendMessage({ recipient: 'first', content: 'dig' })
  await team.clock.runToIdle()
  t.match(team.deadLetters.list(), [
    {
      reason: 'failed',
      message: { sender: 'first', recipient: 'second', content: 'dig' },
      errors: [{ code: 'TASK_REFUSED' }],
    },
  ])
})

// ---- crashes

for (const [title, at] of Object.entries({ before: 5, after: 15 }))
  t.test(`a source that crashes ${title} the target has acknowledged does not hand off twice`, async (t) => {
    const turns: string[] = []
    const held = gate()
    const second: Receive = async ({ content }, context) => {
      turns.push(content)
      await context.sleep(30)
      return `second did ${content}`
    }
    const first = handsTo('second', async (_message, context) => {
      await context.sleep(10)
    })
    const busy: Receive = async (message, context) => {
      if (message.content === 'hold') return void (await held.opened)
      return second(message, context)
    }
    const team = openTeam(t, { first, second: busy })
    void ask(team, 'second', 'hold')
    await team.clock.advance(0)
    const answer = outcomeOf(ask(team, 'first', 'dig'))
    await team.clock.advance(0)
    if (at < 10) team.crash('first')
    await team.clock.advance(2)
    held.open()
    await team.clock.advance(2)
    if (at > 10) team.crash('first')
    await team.clock.runToIdle()
    t.equal(answer.value, 'second did dig')
    t.same(turns, ['dig'])
  })

t.test('a target that crashes is given the task again, and who asked goes on waiting', async (t) => {
  let attempts = 0
  const second: Receive = async ({ content }, context) => {
    attempts += 1
    await context.sleep(20)
    return `second did ${content} at ${context.attempt}`
  }
  const team = openTeam(t, { first: handsTo('second'), second })
  const run = team.launch('dig')
  await team.clock.advance(10)
  team.crash('second')
  await team.clock.runToIdle()
  t.equal((await run.result).finalOutput, 'second did dig at 2')
  t.equal(attempts, 2)
  const { orchestrationTrace } = await run.result
  t.notOk(orchestrationTrace.events.some(({ eventType }) => eventType === 'step.mismatch'))
})

t.test('an attempt of the target that ends at once has not left anything out', async (t) => {
  const second: Receive = async (_message, context) => {
    if (context.attempt > 1) return 'at once'
    await context.sleep(20)
  }
  const team = openTeam(t, { first: handsTo('second'), second })
  const run = team.launch('dig')
  await team.clock.advance(10)
  team.crash('second')
  await team.clock.runToIdle()
  const { finalOutput, orchestrationTrace } = await run.result
  t.equal(finalOutput, 'at once')
  t.notOk(orchestrationTrace.events.some(({ eventType }) => eventType === 'step.mismatch'))
})

t.test('a source that fails after it has handed off answers nobody; its message is a dead letter', async (t) => {
  const first = handsTo('second', () => {
    throw new Error('too late')
  })
  const team = openTeam(t, { first, second: works() })
  const answer = outcomeOf(ask(team, 'first', 'dig'))
  await team.clock.runToIdle()
  t.equal(answer.value, 'second did dig')
  t.match(team.deadLetters.list(), [{ reason: 'failed', message: { recipient: 'first' } as Partial<AgentMessage> }])
})

t.test('who asked may crash meanwhile, and gets the answer of the target', async (t) => {
  const lead: Receive = async ({ content }, context) =>
    `${(await context.request('first', content)).content} at ${context.attempt}`
  const team = openTeam(t, { lead, first: handsTo('second'), second: works(20) })
  const answer = outcomeOf(ask(team, 'lead', 'dig'))
  await team.clock.advance(10)
  team.crash('lead')
  await team.clock.advance(5)
  team.crash('lead')
  await team.clock.runToIdle()
  t.equal(answer.value, 'second did dig at 3')
})

t.test('with one permit the target can begin while the source waits for it', async (t) => {
  const team = openTeam(t, { first: handsTo('second'), second: works() }, { maxConcurrentAgents: 1 })
  const run = team.launch('dig')
  await team.clock.runToIdle()
  t.equal((await run.result).finalOutput, 'second did dig')
})

// Escalation: an agent that cannot go on asks its manager, and gets one of four answers. Document 002, 2.6.2.

/** Escalates what it is asked, and answers with the outcome as JSON. */
const worker: Receive = async (_message, context) =>
  JSON.stringify(await context.escalate('no spade', { tried: ['hands'] }))

const decides =
  (decision: string, fields: object = {}): Receive =>
  ({ metadata }) =>
    'escalation' in metadata ? { content: 'as you like', structuredData: { decision, ...fields } } : 'not asked'

const digs: Receive = ({ content }, { role }) => `${role.name} did ${content}`

const chart: Extras['roles'] = { worker: { escalateTo: 'lead' }, lead: { escalateTo: 'boss' } }

/** What a worker is told that escalates to "lead", whose own manager is "boss". */
async function outcomeFor(
  test: Pick<typeof t, 'teardown' | 'same'>,
  cast: Record<string, Receive>,
  roles = chart,
): Promise<EscalationOutcome> {
  const team = openTeam(test, { worker, boss: decides('guidance'), other: digs, ...cast }, { roles })
  const answer = outcomeOf(ask(team, 'worker', 'dig'))
  await team.clock.runToIdle()
  test.same(team.wrong(), [])
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
    where(orchestrationTrace.events, 'eventType', 'reassignment'),
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
  const cycles = heard(team, 'deadlock', (event) => event.cycle)
  const answer = outcomeOf(ask(team, 'worker', 'dig'))
  await team.clock.runToIdle()
  t.ok(answer.settled)
  t.same(cycles[0], ['worker', 'other'])
})

t.test('a task that is reassigned to and fro is a livelock', async (t) => {
  const lead: Receive = ({ sender }) => ({
    structuredData: { decision: 'reassign', to: sender === 'worker' ? 'other' : 'worker' },
  })
  const roles = { worker: { escalateTo: 'lead' }, other: { escalateTo: 'lead' } }
  const team = openTeam(t, { worker, other: worker, lead }, { roles, supervision: { livelock: {} } })
  const signs = heard(team, 'livelock', ({ evidence }) => evidence)
  const answer = outcomeOf(ask(team, 'worker', 'dig'))
  await team.clock.runToIdle()
  t.ok(answer.settled)
  t.match(signs.flat()[0], /^a task was delegated back to "worker", who had it: "worker" -> "other" -> "worker"/)
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
  const team = given(t, { roles: { worker: { escalateTo: 'lead' } } }).team({
    worker,
    lead: decides('reassign', { to: 'other' }),
    other,
  })
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
  t.match(where(messageHistory, 'type', 'report'), [
    { sender: 'worker', recipient: '$orchestrator', structuredData: { escalation: { reason: 'no spade' } } },
  ])
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
  t.match(where(messageHistory, 'type', 'report'), [{ sender: '$orchestrator', recipient: '$orchestrator' }])
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
  const team = given(t, { roles: chart, supervision: { maxRestarts: 10, poisonAttempts: 10 } }).team({
    worker,
    lead: thinks('escalate'),
    boss: thinks('reassign', { to: 'other' }),
    other,
  })
  const answer = outcomeOf(ask(team, 'worker', 'dig'))
  for (let n = 0; n < 3; n++) {
    await team.clock.advance(5)
    team.crash('worker')
    await team.clock.advance(5)
  }
  await team.clock.runToIdle()
  t.match(JSON.parse(answer.value!), { kind: 'reassigned', to: 'other' })
  t.same(asked, ['lead', 'boss', 'other'])
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
})

// The task board is a fold: whatever agents do with their tasks, its events, `run.tasks` and the statuses say the
// same.

const NAMES = ['a', 'b', 'c', 'd']
const DONE: readonly TaskStatus[] = ['completed', 'failed', 'refused', 'cancelled', 'handed_off']

/** What may come after what; null: the task is new. */
const COURSES: readonly (readonly [TaskStatus | null, readonly TaskStatus[]])[] = [
  [null, ['assigned']],
  ['assigned', ['in_progress', 'blocked', ...DONE]],
  ['in_progress', ['blocked', ...DONE]],
  ['blocked', ['assigned', 'in_progress', ...DONE]],
  ...DONE.map((status) => [status, []] as const),
]
const after = new Map(COURSES)

/** By chance: it does its task, fails, refuses, gives it away whole or in parts, one of which may wait for the other. */
const anything =
  (die: Dice): Receive =>
  async ({ content }, context) => {
    await context.sleep(die.upTo(10))
    const depth = Number(content)
    const other = () => `${die.pick(NAMES)}`
    switch (depth > 3 ? 0 : die.upTo(7)) {
      case 1:
        throw new Error('broken')
      case 2:
        throw context.refuse('busy')
      case 3:
        return context.handoff(other(), `${depth + 1}`)
      case 4:
        return parts(context, other, die, depth)
      case 5:
        void context.delegate(other(), `${depth + 1}`) // which nobody awaits
        return 'left'
      case 6:
        return (await context.escalate('no idea')).kind
      default:
        return 'done'
    }
  }

async function parts(context: AgentContext, other: () => string, die: Dice, depth: number): Promise<string> {
  const description = `${depth + 1}`
  const first = context.delegate(other(), { description, priority: die.upTo(3) })
  const dependencies = [await first.id.catch(() => 'none')]
  const deadline = context.now() + die.upTo(40)
  const second = context.delegate(other(), { description, dependencies, deadline })
  const ended = await Promise.allSettled([first, second])
  return ended.map(({ status }) => status).join()
}

/** The board that the events tell of; each has to fit the one before. */
class Fold {
  readonly tasks = new Map<string, AgentTask>()
  readonly flaws: string[] = []

  take(event: RuntimeEvent): void {
    if (event.type !== 'task') return
    const { task, previous } = event
    const known = this.tasks.get(task.id)?.status ?? null
    if (known !== previous) this.flaws.push(`${task.id} was ${known}, and the event says ${previous}`)
    if (!after.get(previous)?.includes(task.status))
      this.flaws.push(`${task.id} went from ${previous} to ${task.status}`)
    this.tasks.set(task.id, task)
  }
}

const isOver = ({ status }: Run) => status !== 'running' && status !== 'queued'

t.test('whatever becomes of tasks, what tells of them says the same at every moment', async (t) => {
  const seen = new Set<TaskStatus>()
  for (let seed = 1; seed <= 40; seed++) {
    const die = new Dice(seed)
    const cast = Object.fromEntries(NAMES.map((name) => [name, anything(die)]))
    const team = given(t, {
      seed,
      roles: Object.fromEntries(NAMES.map((name) => [name, { escalateTo: 'boss' }])),
      script: async (script) => {
        const given = NAMES.map((name) => script.delegate(name, '0'))
        const dependencies = [await given[0]!.id, await given[1]!.id]
        const last = script.delegate('d', { description: '2', dependencies })
        const ended = await Promise.allSettled([...given, last])
        return ended.map(({ status }) => status).join()
      },
    }).team({
      boss: () => ({
        content: 'try again',
        structuredData: { decision: die.pick(['guidance', 'take_over']) },
      }),
      ...cast,
    })
    const fold = new Fold()
    team.events.subscribe((event) => fold.take(event))
    const fate = new Dice(seed + 1_000)
    const run = team.launch('q')
    for (let ms = 0; ms < 2_000 && !isOver(run); ms++) {
      await team.clock.advance(1)
      if (seed % 8 === 0 && ms === 20) await run.cancel()
      if (seed % 3 === 0 && fate.chance(0.1)) team.crash(fate.pick(NAMES))
      t.same([...fold.tasks.values()], run.tasks, `seed ${seed} at ${ms}`)
    }
    const { taskCompletion } = await run.result
    await team.clock.runToIdle()
    const board = Object.fromEntries(run.tasks.map(({ id, status }) => [id, status]))
    t.same([...fold.tasks.values()], run.tasks)
    t.same(taskCompletion, board)
    t.same(team.getTaskStatus(run.id), board)
    t.same(
      run.tasks.filter(({ status }) => !DONE.includes(status)),
      [],
    )
    t.same([...fold.flaws, ...team.wrong()], [], `seed ${seed}`)
    for (const { status } of run.tasks) seen.add(status)
  }
  t.same([...seen].sort(), [...DONE].sort())
})
