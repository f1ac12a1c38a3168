/** Turns that wait for a person hold nothing: other runs pass through the same agents meanwhile. */
import t from 'tap'
import { z } from 'zod'
import { defineAgent, defineTool, type RuntimeEvent } from '../../src/index.ts'
import { pluck } from '../kit/lists.ts'
import { given, heard, type OpenTeam, openTeam, outcomeOf, type Receive } from '../kit/team.ts'
import { changingTeam } from './reloading.ts'

const HOUR = 3_600_000

/** Asks a person when the message says so. */
const desk: Receive = async ({ content }, context) =>
  content.startsWith('ask') ? `${await context.ask(`${content}?`)}, after ${context.attempt}` : `done: ${content}`

function alarmsOf(team: Pick<OpenTeam, 'events'>): string[] {
  const alarms: string[] = []
  team.events.subscribe(({ type }) => {
    if (type === 'deadlock' || type === 'stall' || type === 'livelock') alarms.push(type)
  })
  return alarms
}

async function answerAll(team: Pick<OpenTeam, 'questions' | 'answer'>, answer = 'yes'): Promise<void> {
  for (const { questionId } of team.questions()) await team.answer(questionId, answer)
}

for (const concurrency of [1, 2])
  t.test(
    `a person answers after 48 hours, and 100 runs pass meanwhile through a role with concurrency ${concurrency}`,
    async (t) => {
      const team = given(t, {
        roles: { ann: { concurrency, limits: { turnTimeoutMs: 1_000 }, communication: { queueTimeoutMs: 1_000 } } },
        communication: { responseTimeoutMs: 1_000 },
        maxConcurrentAgents: 1,
        globalTimeoutMs: 5_000,
      }).team({ ann: desk })
      const alarms = alarmsOf(team)
      const asking = Array.from({ length: 3 }, (_, i) => team.launch(`ask ${i}`))
      await team.clock.advance(HOUR)
      t.same(pluck(asking, 'status'), ['waiting', 'waiting', 'waiting'])
      for (let hour = 0; hour < 47; hour += 1) {
        const passing = Array.from({ length: 3 }, (_, i) => team.execute(`${hour} ${i}`))
        for (const [i, { finalOutput }] of (await Promise.all(passing)).entries())
          t.equal(finalOutput, `done: ${hour} ${i}`)
        await team.clock.advance(HOUR)
      }
      await answerAll(team)
      await team.clock.runToIdle()
      for (const run of asking) t.match(await run.result, { success: true, finalOutput: 'yes, after 1' })
      t.same(alarms, [])
    },
  )

t.test('an agent that waits for an agent that asks a person is free too', async (t) => {
  const team = given(t, { communication: { responseTimeoutMs: 1_000 }, maxConcurrentAgents: 1 }).team({
    ann: async ({ content }, context) => (await context.request('bob', content)).content,
    bob: desk,
  })
  const alarms = alarmsOf(team)
  const asking = [team.launch('ask one'), team.launch('ask two')]
  await team.clock.advance(HOUR)
  t.equal((await team.execute('a third')).finalOutput, 'done: a third')
  t.equal(team.questions().length, 2)
  await answerAll(team)
  await team.clock.runToIdle()
  for (const run of asking) t.equal((await run.result).finalOutput, 'yes, after 1')
  t.same(alarms, [])
})

t.test('a call that waits for an approval leaves its place, also of a tool in the host', async (t) => {
  const pay = defineTool({
    name: 'pay',
    description: 'Pays.',
    input: z.object({}),
    approval: true,
    run: () => 'paid',
  })
  const team = given(t, { roles: { ann: { tools: [pay] } }, maxConcurrentAgents: 1 }).team({
    ann: async ({ content }, context) => (content === 'pay' ? `${await context.tool(pay, {})}` : 'free'),
  })
  const paying = team.launch('pay')
  await team.clock.advance(HOUR)
  t.equal((await team.execute('go')).finalOutput, 'free')
  await answerAll(team)
  await team.clock.runToIdle()
  t.equal((await paying.result).finalOutput, 'paid')
})

