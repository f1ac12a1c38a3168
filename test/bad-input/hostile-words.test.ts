/** An agent that writes over the few words that all threads of its team share: room in mailboxes, the host's bell, permits. */
import t from 'tap'
import { createTeam } from '../../src/index.ts'
import { HOST_ASLEEP, HOST_CALLED, PERMITS_WANTED } from '../../src/mailbox/team-memory.ts'
import type { Test } from './helpers.ts'

function threads(t: Test, supervision: object = {}) {
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
    const { team, lines, ask } = threads(t)
    await ask('mallory', 'how are you?') // so that it has seen the memory
    await ask('mallory', `fill ${value}`).catch(() => {})
    for (let n = 0; n < 3; n++) t.match(await ask('bob', 'hi'), /^hi/)
    t.match((await team.execute('go')).finalOutput, /^go.* and go/)
    t.ok(lines.some(({ text }) => /all threads of the team share/.test(text)))
    t.ok(team.health().sharedMemoryRepairs > 0)
  })

t.test('a team whose shared words promise more room than there is goes on', async (t) => {
  const { team, ask } = threads(t)
  await ask('mallory', 'how are you?')
  t.equal(await ask('mallory', `fill ${2 ** 31 - 1}`), 'filled')
  for (let n = 0; n < 3; n++) t.match(await ask('bob', 'hi'), /^hi/)
  t.match((await team.execute('go')).finalOutput, /^go.* and go/)
})

t.test(
  'a thread that silences all bells of its team and takes away its marks, all the time, delays it at most',
  async (t) => {
    const { team, ask } = threads(t, { watchdogMs: 2_000 })
    await ask('mallory', 'how are you?')
    for (const word of [HOST_ASLEEP, HOST_CALLED, PERMITS_WANTED])
      t.equal(await ask('mallory', `keep ${word}=0`), 'kept')
    t.equal(await ask('mallory', 'unmark'), 'unmarked')
    for (let n = 0; n < 3; n++) t.match(await ask('bob', 'hi'), /^hi/)
    t.match((await team.execute('go')).finalOutput, /^go.* and go/)
  },
)
