/** What belongs to the team and not to one run, in a team that goes on with the log of an earlier one. */
import { join } from 'node:path'
import type { Test } from 'tap'
import t from 'tap'
import {
  type Blackboard,
  MultiAgentPattern,
  type MultiAgentPatternOptions,
  type Run,
  type RuntimeEvent,
} from '../../src/index.ts'
import { teamFacts } from '../../src/runtime/durability/team-facts.ts'
import { entriesOf } from '../../src/runtime/log/read-entries.ts'
import type { LogEntry } from '../../src/runtime/log/records.ts'
import { FileStore } from '../../src/runtime/store/file-store.ts'
import { folderOf } from './log-folders.ts'

const silent = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} }
const module = new URL('../fixtures/durability/keeper.js', import.meta.url)

type Script = Extract<MultiAgentPatternOptions['orchestration'], { strategy: 'custom'; run: unknown }>['run']

/** A team whose facts a test can see. */
class OpenTeam extends MultiAgentPattern<string> {
  /** All but numbers and turns, which go on. */
  get facts(): object[] {
    return [...teamFacts(this.supervisor, this.parts)].filter(({ kind }) => kind !== 'numbers' && kind !== 'turns')
  }
}

function teamOf(t: Test, path: string, run: Script, more: Partial<MultiAgentPatternOptions> = {}) {
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
  const script: Script = async (desk, query) => {
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
  const states = async (desk: Parameters<Script>[0]) => {
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
  const script: Script = async (desk) => {
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
  const script: Script = async (desk, query) => {
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
  const script: Script = async (desk) => (await desk.request('ann', 'keep blackboard mine')).content
  const before = teamOf(t, path, script)
  const { blackboardState } = await before.execute('keep', { runId: 'one' })
  await before.close()
  const after = teamOf(t, path, script)
  t.same((await after.execute('keep', { runId: 'one' })).blackboardState, blackboardState)
  t.same(blackboardState, { k: 'mine' })
})

t.test('so it has with a blackboard of the team: that of its end, whatever was written since', async (t) => {
  const path = join(folderOf(t), 'log')
  const script: Script = async (desk, query) => `version ${(await desk.publish('page', query, 'fact')).version}`
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
  const script: Script = async (desk) => {
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
