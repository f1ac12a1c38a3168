/** Rule 1: who is ended and started again with an agent that died, in what order, and at whose charge. */
import t from 'tap'
import { defineAgent } from '../../src/actors/definition/definition.ts'
import type { AgentRole } from '../../src/index.ts'
import { imbalances, leftovers, watchAccounts } from './accounts.ts'
import { ask, type Cast, gate, type OpenTeam, openTeam, outcomeOf, type Receive } from './teams.ts'

type Test = Pick<typeof t, 'teardown' | 'same'>
type Strategy = 'one_for_one' | 'one_for_all' | 'rest_for_one'

const answers: Receive = (message, context) => `${message.content} in attempt ${context.attempt}`
const cast: Cast = { a: answers, b: answers, c: answers }

/** A started team with that strategy, and what its agents became, in order: `-name` is down, `+name` is ready. */
async function teamWith(
  t: Test,
  strategy: Strategy,
  agents: Cast = cast,
  supervision: object = {},
  roles: Record<string, Omit<AgentRole, 'name'>> = {},
) {
  const team = openTeam(t, agents, { supervision: { strategy, ...supervision }, roles })
  await team.start()
  await team.clock.advance(0)
  const story: string[] = []
  team.host.journal.records$.subscribe((batch) => {
    for (const record of batch) {
      if (record.kind === 'agent.status' && record.epoch > 0) {
        const mark = record.status === 'restarting' ? '-' : `${record.status} `
        if (story.at(-1) !== `${mark}${record.agent}`) story.push(`${mark}${record.agent}`)
      }
      if (record.kind === 'agent.ready') story.push(`+${record.agent}`)
    }
  })
  return { team, story }
}

const epochs = ({ host }: OpenTeam) => ['a', 'b', 'c'].map((name) => host.directory.cell(name)!.epoch)

for (const [strategy, expected, story] of [
  ['one_for_one', [1, 2, 1], ['-b', '+b']],
  ['rest_for_one', [1, 2, 2], ['-b', '-c', '+b', '+c']],
  ['one_for_all', [2, 2, 2], ['-b', '-c', '-a', '+a', '+b', '+c']],
] as const)
  t.test(`rule 1: ${strategy}: who goes with the second of three, last first, and comes back in order`, async (t) => {
    const { team, story: happened } = await teamWith(t, strategy)
    team.crash('b')
    await team.clock.advance(0)
    t.same(epochs(team), expected)
    t.same(
      happened.filter((what, at) => what !== happened[at - 2] || !what.startsWith('-')),
      story,
    )
    for (const agent of ['a', 'b', 'c']) t.equal(await ask(team, agent), 'go in attempt 1')
  })

/** b dies under one_for_all, and begins only when `open` has let a, the one before it, begin. */
async function beginsAfter(t: Test, a: Cast[string], open: () => void): Promise<void> {
  const { team, story } = await teamWith(t, 'one_for_all', { a, b: answers })
  team.crash('b')
  await team.clock.advance(1_000)
  t.same(story.includes('+b'), false)
  open()
  await team.clock.advance(0)
  t.same(story.slice(-2), ['+a', '+b'])
}

t.test('rule 1: an agent begins when the one before it is ready', async (t) => {
  const { opened, open } = gate()
  let lives = 0
  const slow = defineAgent({ start: () => (++lives > 1 ? opened : undefined), receive: answers })
  await beginsAfter(t, slow, open)
})

t.test('rules 1 and 11: also when the one before it needs a second try', async (t) => {
  const { opened, open } = gate()
  let lives = 0
  const slow = defineAgent({
    start() {
      if (++lives === 2) throw new Error('not yet')
      return lives > 2 ? opened : undefined
    },
    receive: answers,
  })
  await beginsAfter(t, slow, open)
})

t.test('rule 1: one that was about to begin when another died begins after it', async (t) => {
  const { team } = await teamWith(t, 'rest_for_one')
  const { provisioning } = team.host
  const codeOf = provisioning.codeOf.bind(provisioning)
  const code = gate()
  let asked = 0
  provisioning.codeOf = async (cell) => {
    if (cell.name === 'c' && ++asked === 1) await code.opened
    return codeOf(cell)
  }
  team.crash('b')
  await team.clock.advance(0) // b is ready, the code of c is not
  team.crash('a')
  await team.clock.advance(50)
  code.open()
  await team.clock.advance(0)
  t.equal(team.host.directory.cell('c')?.life === undefined, true)
  await team.clock.advance(1_000)
  t.same(epochs(team), [2, 3, 2])
})

