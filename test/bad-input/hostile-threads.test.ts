/** Agents on threads of their own that post to the host what they like, and write over the memory that they share with it. */
import t from 'tap'
import { type AgentRole, createTeam } from '../../src/index.ts'
import { howMany } from '../how-many.ts'
import type { Test } from './helpers.ts'

const SCRIBBLES = howMany(8, 100)

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
