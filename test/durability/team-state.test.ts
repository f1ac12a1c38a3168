/** What belongs to the team and not to one run, in a team that goes on with an earlier log. */
import { join } from 'node:path'
import t, { type Test } from 'tap'
import {
  type Blackboard,
  MultiAgentPattern,
  type MultiAgentPatternOptions,
  type Run,
  type RuntimeEvent,
} from '../../src/index.ts'
import {
  allocate,
  BLANK,
  END,
  FAILED,
  type FrameFields,
  frameBytes,
  PATCH,
  writeFrame,
} from '../../src/mailbox/frame.ts'
import { RecoveredStates } from '../../src/runtime/durability/recovered-run.ts'
import { teamFacts } from '../../src/runtime/durability/team-facts.ts'
import { entriesOf } from '../../src/runtime/log/read-entries.ts'
import type { LogEntry } from '../../src/runtime/log/records.ts'
import { FileStore } from '../../src/runtime/store/file-store.ts'
import { silent } from '../kit/team.ts'
import { deskAgent, deskOf, first, type Script } from './desk-team.ts'
import { anotherThread } from './held-store.ts'
import { folderOf } from './log-folders.ts'
import { MemoryDisk, MemoryStore } from './memory-store.ts'

// What belongs to the team and not to one run, in a team that goes on with the log of an earlier one.

const module = new URL('../fixtures/durability/keeper.js', import.meta.url)

type TeamStateScript = Extract<MultiAgentPatternOptions['orchestration'], { strategy: 'custom'; run: unknown }>['run']

/** A team whose facts a test can see. */
class OpenTeam extends MultiAgentPattern<string> {
  /** All but numbers and turns, which go on. */
  get facts(): object[] {
    return [...teamFacts(this.supervisor, this.parts)].filter(({ kind }) => kind !== 'numbers' && kind !== 'turns')
  }
}

function teamOf(t: Test, path: string, run: TeamStateScript, more: Partial<MultiAgentPatternOptions> = {}) {
  const team = new OpenTeam({
    agents: [
      { name: 'ann', module, sharedWith: ['friend'] },
      { name: 'friend', module },
      { name: 'other', module },
    ],
    stateManagement: { path },
    logger: silent,
    orchestration: { strategy: 'custom', name: 'a script', run },
    ...more,
  })
  t.teardown(() => team.close())
  return team
}

/** Id of the question that the run asks next. */
async function asked(run: Run<unknown>): Promise<string> {
  for await (const event of run.events() as AsyncIterable<RuntimeEvent<unknown>>)
    if (event.type === 'question') return event.questionId
  throw new Error('no question came')
}

const outputOf = ({ finalOutput }: { finalOutput: string | null }): unknown => JSON.parse(finalOutput ?? 'null')

async function recordsIn(path: string): Promise<LogEntry[]> {
  const store = new FileStore(path)
  await store.open()
  const entries: LogEntry[] = []
  for await (const entry of entriesOf(() => store.read())) entries.push(entry)
  await store.close()
  return entries
}

/** Each scope of state: who sees what ann keeps there, and whether it is there in the next run. */
const scopes: Record<string, { seenBy: string[]; outlivesRun: boolean }> = {
  runState: { seenBy: ['ann'], outlivesRun: false },
  state: { seenBy: ['ann'], outlivesRun: true },
  agent_shared: { seenBy: ['ann', 'friend'], outlivesRun: true },
  team_shared: { seenBy: ['ann', 'friend', 'other'], outlivesRun: true },
  blackboard: { seenBy: ['ann', 'friend', 'other'], outlivesRun: false },
  persistent: { seenBy: ['ann', 'friend', 'other'], outlivesRun: true },
}