t.test('the other agents of a run get the permit of one that asks', async (t) => {
  const team = given(t, {
    maxConcurrentAgents: 1,
    script: async (script) => {
      const ann = script.request('ann', 'ask')
      const bob = await script.request('bob', 'go')
      return `${bob.content}, ${(await ann).content}`
    },
  }).team({ ann: desk, bob: () => 'bob' })
  const run = team.launch('go')
  await team.clock.advance(HOUR)
  t.equal(team.getAgentStatus('bob'), 'idle')
  t.equal(team.getAgentStatus('ann'), 'waiting')
  await answerAll(team)
  await team.clock.runToIdle()
  t.equal((await run.result).finalOutput, 'bob, yes, after 1')
})

t.test('an answered turn goes on when its agent has a place, one turn at a time', async (t) => {
  const open: string[] = []
  const team = openTeam(t, {
    async ann({ content }, context) {
      open.push(`+${content}`)
      if (content === 'ask') await context.ask('Really?')
      open.push(`>${content}`)
      await context.sleep(1_000)
      open.push(`-${content}`)
    },
  })
  const asking = team.launch('ask')
  await team.clock.advance(10)
  const busy = team.launch('busy')
  await team.clock.advance(10)
  await answerAll(team)
  const later = team.launch('later')
  await team.clock.runToIdle()
  await Promise.all([asking, busy, later].map(({ result }) => result))
  t.same(open, ['+ask', '+busy', '>busy', '-busy', '>ask', '-ask', '+later', '>later', '-later'])
})

t.test('an answered turn waits while other runs have all places of its agent', async (t) => {
  const open: string[] = []
  const work: Receive = async ({ content }, context) => {
    if (content === 'ask') await context.ask('Really?')
    open.push(`>${content}`)
    await context.sleep(1_000)
    open.push(`-${content}`)
  }
  const team = openTeam(t, { ann: work }, { roles: { ann: { concurrency: 2 } } })
  const runs = [team.launch('ask')]
  await team.clock.advance(10)
  runs.push(team.launch('one'), team.launch('two'))
  await team.clock.advance(10)
  await answerAll(team)
  await team.clock.runToIdle()
  await Promise.all(runs.map(({ result }) => result))
  t.same(open.slice(0, 3), ['>one', '>two', '-one'])
  t.same(open.slice(-1), ['-ask'])
})

t.test('an answered turn waits for a permit of its run, whose number counts again', async (t) => {
  const open: string[] = []
  const work: Receive = async ({ content }, context) => {
    if (content === 'ask') await context.ask('Really?')
    open.push(`>${content}`)
    await context.sleep(1_000)
    open.push(`-${content}`)
  }
  const team = given(t, {
    maxConcurrentAgents: 1,
    maxConcurrentRuns: 1,
    script: async (script, query) => {
      if (query === 'later') open.push(query)
      const ann = script.request('ann', query === 'go' ? 'ask' : 'later')
      await script.sleep(100)
      await Promise.all([ann, ...(query === 'go' ? [script.request('bob', 'bob')] : [])])
      return 'done'
    },
  }).team({ ann: work, bob: work })
  const run = team.launch('go')
  await team.clock.advance(500)
  t.same(open, ['>bob'])
  await answerAll(team)
  const later = team.launch('later') // the run that asked counts again
  await team.clock.runToIdle()
  await Promise.all([run.result, later.result])
  t.same(open, ['>bob', '-bob', '>ask', '-ask', 'later', '>later', '-later'])
})

