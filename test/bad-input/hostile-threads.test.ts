/** Agents on threads of their own that post what they like and write over the memory that they share. */
import t from 'tap'
import { type AgentRole, createTeam, type RuntimeEvent } from '../../src/index.ts'
import { CALL, END, LOG, REQUEST, SEND } from '../../src/mailbox/frame.ts'
import { HOST_ASLEEP, HOST_CALLED, PERMITS_WANTED } from '../../src/mailbox/team-memory.ts'
import { howMany } from '../how-many.ts'
import { where } from '../kit/lists.ts'
import type { Test } from './helpers.ts'
import { hostileTeam } from './raw-thread.ts'

// Agents on threads of their own that post to the host what they like, and write over the memory that they share
// with it.

const SCRIBBLES = howMany(2, 100)

function threads(t: Test, role: Partial<AgentRole> = {}) {
  const lines: { agent?: string; text: string }[] = []
  const note = (fields: object, text: string) => void lines.push({ ...fields, text })
  const silent = () => {}
  const team = createTeam({
    agents: [
      { name: 'mallory', module: new URL('../fixtures/bad-input/hostile.js', import.meta.url), ...role },
      { name: 'bob', module: new URL('../fixtures/bad-input/agent.js', import.meta.url) },
    ],
    orchestration: { strategy: 'sequential', agentOrder: ['mallory'] },
    threads: { warmSpares: 1 },
    supervision: { backoff: { baseMs: 0, capMs: 0 }, maxRestarts: 1_000 },
    logger: { debug: silent, info: silent, warn: note, error: note },
  })
  t.teardown(() => team.close())
  const ask = async (recipient: string, content: string) =>
    (await team.sendMessage({ recipient, content, requiresResponse: true }))?.content
  return { team, lines, ask }
}

t.test('a thousand things that it posts to its ports reach nobody, and cost nothing', async (t) => {
  const { team, lines, ask } = threads(t)
  t.equal(await ask('mallory', 'post'), 'posted')
  t.equal(await ask('mallory', 'how are you?'), 'well')
  t.match(await ask('bob', 'hi'), /^hi/)
  t.equal(team.health().agents.mallory?.restarts, 0)
  const said = lines.filter(({ text }) => text.includes('parent port'))
  t.ok(said.length > 0 && said.length < 20, `${said.length} lines about 500 posts`)
  await team.close()
})

t.test(
  'one that posts without end is ended after some 2,000 posts, and its message is not tried for ever',
  async (t) => {
    const { team, ask } = threads(t)
    await t.rejects(ask('mallory', 'flood'), { code: 'AGENT_CRASHED', message: /more than 2000 messages/ })
    t.match(await ask('bob', 'hi'), /^hi/)
    t.equal(await ask('mallory', 'how are you?'), 'well')
    await team.close()
  },
)

t.test('nonsense all over the memory of its life costs that life at most', async (t) => {
  const { team, ask } = threads(t, {
    limits: { turnTimeoutMs: 10_000 },
    supervision: { stopGraceMs: 50, watchdogMs: 1_000 },
  })
  for (let seed = 1; seed <= SCRIBBLES; seed++) {
    await ask('mallory', `scribble ${seed}`).catch(() => {})
    t.match(await ask('bob', 'hi'), /^hi/, `seed ${seed}`)
  }
  t.equal(await ask('mallory', 'how are you?'), 'well')
  await team.close()
})

// An agent that writes over the few words that all threads of its team share: room in mailboxes, the host's bell,
// permits.

function hostileWordsThreads(t: Test, supervision: object = {}) {
  const lines: { agent?: string; text: string }[] = []
  const note = (fields: object, text: string) => void lines.push({ ...fields, text })
  const silent = () => {}
  const honest = new URL('../fixtures/bad-input/agent.js', import.meta.url)
  const team = createTeam({
    agents: [
      { name: 'mallory', trust: 'untrusted', module: new URL('../fixtures/bad-input/hostile.js', import.meta.url) },
      { name: 'ann', module: honest },
      { name: 'bob', module: honest },
    ],
    orchestration: {
      strategy: 'custom',
      run: async (script, query) => {
        const answers = await script.requestAll(['ann', 'bob'], query)
        return answers.map((answer) => (answer.ok ? answer.message.content : answer.error.code)).join(' and ')
      },
    },
    maxConcurrentAgents: 1,
    threads: { warmSpares: 0 },
    supervision,
    communication: { responseTimeoutMs: 15_000 },
    logger: { debug: silent, info: silent, warn: note, error: note },
  })
  t.teardown(() => team.close())
  const ask = async (recipient: string, content: string) =>
    (await team.sendMessage({ recipient, content, requiresResponse: true }))?.content
  return { team, lines, ask }
}

