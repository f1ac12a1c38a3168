/** States that end with a session, stores of somebody's own, and conversations, over restarts. */
import { cpSync, existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { setImmediate as turn } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { textOf } from '../../src/actors/definition/content.ts'
import {
  type ConversationStore,
  createTeam,
  type MultiAgentPatternOptions,
  type StateManagement,
  type StoredConversation,
} from '../../src/index.ts'
import type { ModelClient } from '../../src/models.ts'
import { readLog } from '../../src/runtime/store/log-reader.ts'
import { recordedRuns } from '../../src/runtime/views/recorded-runs.ts'
import { gate, numbers, silent } from '../kit/team.ts'
import { deskOf } from './desk-team.ts'
import { folderOf } from './log-folders.ts'
import { MemoryDisk, MemoryStore } from './memory-store.ts'

// States that end with a session, as document 002 has them (2.4.1), and those that stay in the log. Requirement P14.

const module = new URL('../fixtures/durability/keeper.js', import.meta.url)
const SCOPES = ['state', 'agent_shared', 'team_shared', 'blackboard', 'persistent']

type Ends = NonNullable<StateManagement['endsWithSession']>

/** Answers `keep` by keeping a value in each scope, and any query with the scopes that have one. */
function teamOf(t: Test, path: string, endsWithSession?: Ends) {
  const options: MultiAgentPatternOptions<string> = {
    agents: [{ name: 'ann', module }],
    enableBlackboard: { scope: 'team' },
    logger: silent,
    stateManagement: { path, ...(endsWithSession && { endsWithSession }) },
    orchestration: {
      strategy: 'custom',
      async run(desk, query) {
        if (query !== 'see') for (const scope of SCOPES) await desk.request('ann', `keep ${scope} kept`)
        if (query === 'stay') await desk.request('ann', 'ask now?')
        const seen: string[] = []
        for (const scope of SCOPES) if ((await desk.request('ann', `see ${scope}`)).content === 'kept') seen.push(scope)
        return seen.join()
      },
    },
  }
  const team = createTeam(options)
  t.teardown(() => team.close())
  return team
}

t.test('endsWithSession says what ends with a session that was closed in order', async (t) => {
  const cases: [ends: Ends | undefined, left: string[]][] = [
    [undefined, SCOPES],
    [[], SCOPES],
    [['private'], ['agent_shared', 'team_shared', 'blackboard', 'persistent']],
    [['shared'], ['state', 'blackboard', 'persistent']],
    [['board'], ['state', 'agent_shared', 'team_shared', 'persistent']],
    [['private', 'shared', 'board'], ['persistent']],
  ]
  for (const [ends, left] of cases) {
    const path = join(folderOf(t), 'log')
    const first = teamOf(t, path, ends)
    t.equal((await first.execute('keep')).finalOutput, SCOPES.join(), 'nothing ends within it')
    await first.close()
    const second = teamOf(t, path, ends)
    t.equal((await second.execute('see')).finalOutput, left.join(), `${ends}`)
    t.equal((await second.execute('keep')).finalOutput, SCOPES.join())
    await second.close()
    t.equal((await teamOf(t, path, ends).execute('see')).finalOutput, left.join(), 'each session anew')
  }
})

t.test('a session that leaves an open run, or does not end in order, ends nothing', async (t) => {
  const ends: Ends = ['private', 'shared', 'board']
  const folder = folderOf(t)
  const path = join(folder, 'log')
  const first = teamOf(t, path, ends)
  const run = first.launch('stay', { runId: 'one' })
  for await (const event of run.events()) if (event.type === 'question') break
  await first.flush()
  cpSync(path, join(folder, 'died'), { recursive: true })
  await first.close()
  for (const log of [path, join(folder, 'died')]) {
    const next = teamOf(t, log, ends)
    await next.start()
    const going = next.getRun('one')
    for (const { questionId } of next.questions()) await going?.answer(questionId, 'yes')
    t.equal((await going?.result)?.finalOutput, SCOPES.join(), log)
    await next.close()
    t.equal((await teamOf(t, log, ends).execute('see')).finalOutput, 'persistent', 'until it is over')
  }
})

t.test('what has ended is no part of what a later run is played with', async (t) => {
  const cases: [ends: Ends, kinds: string[]][] = [
    [[], ['blackboard', 'shared', 'state']],
    [['private', 'shared', 'board'], ['shared']],
  ]
  for (const [ends, kinds] of cases) {
    const path = join(folderOf(t), 'log')
    for (const query of ['keep', 'see']) {
      const team = teamOf(t, path, ends)
      await team.execute(query)
      await team.close()
    }
    const { runs } = await recordedRuns(() => readLog(path), undefined, { facts: true })
    const facts = (runs.at(-1)?.facts ?? []).filter(({ kind }) => kind !== 'name')
    t.same([...new Set(facts.map(({ kind }) => kind))].sort(), kinds)
    if (ends.length > 0) t.match(facts, [{ scope: 'persistent' }])
  }
})

t.test('a state that cannot end is refused', (t) => {
  const make = () => teamOf(t, join(folderOf(t), 'log'), ['persistent' as never])
  t.throws(make, { code: 'CONFIGURATION', details: { path: 'stateManagement.endsWithSession[0]' } })
  t.end()
})

// A store of somebody's own (`stateManagement.store`): what is told, and to whom, when it fails.

t.test('a store that refuses a write is told of: in the log, by the run, and by the probes', async (t) => {
  const store = new MemoryStore(new MemoryDisk())
  const errors: string[] = []
  const error = (_fields: object, text: string) => void errors.push(text)
  const logger = { debug() {}, info() {}, warn() {}, error }
  const team = deskOf(t, undefined, async () => 'done', { stateManagement: { store }, logger })
  await team.start()
  t.match(team.health(), { ready: true, log: { ok: true, lagMs: 0 } })
  store.append = async () => {
    throw new Error('the table is full')
  }
  const { error: failure } = await team.execute('go')
  t.match(failure, { code: 'LOG_LOST', message: /the table is full/ })
  t.match(errors, [/the durable log is lost: runs are interrupted, and no more are taken/])
  t.match(team.health(), { live: true, ready: false, log: { ok: false } })
  t.match(team.judgement(), { state: 'slow', sentences: [/^the durable log is behind for /] })
})

t.test(
  'the log is given free when no thread works on its turns any more: another process may begin them',
  async (t) => {
    const store = new MemoryStore(new MemoryDisk())
    const leave = async (desk: { request(to: string, text: string): Promise<{ content: string }> }) =>
      (await desk.request('ann', 'leave')).content
    const team = deskOf(t, undefined, leave, { stateManagement: { store } })
    const file = process.env.DESK_EFFECTS!
    const done = () => (existsSync(file) ? readFileSync(file, 'utf8') : '')
    const result = team.execute('go')
    while (done() === '') await turn()
    let byThen: string | undefined
    const close = store.close.bind(store)
    store.close = () => {
      byThen ??= done()
      return close()
    }
    await team.close()
    t.equal(byThen, 'came\nleft\n')
    t.match(await result, { success: false })
  },
)

// Conversations over restarts: those of threads, and the messages that a caller has given to a run.

/** A team of model roles on that disk. `seen` gets what each call showed to its model. */
function conversationsTeamOf(
  disk: MemoryDisk,
  seen: string[][],
  complete?: ModelClient['complete'],
  roles = ['bot'],
  more: Partial<MultiAgentPatternOptions> = {},
) {
  const model: ModelClient = {
    offline: true,
    complete(request) {
      seen.push(request.messages.filter(({ role }) => role !== 'system').map(({ content }) => textOf(content)))
      return complete?.(request) ?? echo(request)
    },
  }
  const options: MultiAgentPatternOptions = {
    agents: roles.map((name) => ({ name, systemPrompt: 'Talk.' })),
    orchestration: { strategy: 'sequential' },
    models: { default: model },
    stateManagement: { store: new MemoryStore(disk) },
    logger: silent,
    ...more,
  }
  return createTeam(options)
}

const echo: ModelClient['complete'] = async function* ({ messages }) {
  yield { text: `re ${textOf(messages.at(-1)!.content)}` }
}

t.test('a thread has all of its runs after a restart, and after another', async (t) => {
  const disk = new MemoryDisk()
  const seen: string[][] = []
  for (const queries of [['one', 'two'], ['three'], ['four']]) {
    const team = conversationsTeamOf(disk, seen)
    for (const query of queries) await team.execute(query, { threadId: 'a' })
    await team.close()
  }
  t.same(seen.at(-1), ['one', 're one', 'two', 're two', 'three', 're three', 'four'])
})

t.test('a run that goes on in a later process still begins with the messages that it was given', async (t) => {
  const disk = new MemoryDisk()
  const seen: string[][] = []
  const asked = gate()
  const before = conversationsTeamOf(
    disk,
    seen,
    async function* (request) {
      if (request.agent === 'ann') return yield* echo(request)
      asked.open()
      await new Promise(() => {})
    },
    ['ann', 'bob'],
  )
  const messages = [
    { role: 'user', content: 'before' },
    { role: 'assistant', content: 'then' },
  ] as const
  before.launch('go', { runId: 'one', messages })
  await asked.opened
  await before.close()
  const after = conversationsTeamOf(disk, seen, undefined, ['ann', 'bob'])
  t.teardown(() => after.close())
  await after.start()
  const result = await after.getRun('one')!.result
  t.same(seen.at(-1)?.slice(0, 2), ['before', 'then'])
  t.same(result.messages.slice(0, 3), [...messages, { role: 'user', content: 'go' }])
})

t.test(
  'a run that goes on in a later process adds to a thread that processes share, to which others added meanwhile',
  async (t) => {
    const rows = new Map<string, StoredConversation>()
    const conversations: ConversationStore = {
      load: async () => [...rows.values()],
      async save(_threadId, stored) {
        const isNext = (rows.get(stored.agent)?.version ?? 0) === stored.version - 1
        if (isNext) rows.set(stored.agent, structuredClone(stored))
        return isNext
      },
    }
    const [disk, other] = [new MemoryDisk(), new MemoryDisk()]
    const seen: string[][] = []
    const asked = gate()
    const talk = { threadId: 'talk' }
    const before = conversationsTeamOf(
      disk,
      seen,
      async function* (request) {
        if (textOf(request.messages.at(-1)!.content) !== 'two') return yield* echo(request)
        asked.open()
        await new Promise(() => {})
      },
      ['bot'],
      { conversations },
    )
    await before.execute('one', talk)
    before.launch('two', { ...talk, runId: 'two' })
    await asked.opened
    await before.close()
    const another = conversationsTeamOf(other, seen, undefined, ['bot'], { conversations })
    t.teardown(() => another.close())
    await another.execute('three', talk)
    const after = conversationsTeamOf(disk, seen, undefined, ['bot'], { conversations })
    t.teardown(() => after.close())
    await after.start()
    t.match(await after.getRun('two')!.result, { success: true, failures: [] })
    await another.execute('four', talk)
    t.same(seen.at(-1), ['one', 're one', 'three', 're three', 'two', 're two', 'four'])
  },
)

t.test('a conversation that agents share has what code has answered in it, after restarts', async (t) => {
  const disk = new MemoryDisk()
  const seen: string[][] = []
  const module = new URL('../fixtures/durability/clerk.js', import.meta.url)
  const desk = () =>
    conversationsTeamOf(
      disk,
      seen,
      async function* ({ messages }) {
        const content = textOf(messages.at(-1)!.content)
        const input = JSON.stringify({ to: 'clerk', task: 'File it.' })
        if (content === 'My form.') yield { text: 'One moment.', toolCall: { id: 'c', name: 'handoff', input } }
        else yield { text: `re ${content}` }
      },
      [],
      {
        agents: [
          { name: 'triage', canHandoffTo: ['clerk'] },
          { name: 'clerk', module, canHandoffTo: ['triage'] },
        ],
        orchestration: { strategy: 'handoff', start: 'triage' },
      },
    )
  const said: string[] = []
  for (const [query, speaker] of [['My form.'], ['And this?'], ['Is it done?', 'triage'], ['Thanks.']] as const) {
    const team = desk()
    const result = await team.execute(query, { threadId: 'ann', ...(speaker && { speaker }) })
    said.push(query, `${result.speaker}: ${result.finalOutput}`)
    await team.close()
  }
  t.match(said, [
    'My form.',
    /^clerk: By code/,
    'And this?',
    /^clerk: By code/,
    'Is it done?',
    'triage: re Is it done?',
    'Thanks.',
  ])
  const words = said.map((each) => each.replace(/^\w+: /, ''))
  t.same(seen.at(-1), ['My form.', 'One moment.', ...words.slice(1, -1)])
})

t.test(
  'an answer that comes after the end of its run, of an agent to whom it was handed, stands in the thread',
  async (t) => {
    const disk = new MemoryDisk()
    const seen: string[][] = []
    const [asked, over] = [gate(), gate()]
    const desk = () =>
      conversationsTeamOf(
        disk,
        seen,
        async function* ({ agent, messages }) {
          const isFirst = textOf(messages.at(-1)!.content) === 'File my form.'
          if (isFirst)
            yield { toolCall: { id: 'c', name: 'handoff', input: JSON.stringify({ to: 'bob', task: 'File.' }) } }
          else if (agent === 'ann') yield { text: 'Yes.' }
          else {
            asked.open()
            await over.opened
            yield { text: 'It is filed.' }
          }
        },
        [],
        {
          agents: [
            { name: 'ann', canHandoffTo: ['bob'] },
            { name: 'bob', canHandoffTo: ['ann'] },
          ],
          orchestration: {
            strategy: 'custom',
            async run(orchestrator, query) {
              if (query === 'Is it done?') return (await orchestrator.request('ann', query)).content
              await orchestrator.send('ann', query)
              return 'We look into it.'
            },
          },
        },
      )
    const first = desk()
    await first.execute('File my form.', { threadId: 'joe' })
    await asked.opened
    over.open()
    await first.close({ drainMs: 60_000 })
    const later = desk()
    t.teardown(() => later.close())
    await later.execute('Is it done?', { threadId: 'joe' })
    t.same(seen.at(-1), ['File my form.', 'It is filed.', 'Is it done?'])
  },
)

t.test('an answer of code, which has it before who handed off to it has ended, stands in the thread', async (t) => {
  const seen: string[][] = []
  const team = conversationsTeamOf(
    new MemoryDisk(),
    seen,
    async function* ({ messages }) {
      if (messages.length > 2) yield { text: 'Yes.' }
      else yield { toolCall: { id: 'c', name: 'handoff', input: JSON.stringify({ to: 'bob', task: 'File.' }) } }
    },
    [],
    {
      agents: [
        { name: 'ann', systemPrompt: 'Talk.', canHandoffTo: ['bob'] },
        { name: 'bob', module: new URL('../fixtures/durability/clerk.js', import.meta.url) },
      ],
      orchestration: { strategy: 'sequential', agentOrder: ['ann'] },
    },
  )
  t.teardown(() => team.close())
  for (const threadId of numbers(8)) {
    const { finalOutput } = await team.execute('File my form.', { threadId })
    await team.execute('Is it done?', { threadId })
    t.same(seen.at(-1), ['File my form.', finalOutput, 'Is it done?'])
  }
})
