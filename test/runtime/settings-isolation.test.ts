/** Which roles may share a thread: by their own word, and by the team's. */
import t from 'tap'
import type { AgentRole } from '../../src/index.ts'
import { settingsFrom, type TeamOptions } from '../../src/runtime/settings/settings.ts'
import { errorFor } from './settings-helpers.ts'

const ofFirst = (role: Omit<AgentRole, 'name'>, team: Omit<TeamOptions, 'agents'> = {}) =>
  settingsFrom({ ...team, agents: [{ ...role, name: 'ann' }] }).agents[0]!.isolation

t.test('an agent has a thread for itself, unless its role or the team says otherwise', async (t) => {
  const threads = { isolation: 'shared' } as const
  t.equal(ofFirst({}), 'thread')
  t.equal(ofFirst({ isolation: 'shared' }), 'shared')
  t.equal(ofFirst({}, { threads }), 'shared')
  t.equal(ofFirst({ isolation: 'thread' }, { threads }), 'thread')
  t.equal(
    settingsFrom({ threads, agents: [{ name: 'ann' }] }).newcomer({ name: 'bob' }, 'role', []).isolation,
    'shared',
  )
})

const module = 'a-package'
/** Roles whose thread cannot be shared, and why. */
const OWN: [reason: string, role: Omit<AgentRole, 'name'>, team?: Omit<TeamOptions, 'agents'>][] = [
  ['its code runs in it (agents[0].module)', { module }],
  [
    'agents[0].tools[0] runs in it (give that isolate: true, or give the tool itself)',
    { tools: [{ module, isolate: false }] },
  ],
  ['tools[0] runs in it (give that isolate: true, or give the tool itself)', {}, { tools: [{ module }] }],
  ['its environment is that of one agent (agents[0].env)', { env: ['KEY'] }],
  ['its memory cannot be limited for one agent (agents[0].limits.maxHeapMb)', { limits: { maxHeapMb: 64 } }],
  ['its memory cannot be limited for one agent (agents[0].limits.maxExternalMb)', { limits: { maxExternalMb: 64 } }],
]

t.test('a role that has something in its thread is refused, with the reason', async (t) => {
  for (const [reason, role, team] of OWN) {
    const error = errorFor({ ...team, agents: [{ ...role, name: 'ann', isolation: 'shared' }] })
    t.equal(
      error.message,
      `agents[0].isolation: got "shared"; accepted: "thread", or a role whose thread runs no code of yours. Agent "ann" cannot share a thread: ${reason}.`,
    )
    t.match(error.details, { path: 'agents[0].isolation', got: '"shared"' })
  }
  const given = errorFor({ agents: [{ name: 'ann', isolation: 'shared' }] }, new Set(['ann']))
  t.match(given.message, /its code, given as a definition, runs in it/)
})

t.test("under the team's default it keeps a thread of its own", async (t) => {
  for (const [reason, role, team] of OWN)
    t.equal(ofFirst(role, { ...team, threads: { isolation: 'shared' } }), 'thread', reason)
})

t.test('tools in the host and isolated ones are no hindrance', async (t) => {
  t.equal(ofFirst({ isolation: 'shared', tools: ['delegate', { module, isolate: true }] }), 'shared')
})

t.test('only the two words are accepted', async (t) => {
  t.equal(
    errorFor({ agents: [{ name: 'ann', isolation: 'process' }] }).message,
    'agents[0].isolation: got "process"; accepted: "thread", "shared".',
  )
  t.match(errorFor({ threads: { isolation: true } }), { details: { path: 'threads.isolation' } })
})