t.test(
  'an answered turn whose place is taken by a run that waits for its own run is found as a deadlock',
  async (t) => {
    const passing: Record<string, string> = { pass: 'cleo', hold: 'ann' }
    const receive: Receive = async ({ content }, context) => {
      if (content === 'ask') return context.ask('Really?')
      const next = passing[content]
      return next ? (await context.request(next, 'plain')).content : `done: ${content}`
    }
    const team = given(t, {
      script: async (script, query) => {
        if (query === 'two') return (await script.request('ann', 'pass')).content
        const ask = script.request('ann', 'ask')
        await script.sleep(10)
        const hold = script.request('cleo', 'hold') // asks ann, behind the turn that asks the person
        return (await Promise.all([ask, hold])).map(({ content }) => content).join()
      },
    }).team({ ann: receive, cleo: receive })
    const alarms = alarmsOf(team)
    const told: RuntimeEvent[] = []
    team.events.subscribe((event) => event.type === 'deadlock' && event.victim === null && told.push(event))
    const one = team.launch('one')
    await team.clock.advance(20)
    const two = team.launch('two') // has the place of ann, and waits for that of cleo
    await team.clock.advance(20)
    t.same(alarms, [])
    await answerAll(team)
    await team.clock.runToIdle()
    t.same(new Set(alarms), new Set(['deadlock']))
    t.match(told, [
      { cycle: ['ann', 'cleo', 'ann'], waits: [{}, {}, { agent: 'ann', for: ['ann'], kind: 'place' }, {}, {}] },
    ])
    const results = await Promise.all([one.result, two.result])
    t.same(results.map(({ success }) => success).sort(), [false, true])
    t.match(results.find(({ error }) => error)?.error?.message, 'deadlock')
  },
)

t.test('an agent that its callee may ask back keeps its place while that one asks a person', async (t) => {
  const order: string[] = []
  const team = given(t, { roles: { ann: { reentrancy: 'chain' } } }).team({
    async ann({ content }, context) {
      order.push(`ann ${content}`)
      return content === 'ask' ? (await context.request('bob', 'ask')).content : content
    },
    async bob(_message, context) {
      const answer = await context.ask('Really?')
      return `${answer}, ${(await context.request('ann', 'back')).content}`
    },
  })
  const asking = team.launch('ask')
  await team.clock.advance(10)
  const other = team.launch('other')
  await team.clock.advance(10)
  t.same(order, ['ann ask'])
  await answerAll(team)
  await team.clock.runToIdle()
  t.match(await asking.result, { finalOutput: 'yes, back' })
  t.match(await other.result, { success: true })
  t.same(order, ['ann ask', 'ann back', 'ann other'])
})

t.test('a nested turn that asks a person keeps the place of its agent', async (t) => {
  const team = given(t, {
    roles: { ann: { reentrancy: 'chain' } },
    script: async (script, query) => (await script.request('ann', query)).content,
  }).team({
    async ann({ content }, context) {
      if (content === 'plain') return 'plain'
      if (content === 'back') return context.ask('Really?')
      return (await context.request('bob', 'go')).content
    },
    bob: async (_message, context) => (await context.request('ann', 'back')).content,
  })
  const asking = team.launch('go')
  await team.clock.advance(100)
  t.equal(asking.status, 'waiting')
  const plain = outcomeOf(team.execute('plain'))
  await team.clock.advance(100)
  t.equal(plain.value, undefined)
  await answerAll(team)
  await team.clock.runToIdle()
  t.equal((await asking.result).finalOutput, 'yes')
  t.equal(plain.value?.finalOutput, 'plain')
})

t.test('a turn that is asked back goes on although others have all places, and wait for its run', async (t) => {
  const team = given(t, { roles: { ann: { reentrancy: 'chain', concurrency: 2 } }, maxConcurrentAgents: 1 }).team({
    ann: async ({ content }, context) =>
      content === 'back' ? content : (await context.request('bob', content)).content,
    async bob({ content }, context) {
      if (content !== 'ask') return content
      const answer = await context.ask('Really?')
      await context.sleep(100)
      return `${answer}, ${(await context.request('ann', 'back')).content}`
    },
  })
  const alarms = alarmsOf(team)
  const asking = team.launch('ask')
  await team.clock.advance(10)
  await answerAll(team)
  await team.clock.advance(10)
  const others = [team.launch('one'), team.launch('two')] // both are at ann, and wait for bob
  await team.clock.runToIdle()
  t.match(await asking.result, { finalOutput: 'yes, back' })
  for (const { result } of others) t.match(await result, { success: true })
  t.same(alarms, [])
})