t.test('each scope of state is there after a restart, for those who see it, until it ends', async (t) => {
  const path = join(folderOf(t), 'log')
  const names = ['ann', 'friend', 'other']
  const script: TeamStateScript = async (desk, query) => {
    const seen: Record<string, string[]> = {}
    if (query === 'keep') {
      for (const scope of Object.keys(scopes)) await desk.request('ann', `keep ${scope} kept`)
      await desk.request('other', 'ask now?')
    }
    for (const scope of Object.keys(scopes)) {
      seen[scope] = []
      for (const name of names)
        if ((await desk.request(name, `see ${scope}`)).content === 'kept') seen[scope].push(name)
    }
    return JSON.stringify(seen)
  }
  const before = teamOf(t, path, script)
  await asked(before.launch('keep', { runId: 'one' }))
  await before.close()

  const after = teamOf(t, path, script)
  await after.start()
  const run = after.getRun('one')!
  await run.answer(await asked(run), 'yes')
  const expected = (of: (scope: { seenBy: string[]; outlivesRun: boolean }) => string[]) =>
    Object.fromEntries(Object.entries(scopes).map(([name, scope]) => [name, of(scope)]))
  t.same(
    outputOf(await run.result),
    expected(({ seenBy }) => seenBy),
    'the run goes on with all of it',
  )
  await after.close()

  const last = teamOf(t, path, script)
  const data = outputOf(await last.execute('see'))
  t.same(
    data,
    expected(({ seenBy, outlivesRun }) => (outlivesRun ? seenBy : [])),
    'another run, in a later process',
  )
})

t.test('shared state has its values and versions: its updates go on with both', async (t) => {
  const path = join(folderOf(t), 'log')
  const states = async (desk: Parameters<TeamStateScript>[0]) => {
    const list: unknown[] = []
    for (const scope of ['team_shared', 'persistent'] as const)
      list.push(await desk.shared(scope).update<number[]>('list', (list = []) => [...list, list.length]))
    return JSON.stringify(list)
  }
  for (const lives of [1, 2, 3]) {
    const team = teamOf(t, path, states)
    const list = Array.from({ length: lives }, (_, i) => i)
    t.same(outputOf(await team.execute(`life ${lives}`)), [list, list])
    await team.close()
  }
  const versions: number[] = []
  for (const record of await recordsIn(path)) if (record.kind === 'shared') versions.push(record.version)
  t.same(versions, [1, 1, 2, 2, 3, 3])
})

t.test('the facts of a team are the same in the next process', async (t) => {
  const path = join(folderOf(t), 'log')
  const script: TeamStateScript = async (desk) => {
    for (const scope of Object.keys(scopes)) await desk.request('ann', `keep ${scope} kept`)
    return 'done'
  }
  const before = teamOf(t, path, script)
  await before.execute('keep')
  const { facts } = before
  t.equal(facts.filter((fact) => Object.values(fact)[0] === 'shared').length, 3)
  await before.close()
  const after = teamOf(t, path, script)
  await after.start()
  t.same(after.facts, facts)
})

t.test('the blackboard of a team has its entries, versions and history, and who waits for a key gets it', async (t) => {
  const path = join(folderOf(t), 'log')
  const script: TeamStateScript = async (desk, query) => {
    if (query === 'write late') return `version ${(await desk.publish('late', 'at last', 'fact')).version}`
    await desk.request('ann', 'keep blackboard first')
    await desk.request('friend', 'keep blackboard second')
    await desk.publish('summary', 'both', 'conclusion', { supersedes: 'k', confidence: 0.5 })
    await desk.publish('isWaiting', true, 'fact')
    const { value } = await desk.blackboard.waitFor('late')
    return `${value}: ${(await desk.publish('k', 'third', 'fact')).version}`
  }
  const more = { enableBlackboard: { scope: 'team' } } as const
  const before = teamOf(t, path, script, more)
  const left = before.launch('read', { runId: 'one' })
  const board = left.blackboard!
  await board.waitFor('isWaiting')
  const entries = async ({ getHistory, query }: Blackboard) => [await getHistory('k'), await query()]
  const written = await entries(board)
  await before.close()

  const after = teamOf(t, path, script, more)
  await after.start()
  const run = after.getRun('one')!
  t.same(await entries(run.blackboard!), written)
  t.same(after.facts, before.facts)
  t.match(await after.execute('write late'), { finalOutput: 'version 1' })
  t.match(await run.result, { finalOutput: 'at last: 3' })
  t.match(
    (await run.blackboard!.getHistory('k')).map(({ author, version, value }) => [author, version, value]),
    [
      ['ann', 1, 'first'],
      ['friend', 2, 'second'],
      ['$orchestrator', 3, 'third'],
    ],
  )
})