t.test('rule 1: the death of the others is nobody’s fault: one restart in the window, one agent.crashed', async (t) => {
  const { team } = await teamWith(t, 'one_for_all')
  const crashed: string[] = []
  team.events.subscribe((event) => {
    if (event.type === 'agent.crashed') crashed.push(event.agent)
  })
  for (const agent of ['a', 'b', 'c']) {
    team.crash(agent)
    await team.clock.advance(1_000)
  }
  t.same(crashed, ['a', 'b', 'c'])
  t.same(epochs(team), [4, 4, 4])
  const { a, b, c } = team.health().agents
  t.same([a?.restarts, b?.restarts, c?.restarts], [3, 3, 3])
})

t.test('rules 1 and 2: the restarts of all count together, and all are stopped and tried again together', async (t) => {
  const { team, story } = await teamWith(t, 'one_for_all', cast, { coolDownMs: 5_000 })
  for (const agent of ['a', 'b', 'c', 'a']) {
    team.crash(agent)
    await team.clock.advance(10_000)
    if (agent === 'c') story.length = 0
  }
  t.same(story, ['failed a', 'failed c', 'failed b', '-a', '+a', '-b', '+b', '-c', '+c'])
  t.equal(await ask(team, 'b'), 'go in attempt 1')
})

t.test('rules 1 and 2: who asks one of those that were stopped together is told why', async (t) => {
  const { team } = await teamWith(t, 'rest_for_one', cast, { maxRestarts: 0 })
  team.crash('b')
  await team.clock.advance(0)
  t.equal(await ask(team, 'a'), 'go in attempt 1')
  for (const agent of ['b', 'c'])
    await t.rejects(ask(team, agent), {
      code: 'AGENT_TERMINATED',
      message: /It and the agents that are restarted with it died 1 times within 60000 ms \(allowed: 0\)/,
    })
})

t.test('rules 1 and 7: turns of the others come again uncharged, and as often as need be', async (t) => {
  const { opened, open } = gate()
  const work: Receive = async (_message, { attempt }) => {
    await opened
    return `attempt ${attempt}`
  }
  const { team } = await teamWith(
    t,
    'one_for_all',
    { a: answers, b: work },
    { maxRestarts: 9, poisonAttempts: 2, backoff: { baseMs: 1, capMs: 1 } },
  )
  const found = watchAccounts(team.host)
  const asked = outcomeOf(ask(team, 'b'))
  await team.clock.advance(0)
  for (let i = 0; i < 5; i++) {
    team.crash('a')
    await team.clock.advance(100)
  }
  open()
  await team.clock.advance(0)
  t.equal(asked.value, 'attempt 6')
  t.same([found, imbalances(team.host), leftovers(team.host), team.deadLetters.list()], [[], [], [], []])
})

t.test('rules 1 and 7: who dies has its own message charged, whoever else died with it', async (t) => {
  const { team } = await teamWith(
    t,
    'one_for_all',
    { a: answers, b: () => new Promise(() => {}) },
    { maxRestarts: 9, poisonAttempts: 2, backoff: { baseMs: 1, capMs: 1 } },
  )
  const asked = outcomeOf(ask(team, 'b'))
  await team.clock.advance(0)
  team.crash('a')
  await team.clock.advance(100)
  team.crash('b')
  await team.clock.advance(100)
  t.equal(asked.settled, false)
  team.crash('b')
  await team.clock.advance(100)
  t.match(asked.error, { code: 'AGENT_CRASHED', message: /died 2 times on this message/ })
})