t.test('a message of the same run waits until the question is answered', async (t) => {
  const order: string[] = []
  const team = given(t, {
    script: async (script) => {
      const ask = script.request('ann', 'ask')
      await script.sleep(10)
      const second = script.request('ann', 'second')
      await Promise.all([ask, second])
      return 'done'
    },
  }).team({
    async ann({ content }, context) {
      order.push(content)
      if (content === 'ask') order.push(await context.ask('Really?'))
    },
  })
  const alarms = alarmsOf(team)
  const run = team.launch('go')
  await team.clock.advance(50)
  t.same(order, ['ask'])
  await answerAll(team)
  await team.clock.runToIdle()
  t.equal((await run.result).finalOutput, 'done')
  t.same(order, ['ask', 'yes', 'second'])
  t.same(alarms, [])
})

t.test('a thread that dies while turns wait for a person asks nobody again, and leaves its place again', async (t) => {
  const team = openTeam(t, { ann: desk }, { maxConcurrentAgents: 1 })
  const questions = heard(team, 'question', (event) => event)
  const asking = [team.launch('ask one'), team.launch('ask two')]
  await team.clock.advance(HOUR)
  team.crash('ann')
  await team.clock.advance(HOUR)
  t.equal((await team.execute('a third')).finalOutput, 'done: a third')
  t.equal(questions.length, 2)
  await answerAll(team)
  await team.clock.runToIdle()
  for (const run of asking) t.equal((await run.result).finalOutput, 'yes, after 2')
})

t.test(
  'a run that is cancelled while its turn waits for a person ends at once, also beside another turn',
  async (t) => {
    const ended: string[] = []
    const team = openTeam(t, {
      async ann({ content }, context) {
        if (content === 'busy') return context.sleep(5_000)
        await context.ask('Really?').catch(({ code }) => ended.push(code))
      },
    })
    const asking = team.launch('ask')
    await team.clock.advance(10)
    const busy = team.launch('busy')
    await team.clock.advance(10)
    await asking.cancel()
    await team.clock.advance(0)
    t.equal(asking.status, 'aborted')
    t.same(ended, ['RUN_ABORTED'])
    t.equal(busy.status, 'running')
    await team.clock.runToIdle()
    t.equal((await busy.result).success, true)
  },
)

t.test('a turn that waits for a person and for something else goes on with either', async (t) => {
  const team = given(t, { roles: { bob: { concurrency: 2 } } }).team({
    async ann({ content }, context) {
      if (content !== 'both') return `done: ${content}`
      const color = context.ask('Which color?')
      const first = await Promise.race([color, context.request('bob', 'go').then((answer) => answer.content)])
      return `${first}, then ${await color}`
    },
    bob: async (_message, context) => {
      await context.sleep(1_000)
      return 'bob'
    },
  })
  const run = team.launch('both')
  await team.clock.advance(2_000)
  t.equal((await team.execute('another')).finalOutput, 'done: another')
  await answerAll(team, 'blue')
  await team.clock.runToIdle()
  t.equal((await run.result).finalOutput, 'bob, then blue')
})

t.test('a turn whose own signal ends its question goes on when it has a place', async (t) => {
  const stop = new AbortController()
  const team = openTeam(t, {
    async ann({ content }, context) {
      if (content === 'busy') return context.sleep(1_000)
      const how = await context.ask('Really?', { signal: stop.signal }).catch(({ code }) => code)
      return `${how} ${await context.step('after', () => 'stepped')}`
    },
  })
  const asking = outcomeOf(team.execute('ask'))
  await team.clock.advance(10)
  const busy = team.launch('busy')
  await team.clock.advance(10)
  stop.abort()
  await team.clock.advance(10)
  t.equal(asking.value, undefined)
  await team.clock.runToIdle()
  t.equal(asking.value?.finalOutput, 'CANCELLED stepped')
  t.equal((await busy.result).success, true)
})

