/** The role option `concurrency`: turns of several runs open at once in one thread, one of each run. */
import t from 'tap'
import type { AgentContext } from '../../src/actors/definition/context.ts'
import { defineAgent } from '../../src/actors/definition/definition.ts'
import type { AgentMessage } from '../../src/mailbox/message.ts'
import { pluck } from '../kit/lists.ts'
import { type Cast, type Extras, gate, never, numbers, openTeam, outcomeOf, statusesOf } from '../kit/team.ts'

type Test = Parameters<typeof openTeam>[0]

/** A team whose worker may have `concurrency` turns open; each run asks it. */
function teamOf(t: Test, concurrency: number, cast: Cast, { roles, ...extras }: Extras = {}) {
  const worker = { concurrency, ...roles?.worker }
  const team = openTeam(t, cast, { ...extras, roles: { ...roles, worker } })
  return Object.assign(team, {
    runs: (count: number) => numbers(count).map((runId) => outcomeOf(team.execute(runId, { runId }))),
  })
}

/** Turns as a handler sees them: which runs are open, and what has ever been open together. */
function watched() {
  const open: string[] = []
  const most = { open: 0, ofOneRun: 0 }
  const during = async (runId: string, work: () => Promise<unknown>) => {
    open.push(runId)
    most.open = Math.max(most.open, open.length)
    most.ofOneRun = Math.max(most.ofOneRun, open.filter((other) => other === runId).length)
    try {
      await work()
    } finally {
      open.splice(open.indexOf(runId), 1)
    }
  }
  return { open, most, during }
}

t.test('turns of as many runs as `concurrency` says are open at once, and no more', async (t) => {
  const { open, most, during } = watched()
  const { opened, open: release } = gate()
  const team = teamOf(t, 3, { worker: (_message, { runId }) => during(runId, () => opened).then(() => runId) })
  const runs = team.runs(7)
  await team.clock.advance(0)
  t.same(open, ['0', '1', '2'])
  release()
  await team.clock.runToIdle()
  t.same(
    runs.map(({ value }) => value?.finalOutput),
    numbers(7),
  )
  t.equal(most.open, 3)
})

t.test('without it a thread has one turn at a time', async (t) => {
  const { most, during } = watched()
  const team = openTeam(t, { worker: (_message, context) => during(context.runId, () => context.sleep(5)) })
  const runs = numbers(3).map((runId) => team.execute(runId, { runId }))
  await team.clock.runToIdle()
  await Promise.all(runs)
  t.equal(most.open, 1)
})

t.test('never two turns of the same run: the next message of a run waits for the turn before it', async (t) => {
  const { most, during } = watched()
  const heard: string[] = []
  const cast: Cast = {
    worker: async ({ content }, context) => {
      heard.push(`${context.runId} ${content}`)
      await during(context.runId, () => context.sleep(10))
    },
  }
  const team = teamOf(t, 8, cast, {
    script: async (script) => {
      await Promise.all(numbers(3).map((i) => script.request('worker', i)))
      return 'done'
    },
  })
  const runs = team.runs(2)
  await team.clock.runToIdle()
  t.ok(runs.every(({ value }) => value?.success))
  t.same(most, { open: 2, ofOneRun: 1 })
  t.same(heard, ['0 0', '1 0', '0 1', '1 1', '0 2', '1 2'])
})

t.test('rule 16: no message passes an earlier one of the same sender that waits', async (t) => {
  const heard: string[] = []
  const { opened, open } = gate()
  const cast: Cast = {
    sender: async ({ content }, context) => {
      await context.send('worker', `${context.runId} ${content}`)
    },
    worker: async ({ content }) => {
      heard.push(content)
      if (content === 'a 1') await opened
    },
  }
  const team = teamOf(t, 4, cast, {
    script: async (script, query) => {
      for (const content of query.split(' ')) await script.request('sender', content)
      return ''
    },
  })
  await team.execute('1 2', { runId: 'a' })
  await team.execute('3', { runId: 'b' })
  await team.clock.advance(0)
  t.same(heard, ['a 1'], 'a 2 waits for the turn of its run, and b 3 behind it')
  open()
  await team.clock.runToIdle()
  t.same(heard, ['a 1', 'a 2', 'b 3'])
})

t.test('rule 19: a turn that waits gives its permit up while another turn of its thread works', async (t) => {
  const { opened, open } = gate()
  const cast: Cast = {
    worker: async (_message, context) => {
      if (context.runId === '1') return void (await context.step('long', () => opened))
      return (await context.request('other', 'hi')).content
    },
    other: () => 'hi too',
  }
  const team = teamOf(t, 2, cast, { maxConcurrentAgents: 1 })
  const [waits, works] = team.runs(2)
  await team.clock.advance(0)
  t.equal(waits!.value?.finalOutput, 'hi too')
  t.equal(works!.settled, false)
  open()
  await team.clock.runToIdle()
  t.equal(works!.value?.success, true)
})