t.test('a run that ended in an earlier process has its blackboard in its result', async (t) => {
  const path = join(folderOf(t), 'log')
  const script: TeamStateScript = async (desk) => (await desk.request('ann', 'keep blackboard mine')).content
  const before = teamOf(t, path, script)
  const { blackboardState } = await before.execute('keep', { runId: 'one' })
  await before.close()
  const after = teamOf(t, path, script)
  t.same((await after.execute('keep', { runId: 'one' })).blackboardState, blackboardState)
  t.same(blackboardState, { k: 'mine' })
})

t.test('so it has with a blackboard of the team: that of its end, whatever was written since', async (t) => {
  const path = join(folderOf(t), 'log')
  const script: TeamStateScript = async (desk, query) =>
    `version ${(await desk.publish('page', query, 'fact')).version}`
  const more = { enableBlackboard: { scope: 'team' } } as const
  const before = teamOf(t, path, script, more)
  const { blackboardState } = await before.execute('one', { runId: 'one' })
  t.same(blackboardState, { page: 'one' })
  await before.execute('two', { runId: 'two' })
  await before.close()
  const after = teamOf(t, path, script, more)
  await after.execute('three')
  t.same((await after.execute('one', { runId: 'one' })).blackboardState, blackboardState)
  t.same((await after.execute('two', { runId: 'two' })).blackboardState, { page: 'two' })
})

t.test('a run that ended in an earlier process has its failures in its result', async (t) => {
  const path = join(folderOf(t), 'log')
  const script: TeamStateScript = async (desk) => {
    await desk.request('ann', 'fail').catch(() => {})
    return (await desk.request('ann', 'see state')).content
  }
  const before = teamOf(t, path, script)
  const { failures, blackboardState } = await before.execute('try', { runId: 'one' })
  t.match(failures, [{ agent: 'ann', error: { code: 'AGENT_FAILED' } }])
  await before.close()
  const after = teamOf(t, path, script)
  const result = await after.execute('try', { runId: 'one' })
  t.match(result.failures, [{ agent: 'ann', taskId: failures[0]!.taskId, error: { code: 'AGENT_FAILED' } }])
  t.same(result.blackboardState, blackboardState)
})

// Agents that agents have made, on real threads, in a team that goes on with the log of an earlier one.

const helper = { name: 'helper', module: new URL('../fixtures/durability/keeper.js', import.meta.url).href }

const script: Script = async (desk) => {
  const name = await desk.spawn(helper)
  await desk.request(name, 'keep state kept')
  const said = (await desk.request(name, 'ask really?')).content
  return `${said} | ${(await desk.request(name, 'see state')).content}`
}

t.test('an agent that was made in a run asks on, remembers what it did, and goes with its run', async (t) => {
  const path = join(folderOf(t), 'log')
  const before = deskOf(t, path, script)
  await first(before.launch('go', { runId: 'run' }).events(), 'question')
  await before.close()
  const after = deskOf(t, path, script)
  await after.start()
  const run = after.getRun('run')!
  const [question] = after.questions()
  t.match(question, { agent: 'helper', text: 'really?' })
  await run.answer(question!.questionId, 'yes')
  const { finalOutput, error } = await run.result
  t.equal(finalOutput, 'yes | kept', error?.message ?? 'no error')
  t.equal(after.getAgent('helper'), undefined)
})

t.test('an agent that was removed and added again begins anew, in this process and the next', async (t) => {
  const path = join(folderOf(t), 'log')
  const count: Script = async (desk, query) => (await desk.request('ann', query)).content
  const before = deskOf(t, path, count)
  await before.execute('remember long ago')
  t.equal((await before.execute('count')).finalOutput, '1: remember long ago')
  await before.removeAgent('ann')
  await before.addAgent(deskAgent('ann'))
  t.equal((await before.execute('count')).finalOutput, '0: ')
  await before.execute('remember now')
  await before.close()
  const after = deskOf(t, path, count)
  t.equal((await after.execute('count again')).finalOutput, '1: remember now')
})

