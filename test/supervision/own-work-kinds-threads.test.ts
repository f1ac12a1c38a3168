/** Rule 24 on real threads: what a turn has opened itself is work, by whatever means; what another one left open is none. */
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Test } from 'tap'
import t from 'tap'
import { createTeam } from '../../src/index.ts'
import { silent } from './teams.ts'
import { watched } from './verdicts.ts'

const module = new URL('../fixtures/supervision/works-beside.js', import.meta.url)

/** So many at once: each agent has a thread. */
const WORKS = [
  ['a timer', 'an unrefed timer', 'AbortSignal.timeout', 'timers/promises', 'a setImmediate loop'],
  ['Atomics.waitAsync', 'crypto.subtle', 'zlib', 'a zlib stream', 'fetch'],
  ['pbkdf2', 'scrypt', 'generateKeyPair again and again', 'fs/promises again and again', 'a child process'],
]
const LEFT = [
  'nothing',
  'an interval',
  'a timer that sets the next',
  'a loop that passes time',
  'a loop of setImmediate',
  'a server',
  'a connection',
]

/** Answers after as many ms as it is asked for. */
async function slowServer(t: Test): Promise<string> {
  const server = createServer(({ url }, response) => {
    setTimeout(() => response.end('here'), Number(new URL(url ?? '', 'http://here').searchParams.get('ms')))
  })
  server.listen(0, '127.0.0.1')
  await new Promise((resolve) => server.once('listening', resolve))
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/`
}

interface Habits {
  work?: string
  leaves?: string
}

/**
 * Agents of which each asks itself. What each says came of it, and how often it was said to be in a deadlock. `inOne`: the
 * second message waits in its mailbox when the first one's turn ends.
 */
async function askThemselves(t: Test, habits: readonly Habits[], { inOne = false } = {}) {
  const url = await slowServer(t)
  const names = habits.map((_, i) => `agent-${i}`)
  const team = createTeam({
    agents: names.map((name, i) => ({ name, module, data: { url, ...habits[i] } })),
    maxConcurrentAgents: names.length,
    orchestration: {
      strategy: 'custom',
      async run(script) {
        await script.requestAll(names, 'hello')
        if (inOne) for (let i = 0; i < 32; i++) await script.requestAll(names, 'hello') // such short turns get several at a time
        if (inOne) void script.requestAll(names, 'hello')
        const said = await script.requestAll(names, 'go')
        return said.map((outcome) => (outcome.ok ? outcome.message.content : outcome.error.code)).join(', ')
      },
    },
    supervision: { confirmMs: 20 }, // so that what takes long need not take longer
    threads: { warmSpares: 0 },
    logger: silent,
  })
  t.teardown(() => team.close())
  const found = watched(team)
  const { finalOutput } = await team.execute('go')
  const told = names.map(
    (name) => found.filter((event) => event.type === 'deadlock' && event.cycle.includes(name)).length,
  )
  return { said: finalOutput?.split(', '), told }
}

for (const works of WORKS)
  t.test(`a turn that would end its wait by ${works.join(', or by ')} is not in a deadlock`, async (t) => {
    const { said, told } = await askThemselves(
      t,
      works.map((work) => ({ work })),
    )
    t.same(
      told,
      works.map(() => 0),
    )
    t.same(
      said,
      works.map(() => 'I go without'),
    )
  })

t.test(`who has left ${LEFT.join(', or ')} open in an earlier turn is found in a deadlock`, async (t) => {
  const { said, told } = await askThemselves(
    t,
    LEFT.map((leaves) => ({ leaves })),
  )
  t.same(
    said,
    LEFT.map(() => 'DEADLOCK'),
  )
  t.same(
    told,
    LEFT.map(() => 2),
    'named, and broken',
  )
})

t.test('who has left a connection or a loop of timers open in an earlier turn, and fetches, is in none', async (t) => {
  const { said, told } = await askThemselves(
    t,
    ['a loop that passes time', 'a connection'].map((leaves) => ({ leaves, work: 'fetch' })),
  )
  t.same(told, [0, 0])
  t.same(said, ['I go without', 'I go without'])
})

t.test(
  'who does something beside in a turn that begins where a timer of the turn before it has ended, is in none',
  async (t) => {
    const { said, told } = await askThemselves(
      t,
      ['a timer', 'a setImmediate loop', 'fetch'].map((work) => ({ leaves: 'nothing, a while later', work })),
      { inOne: true },
    )
    t.same(told, [0, 0, 0])
    t.same(said, ['I go without', 'I go without', 'I go without'])
  },
)
