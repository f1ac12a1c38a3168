/** Conversations over restarts: those of threads, and the messages that a caller has given to a run. */
import t from 'tap'
import { textOf } from '../../src/actors/definition/content.ts'
import {
  type ConversationStore,
  createTeam,
  type MultiAgentPatternOptions,
  type StoredConversation,
} from '../../src/index.ts'
import type { ModelClient } from '../../src/models.ts'
import { gate, silent } from '../kit/team.ts'
import { MemoryDisk, MemoryStore } from './memory-store.ts'

/** A team of model roles on that disk. `seen` gets what each call showed to its model. */
function teamOf(
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
    const team = teamOf(disk, seen)
    for (const query of queries) await team.execute(query, { threadId: 'a' })
    await team.close()
  }
  t.same(seen.at(-1), ['one', 're one', 'two', 're two', 'three', 're three', 'four'])
})

t.test('a run that goes on in a later process still begins with the messages that it was given', async (t) => {
  const disk = new MemoryDisk()
  const seen: string[][] = []
  const asked = gate()
  const before = teamOf(
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
  const after = teamOf(disk, seen, undefined, ['ann', 'bob'])
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
    const before = teamOf(
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
    const another = teamOf(other, seen, undefined, ['bot'], { conversations })
    t.teardown(() => another.close())
    await another.execute('three', talk)
    const after = teamOf(disk, seen, undefined, ['bot'], { conversations })
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
    teamOf(
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