t.test('rule 19: an answer waits for the permit of its own run alone', async (t) => {
  const { opened, open } = gate()
  const cast: Cast = {
    worker: async (_message, context) => (await context.request('other', 'hi')).content,
    other: async (_message, context) => {
      if (context.runId === '0') await context.send('hog', 'go')
      return `hi ${context.runId}`
    },
    hog: async () => void (await opened),
  }
  const team = teamOf(t, 2, cast, {
    maxConcurrentAgents: 1,
    roles: { hog: { priority: 1 }, other: { concurrency: 2 } },
  })
  const [starved, free] = team.runs(2)
  await team.clock.advance(0)
  t.equal(starved!.settled, false, 'the permit of its run is with the hog')
  t.equal(free!.value?.finalOutput, 'hi 1')
  open()
  await team.clock.runToIdle()
  t.equal(starved!.value?.finalOutput, 'hi 0')
})

t.test('rule 19: who has its answer goes on before who asks for a permit after that', async (t) => {
  const order: string[] = []
  const { opened, open } = gate()
  const cast: Cast = {
    worker: async (_message, context) => {
      await context.request('other', 'hi')
      order.push('worker goes on')
    },
    other: (_message, context) => context.send('hog', 'go'), // it has the permit next
    hog: () => opened,
    late: () => void order.push('late'),
  }
  const team = teamOf(t, 2, cast, {
    maxConcurrentAgents: 1,
    roles: { hog: { priority: 1 } },
    script: async (script) => {
      const asked = script.request('worker', 'go')
      await script.sleep(1)
      await Promise.all([asked, script.request('late', 'go')])
      return ''
    },
  })
  const [run] = team.runs(1)
  await team.clock.advance(1)
  t.same(order, [])
  open()
  await team.clock.runToIdle()
  t.same(order, ['worker goes on', 'late'])
  t.equal(run!.value?.success, true)
})

t.test('rule 19: agents whose turns wait for each other across runs all come to their end', async (t) => {
  const { most, during } = watched()
  const works = (next: string | undefined) => async (_message: AgentMessage, context: AgentContext) => {
    for (let i = 0; i < 3; i++) {
      await during(context.runId, () => context.sleep(2))
      if (next) await context.request(next, 'go')
    }
  }
  const cast: Cast = { worker: works('b'), b: works('c'), c: works(undefined) }
  const both = { concurrency: 3 }
  const team = teamOf(t, 3, cast, { maxConcurrentAgents: 1, roles: { b: both, c: both } })
  const runs = team.runs(6)
  await team.clock.runToIdle()
  t.ok(runs.every(({ value }) => value?.success))
  t.equal(most.ofOneRun, 1)
  t.ok(most.open > 1)
})

t.test('rule 7: after a crash with several turns they come one at a time until the guilty one is found', async (t) => {
  const attempts: string[] = []
  const { open: atWork, most, during } = watched()
  const cast: Cast = {
    worker: (_message, context) => {
      attempts.push(`${context.runId}:${context.attempt}`)
      return during(context.runId, async () => {
        if (context.runId !== '1') return context.sleep(10)
        await context.sleep(8)
        atWork.length = 0
        team.crash('worker', new Error('killed by 1'))
        await never
      }).then(() => `attempt ${context.attempt}`)
    },
  }
  const team = teamOf(t, 4, cast, { supervision: { maxRestarts: 9 } })
  const runs = team.runs(4)
  await team.clock.advance(11)
  t.equal(most.open, 4)
  most.open = 0
  await team.clock.runToIdle()
  t.equal(most.open, 1)
  t.same(attempts, ['0:1', '1:1', '2:1', '3:1', '0:2', '1:2', '1:3', '2:2', '3:2'])
  t.same(
    runs.map(({ value }) => value?.finalOutput ?? value?.error?.message.replace(/ on this message.*/, '')),
    ['attempt 2', 'Agent "worker" died 2 times', 'attempt 2', 'attempt 2'],
  )
  t.same(pluck(team.deadLetters.list(), 'reason'), ['poison'])
})

