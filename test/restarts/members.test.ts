/** Agents that come and go, turns that end their process each time, and runs that are interrupted. */
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import {
  type AgentContext,
  type AgentMessage,
  type DramatisError,
  defineAgent,
  loadTeam,
  type MultiAgentPatternOptions,
} from '../../src/index.ts'
import type { MultiAgentPattern } from '../../src/team.ts'
import { folderOf } from '../durability/log-folders.ts'
import { type Cast, never, type Receive } from '../kit/team.ts'
import { Lives } from './lives.ts'
import type { LivingTeam } from './living-team.ts'

const privileged = { trust: 'privileged' } as const

/** Remembers what it hears, and says it. */
const scribe = defineAgent({
  initialState: { heard: [] as string[] },
  receive({ content }: AgentMessage, context: AgentContext<{ heard: string[] }>) {
    context.setState((state) => void state.heard.push(content))
    return `${context.role.name} heard ${context.state.heard.join()}`
  },
})

/** A team of a boss, that does what the test says, and of scribes. */
function stage(boss: (context: AgentContext) => Promise<unknown>, later: Cast = { helper: scribe }): Lives {
  return new Lives(
    { boss: async (_message, context) => `${await boss(context)}`, ann: scribe },
    {
      roles: { boss: privileged },
      later,
      orchestration: { strategy: 'custom', run: async (script) => (await script.request('boss', 'go')).content },
    },
  )
}

/** The result of a run, which may have to be read from the log. */
async function resultOf(lives: Lives, team: LivingTeam) {
  const { result } = team.getRun('run')!
  await lives.clock.advance(100)
  return result
}

/** What the agent answers; or where the log and the team do not agree then. */
async function ask(lives: Lives, team: LivingTeam, agent: string, content: string): Promise<string> {
  const asked = team.sendMessage({ recipient: agent, content, requiresResponse: true }).then(
    (answer) => answer!.content,
    (error: DramatisError) => error.code,
  )
  await lives.clock.advance(100)
  const answer = await asked
  const unfolded = await team.unfolded(lives.disk)
  return unfolded.length === 0 ? answer : unfolded.join('; ')
}

t.test('an agent that was made in a run is there again, with its state, until the run ends', async (t) => {
  const lives = stage(async (context) => {
    const name = await context.spawn({ name: 'helper', description: 'helps' })
    await context.request(name, 'one')
    await context.sleep(1_000)
    return (await context.request(name, 'two')).content
  })
  const before = await lives.next()
  before.launch('go', { runId: 'run' })
  await lives.clock.advance(100)
  const after = await lives.next()
  await lives.clock.advance(2_000)
  const { finalOutput, messageHistory } = await after.getRun('run')!.result
  t.equal(finalOutput, 'helper heard one,two')
  const senders = (history: readonly AgentMessage[]) =>
    history.map(({ sender, content }) => `${sender}: ${content}`).filter((line) => line.startsWith('helper'))
  const said = ['helper: helper heard one', 'helper: helper heard one,two']
  t.same(senders(messageHistory), said)
  t.equal(await ask(lives, after, 'helper', 'hi'), 'UNKNOWN_AGENT')
  const last = await lives.next()
  t.same(senders((await resultOf(lives, last)).messageHistory), said, 'its name stays in the history')
})

t.test('a message that it was working on comes again', async (t) => {
  const attempts: number[] = []
  const helper: Cast[string] = (_message, context) => {
    attempts.push(context.attempt)
    return attempts.length === 1 ? never : 'done at last'
  }
  const lives = stage(
    async (context) => (await context.request(await context.spawn({ name: 'helper' }), 'work')).content,
    {
      helper,
    },
  )
  const before = await lives.next()
  before.launch('go', { runId: 'run' })
  await lives.clock.advance(100)
  const after = await lives.next()
  await lives.clock.advance(100)
  t.equal((await after.getRun('run')!.result).finalOutput, 'done at last')
  t.same(attempts, [1, 2])
})