for (const value of [0, -5])
  t.test(`a team whose shared words all say ${value} goes on, and says so`, async (t) => {
    const { team, lines, ask } = hostileWordsThreads(t)
    await ask('mallory', 'how are you?') // so that it has seen the memory
    await ask('mallory', `fill ${value}`).catch(() => {})
    for (let n = 0; n < 3; n++) t.match(await ask('bob', 'hi'), /^hi/)
    t.match((await team.execute('go')).finalOutput, /^go.* and go/)
    t.ok(lines.some(({ text }) => /all threads of the team share/.test(text)))
    t.ok(team.health().sharedMemoryRepairs > 0)
  })

t.test('a team whose shared words promise more room than there is goes on', async (t) => {
  const { team, ask } = hostileWordsThreads(t)
  await ask('mallory', 'how are you?')
  t.equal(await ask('mallory', `fill ${2 ** 31 - 1}`), 'filled')
  for (let n = 0; n < 3; n++) t.match(await ask('bob', 'hi'), /^hi/)
  t.match((await team.execute('go')).finalOutput, /^go.* and go/)
})

t.test(
  'a thread that silences all bells of its team and takes away its marks, all the time, delays it at most',
  async (t) => {
    const { team, ask } = hostileWordsThreads(t, { watchdogMs: 2_000 })
    await ask('mallory', 'how are you?')
    for (const word of [HOST_ASLEEP, HOST_CALLED, PERMITS_WANTED])
      t.equal(await ask('mallory', `keep ${word}=0`), 'kept')
    t.equal(await ask('mallory', 'unmark'), 'unmarked')
    for (let n = 0; n < 3; n++) t.match(await ask('bob', 'hi'), /^hi/)
    t.match((await team.execute('go')).finalOutput, /^go.* and go/)
  },
)

// JSON of a thread that is made to end or to hold the host: nested deep, or large where a line of a log is due.

const deep = `${'['.repeat(20_000)}${']'.repeat(20_000)}`
const deepObject = `${'{"a":'.repeat(20_000)}1${'}'.repeat(20_000)}`

t.test(
  'JSON that is nested 20,000 levels deep hurts neither host nor who reads the events and the result',
  async (t) => {
    for (const data of [deep, deepObject]) {
      const stage = hostileTeam(t)
      const events: RuntimeEvent[] = []
      stage.team.events.subscribe((event) => void events.push(event))
      await stage.team.start()
      const { run, turn, result } = await stage.turn()
      const fields = { run, turn, data, metadata: data }
      stage.thread.send({ kind: SEND, recipient: stage.index('ann'), content: 'psst', ...fields })
      stage.thread.send({
        kind: REQUEST,
        type: 'request',
        recipient: stage.index('bob'),
        correlation: 5,
        content: 'well?',
        ...fields,
      })
      stage.thread.send({ kind: CALL, correlation: 6, content: 'blackboard.write', run, turn, data })
      stage.thread.send({ kind: CALL, correlation: 7, content: 'tool', run, turn, data })
      stage.thread.send({ kind: LOG, limit: 1, content: 'a line', run, turn, data })
      stage.thread.send({ kind: END, type: 'response', content: 'done', ...fields })
      t.same(await stage.ailments(), [])
      t.match(result.value, { finalOutput: 'done' })
      t.ok(JSON.stringify(result.value).length > 0)
      t.ok(JSON.stringify(events).length > 0)
      t.match(where(stage.heard, 'content', 'psst'), [{ structuredData: null, metadata: {} }])
    }
  },
)

t.test('fields of a log are a plain object and no other JSON, and so are too large ones left out', async (t) => {
  const stage = hostileTeam(t)
  await stage.team.start()
  const { run, turn } = await stage.turn()
  const line = (content: string, data: string) => stage.thread.send({ kind: LOG, limit: 2, content, run, turn, data })
  line('a text', JSON.stringify('x'.repeat(100)))
  line('a list', '[1,2,3]')
  line('an object', '{"a":1}')
  line('a large one', JSON.stringify({ a: 'x'.repeat(100_000) }))
  line('y'.repeat(100_000), '{}')
  await stage.team.clock.advance(0)
  const said = stage.lines.filter((fields) => 'agent' in fields && fields.agent === 'mallory')
  t.strictSame(
    said.map((fields) => Object.keys(fields).sort()),
    [
      ['agent', 'level', 'runId', 'text'],
      ['agent', 'level', 'runId', 'text'],
      ['a', 'agent', 'level', 'runId', 'text'],
      ['agent', 'leftOut', 'level', 'runId', 'text'],
      ['agent', 'level', 'runId', 'text'],
    ],
  )
  t.match(said[4], { text: /^y{65536} \[34464 more\]$/ })
})