t.test('names of former agents in the log take no room from those of today', async (t) => {
  const path = join(folderOf(t), 'log')
  const ask: Script = async (desk, query) => (await desk.request('ann', query)).content
  const models = { default: { complete: async function* () {} } }
  const customers = Array.from({ length: 1_200 }, (_, i) => ({ name: `customer-${i}`, systemPrompt: 'Wait.' }))
  const before = deskOf(t, path, async () => 'begun', { models, agents: customers, threads: { max: 1 } })
  await before.execute('go')
  await before.close()
  const after = deskOf(t, path, ask, { agents: [deskAgent('ann')] })
  t.match(await after.execute('count'), { error: null, finalOutput: '0: ' })
  await after.addAgent(deskAgent('bob'))
  t.equal(await after.getAgent('bob')!.run('count'), '0: ')
})

t.test('an agent that is added while the log is read has the place that the log has for its name', async (t) => {
  const disk = new MemoryDisk()
  let release = () => {}
  const released = new Promise<void>((resolve) => {
    release = resolve
  })
  class LateStore extends MemoryStore {
    override async open(signal?: AbortSignal) {
      await released
      return super.open(signal)
    }
  }
  const ask: Script = async (desk, query) => (await desk.request('zed', query)).content
  const before = deskOf(t, '', ask, { stateManagement: { store: new MemoryStore(disk) } })
  await before.addAgent(deskAgent('zed'))
  await before.execute('remember now')
  await before.close()
  const agents = ['ann', 'cyd', 'dan'].map((name) => deskAgent(name))
  const after = deskOf(t, '', ask, { agents, stateManagement: { store: new LateStore(disk) } })
  const started = after.start()
  const added = after.addAgent(deskAgent('zed'))
  await anotherThread()
  release()
  await Promise.all([started, added])
  t.match(await after.execute('count', { timeoutMs: 10_000 }), { error: null, finalOutput: '1: remember now' })
})

// Dead letters of a team that goes on with the log of an earlier one.

/** A team whose facts a test can see. */
class DeadLettersOpenTeam extends MultiAgentPattern<string> {
  get letters(): object[] {
    return [...teamFacts(this.supervisor, this.parts)].filter((fact) => fact.kind === 'letter')
  }

  get texts(): string[] {
    return this.deadLetters.list().map(({ message }) => message.content)
  }
}

async function deadLettersTeamOf(t: Test, path: string, more: Partial<MultiAgentPatternOptions> = {}) {
  const team = new DeadLettersOpenTeam({
    agents: ['ann', 'bob'].map((name) => ({ name, module })),
    stateManagement: { path },
    logger: silent,
    orchestration: {
      strategy: 'custom',
      name: 'a script',
      run: async (desk, query) => (await desk.request('ann', query)).content,
    },
    ...more,
  })
  t.teardown(() => team.close())
  await team.start()
  return team
}

/** Resolves when the team has that many dead letters. */
async function lettersOf(team: DeadLettersOpenTeam, count: number): Promise<void> {
  if (team.deadLetters.list().length === count) return
  await new Promise<void>((resolve) => {
    const events = team.events.subscribe(() => {
      if (team.deadLetters.list().length < count) return
      events.unsubscribe()
      resolve()
    })
  })
}

t.test('dead letters are there again, but for those that were sent again or discarded', async (t) => {
  const path = join(folderOf(t), 'log')
  const before = await deadLettersTeamOf(t, path)
  for (const content of ['fail 1', 'fail 2', 'fail 3', 'fail 4'])
    await before.sendMessage({ recipient: 'ann', content })
  await lettersOf(before, 4)
  await t.rejects(before.sendMessage({ recipient: 'ann', content: 5 as unknown as string }), {
    code: 'MESSAGE_REJECTED',
  })
  const [first, second] = before.deadLetters.list()
  before.deadLetters.discard(first!.id)
  await before.deadLetters.replay(second!.id)
  t.equal((await before.execute('see state')).finalOutput, 'again ')
  t.same(before.texts, ['fail 3', 'fail 4', ''])
  const { letters } = before
  await before.close()

  const after = await deadLettersTeamOf(t, path)
  t.match(after.letters, letters)
  t.match(after.deadLetters.list()[0], { reason: 'failed', errors: [{ message: 'It does not work.' }] })
  t.match(after.health(), { deadLetters: 3, deadLettersForgotten: 0 })
  const [third, fourth] = after.deadLetters.list()
  await after.deadLetters.replay(third!.id)
  t.equal((await after.execute('see state')).finalOutput, 'again again ')
  after.deadLetters.discard(fourth!.id)
  await after.close()

  const last = await deadLettersTeamOf(t, path)
  t.same(last.texts, [''])
})

