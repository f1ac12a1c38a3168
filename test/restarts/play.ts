/**
 * Random programs whose process dies again and again, in virtual time. A process is a supervisor with its agents in
 * this thread; when it dies nothing of it reaches the outside any more, and the next one is made from the blocks that
 * were on the disk.
 */
import type { AgentDefinition, Reply } from '../../src/actors/definition/definition.ts'
import type { BlackboardEntry } from '../../src/blackboard/entry.ts'
import {
  type AgentContext,
  type AgentMessage,
  type AgentRole,
  defineAgent,
  type MultiAgentPatternOptions,
} from '../../src/index.ts'
import { OpenWork } from '../../src/runtime/durability/open-work.ts'
import type { Agent } from '../../src/runtime/host/agent.ts'
import { EntryDecoder } from '../../src/runtime/log/entry-codec.ts'
import type { Batch } from '../../src/runtime/log/records.ts'
import type { Block, StoredBlock } from '../../src/runtime/store/log-files.ts'
import { SteppedClock } from '../../src/runtime/testing/virtual-clock.ts'
import { LocalThread } from '../../src/runtime/threads/local-thread.ts'
import { Payments } from '../../src/runtime/verbs/budgets.ts'
import { Dice } from '../dice.ts'
import { decoded, entriesIn } from '../durability/log-entries.ts'
import { imbalances, leftovers, unclaimed } from '../kit/accounts.ts'
import { answeredTwice, BoardFold, unfolded } from '../simulation/invariants.ts'
import { entangledPlan, ownActions, type Plan, plansIn, randomPlan } from '../simulation/random-program.ts'
import { ALL, entangledTeam, MANAGERS, NAMES, orderlyTeam, talkativeTeam } from '../simulation/random-team.ts'
import { pathOf } from '../simulation/telling.ts'
import { act, answerTo, decided, HELPER_COUNT, isPosted, modelOf, Outside, Torn, toolsOf } from './acts.ts'
import { Facts } from './facts.ts'
import { LivingTeam } from './living-team.ts'
import { endedIn, outcomesIn } from './log-reading.ts'
import { Disk, type DiskFaults, MortalStore, never } from './mortal-store.ts'
import { type Posted, postedTo, Service } from './service.ts'

/** 'calm': nothing depends on who is faster and nothing fails, so the result is that of the undisturbed program. */
export type Mode = 'calm' | 'orderly' | 'talkative' | 'entangled'

const ENDS = ['RUN_ABORTED', 'AGENT_FAILED', 'AGENT_CRASHED', 'OUTCOME_UNKNOWN', 'AGENT_TERMINATED', 'TOOL_FAILED']
const LIMITS = ['MAILBOX_FULL', 'MESSAGE_EXPIRED', 'REQUEST_TIMEOUT', 'DEPENDENCY_FAILED']

const optionsFor = { calm: calmTeam, orderly: orderlyTeam, talkative: talkativeTeam, entangled: entangledTeam }

/** For programs whose outcome is the same in whatever order things happen. */
function calmTeam(dice: Dice, limit: number, poisonAttempts = 1_000): MultiAgentPatternOptions {
  const { agents, communication, ...options } = talkativeTeam(dice, limit)
  const { mailboxCapacity } = communication ?? {}
  return {
    ...options,
    agents: agents.map(({ supervision, ...role }) => ({ ...role, supervision: { poisonAttempts } })),
    ...(mailboxCapacity !== undefined && { communication: { mailboxCapacity } }),
    supervision: { maxRestarts: Number.POSITIVE_INFINITY, coolDownMs: 500, poisonAttempts },
  }
}

/** What a program has come to: the same in each calm play of a seed. */
export interface Ending {
  /** By run. */
  results: Record<string, string>
  /** By agent, what its state says that it has handled. */
  heard: Record<string, string[]>
  messages: string[]
  tasks: string[]
  written: string[]
  /** How often a shared value was counted up. */
  sum: string
}

