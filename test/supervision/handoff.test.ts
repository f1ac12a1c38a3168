/** Handoffs: the duty to answer moves to another agent, in six steps. Document 002, 2.6.1; supervision rule 22. */
import t from 'tap'
import type { AgentMessage, OrchestratorContext, Run, TypedMessage } from '../../src/index.ts'
import { imbalances, leftovers } from './accounts.ts'
import { ask, gate, localTeam, type OpenTeam, openTeam, outcomeOf, type Receive } from './teams.ts'

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

const isWell = (team: OpenTeam) => [...imbalances(team.host), ...leftovers(team.host)]

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
    t.same(isWell(team), [])
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
  const run = localTeam(t, { first, second, helper: answers }).launch('go')
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
  await ask(localTeam(t, { first, second, third: answers }), 'first')
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
    t.same(isWell(team), [])
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
  t.same(isWell(team), [])
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
  t.same(isWell(team), [])
})

t.test('a target that is gone for good when it has the task fails it for who asked', async (t) => {
  const team = openTeam(t, { first: handsTo('second'), second: works(100) })
  const answer = outcomeOf(ask(team, 'first'))
  await team.clock.advance(10)
  void team.removeAgent('second')
  await team.clock.runToIdle()
  t.match(answer.error, { code: 'AGENT_TERMINATED' })
  t.same(isWell(team), [])
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
    t.same(isWell(team), [])
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
  t.same(isWell(team), [])
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
  t.same(isWell(team), [])
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
  t.same(isWell(team), [])
})

t.test(
  'an answer of a target is one of those that a quorum waits for: who can still be answered is not stuck',
  async (t) => {
    const deadlocks: string[][] = []
    const asksBack: Receive = async (_message, context) => (await context.request('lead', 'back')).content
    const lead: Receive = async ({ content }, context) => {
      if (content === 'back') return 'never in time'
      const answers = await context.requestQuorum(['first', 'slow', 'back'], 2, content)
      return answers.map(({ sender }) => sender).join()
    }
    const team = openTeam(t, { lead, first: handsTo('second'), second: works(1), slow: works(1_000), back: asksBack })
    team.events.subscribe((event) => {
      if (event.type === 'deadlock') deadlocks.push(event.cycle)
    })
    const answer = outcomeOf(ask(team, 'lead', 'dig'))
    await team.clock.runToIdle()
    t.equal(answer.value, 'second,slow')
    t.same(deadlocks, [])
  },
)

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
  t.same(isWell(team), [])
})

t.test('a run that is aborted ends the target', async (t) => {
  const team = openTeam(t, { first: handsTo('second'), second: works(1_000) })
  const run = team.launch('dig')
  await team.clock.advance(10)
  await run.cancel('enough')
  await team.clock.runToIdle()
  t.equal((await run.result).error?.code, 'RUN_ABORTED')
  t.same(statuses(run), ['first handed_off', 'second cancelled'])
  t.same(isWell(team), [])
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
  t.same(isWell(team), [])
})

t.test('rule 21: a task that is handed back and forth reaches the bound of delegations', async (t) => {
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
  t.match(JSON.stringify(answer.error), 'maxDelegationDepth is 8')
  t.equal(turns, 9)
  t.same(isWell(team), [])
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
    t.match(JSON.stringify(answer.error), 'maxDelegationDepth is 8', `seed ${seed}`)
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
  t.same(isWell(team), [])
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
  t.same(isWell(team), [])
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
  t.same(isWell(team), [])
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
  t.same(isWell(team), [])
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
  t.same(isWell(team), [])
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
    t.same(isWell(team), [])
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
  t.same(isWell(team), [])
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
  t.same(isWell(team), [])
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
  t.same(isWell(team), [])
})

t.test('with one permit the target can begin while the source waits for it', async (t) => {
  const team = openTeam(t, { first: handsTo('second'), second: works() }, { maxConcurrentAgents: 1 })
  const run = team.launch('dig')
  await team.clock.runToIdle()
  t.equal((await run.result).finalOutput, 'second did dig')
})