t.test('rule 7: a suspect that waits for another one of them does not wait for ever', async (t) => {
  const cast: Cast = {
    worker: async ({ content }, context) => {
      if (content === 'back') return 'back'
      await context.sleep(context.runId === '0' ? 5 : 1)
      return (await context.request('bob', context.runId)).content
    },
    // Run 1 is first here, and is to be answered within its turn: that turn comes after the one of run 0.
    bob: async ({ content }, context) => {
      await context.sleep(8)
      return content === '1' ? (await context.request('worker', 'back')).content : 'done'
    },
  }
  const team = teamOf(t, 2, cast, { roles: { worker: { reentrancy: 'chain' } } })
  const alarms: string[] = []
  team.events.subscribe(({ type }) => void (type === 'deadlock' && alarms.push(type)))
  const runs = team.runs(2)
  await team.clock.advance(7)
  team.crash('worker')
  await team.clock.runToIdle()
  t.same(
    runs.map(({ value }) => value?.finalOutput),
    ['done', 'back'],
  )
  t.same(alarms, [])
})

t.test('rule 7: a suspect that only waits lets the others begin, and is not charged with what they do', async (t) => {
  const attempts: string[] = []
  const { opened, open } = gate()
  const cast: Cast = {
    worker: async (_message, context) => {
      attempts.push(`${context.runId}:${context.attempt}`)
      if (context.runId === '0') return (await context.request('slow', 'go')).content
      await context.sleep(5)
      if (context.runId === '1') team.crash('worker', new Error('killed by 1'))
      return 'through'
    },
    slow: () => opened.then(() => 'late'),
  }
  const team = teamOf(t, 3, cast, { supervision: { maxRestarts: 9 } })
  const runs = team.runs(3)
  await team.clock.advance(2_000)
  t.same(attempts, ['0:1', '1:1', '2:1', '0:2', '1:2', '0:3', '1:3', '0:4', '2:2'])
  t.same(
    runs.map(({ value }) => value?.finalOutput ?? value?.error?.code),
    [undefined, 'AGENT_CRASHED', 'through'],
  )
  open()
  await team.clock.runToIdle()
  t.equal(runs[0]!.value?.finalOutput, 'late')
})

t.test('rule 7: a suspect that goes on counts again', async (t) => {
  const { open, most, during } = watched()
  const cast: Cast = {
    worker: async (_message, context) => {
      if (context.runId === '0') await context.request('other', 'go')
      await during(context.runId, () => context.sleep(20))
    },
    other: (_message, context) => context.sleep(10),
  }
  const team = teamOf(t, 3, cast)
  const runs = team.runs(3)
  await team.clock.advance(5)
  team.crash('worker')
  open.length = 0
  most.open = 0
  await team.clock.runToIdle()
  t.ok(runs.every(({ value }) => value?.success))
  t.equal(most.open, 2, 'the one that went on, and the one that had begun meanwhile; the third waits')
})

t.test('rule 7: when the suspects are through, several turns are open at once again', async (t) => {
  const { most, during } = watched()
  const team = teamOf(t, 3, { worker: (_message, context) => during(context.runId, () => context.sleep(10)) })
  team.runs(3)
  await team.clock.advance(5)
  team.crash('worker')
  await team.clock.runToIdle()
  most.open = 0
  const again = numbers(3).map((i) => team.execute(i))
  await team.clock.runToIdle()
  await Promise.all(again)
  t.equal(most.open, 3)
})

t.test('rule 7: a suspect whose run is cancelled holds nobody up', async (t) => {
  const { opened, open } = gate()
  const cast: Cast = {
    worker: async (_message, { attempt }) => {
      if (attempt === 2) await opened
      if (attempt === 1) await never
    },
  }
  const team = teamOf(t, 3, cast)
  const first = team.launch('0')
  const second = team.launch('1')
  await team.clock.advance(1)
  team.crash('worker')
  await team.clock.advance(1)
  await second.cancel() // waits for its second attempt
  open()
  await team.clock.runToIdle()
  t.equal((await first.result).success, true)
})

t.test('one turn is cancelled, and the others go on', async (t) => {
  const seen: string[] = []
  const cast: Cast = {
    worker: async (_message, context) => {
      context.signal.addEventListener('abort', () => seen.push(context.runId))
      await context.sleep(10)
      return context.runId
    },
  }
  const team = teamOf(t, 3, cast)
  const runs = numbers(3).map((runId) => team.launch(runId, { runId }))
  await team.clock.advance(5)
  await runs[1]!.cancel()
  await team.clock.advance(0)
  t.same(seen, ['1'])
  await team.clock.runToIdle()
  const results = await Promise.all(runs.map(({ result }) => result))
  t.same(
    results.map(({ finalOutput, error }) => finalOutput ?? error?.code),
    ['0', 'RUN_ABORTED', '2'],
  )
  t.equal(team.health().agents.worker?.restarts, 0)
})