export interface Outcome {
  problems: string[]
  ending: Ending
  deaths: number
  log: readonly StoredBlock[]
  /** How often space of the log was given up. */
  dropped: number
  /** How often the disk was full for a while, and how often it failed for good. */
  fulls: number
  losses: number
  /** 1 if a deadlock was broken in it that a run made which goes on by hand: others had its agents meanwhile. */
  excused: number
  counts: Outside['counts']
}

/** How often the process of a program dies: mostly a few times. */
export const deathsOf = (seed: number) => 1 + (seed % 5)

const diesOnce = (seed: number) => deathsOf(seed) === 1

/** Plays a program in which the process dies so many times. `spawns`: its agents make others. */
export async function play(seed: number, mode: Mode, deaths: number, spawns = false): Promise<Outcome> {
  const world = new World(seed, mode, deaths, spawns)
  await world.perform()
  return world.outcome()
}

interface Planned {
  readonly at: number
  readonly runId: string
  /** A later process must know it. */
  accepted: boolean
  result: string | undefined
}

/** What is there beside the processes. */
class World {
  readonly problems: string[] = []
  readonly mode: Mode
  readonly seed: number
  /** What the program is; and what happens to it. */
  readonly fate: Dice
  readonly plans = new Map<string, Plan>()
  readonly runs: Planned[] = []
  readonly disk = new Disk()
  readonly outside = new Outside((what) => this.problem(what))
  readonly answered = new Set<string>()
  /** Runs whose end stood in the log when a process died. */
  readonly ended = new Set<string>()
  readonly options: MultiAgentPatternOptions
  /** Agents may have no thread: when they are idle, or while others have all there are. */
  readonly threads: MultiAgentPatternOptions['threads']
  /** One death is enough for all open turns to be suspected of it. No thread dies besides. */
  readonly isSuspicious: boolean
  readonly ending: Ending = { results: {}, heard: {}, messages: [], tasks: [], written: [], sum: '' }
  /** Plans that several get, and that not all of them may have done when the first one has: their part is left out. */
  readonly raced = new Set<string>()
  /** Helpers of which a turn was withdrawn. */
  readonly withdrawn = new Set<string>()
  /** Plans that end with a handoff: a turn within another one does not come again behind it, so its state may be lost. */
  readonly handedOff = new Set<string>()
  now = 0
  deaths = 0
  /** Size of the parts of the log; undefined for one that forgets no run, and is never compacted. */
  readonly segmentBytes: number | undefined
  /** Bytes of the log between two checkpoints. */
  readonly checkpointBytes: number
  readonly spawns: boolean
  /** What the service does besides, and who hears of what is written. */
  readonly more: Dice
  readonly posted: Posted[]
  /** The last agent subscribes to the blackboard, and watches another one, before a program begins. */
  readonly hasObserver: boolean
  /** Plans of a chain of waits from the beginning of their run: they are through before it ends. */
  readonly awaited = new Set<string>()
  /** When the disk fails, and how. */
  readonly weather: Dice
  /** A process has had runs that go on by hand. */
  isByHand = false
  isExcused = false
  readonly #deaths: number