t.test('an agent whose start the death has cut off is not made twice', async (t) => {
  const started: string[] = []
  let isSlow = true
  const helper = defineAgent({
    async start({ role }) {
      started.push(role.name)
      if (isSlow) await never
    },
    receive: () => 'here',
  })
  const lives = stage(
    async (context) => {
      const name = await context.spawn({ name: 'helper' })
      return (await context.request(name, '')).content
    },
    { helper },
  )
  const before = await lives.next()
  before.launch('go', { runId: 'run' })
  await lives.clock.advance(100)
  isSlow = false
  const after = await lives.next()
  await lives.clock.advance(100)
  t.equal((await after.getRun('run')!.result).finalOutput, 'here')
  t.same(started, ['helper', 'helper'], 'once in each process')
})

t.test('an agent that was made for the team stays, also when the log has forgotten its run', async (t) => {
  const lives = stage((context) => context.spawn({ name: 'helper', lifetime: 'team', description: 'stays' }))
  const small = { keep: { runs: 0 }, segmentBytes: 300 }
  const before = await lives.next(small)
  before.launch('go', { runId: 'run' })
  await lives.clock.advance(100)
  for (let n = 0; n < 20; n++) await ask(lives, before, 'helper', `${n}`)
  t.ok(lives.disk.dropped > 5)
  const after = await lives.next(small)
  t.equal(after.getAgent('helper')?.role.description, 'stays')
  t.match(await ask(lives, after, 'helper', 'more'), /heard 0,1,.*,19,more$/)
  const removed = after.removeAgent('helper')
  await lives.clock.advance(100)
  await removed
  const last = await lives.next(small)
  t.equal(last.getAgent('helper'), undefined)
})

t.test('a script that asks all agents in turn goes on with those that it saw', async (t) => {
  const lives = new Lives(
    {
      boss: async (_message, context) => {
        await context.spawn({ name: 'helper' })
        await context.sleep(1_000)
        return 'boss'
      },
      ann: scribe,
    },
    { roles: { boss: privileged }, later: { helper: scribe }, orchestration: { strategy: 'sequential' } },
  )
  const before = await lives.next()
  before.launch('go', { runId: 'run' })
  await lives.clock.advance(500)
  const after = await lives.next()
  await lives.clock.advance(2_000)
  const { error, agentOutputs } = await after.getRun('run')!.result
  t.equal(error, null)
  t.same(Object.keys(agentOutputs), ['boss', 'ann'])
})

t.test('maxSpawnedAgents counts those of before', async (t) => {
  const names = ['one', 'two', 'three']
  const lives = new Lives(
    {
      boss: async (_message, context) => {
        for (const name of names) {
          await context.spawn({ name })
          await context.sleep(1_000)
        }
        return 'all'
      },
    },
    {
      roles: { boss: privileged },
      later: Object.fromEntries(names.map((name) => [name, scribe])),
      maxSpawnedAgents: 2,
    },
  )
  const before = await lives.next()
  before.launch('go', { runId: 'run' })
  await lives.clock.advance(1_500)
  const after = await lives.next()
  await lives.clock.advance(2_000)
  t.match((await after.getRun('run')!.result).error?.message, /has made 2 agents, and maxSpawnedAgents \(2\)/)
})

t.test('a run whose agents the team cannot have any more waits, and says why', async (t) => {
  const boss = async (context: AgentContext) => {
    const name = await context.spawn({ name: 'helper' })
    await context.sleep(1_000)
    return (await context.request(name, 'one')).content
  }
  const lives = stage(boss)
  const before = await lives.next()
  before.launch('go', { runId: 'run' })
  await lives.clock.advance(100)
  const other = await lives.next({ add: ['helper'] })
  t.match(await other.getRun('run')!.result, {
    success: false,
    error: { code: 'CONFIGURATION', message: /agent "helper" was made in it.*which an agent has already/ },
  })
  t.equal(other.getRun('run')!.status, 'interrupted')
  const after = await lives.next()
  await lives.clock.advance(2_000)
  t.equal((await after.getRun('run')!.result).finalOutput, 'helper heard one')
})