t.test('a turn that ignores its signal costs the thread, and the other turns come again', async (t) => {
  const attempts: string[] = []
  const cast: Cast = {
    worker: async (_message, context) => {
      attempts.push(`${context.runId}:${context.attempt}`)
      if (context.runId === '0') await never
      await context.sleep(100)
      return `attempt ${context.attempt}`
    },
  }
  const team = teamOf(t, 3, cast, { supervision: { stopGraceMs: 20 } })
  const stubborn = team.launch('0', { runId: '0' })
  const others = ['1', '2'].map((runId) => team.execute(runId, { runId }))
  await team.clock.advance(1)
  await stubborn.cancel()
  await team.clock.runToIdle()
  const results = await Promise.all(others)
  t.same(pluck(results, 'finalOutput'), ['attempt 2', 'attempt 2'])
  t.same(attempts, ['0:1', '1:1', '2:1', '1:2', '2:2'])
})

t.test('each turn has its own time', async (t) => {
  const cast: Cast = { worker: (_message, context) => context.sleep(context.runId === 'long' ? 500 : 50) }
  const team = teamOf(t, 2, cast, { roles: { worker: { limits: { turnTimeoutMs: 100 } } } })
  const long = outcomeOf(team.execute('go', { runId: 'long' }))
  await team.clock.advance(60)
  const short = outcomeOf(team.execute('go', { runId: 'short' }))
  await team.clock.advance(60)
  t.match(long.value?.error, { code: 'TURN_TIMEOUT' })
  t.equal(short.value?.success, true)
})

t.test('a turn that fails is tried again beside the others', async (t) => {
  const heard: string[] = []
  const cast: Cast = {
    worker: async (_message, context) => {
      heard.push(`${context.runId}:${context.attempt}`)
      await context.sleep(10)
      if (context.runId === '0' && context.attempt === 1) throw new Error('not yet')
      await context.sleep(10)
    },
  }
  const team = teamOf(t, 2, cast, { roles: { worker: { supervision: { onHandlerError: 'retry' } } } })
  const runs = team.runs(2)
  await team.clock.runToIdle()
  t.ok(runs.every(({ value }) => value?.success))
  t.same(heard, ['0:1', '1:1', '0:2'])
})

t.test('it works while one of its turns does, and waits when all of them wait', async (t) => {
  const { opened, open } = gate()
  const cast: Cast = {
    worker: async (_message, context) => {
      await context.sleep(Number(context.runId) * 10)
      await context.request('other', 'hi')
    },
    other: () => opened,
  }
  const team = teamOf(t, 2, cast)
  const seen = statusesOf(team, 'worker')
  team.runs(2)
  await team.clock.advance(5)
  t.match(team.health().agents.worker, { status: 'running', inFlight: 2 })
  t.equal(seen.at(-1), 'running')
  await team.clock.advance(10)
  t.match(team.health().agents.worker, { status: 'waiting', inFlight: 2 })
  t.equal(seen.at(-1), 'waiting')
  open()
  await team.clock.runToIdle()
  t.equal(seen.at(-1), 'idle')
})

t.test('the state of a run is its own', async (t) => {
  const worker = defineAgent<unknown, unknown, object, { seen: number }>({
    initialRunState: { seen: 0 },
    async receive(_message, context) {
      context.setRunState((draft) => {
        draft.seen += 1
      })
      await context.sleep(5)
      return `${context.runId} ${context.runState.seen}`
    },
  })
  const team = teamOf(t, 4, { worker } as Cast, {
    script: async (script) => {
      await script.request('worker', '')
      team.crash('worker')
      return (await script.request('worker', '')).content
    },
  })
  const runs = team.runs(2)
  await team.clock.runToIdle()
  t.same(
    runs.map(({ value }) => value?.finalOutput),
    ['0 2', '1 2'],
  )
})

t.test('an agent with several turns at once has no state of its own', async (t) => {
  const initial = defineAgent({ initialState: { seen: 0 }, receive: () => {} })
  const team = teamOf(t, 2, { worker: initial } as Cast)
  await t.rejects(team.start(), {
    code: 'CONFIGURATION',
    message: /^agents\[0\]\.concurrency: 2 runs of agent "worker" .* initialState is refused\. Accepted with it: 1\./,
    details: { path: 'agents[0].concurrency', got: 2, accepted: '1' },
  })
  const later = teamOf(t, 2, { worker: (_message, context) => context.setState(() => {}) })
  t.match(await later.execute('go'), {
    error: { code: 'AGENT_FAILED', message: /agents\[0\]\.concurrency: .* setState is refused/ },
  })
  const started = defineAgent({ start: ({ setState }) => setState(() => {}), receive: () => {} })
  await t.rejects(teamOf(t, 2, { worker: started }).start(), { code: 'CONFIGURATION', message: /setState is refused/ })
})