  constructor(seed: number, mode: Mode, deaths: number, spawns: boolean) {
    const dice = new Dice(seed)
    this.seed = seed
    this.mode = mode
    this.fate = new Dice(seed ^ 0x2f6e2b1)
    this.spawns = spawns
    this.#deaths = deaths
    this.segmentBytes = this.fate.chance(0.5) ? 500 + this.fate.upTo(4_000) : undefined
    const often = new Dice(seed ^ 0x7a11)
    this.checkpointBytes = often.chance(0.7) ? 300 + often.upTo(6_000) : 2 ** 30
    this.threads = seed % 3 === 0 ? { max: 2 + (seed % 4), idleMs: 20 } : undefined
    this.isSuspicious = mode === 'calm' && diesOnce(seed)
    const options = optionsFor[mode](dice, 1 + dice.upTo(3), ...(this.isSuspicious ? [2] : []))
    const trusted = options.agents.map((role) => ({ ...role, trust: 'privileged' as const }))
    this.more = new Dice(seed ^ 0x51ed270)
    this.weather = new Dice(seed ^ 0x3c6ef37)
    this.hasObserver = (mode === 'calm' || mode === 'talkative') && this.more.chance(0.4)
    this.options = this.#observed(spawns ? { ...options, agents: trusted } : options)
    this.posted = this.more.chance(0.4) ? postedTo(this.more, ALL, 1 + this.more.upTo(3)) : []
    for (const { path } of this.posted) {
      this.raced.add(path) // nobody knows how often it was taken
      this.plans.set(path, { path, actions: ownActions(this.more) })
    }
    const { agents } = this.options
    const reentrant = agents.flatMap(({ name, reentrancy }) => (reentrancy === 'chain' ? [name] : []))
    const isRoomy = this.options.communication?.mailboxCapacity === undefined
    const talk = mode === 'talkative' || mode === 'calm'
    const verbs = {
      reentrant: reentrant.filter((name) => NAMES.includes(name)),
      tasks: true,
      meetings: mode !== 'calm',
      ...(talk && { talk, broadcasts: isRoomy, managers: MANAGERS }),
    }
    const count = 1 + dice.upTo(3)
    for (let n = 0; n < count; n++) {
      const runId = `run${n}`
      const plan = mode === 'entangled' ? entangledPlan(dice, ALL, runId) : randomPlan(dice, NAMES, runId, verbs)
      for (const path of awaitedIn(plan)) this.awaited.add(path)
      for (const each of plansIn(plan)) {
        this.plans.set(each.path, each)
        for (const action of each.actions)
          if (action.do === 'requestAny' || action.do === 'requestQuorum') this.raced.add(action.plan.path)
        if (each.actions.at(-1)?.do === 'handoff') this.handedOff.add(each.path)
      }
      this.runs.push({ at: dice.upTo(100), runId, accepted: false, result: undefined })
    }
  }

  #observed({ agents, ...options }: MultiAgentPatternOptions): MultiAgentPatternOptions {
    if (!this.hasObserver) return { agents, ...options }
    const isCalm = this.mode === 'calm'
    return {
      ...options,
      agents: agents.map((role) =>
        role.name === OBSERVER ? { ...role, ...(isCalm && { concurrency: 1, instances: 1 }) } : role,
      ),
      orchestration: {
        strategy: 'custom',
        async run(script, path) {
          if (path !== 'sum') await script.request(OBSERVER, 'observe')
          return (await script.request(NAMES[0]!, path)).content
        },
      },
    }
  }

  problem(what: string): void {
    this.problems.push(`at ${this.now}, after ${this.deaths} deaths: ${what}`)
  }

  async perform(): Promise<void> {
    for (;;) {
      const process = new Process(this, this.deaths < this.#deaths)
      await process.live()
      if (!process.dead || this.problems.length > 0) break
      this.deaths += 1
      this.outside.settled = outcomesIn(this.disk.blocks)
      for (const runId of endedIn(this.disk.blocks)) this.ended.add(runId)
    }
  }

  outcome(): Outcome {
    for (const { runId, result } of this.runs) if (result !== undefined) this.ending.results[runId] = result
    return {
      problems: this.problems,
      ending: this.ending,
      deaths: this.deaths,
      log: this.disk.blocks,
      dropped: this.disk.dropped,
      fulls: this.disk.fulls,
      losses: this.disk.losses,
      excused: this.isExcused ? 1 : 0,
      counts: { ...this.outside.counts, posted: this.posted.filter(({ accepted }) => accepted).length },
    }
  }
}

class MortalTeam extends LivingTeam {
  /** Tokens that the window of the team counts, without those of calls under way: some wait for a full disk. */
  get spent(): number {
    return this.parts.budgets.uses([]).reduce((sum, { used }) => sum + used, 0)
  }
}

/** Agents that others make. */
const HELPERS: AgentRole[] = Array.from({ length: HELPER_COUNT }, (_, n) => ({ name: `helper${n}` }))

/** More than any program needs: it limits nothing, and counts. */
const BUDGET = { tokens: 2 ** 40, windowMs: 400 }

interface Heard {
  heard: string[]
}

const nothing = (): Heard => ({ heard: [] })

