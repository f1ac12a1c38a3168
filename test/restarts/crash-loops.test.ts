/** Turns that end their process each time, and runs that are interrupted. */
import t, { type Test } from 'tap'
import type { AgentContext, AgentMessage, MultiAgentPatternOptions } from '../../src/index.ts'
import type { MultiAgentPattern } from '../../src/team.ts'
import { never, type Receive } from '../kit/team.ts'
import { Lives } from './lives.ts'

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