t.test('runs that are resumed by hand have their agents from then on', async (t) => {
  const lives = stage(async (context) => {
    const name = await context.spawn({ name: 'helper' })
    await context.request(name, 'one')
    await context.sleep(1_000)
    return (await context.request(name, 'two')).content
  })
  const before = await lives.next()
  before.launch('go', { runId: 'run' })
  await lives.clock.advance(100)
  const after = await lives.next({ resume: 'manual' })
  t.equal(await ask(lives, after, 'helper', 'hi'), 'UNKNOWN_AGENT')
  void after.resumePending()
  await lives.clock.advance(2_000)
  t.equal((await after.getRun('run')!.result).finalOutput, 'helper heard one,two')
})

t.test('the places of agents whose runs are over are used again', async (t) => {
  const lives = stage(
    async (context) => (await context.request(await context.spawn({ name: 'helper' }), 'one')).content,
  )
  const places: number[] = []
  for (let life = 0; life < 4; life++) {
    const team = await lives.next()
    const run = team.launch('go', { runId: `run ${life}` })
    await lives.clock.advance(100)
    t.equal((await run.result).finalOutput, 'helper heard one', 'it begins without the state of the one before')
    places.push(team.host.directory.byIndex.length)
  }
  t.same(places, [6, 6, 6, 6])
})

t.test(
  'an agent that was removed leaves nothing to the next one of its name, in this process or a later one',
  async (t) => {
    const lives = new Lives({ ann: scribe }, { later: { bob: scribe } })
    const first = await lives.next()
    t.equal(await ask(lives, first, 'ann', 'one'), 'ann heard one')
    const removed = first.removeAgent('ann')
    await lives.clock.advance(100)
    await removed
    const second = await lives.next()
    t.equal(await ask(lives, second, 'ann', 'two'), 'ann heard two', 'in a later process')
    const again = second.removeAgent('ann')
    await lives.clock.advance(100)
    await again
    const added = second.addAgent({ name: 'ann' })
    await lives.clock.advance(100)
    await added
    t.equal(await ask(lives, second, 'ann', 'three'), 'ann heard three', 'in this one')
    t.equal(
      await ask(lives, await lives.next(), 'ann', 'four'),
      'ann heard three,four',
      'and it is that one which goes on',
    )
  },
)

t.test('so it is when the log was compacted, and has what the one before did in runs that it keeps', async (t) => {
  // What it remembers fits into an empty state, too.
  const chronicler = defineAgent({
    initialState: { heard: '' },
    receive({ content }: AgentMessage, context: AgentContext<{ heard: string }>) {
      context.setState((state) => void Object.assign(state, { heard: `${state.heard}${content};` }))
      return context.state.heard
    },
  })
  const lives = new Lives(
    { ann: chronicler, bob: chronicler },
    { orchestration: { strategy: 'custom', run: async (script) => (await script.request('ann', 'long ago')).content } },
  )
  const small = { segmentBytes: 600 }
  const first = await lives.next(small)
  first.launch('go', { runId: 'run' })
  await lives.clock.advance(100)
  const removed = first.removeAgent('ann')
  await lives.clock.advance(100)
  await removed
  for (let n = 0; n < 30; n++) await ask(lives, first, 'bob', 'now')
  t.ok(lives.disk.dropped > 2)
  const second = await lives.next(small)
  t.equal(await ask(lives, second, 'ann', 'now'), 'now;')
  t.match(await resultOf(lives, second), { finalOutput: 'long ago;' })
})