/** What the agent has handled is known as long as it lives. */
const hasState = (instances: readonly Agent[]): boolean => instances.length === 1 && !instances[0]!.interleaves

/** Of some 8 ms each: a thread that dies again and again waits longer and longer. */
const MOST_ROUNDS = 20_000

/** Who hears of what is written. */
const OBSERVER = 'fay'

/** The plan that an entry of a blackboard was written by. */
const partOf = (value: string): string => value.replace(/:.*/, '')

/** Paths of the plans that are through when the first one is. */
function* awaitedIn({ path, actions }: Plan): IterableIterator<string> {
  yield path
  for (const action of actions)
    if (
      ['request', 'requestStream', 'requestAll', 'delegate', 'escalate', 'handoff'].includes(action.do) &&
      'plan' in action
    )
      yield* awaitedIn(action.plan)
}

class Process {
  dead = false
  readonly #world: World
  readonly #mortal: boolean
  readonly clock: SteppedClock
  readonly dice: Dice
  readonly #store: MortalStore
  readonly #team: MortalTeam
  readonly #boards = new BoardFold()
  #work: OpenWork | undefined
  #facts: Facts | undefined
  readonly #decoder = new EntryDecoder()
  readonly #payments = new Payments(BUDGET.windowMs)
  readonly #service: Service
  #isStarted = false
  readonly #buried = new Set<string>()
  /** Model calls under way. */
  thinking = 0
  /** It dies behind so many tasks of the host, or with so many blocks. */
  #tasksLeft = Number.POSITIVE_INFINITY
  #blocksLeft = Number.POSITIVE_INFINITY
  /** Its log is lost since then. It lives on for a while, and nothing that it does may get out. */
  #lostAt: number | undefined

  constructor(world: World, mortal: boolean) {
    const { disk, fate, options, outside } = world
    this.#world = world
    this.#mortal = mortal
    const seed = fate.upTo(2 ** 30)
    this.dice = new Dice(seed)
    if (mortal) this.#drawDeath()
    this.clock = new SteppedClock(seed, world.now, undefined, () => {
      if (--this.#tasksLeft === 0) this.#die()
    })
    this.#store = new MortalStore(disk, this.clock, this.dice, world.segmentBytes, this.#drawFaults())
    this.#store.checkpointBytes = world.checkpointBytes
    this.#store.onAppend = (block) => {
      if (block && !block.carried) this.#compare(block)
      if (--this.#blocksLeft === 0) this.#die()
    }
    const resumesByHand = world.more.chance(0.25)
    if (resumesByHand) outside.counts.resumed += 1
    world.isByHand ||= resumesByHand
    this.#team = new MortalTeam(
      {
        ...options,
        ...(world.threads && { threads: world.threads }),
        clock: this.clock,
        tools: toolsOf(outside, this),
        budget: { perTeam: BUDGET },
        stateManagement: {
          path: 'memory',
          durability: fate.chance(0.3) ? 'commit' : 'write_behind',
          ...(world.segmentBytes !== undefined && { keep: { runs: 0 } }),
          resume: resumesByHand ? 'manual' : 'start',
        },
      },
      {
        definitions: new Map([...options.agents, ...HELPERS].map((role) => [role.name, this.#definitionOf(role)])),
        model: modelOf(outside, this),
        realTools: true,
        newStore: () => this.#store,
      },
    )
    this.#service = new Service(
      this.#team,
      () => this.dead,
      () => this.#isLost,
      (what) => this.#problem(what),
      resumesByHand,
    )
    this.#team.host.journal.records$.subscribe((batch) => this.#check(batch))
    this.#team.events.subscribe(({ type }) => {
      if (type === 'deadlock') world.isExcused ||= world.isByHand
    })
  }