t.test('rules 1 and 0: a turn that was cut off for others still has all its retries', async (t) => {
  const attempts: number[] = []
  const { opened, open } = gate()
  const fails: Receive = async (_message, { attempt }) => {
    attempts.push(attempt)
    if (attempt < 3) await opened
    throw new Error('no')
  }
  const { team } = await teamWith(
    t,
    'one_for_all',
    { a: answers, b: fails },
    { onHandlerError: 'retry', poisonAttempts: 2 },
  )
  const asked = outcomeOf(ask(team, 'b'))
  for (let i = 0; i < 2; i++) {
    await team.clock.advance(1_000)
    team.crash('a')
    await team.clock.advance(1_000)
  }
  open()
  await team.clock.advance(1_000)
  t.match(asked.error, { code: 'AGENT_FAILED' })
  t.same(attempts, [1, 2, 3, 4])
})

t.test('rules 1 and 5: what the others had committed is not run again', async (t) => {
  const handled: string[] = []
  const { team } = await teamWith(t, 'one_for_all', {
    a: answers,
    b({ content }) {
      handled.push(content)
      if (content === '2') team.crash('a')
    },
  })
  for (const content of ['1', '2', '3']) void team.sendMessage({ recipient: 'b', content })
  await team.clock.advance(1_000)
  t.same(handled, ['1', '2', '3'])
})

t.test('rules 1 and 6: an other that was within a step that may not run twice is not run again', async (t) => {
  let runs = 0
  const { team } = await teamWith(t, 'one_for_all', {
    a: answers,
    async b(_message, context) {
      await context.step('charge the card', () => {
        runs += 1
        return new Promise(() => {})
      })
    },
  })
  const asked = outcomeOf(ask(team, 'b'))
  await team.clock.advance(0)
  team.crash('a')
  await team.clock.advance(1_000)
  t.match(asked.error, { code: 'OUTCOME_UNKNOWN' })
  t.equal(runs, 1)
})

t.test('rules 1 and 4: what one that goes with others had asked is not asked twice', async (t) => {
  const { opened, open } = gate()
  const heard: string[] = []
  const { team } = await teamWith(t, 'rest_for_one', {
    oracle: async ({ content }) => {
      heard.push(content)
      await opened
      return '42'
    },
    a: answers,
    b: async (_message, context) => (await context.request('oracle', 'what is it?')).content,
  })
  const asked = outcomeOf(ask(team, 'b'))
  await team.clock.advance(0)
  team.crash('a')
  await team.clock.advance(0)
  open()
  await team.clock.advance(0)
  t.equal(asked.value, '42')
  t.same(heard, ['what is it?'])
})

t.test('rule 1: two that die at once are one restart of all', async (t) => {
  const { team } = await teamWith(t, 'one_for_all')
  team.crash('a')
  team.crash('c')
  await team.clock.advance(0)
  t.same(epochs(team), [2, 2, 2])
  const times = team.host.directory.cells.flatMap(({ restartTimes }) => restartTimes)
  t.equal(times.length, 1)
})

t.test('rule 1: one that dies while others come back takes them with it again', async (t) => {
  const { opened, open } = gate()
  let lives = 0
  const slow = defineAgent({ start: () => (++lives === 2 ? opened : undefined), receive: answers })
  const { team } = await teamWith(t, 'rest_for_one', { a: answers, b: answers, c: slow })
  team.crash('b')
  await team.clock.advance(0) // b is ready, c is at its start hook
  team.crash('a')
  await team.clock.advance(200) // the second in a row waits
  t.same(epochs(team), [2, 3, 3])
  open()
  await team.clock.advance(1_000)
  for (const agent of ['a', 'b', 'c']) t.equal(await ask(team, agent), 'go in attempt 1')
  t.same(epochs(team), [2, 3, 3])
})

t.test('rules 1 and 3: all wait for the backoff together', async (t) => {
  const { team } = await teamWith(t, 'one_for_all', cast, { backoff: { baseMs: 1_000, capMs: 1_000 } })
  team.crash('a')
  await team.clock.advance(0)
  team.crash('b')
  await team.clock.advance(499)
  t.same(epochs(team), [2, 2, 2])
  await team.clock.advance(501)
  t.same(epochs(team), [3, 3, 3])
})