t.test('a letter that was sent again and waits for room when the process ends is sent once', async (t) => {
  const path = join(folderOf(t), 'log')
  const agents = [{ name: 'ann', module, communication: { mailboxCapacity: 1 } }]
  const before = await deadLettersTeamOf(t, path, { agents })
  await before.sendMessage({ recipient: 'ann', content: 'fail 1' })
  await lettersOf(before, 1)
  const [letter] = before.deadLetters.list()
  const asks = before.launch('ask now?', { runId: 'one' })
  for await (const { type } of asks.events()) if (type === 'question') break
  const refused = t.rejects(before.deadLetters.replay(letter!.id))
  await before.flush()
  t.same(before.texts, ['fail 1'], 'it stays until it is accepted')
  await before.close()
  await refused

  const after = await deadLettersTeamOf(t, path, { agents })
  t.same(after.texts, [])
  await after.getRun('one')!.answer(after.questions()[0]!.questionId, 'yes')
  await after.getRun('one')!.result
  t.equal((await after.execute('see state')).finalOutput, 'again ')
})

// What turns of an earlier process have left of their states.

const AGENT = 3
const RUN = 1

/** A fold that has seen these frames, all of one turn. */
function foldOf(...frames: Partial<FrameFields>[]): RecoveredStates {
  const states = new RecoveredStates()
  for (const each of frames) {
    const fields = { ...BLANK, sender: AGENT, run: RUN, turn: 7, ...each }
    const memory = allocate(frameBytes(fields))
    writeFrame(memory, 0, fields, 0)
    states.frame(memory, 0, RUN, undefined)
  }
  return states
}

const patch = (attempt: number, scope: 'agent' | 'run', value: string): Partial<FrameFields> => ({
  kind: PATCH,
  attempt,
  data: JSON.stringify({ scope, base: {}, patches: [{ op: 'add', path: ['seen'], value }] }),
})
const end = (attempt: number, flags = 0): Partial<FrameFields> => ({ kind: END, attempt, flags })

t.test('what a turn leaves counts once it has ended', async (t) => {
  const states = foldOf(patch(1, 'agent', 'a'), patch(1, 'run', 'r'), end(1))
  t.same(states.ofAgents.get(AGENT), { seen: 'a' })
  t.same(states.ofRun(RUN).get(AGENT), { seen: 'r' })
  t.notOk(foldOf(patch(1, 'agent', 'a')).ofAgents.has(AGENT), 'a turn without an end has left nothing')
  t.notOk(foldOf(patch(1, 'agent', 'a'), end(1, FAILED)).ofAgents.has(AGENT), 'nor has one that failed')
})

t.test('an attempt that died between what it left and its end has left nothing', async (t) => {
  const list = (attempt: number): Partial<FrameFields> => ({
    kind: PATCH,
    attempt,
    data: JSON.stringify({
      scope: 'run',
      base: { notes: [] },
      patches: [{ op: 'add', path: ['notes', 0], value: 'n' }],
    }),
  })
  const twice = foldOf(list(1), list(2), end(2))
  t.same(twice.ofRun(RUN).get(AGENT), { notes: ['n'] }, 'the next attempt leaves it once')
  t.same(foldOf(list(1), list(2), list(3), end(3)).ofRun(RUN).get(AGENT), { notes: ['n'] })
  t.notOk(foldOf(patch(2, 'agent', 'a'), end(3)).ofAgents.has(AGENT), 'the next attempt leaves nothing')
})

t.test('a log of an earlier version, in which all that a turn left is of the first attempt, is read', async (t) => {
  t.same(foldOf(patch(1, 'agent', 'a'), end(2)).ofAgents.get(AGENT), { seen: 'a' })
})