t.test(
  'what a turn has changed in the state before its question is applied to what others have made of it',
  async (t) => {
    const count = defineAgent({
      initialState: () => ({ n: 0 }),
      async receive({ content }, context) {
        context.setState((state) => {
          state.n += 1
        })
        if (content === 'ask') await context.ask('Really?')
        return `${context.state.n}`
      },
    })
    const team = openTeam(t, { ann: count })
    const asking = team.launch('ask')
    await team.clock.advance(HOUR)
    t.equal((await team.execute('go')).finalOutput, '1')
    t.equal((await team.execute('go')).finalOutput, '2')
    await answerAll(team)
    await team.clock.runToIdle()
    t.equal((await asking.result).finalOutput, '3')
    t.equal((await team.execute('go')).finalOutput, '4')
  },
)

t.test('an agent is reloaded although its turn waits for a person, and the new code gets the answer', async (t) => {
  const said = (version: string) =>
    defineAgent({
      receive: async ({ content }, context) =>
        content === 'ask' ? `${version}: ${await context.ask('Really?')}` : `${version}: ${content}`,
    })
  const team = changingTeam(t, { ann: said('old') })
  const asking = team.launch('ask')
  await team.clock.advance(HOUR)
  team.code.ann = said('new')
  const reloaded = outcomeOf(team.reloadAgent('ann'))
  await team.clock.advance(1_000)
  t.ok(reloaded.settled)
  t.equal((await team.execute('go')).finalOutput, 'new: go')
  t.equal(team.questions().length, 1)
  await answerAll(team)
  await team.clock.runToIdle()
  const result = await asking.result
  t.equal(result.finalOutput ?? result.error?.message, 'new: yes')
})

t.test('an agent that is removed while its turn waits for a person leaves nothing behind', async (t) => {
  const team = openTeam(t, { ann: desk, bob: desk })
  const asking = team.launch('ask')
  await team.clock.advance(HOUR)
  const removed = outcomeOf(team.removeAgent('ann'))
  await team.clock.runToIdle()
  t.ok(removed.settled)
  t.match(await asking.result, { success: false, error: { code: 'AGENT_TERMINATED' } })
  t.same(team.questions(), [])
})

t.test('a run that waits for a person takes no place among the runs of the team', async (t) => {
  const team = openTeam(t, { ann: desk }, { maxConcurrentRuns: 1 })
  const asking = team.launch('ask one')
  const queued = team.launch('ask two')
  t.equal(queued.status, 'queued')
  await team.clock.advance(HOUR)
  t.same([asking.status, queued.status], ['waiting', 'waiting'])
  t.equal((await team.execute('go')).finalOutput, 'done: go')
  await answerAll(team)
  await team.clock.runToIdle()
  for (const run of [asking, queued]) t.equal((await run.result).finalOutput, 'yes, after 1')
  const [first, second] = [team.launch('ask'), team.launch('go')]
  t.same([first.status, second.status], ['running', 'queued'])
  await first.cancel()
  await team.clock.runToIdle()
  t.equal((await second.result).success, true)
})

t.test('a turn that waits for the blackboard alone keeps its place', async (t) => {
  const began: string[] = []
  const team = given(t, { supervision: { deadlock: 'report' } }).team({
    ann: async ({ content }, context) => {
      began.push(content)
      if (content === 'one') await context.blackboard.waitFor('never').catch(() => {})
    },
  })
  const runs = ['one', 'two'].map((query) => team.launch(query))
  await team.clock.advance(10_000)
  t.same(began, ['one'])
  for (const run of runs) void run.cancel('enough')
  await team.clock.runToIdle()
  await Promise.all(runs.map(({ result }) => result))
})