  /** What was handled is in the agent's state, where it may have one, or in that of the run. */
  #definitionOf({ name, concurrency = 1, instances = 1 }: AgentRole): AgentDefinition {
    const receive = (message: AgentMessage, context: AgentContext<Heard, Heard>) => this.#receive(message, context)
    const { hasObserver, mode } = this.#world
    if (hasObserver && name === OBSERVER && concurrency === 1 && instances === 1)
      return defineAgent({
        initialState: nothing(),
        receive,
        observe: (message, context: AgentContext<Heard, Heard>) => this.#observe(message, context),
      })
    const observe = (mode === 'talkative' || (hasObserver && name === OBSERVER)) && { observe: () => {} }
    if (instances > 1)
      return defineAgent<unknown, unknown, Heard, Heard>({
        receive: (message, context) => this.#receive(message, context),
        ...observe,
      })
    return concurrency > 1
      ? defineAgent({ initialRunState: nothing(), receive, ...observe })
      : defineAgent({ initialState: nothing(), receive, ...observe })
  }

  #drawDeath(): void {
    const { dice } = this
    const soon = dice.chance(0.3)
    if (dice.chance(0.5)) this.#tasksLeft = 1 + dice.upTo(soon ? 40 : 1_500)
    else this.#blocksLeft = 1 + dice.upTo(soon ? 4 : 150)
  }

  /** A disk that is lost is the end of a process, so it takes the place of a death. */
  #drawFaults(): DiskFaults {
    const { weather } = this.#world
    const full = weather.chance(0.15) && { after: 1 + weather.upTo(60), ms: 20 + weather.upTo(2_000) }
    const lost = this.#mortal && weather.chance(0.2) && { after: 1 + weather.upTo(60), syncs: weather.chance(0.3) }
    return { ...(full && { full }), ...(lost && { lost }) }
  }

  get #isLost(): boolean {
    return this.#store.state === 'lost'
  }

  #die(): void {
    if (this.dead) return
    this.dead = true
    this.#store.die()
  }

  async live(): Promise<void> {
    const started = this.#team.start()
    started.then(
      () => {
        this.#isStarted = true
      },
      (error: unknown) => this.#isLost || this.#problem(`it did not start: ${error}`),
    )
    while (!this.#isStarted && !this.dead && !this.#isLost && this.#world.problems.length === 0) await this.#advance(1)
    if (this.#world.problems.length > 0) return this.#die()
    if (this.dead) return
    for (const { runId, accepted, result } of this.#world.runs)
      if (accepted && !this.#mayBeForgotten(runId, result) && !this.#team.getRun(runId))
        this.#problem(`${runId} is lost`)
    for (let round = 0; round < MOST_ROUNDS && !this.dead && this.#world.problems.length === 0; round++) {
      if (this.#isLost ? this.#livesOnLongEnough() : this.#isDone() && round > 20) break
      this.#disturb()
      this.#serve()
      this.#answer()
      await this.#advance(1 + this.dice.upTo(15))
    }
    if (this.dead) return
    if (this.#mortal) return this.#die()
    await this.clock.runToIdle()
    await this.#judge()
    for (const what of await this.#team.unfolded(this.#world.disk)) this.#problem(what)
    this.#world.ending.sum = await this.#sum()
    const closed = this.#team.close()
    await this.clock.runToIdle()
    await closed
  }

  /** Asks an agent that may start again at this moment, or whose disk may be full, so it may be asked in vain. */
  async #sum(tries = 5): Promise<string> {
    const counted = this.#team.launch('sum')
    await this.clock.runToIdle()
    const { error, finalOutput } = await counted.result
    if (error?.code === 'MESSAGE_EXPIRED' && this.#world.mode !== 'calm' && tries > 1) return this.#sum(tries - 1)
    if (error) this.#problem(`afterwards: ${error.message}`)
    return String(finalOutput)
  }

  /** Somebody sees that the log is lost, and starts the service again. */
  #livesOnLongEnough(): boolean {
    const now = this.clock.monotonic()
    this.#lostAt ??= now
    return now - this.#lostAt > 300
  }

  async #advance(ms: number): Promise<void> {
    await this.clock.advance(ms)
    this.#world.now = this.clock.now()
    if (!this.#work || this.thinking > 0 || this.#isLost) return
    // At the very end of the window both may be right: one counts by epoch, the other by monotonic time.
    const [most = 0, least = 0] = [-1, 1].map((by) => this.#paid(this.clock.now() + by))
    const { spent } = this.#team
    if (spent > most || spent < least) this.#problem(`the log has payments of ${most}, the team of ${spent}`)
  }

  #paid(until: number): number {
    return this.#payments.within(until).reduce((sum, { tokens }) => sum + tokens, 0)
  }

  #serve(): void {
    const { mode, more, now, posted, runs } = this.#world
    for (const run of runs) if (run.at <= now && (this.#service.goesOn || more.chance(0.1))) this.#see(run)
    this.#service.post(posted, now, mode !== 'calm')
    if (more.chance(0.2))
      this.#service.resume(
        more,
        runs.map(({ runId }) => runId),
      )
  }

  /** All runs have ended, and what they have caused. Until then people answer. */
  #isDone(): boolean {
    if (!this.#service.goesOn || this.#world.posted.some(({ accepted }) => !accepted)) return false
    for (const run of this.#team.host.runs.values()) if (run.open > 0) return false
    return this.#world.runs.every(
      ({ result, runId }) => this.#mayBeForgotten(runId, result) || (result !== undefined && this.#team.getRun(runId)),
    )
  }

  /** The log forgets a run that has ended, if it is to; a service that has the result does not ask for it again. */
  #mayBeForgotten(runId: string, result: string | undefined): boolean {
    const { ended, segmentBytes } = this.#world
    return segmentBytes !== undefined && (result !== undefined || ended.has(runId))
  }

  /** Threads end too, and runs are cancelled. */
  #disturb(): void {
    const { fate, isSuspicious, mode, runs } = this.#world
    const { directory } = this.#team.host
    if (fate.chance(0.1) && !isSuspicious) {
      const incarnation = fate.pick(directory.agent(fate.pick(ALL))!.instances).incarnation
      if (incarnation?.thread instanceof LocalThread)
        incarnation.thread.kill({ code: 1, error: undefined, outside: true })
    }
    if (mode !== 'calm' && fate.chance(0.01)) void this.#team.getRun(fate.pick(runs).runId)?.cancel('by chance')
  }

  readonly #watched = new Set<string>()

  /** A service that is asked for the run again until it has taken it, and then for its result. */
  #see(run: Planned): void {
    const { runId, result: known } = run
    if (this.#isLost || this.#watched.has(runId) || this.#mayBeForgotten(runId, known)) return
    this.#watched.add(runId)
    const handle = this.#team.launch(runId, { runId })
    this.#team.flush().then(
      () => {
        if (!this.dead) run.accepted = true
      },
      (error: unknown) => this.#isLost || this.#problem(`flush: ${error}`),
    )
    void handle.result.then(({ error, finalOutput }) => {
      if (this.dead || error?.code === 'LOG_LOST') return
      const result = error ? error.code : finalOutput
      if (run.result !== undefined && run.result !== result)
        this.#problem(`${runId} came to ${run.result}, and now to ${result}`)
      run.result = result
    })
  }

  #answer(): void {
    const { answered, fate } = this.#world
    for (const { runId, questionId, text } of this.#team.questions()) {
      if (answered.has(questionId)) this.#problem(`question ${text} is asked again`)
      if (!fate.chance(0.3)) continue
      this.#team
        .getRun(runId)!
        .answer(questionId, answerTo(text))
        .then(
          () => {
            if (!this.dead) answered.add(questionId)
          },
          (error: unknown) => {
            if (this.#world.mode === 'calm' && !this.#isLost) this.#problem(`an answer is refused: ${error}`)
          },
        )
    }
  }

  #problem(what: string): void {
    if (!this.dead) this.#world.problem(what)
  }

  // ---- what the agents do

  async #receive(message: AgentMessage, context: AgentContext<Heard, Heard>): Promise<string | Reply> {
    if ('reassigned' in message.metadata) return `${context.role.name} has taken it over`
    const answer = await this.#perform(message, context)
    return 'escalation' in message.metadata ? decided(answer, pathOf(message)) : answer
  }

  async #perform(message: AgentMessage, context: AgentContext<Heard, Heard>): Promise<string> {
    const path = pathOf(message)
    const { mode, outside, plans, raced } = this.#world
    if (path === 'sum') return `${await context.shared('team_shared').get<number>('sum')}`
    const calm = mode === 'calm'
    if (path === 'observe') {
      await context.subscribe('*')
      await context.watch('gus')
      return 'observes'
    }
    const said: string[] = []
    for (const [i, action] of (plans.get(path)?.actions ?? []).entries()) {
      if (this.dead) return never()
      try {
        const done = await act(action, `${path}:${i}`, context, {
          outside,
          process: this,
          calm,
          isRaced: raced.has(path),
          spawns: this.#world.spawns,
          messageId: message.id,
        })
        said.push(`${done};`)
      } catch (error) {
        if (error instanceof Torn) this.#problem(`${context.role.name}: ${error.message}`)
        throw error
      }
      if (mode === 'talkative' || calm) context.emit(said.at(-1)!)
    }
    if (this.dead) return never()
    const { instances = 1, concurrency = 1 } =
      this.#world.options.agents.find(({ name }) => name === context.role.name) ?? HELPERS[0]!
    if (context.role.name.startsWith('helper')) await this.#count(context)
    if (instances > 1) return `${context.role.name}(${said.join('')})`
    const isOfRun = concurrency > 1
    if ((isOfRun ? context.runState : context.state).heard.includes(path) && calm && !isPosted(path))
      this.#problem(`${context.role.name} handles ${path} twice`)
    if (isOfRun) context.setRunState((state) => void state.heard.push(path))
    else context.setState((state) => void state.heard.push(path))
    return `${context.role.name}(${said.join('')})`
  }

  /** What is written comes once to who has subscribed. */
  #observe({ type, structuredData }: AgentMessage, context: AgentContext<Heard, Heard>): void {
    if (type !== 'publish') return
    const { value: written, author } = structuredData as BlackboardEntry
    const value = `${written} by ${author}`
    if (context.state.heard.includes(value) && this.#world.mode === 'calm')
      this.#problem(`${context.role.name} is told of ${value} twice`)
    context.setState((state) => void state.heard.push(value))
    this.#world.outside.counts.observed += 1
  }

  /**
   * What a helper shares and its own state must have the same count of its turns. A turn that is withdrawn, as nobody
   * needs its answer any more, has shared and leaves no state.
   */
  async #count(context: AgentContext<Heard, Heard>): Promise<void> {
    const { withdrawn } = this.#world
    const helper = `${context.runId} ${context.role.name}`
    context.signal.addEventListener('abort', () => void withdrawn.add(helper))
    const turns = await context.shared('agent_shared').update<number>('turns', (turns = 0) => turns + 1)
    const heard = context.state.heard.length + 1
    if (turns !== heard && !withdrawn.has(helper))
      this.#problem(`${context.role.name} shares ${turns} turns, and has ${heard} in its state`)
  }

  // ---- what must hold

  #check(batch: Batch): void {
    if (this.dead || this.#isLost || !this.#store.found) return
    const { host } = this.#team
    if (!this.#work) {
      const { directory, runs } = host
      this.#work = new OpenWork((name, run) => directory.agent(name, runs.get(run))?.index)
      const forgets = this.#world.segmentBytes !== undefined
      // Of a run that the log has forgotten some entries may still stand there.
      for (const entry of entriesIn(this.#store.found)) {
        if (entry.kind !== 'frames') this.#payments.see(entry) // also of runs that are forgotten
        if (!forgets || entry.run === 0 || runs.get(entry.run)) this.#fold(this.#work, entry)
      }
    }
    for (const entry of batch) {
      if (entry.kind !== 'frames') this.#payments.see(entry)
      this.#fold(this.#work, entry)
    }
    for (const found of [...imbalances(host), ...unclaimed(host)]) this.#problem(found)
    if (!host.journal.hasNews && this.#isInPlace)
      for (const found of unfolded(host, this.#work)) if (!this.#isBuried(found)) this.#problem(found)
  }

  /** All that earlier processes have left is in its place: what they left half done may end runs before that. */
  get #isInPlace(): boolean {
    return this.#isStarted && this.#service.goesOn
  }

  /** What the log says after a block is what there is. */
  #compare(block: Block): void {
    if (this.dead || this.#isLost || !this.#store.found) return
    if (!this.#facts) {
      this.#facts = new Facts()
      for (const entry of entriesIn(this.#store.found)) this.#facts.see(entry)
    }
    for (const entry of decoded(block.entries, this.#decoder)) this.#facts.see(entry)
    if (!this.#isInPlace) return
    for (const found of this.#facts.differences(this.#team.host)) this.#problem(found)
  }

  /** A task that was handed off and has no caller is a dead letter as soon as it fails, and its turn may still be stopping. */
  #isBuried(found: string): boolean {
    return found.startsWith('the fold lacks the message') && this.#buried.has(found.split(' ').at(-1)!)
  }

  #fold(work: OpenWork, entry: Batch[number]): void {
    work.see(entry)
    if (entry.kind === 'message.dead') this.#buried.add(entry.letter.message.id)
    this.#boards.next(entry)
  }

  async #judge(): Promise<void> {
    const { isExcused, mode, runs } = this.#world
    const ends =
      mode === 'calm'
        ? isExcused
          ? ['AGENT_FAILED', 'DEADLOCK']
          : []
        : mode === 'entangled'
          ? [...ENDS, 'DEADLOCK', 'DEPENDENCY_FAILED']
          : [...ENDS, ...LIMITS]
    const { host } = this.#team
    const { awaited, ending, handedOff, posted, raced, segmentBytes } = this.#world
    const forgets = segmentBytes !== undefined
    const isKept = (path: string) => !raced.has(path.replace(/\+|:.*/, ''))
    for (const { runId, result } of runs) {
      const run = this.#team.getRun(runId)
      if (!run && this.#mayBeForgotten(runId, result)) continue
      if (!run || run.status === 'running' || run.status === 'queued' || run.status === 'waiting') {
        this.#problem(`${runId} never ended`)
        continue
      }
      const { error } = await run.result
      if (error && !ends.includes(error.code)) this.#problem(`${runId}: ${error.message}`)
      for (const twice of answeredTwice(run.messageHistory)) this.#problem(`${runId}: ${twice}`)
      for (const { type, content, sender, recipient, structuredData } of run.messageHistory) {
        const isPublished = type === 'publish' // its content is the key
        const said = isPublished ? String(Object(structuredData).value) : content
        if (type === 'response' || !isKept(said) || (isPublished && !awaited.has(partOf(said)))) continue
        ending.messages.push(`${type} ${sender} ${recipient} ${content}`)
      }
      for (const { description, status } of run.tasks)
        if (isKept(description)) ending.tasks.push(`${description} ${status}`)
    }
    for (const value of this.#boards.values()) if (isKept(String(value))) ending.written.push(String(value))
    for (const { id, index } of host.runs.values())
      for (const what of await this.#boards.differences(index, this.#team.getBlackboard(id)))
        this.#problem(`${id}: ${what}`)
    for (const left of leftovers(host)) this.#problem(`left over: ${left}`)
    for (const { name, index, instances, run } of host.directory.actors) {
      if (run) continue // its state went with the run
      const runStates = forgets ? [] : [...host.runs.values()].map((run) => run.states.get(index))
      const states = [...instances.map(({ state }) => state), ...runStates]
      const heard = states.flatMap((state) => (state as Heard | undefined)?.heard ?? [])
      for (const { to, path, accepted, sent } of posted) {
        const times = heard.filter((each) => each === path).length
        const isKept = accepted && mode === 'calm' && to === name && hasState(instances)
        if (times > sent || (isKept && times === 0))
          this.#problem(`${name} has handled ${path} ${times} times of ${sent}`)
      }
      ending.heard[name] = heard.filter(
        (path) => !handedOff.has(path) && (!path.includes(':') || awaited.has(partOf(path))),
      )
    }
    const ofRuns = [ending.messages, ending.tasks, ending.written]
    if (forgets) for (const list of ofRuns) list.length = 0 // some of them are not known any more
    for (const list of [...Object.values(ending.heard), ...ofRuns])
      list.splice(0, list.length, ...list.filter(isKept).sort())
  }
}