t.test('rules 1 and 11: one that cannot start again is stopped, and those after it start', async (t) => {
  let lives = 0
  const once = defineAgent({
    start() {
      if (++lives > 1) throw new Error('no more')
    },
    receive: answers,
  })
  const { team } = await teamWith(t, 'one_for_all', { a: answers, b: once, c: answers })
  team.crash('a')
  await team.clock.advance(1_000)
  t.equal(team.getAgentStatus('b'), 'failed')
  t.equal(await ask(team, 'c'), 'go in attempt 1')
  team.crash('a')
  await team.clock.advance(10_000)
  t.equal(team.getAgentStatus('b'), 'failed')
})

t.test('rules 1 and 12: a team closes while its agents are restarted together', async (t) => {
  const { team } = await teamWith(t, 'one_for_all')
  team.crash('a')
  await team.close()
  t.same(
    team.host.directory.cells.filter(({ life }) => life !== undefined).map(({ name }) => name),
    [],
  )
})

// ---- child types

const role = (restart: 'permanent' | 'transient' | 'temporary') => ({ supervision: { restart } })

t.test('rule 1: a permanent agent lives again also after an end of its own', async (t) => {
  const { team } = await teamWith(t, 'one_for_one', cast, {}, { a: role('permanent') })
  team.exit('a')
  await team.clock.advance(0)
  t.equal(await ask(team, 'a'), 'go in attempt 1')
})

t.test('rule 1: a transient agent lives again after a crash, and not after an end of its own', async (t) => {
  const { team, story } = await teamWith(t, 'one_for_one', cast, {}, { a: role('transient') })
  team.crash('a')
  await team.clock.advance(0)
  t.equal(await ask(team, 'a'), 'go in attempt 1')
  story.length = 0
  team.exit('a')
  await team.clock.advance(1_000_000)
  t.same(story, ['stopped a'])
  await t.rejects(ask(team, 'a'), {
    code: 'AGENT_TERMINATED',
    message: /"a" is stopped: It ended by itself, with exit code 0; a 'transient' agent .* is not started again/,
  })
})

t.test('rules 1, 8 and 9: the messages of an agent that is not started again are dead letters', async (t) => {
  for (const [restart, end] of [
    ['transient', 'exit'],
    ['temporary', 'crash'],
    ['temporary', 'exit'],
  ] as const) {
    const { team } = await teamWith(t, 'one_for_one', { a: () => new Promise(() => {}) }, {}, { a: role(restart) })
    const asked = [1, 2, 3].map((n) => outcomeOf(ask(team, 'a', `message ${n}`)))
    await team.clock.advance(0)
    team[end]('a')
    await team.clock.advance(0)
    for (const { error } of asked) t.match(error, { code: 'AGENT_TERMINATED' })
    t.match(team.deadLetters.list(), [{ reason: 'stopped' }, { reason: 'stopped' }, { reason: 'stopped' }])
    t.equal(team.getAgentStatus('a'), end === 'exit' ? 'stopped' : 'failed')
    t.same(leftovers(team.host), [])
  }
})

t.test('rule 1: a temporary agent is never started again, and its death restarts nobody', async (t) => {
  const { team } = await teamWith(t, 'one_for_all', cast, {}, { b: role('temporary') })
  team.crash('b')
  await team.clock.advance(1_000_000)
  t.same(epochs(team), [1, 1, 1])
  await t.rejects(ask(team, 'b'), { code: 'AGENT_TERMINATED', message: /It died: .*; a 'temporary' agent/ })
})

t.test('rule 1: a temporary agent that is ended with others stays ended', async (t) => {
  const { team } = await teamWith(t, 'one_for_all', cast, {}, { b: role('temporary') })
  team.crash('a')
  await team.clock.advance(1_000)
  t.same(epochs(team), [2, 1, 2])
  t.equal(team.getAgentStatus('b'), 'stopped')
})

t.test('rule 1: a transient agent that had ended lives again with its group, as in OTP', async (t) => {
  const { team } = await teamWith(t, 'one_for_all', cast, {}, { b: role('transient') })
  team.exit('b')
  await team.clock.advance(1_000)
  t.same(epochs(team), [1, 1, 1])
  team.crash('a')
  await team.clock.advance(1_000)
  t.same(epochs(team), [2, 2, 2])
  t.equal(await ask(team, 'b'), 'go in attempt 1')
})