t.test('an agent that is added after the start has what it had, also what it shares', async (t) => {
  const sharing = defineAgent({
    initialState: { heard: [] as string[] },
    async receive({ content }: AgentMessage, context: AgentContext<{ heard: string[] }>) {
      context.setState((state) => void state.heard.push(content))
      const shared = await context.shared('agent_shared').update<string>('all', (all = '') => `${all}${content};`)
      return `${context.state.heard.join()} ${shared}`
    },
  })
  const lives = new Lives({ ann: scribe }, { later: { bob: sharing } })
  const add = async (team: LivingTeam) => {
    const added = team.addAgent({ name: 'bob' })
    await lives.clock.advance(100)
    await added
    return team
  }
  t.equal(await ask(lives, await add(await lives.next()), 'bob', 'one'), 'one one;')
  t.equal(await ask(lives, await add(await lives.next()), 'bob', 'two'), 'one,two one;two;')
  const small = { segmentBytes: 300 }
  const without = await lives.next(small)
  for (let n = 0; n < 30; n++) await ask(lives, without, 'ann', 'now')
  t.ok(lives.disk.dropped > 2, 'a process that lacks it keeps what it has')
  const last = await add(await lives.next())
  t.match(await ask(lives, last, 'ann', 'last'), /now,last$/, 'the others go on beside it')
  t.equal(await ask(lives, last, 'bob', 'three'), 'one,two,three one;two;three;')
  const removed = last.removeAgent('bob')
  await lives.clock.advance(100)
  await removed
  t.equal(await ask(lives, await add(await lives.next()), 'bob', 'four'), 'four four;')
})

t.test('a type that an agent defines is in the file once, whenever the process dies', async (t) => {
  const folder = folderOf(t)
  let cut = 0
  for (let ms = 0; ms < 14; ms++) {
    const file = join(folder, `${ms}.yaml`)
    writeFileSync(file, 'agents:\n  boss:\n    trust: privileged\n')
    const lives = new Lives(
      {
        boss: async (_message, context) => {
          const name = await context.defineAgent({ name: 'tester', description: 'tests' })
          return (await context.request(name, 'one')).content
        },
      },
      {
        roles: { boss: privileged },
        later: { tester: scribe },
        orchestration: { strategy: 'custom', run: async (script) => (await script.request('boss', 'go')).content },
      },
    )
    const load = async () => {
      const { agents, registry } = await loadTeam(file)
      return { add: agents.map(({ name }) => name).filter((name) => name !== 'boss'), options: { registry: registry! } }
    }
    const before = await lives.next(await load())
    const run = before.launch('go', { runId: 'run' })
    await lives.clock.advance(ms)
    if (run.status !== 'finished') cut += 1
    const isSaved = readFileSync(file, 'utf8').includes('tester')
    const after = await lives.next(await load())
    if (!after.getRun('run')) continue // it died before the log had the run
    await lives.clock.advance(1_000)
    const { finalOutput, error } = await resultOf(lives, after)
    t.equal(
      finalOutput,
      'tester heard one',
      `after ${ms} ms, ${isSaved ? '' : 'not '}saved: ${error?.message ?? 'fine'}`,
    )
    t.equal(readFileSync(file, 'utf8').match(/tester:/g)?.length, 1)
  }
  t.ok(cut > 3, `${cut} runs were cut off`)
})

// Turns that end their process each time, and runs that are interrupted.

// Turns that end their process each time they are tried, and those that are open beside them. In virtual time.

type Script = Extract<MultiAgentPatternOptions['orchestration'], { strategy: 'custom'; run: unknown }>['run']
type Options = Omit<ConstructorParameters<typeof Lives>[1], 'orchestration'>
type Handler = (message: AgentMessage, context: AgentContext, world: World) => ReturnType<Receive>

const SECOND = 1_000
const LONG = { responseTimeoutMs: 1_000_000 }

/** A team whose agents can end the process. */
class World {
  readonly lives: Lives
  deaths = 0
  #process = 0
  #isDead = false

  constructor(cast: Readonly<Record<string, Handler>>, options: Options = {}) {
    const receive =
      (handler: Handler): Receive =>
      (message, context) =>
        handler(message, context, this)
    this.lives = new Lives(Object.fromEntries(Object.entries(cast).map(([name, each]) => [name, receive(each)])), {
      ...options,
      orchestration: { strategy: 'custom', run: asks },
    })
  }