t.test('rule 12: close ends all turns that are open', async (t) => {
  const aborted: string[] = []
  const cast: Cast = {
    worker: async (_message, context) => {
      context.signal.addEventListener('abort', () => aborted.push(context.runId))
      await context.sleep(1_000)
    },
  }
  const team = teamOf(t, 3, cast)
  const runs = team.runs(5)
  await team.clock.advance(1)
  const closed = team.close()
  await team.clock.runToIdle()
  await closed
  t.same(aborted, ['0', '1', '2'])
  t.ok(runs.every(({ value }) => value?.error?.code === 'RUN_ABORTED'))
  t.equal(team.clock.monotonic() < 1_000, true)
})

t.test('large messages and streams of many runs find their turns', async (t) => {
  const text = 'x'.repeat(300_000)
  const cast: Cast = {
    worker: async ({ content }, context) => {
      let pieces = ''
      for await (const piece of context.requestStream('other', content)) pieces += piece
      return `${context.runId} ${pieces}`
    },
    other: async ({ content }, context) => {
      for (let i = 0; i < 40; i++) {
        context.emit('.')
        await context.sleep(1)
      }
      return `${content.length}`
    },
  }
  const team = teamOf(t, 4, cast, { maxConcurrentAgents: 1, roles: { other: { concurrency: 4 } } })
  const runs = numbers(4).map((runId) => outcomeOf(team.execute(text, { runId })))
  await team.clock.runToIdle()
  t.same(
    runs.map(({ value }) => value?.finalOutput),
    numbers(4).map((runId) => `${runId} ${'.'.repeat(40)}`),
  )
})

t.test('rule 19: a permit that comes when there is nothing to hand over any more goes back', async (t) => {
  const cast: Cast = { worker: () => 'hi', other: () => 'hi too' }
  const team = teamOf(t, 2, cast, {
    maxConcurrentAgents: 1,
    script: async (script) => {
      const worker = team.agent('worker')
      t.ok(team.host.permits.take(team.host.runs.find(script.runId)!, worker))
      team.host.ready.touch(worker)
      return (await script.request('other', 'hi')).content
    },
  })
  const [run] = team.runs(1)
  await team.clock.runToIdle()
  t.equal(run!.value?.finalOutput, 'hi too')
})

t.test('each attempt in the same life brings the steps of the one before it', async (t) => {
  const effects: string[] = []
  const cast: Cast = {
    worker: async (_message, context) => {
      for (const done of numbers(context.attempt))
        await context.step(`step ${done}`, () => void effects.push(`${context.runId}.${done}`))
      if (context.attempt < 3) throw new Error('not yet')
    },
  }
  const team = teamOf(t, 2, cast, { roles: { worker: { supervision: { onHandlerError: 'retry' } } } })
  const runs = team.runs(2)
  await team.clock.runToIdle()
  t.ok(runs.every(({ value }) => value?.success))
  t.same(effects.sort(), ['0.0', '0.1', '0.2', '1.0', '1.1', '1.2'])
  t.equal(team.health().agents.worker?.restarts, 0)
})

t.test('what stands behind a message of its sender comes when that one is withdrawn', async (t) => {
  const held = gate()
  const withdrawal = new AbortController()
  const cast: Cast = {
    bob: async ({ content }) => {
      if (content === 'hold') await held.opened
      return content
    },
    cleo: async ({ content }, context) => {
      const options = content === 'first' ? { signal: withdrawal.signal } : {}
      return (await context.request('bob', content, options)).content
    },
  }
  const team = openTeam(t, cast, {
    roles: { bob: { concurrency: 2 }, cleo: { concurrency: 2 } },
    script: async (script, query) => {
      if (query === 'second') return (await script.request('cleo', query)).content
      const asked = [script.request('bob', 'hold'), script.request('cleo', query)]
      return `${(await Promise.allSettled(asked)).length}`
    },
  })
  const first = outcomeOf(team.execute('first'))
  await team.clock.advance(1)
  const second = outcomeOf(team.execute('second'))
  await team.clock.advance(1)
  t.equal(second.settled, false)
  withdrawal.abort()
  await team.clock.advance(1)
  t.equal(second.value?.finalOutput, 'second')
  held.open()
  await team.clock.advance(1)
  t.equal(first.settled, true)
})