  /** The process dies, now. */
  die(): Promise<never> {
    if (!this.#isDead) this.deaths += 1
    this.#isDead = true
    this.lives.die()
    return never
  }

  /** Resolves after so many ms of work, and never if the process has died meanwhile. */
  async work(ms: number): Promise<void> {
    const process = this.#process
    await this.lives.clock.sleep(ms)
    if (this.#isDead || this.#process !== process) await never
  }

  /** A process takes the log, and lives until it dies, or for so long. */
  async live(
    ms: number,
    launch: readonly string[] = [],
    options: Parameters<Lives['next']>[0] = {},
  ): Promise<MultiAgentPattern<string>> {
    this.#process += 1
    this.#isDead = false
    const team = await this.lives.next(options)
    for (const name of launch) team.launch(name, { runId: name, timeoutMs: 1_000 * SECOND })
    for (let passed = 0; passed < ms && !this.#isDead; passed += 10) await this.lives.clock.advance(10)
    return team
  }

  get isDead(): boolean {
    return this.#isDead
  }
}

/** Each run asks the agent that its query names. */
const asks: Script = async (script, query) => (await script.request(query, 'work')).content

/** Processes live for a minute each, until one has survived that. */
async function untilAlive(world: World, launch: readonly string[]): Promise<MultiAgentPattern<string>> {
  let team = await world.live(60 * SECOND, launch)
  for (let lives = 0; world.isDead && lives < 30; lives++) team = await world.live(60 * SECOND)
  return team
}

const reasonsOf = (team: MultiAgentPattern<string>) =>
  team.deadLetters.list().map(({ reason, message }) => `${message.recipient}: ${reason}`)

async function answerAll({ lives }: World, team: MultiAgentPattern<string>): Promise<void> {
  const answers = team.questions().map(({ runId, questionId }) => team.getRun(runId)!.answer(questionId, 'yes'))
  await lives.clock.runToIdle()
  await Promise.all(answers)
}

type Ended = [world: World, team: MultiAgentPattern<string>, runId: string]

async function ends(t: Test, [world, team, runId]: Ended, finalOutput: string): Promise<void> {
  const result = team.getRun(runId)?.result
  await world.lives.clock.runToIdle() // it may be read from the log
  t.match(await result, { success: true, finalOutput }, runId)
}

t.test('a turn that ends each process becomes a dead letter, and who asked for it is told', async (t) => {
  const world = new World({ ann: (_message, _context, world) => world.die() })
  const team = await untilAlive(world, ['ann'])
  t.ok(world.deaths === 3 || world.deaths === 4, `${world.deaths} deaths`)
  t.same(reasonsOf(team), ['ann: poison'])
  t.match(await team.getRun('ann')?.result, {
    success: false,
    error: { code: 'AGENT_CRASHED', message: /died \d times in a row while agent "ann" worked on this message/ },
  })
})

t.test('turns that are open beside it go on, whatever they do', async (t) => {
  const world = new World(
    {
      computes: async (_message, _context, world) => {
        await world.work(200 * SECOND)
        return 'computed'
      },
      sleeps: async (_message, context) => {
        await context.sleep(300 * SECOND)
        return 'slept'
      },
      asks: (_message, context) => context.ask('Really?'),
      waits: async (_message, context) => (await context.request('helper', 'wait')).content,
      helper: async (_message, context) => {
        await context.step('once', () => 'done', { idempotent: true })
        await context.sleep(300 * SECOND)
        return 'helped'
      },
      ann: async (_message, context, world) => {
        await context.now()
        await world.work(1_500)
        return world.die()
      },
    },
    { communication: { ...LONG } },
  )
  const team = await untilAlive(world, ['computes', 'sleeps', 'asks', 'waits', 'ann'])
  t.ok(world.deaths <= 6, `${world.deaths} deaths`)
  t.same(reasonsOf(team), ['ann: poison'])
  await answerAll(world, team)
  await ends(t, [world, team, 'computes'], 'computed')
  await ends(t, [world, team, 'sleeps'], 'slept')
  await ends(t, [world, team, 'asks'], 'yes')
  await ends(t, [world, team, 'waits'], 'helped')
})

t.test('two turns of which each ends the process both become dead letters', async (t) => {
  const world = new World({
    ann: (_message, _context, world) => world.die(),
    bob: async (_message, _context, world) => {
      await world.work(500)
      return world.die()
    },
    eve: async (_message, _context, world) => {
      await world.work(1_000)
      return 'done'
    },
  })
  const team = await untilAlive(world, ['bob', 'ann', 'eve'])
  t.ok(world.deaths <= 8, `${world.deaths} deaths`)
  t.same(reasonsOf(team).sort(), ['ann: poison', 'bob: poison'])
  await ends(t, [world, team, 'eve'], 'done')
})

t.test('a turn that ends the process only after a while is found too', async (t) => {
  const world = new World(
    {
      long: async (_message, _context, world) => {
        await world.work(100 * SECOND)
        return 'done'
      },
      ann: async (_message, _context, world) => {
        await world.work(7 * SECOND)
        return world.die()
      },
    },
    { roles: { long: { limits: { turnTimeoutMs: 1_000 * SECOND }, communication: LONG } } },
  )
  const team = await untilAlive(world, ['long', 'ann'])
  t.ok(world.deaths <= 8, `${world.deaths} deaths`)
  t.same(reasonsOf(team), ['ann: poison'])
  await world.lives.clock.runToIdle()
  await ends(t, [world, team, 'long'], 'done')
})

t.test('a process that is killed from outside, however often, costs no turn that waits', async (t) => {
  const asks: Handler = (_message, context) => context.ask('Really?')
  const world = new World({
    asks,
    other: asks,
    waits: async (_message, context) => (await context.request('other', 'wait')).content,
    sleeps: async (_message, context) => {
      await context.sleep(30 * SECOND)
      return 'slept'
    },
  })
  let team = await world.live(100, ['asks', 'waits', 'sleeps'])
  for (let kills = 0; kills < 20; kills++) {
    world.lives.die()
    team = await world.live(kills * 7)
  }
  t.same(reasonsOf(team), [])
  await world.lives.clock.advance(10 * SECOND)
  t.equal(team.questions().length, 2)
  await answerAll(world, team)
  await ends(t, [world, team, 'asks'], 'yes')
  await ends(t, [world, team, 'waits'], 'yes')
  await ends(t, [world, team, 'sleeps'], 'slept')
})

t.test('what a turn gets done in each process counts: it is not blamed for their deaths', async (t) => {
  const world = new World({
    ann: async (_message, context, world) => {
      for (let n = 0; n < 8; n++)
        await context.step(
          `part ${n}`,
          async () => {
            await world.work(400)
            return n
          },
          { idempotent: true },
        )
      return 'done'
    },
  })
  let team = await world.live(500, ['ann'])
  for (let kills = 0; kills < 8; kills++) {
    world.lives.die()
    team = await world.live(350)
  }
  await world.lives.clock.runToIdle()
  t.same(reasonsOf(team), [])
  await ends(t, [world, team, 'ann'], 'done')
})

t.test('a turn that gets something done holds nobody back any more', async (t) => {
  const began = new Set<string>()
  const works: Handler = async (_message, context, world) => {
    began.add(context.role.name)
    await context.step('part', () => world.work(100), { idempotent: true })
    await world.work(60 * SECOND)
    return 'done'
  }
  const world = new World({ ann: works, bob: works })
  await world.live(50, ['ann', 'bob'])
  for (let kills = 0; kills < 2; kills++) {
    world.lives.die()
    began.clear()
    await world.live(50)
  }
  t.equal(began.size, 1, 'either may have ended the processes: they begin one after the other')
  await world.lives.clock.advance(100)
  t.equal(began.size, 2)
  await world.lives.clock.runToIdle()
})

t.test('a team that is closed in order has not died', async (t) => {
  const world = new World(
    {
      ann: async (_message, _context, world) => {
        await world.work(200 * SECOND)
        return 'done'
      },
    },
    { roles: { ann: { limits: { turnTimeoutMs: 1_000 * SECOND }, communication: LONG } } },
  )
  let team = await world.live(100, ['ann'])
  for (let n = 0; n < 6; n++) {
    const closed = team.close()
    await world.lives.clock.advance(10 * SECOND)
    await closed
    team = await world.live(100)
  }
  await world.lives.clock.runToIdle()
  t.same(reasonsOf(team), [])
  await ends(t, [world, team, 'ann'], 'done')
})

t.test('poisonAttempts says how many deaths in a row a turn may be open at, and two are the least', async (t) => {
  for (const [poisonAttempts, most] of [
    [1, 3],
    [2, 3],
    [6, 7],
  ] as const) {
    const world = new World({ ann: (_message, _context, world) => world.die() }, { supervision: { poisonAttempts } })
    await untilAlive(world, ['ann'])
    t.ok(world.deaths === most || world.deaths === most - 1, `${poisonAttempts}: ${world.deaths}`)
  }
})

t.test('runs that are resumed by hand are found guilty too', async (t) => {
  const world = new World({ ann: (_message, _context, world) => world.die(), eve: () => 'done' })
  let team = await world.live(SECOND, ['ann'])
  for (let lives = 0; lives < 6 && world.isDead; lives++) {
    team = await world.live(SECOND, [], { resume: 'manual' })
    const resumed = team.resumePending()
    for (let passed = 0; passed < 10 && !world.isDead; passed++) await world.lives.clock.advance(SECOND)
    if (!world.isDead) await resumed
  }
  t.ok(world.deaths <= 4, `${world.deaths} deaths`)
  t.same(reasonsOf(team), ['ann: poison'])
})

// What goes on in a run that is interrupted, and what does not.

const custom = (run: Script) => ({ strategy: 'custom' as const, run })

const script: Script = async (script) => {
  const [ann, bob] = await Promise.all([script.request('ann', 'work'), script.request('bob', 'work')])
  return `${ann.content} ${bob.content}`
}

/** Both ask eve when they have slept. */
function threeAgents() {
  const done: string[] = []
  const work = (name: string) => async (_message: AgentMessage, context: AgentContext) => {
    await context.sleep(1_000)
    done.push(name)
    return (await context.request('eve', name)).content
  }
  const lives = new Lives(
    { ann: work('ann'), bob: work('bob'), eve: ({ content }) => `eve knows ${content}` },
    { orchestration: custom(script) },
  )
  return { lives, done }
}

t.test(
  'in a run whose script has changed, what others had been asked goes on, and its answers count later',
  async (t) => {
    const { lives, done } = threeAgents()
    const before = await lives.next()
    before.launch('go', { runId: 'one' })
    await lives.clock.advance(100)
    const changed = custom(async (script) => (await script.request('eve', 'something else')).content)
    const after = await lives.next({ options: { orchestration: changed } })
    await lives.clock.runToIdle()
    t.match(await after.getRun('one')!.result, { success: false, error: { code: 'STEP_MISMATCH' } })
    t.same(done.toSorted(), ['ann', 'bob'], 'they have come to their end')
    const last = await lives.next()
    await lives.clock.runToIdle()
    t.match(await last.getRun('one')!.result, { success: true, finalOutput: 'eve knows ann eve knows bob' })
    t.equal(done.length, 2, 'and nothing is done again')
  },
)

t.test('a run that is to be resumed by hand stands still as a whole', async (t) => {
  const { lives, done } = threeAgents()
  const before = await lives.next()
  before.launch('go', { runId: 'one' })
  await lives.clock.advance(100)
  const after = await lives.next({ resume: 'manual' })
  await lives.clock.runToIdle()
  t.same(done, [])
  const resumed = after.resume('one')
  await lives.clock.runToIdle()
  t.match(await resumed, { success: true, finalOutput: 'eve knows ann eve knows bob' })
})
