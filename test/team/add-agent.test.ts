/** Agents that join a team, also while runs are under way. */
import t from 'tap'
import { type AgentMessage, type AgentRole, defineAgent } from '../../src/index.ts'
import { pluck } from '../kit/lists.ts'
import { ask, type Cast, gate, given, localTeam } from '../kit/team.ts'

/** Says its name; 'ask x y' asks x for y. */
const friendly: Cast[string] = async ({ content, sender }, context) => {
  const [order, to = '', ...words] = content.split(' ')
  if (order === 'ask') return `${context.role.name} < ${(await context.request(to, words.join(' '))).content}`
  return `${context.role.name} heard ${content} from ${sender}`
}

t.test('an agent that is added answers, and is one of the team', async (t) => {
  const team = localTeam(t, { ann: friendly }, { later: { bob: friendly } })
  await team.start()
  const role = { name: 'bob', description: 'the new one' }
  const bob = await team.addAgent(role)
  t.same([bob.name, bob.role, bob.status], ['bob', role, 'idle'])
  t.equal(await ask(team, 'bob', 'hi'), 'bob heard hi from $user')
  t.equal(team.getAgent('bob'), bob)
  t.same(pluck(team.listAgents(), 'name'), ['ann', 'bob'])
  t.equal(team.health().agents.bob?.status, 'idle')
  t.ok(team.health().ready)
  t.match(team.getMessageHistory(), [])
})

t.test('threads that run already reach it by name, and know who it is when it speaks', async (t) => {
  const team = localTeam(t, { ann: friendly }, { later: { bob: friendly } })
  t.equal(await ask(team, 'ann', 'hi'), 'ann heard hi from $user')
  await team.addAgent({ name: 'bob' })
  t.equal(await ask(team, 'ann', 'ask bob hi'), 'ann < bob heard hi from ann')
  t.equal(await ask(team, 'bob', 'ask ann hi'), 'bob < ann heard hi from bob')
})

t.test('a turn that was under way when it came reaches it', async (t) => {
  const { opened, open } = gate()
  const team = given(t, { later: { bob: friendly } }).testTeam({
    async ann(_message, context) {
      await opened
      await context.sleep(1)
      return (await context.request('bob', 'hi')).content
    },
  })
  const answer = ask(team, 'ann')
  await team.clock.advance(1)
  await team.addAgent({ name: 'bob' })
  open()
  await team.clock.advance(5)
  t.equal(await answer, 'bob heard hi from ann')
})

t.test('a script that runs sees it, and so do the strategies that ask everybody', async (t) => {
  const { opened, open } = gate()
  const team = given(t, {
    later: { bob: friendly },
    script: async (script) => {
      const before = script.agents.length
      await opened
      const [, bob] = script.agents
      return `${before}, then ${bob?.name}: ${(await script.request(bob?.name ?? '', 'hi')).content}`
    },
  }).testTeam({ ann: friendly })
  const run = team.execute('go')
  await team.clock.advance(1)
  await team.addAgent({ name: 'bob' })
  open()
  t.equal((await run).finalOutput, '1, then bob: bob heard hi from $orchestrator')
  for (const orchestration of [{ strategy: 'sequential' }, { strategy: 'parallel' }] as const) {
    const other = localTeam(t, { ann: friendly }, { later: { bob: friendly }, orchestration })
    await other.addAgent({ name: 'bob' })
    t.same(Object.keys((await other.execute('go')).agentOutputs), ['ann', 'bob'])
  }
})

t.test('a broadcast reaches it', async (t) => {
  const heard: string[] = []
  const listens = defineAgent({
    receive: () => '',
    observe: ({ content }, { role }) => void heard.push(role.name + content),
  })
  const team = localTeam(t, { ann: listens }, { later: { bob: listens } })
  await team.addAgent({ name: 'bob' })
  await team.broadcast('!', '$user')
  await team.clock.advance(1)
  t.same(heard.sort(), ['ann!', 'bob!'])
})

t.test('a team that has not started yet starts it with the others', async (t) => {
  const team = localTeam(t, { ann: friendly }, { later: { bob: friendly } })
  const bob = await team.addAgent({ name: 'bob' })
  t.equal(bob.status, 'starting')
  await team.start()
  t.equal(bob.status, 'idle')
})

t.test('its messages wait for it while it starts', async (t) => {
  const { opened, open } = gate()
  const slow = defineAgent({ start: () => opened, receive: () => 'late, but here' })
  const team = localTeam(t, { ann: friendly }, { later: { bob: slow } })
  await team.start()
  const added = team.addAgent({ name: 'bob' })
  const answer = ask(team, 'bob')
  await team.clock.advance(1)
  open()
  t.equal(await answer, 'late, but here')
  t.equal((await added).status, 'idle')
})

t.test('a role that cannot be is refused as in the constructor', async (t) => {
  const team = localTeam(t, { ann: friendly }, { later: { bob: friendly } })
  const wrong: [object, string][] = [
    [{ name: 'ann' }, 'role.name'],
    [{ name: '$bob' }, 'role.name'],
    [{}, 'role.name'],
    [{ name: 'carl', module: 5 }, 'role.module'],
    [{ name: 'bob', modul: 'x' }, 'role.modul'],
    [{ name: 'bob', canDelegateTo: ['zoe'] }, 'role.canDelegateTo[0]'],
    [{ name: 'bob', tools: ['delgate'] }, 'role.tools'],
    [{ name: 'bob', communication: { retries: -1 } }, 'role.communication.retries'],
    [{ name: Symbol('bob') }, 'role.name'],
    [
      Object.defineProperty({}, 'name', {
        get() {
          throw new Error('boom')
        },
      }),
      'role',
    ],
  ]
  for (const [role, path] of wrong)
    await t.rejects(team.addAgent(role as AgentRole), { code: 'CONFIGURATION', details: { path } }, path)
  await t.rejects(team.addAgent(undefined as unknown as AgentRole), { code: 'CONFIGURATION' })
  t.equal(team.listAgents().length, 1)
  await team.close()
  await t.rejects(team.addAgent({ name: 'bob' }), { code: 'TEAM_CLOSED' })
})

t.test('it may name those who are there, and itself', async (t) => {
  const team = localTeam(t, { ann: friendly }, { later: { bob: friendly } })
  const bob = await team.addAgent({ name: 'bob', canDelegateTo: ['ann'], escalateTo: 'ann', sharedWith: ['bob'] })
  t.equal(bob.role.escalateTo, 'ann')
})

t.test("the team's defaults are its own too", async (t) => {
  const waits = defineAgent({ receive: (_message, context) => context.sleep(500) })
  const team = localTeam(t, { ann: friendly }, { later: { bob: waits }, communication: { responseTimeoutMs: 100 } })
  await team.addAgent({ name: 'bob' })
  const answer = t.rejects(ask(team, 'bob'), { code: 'REQUEST_TIMEOUT' })
  await team.clock.advance(200)
  await answer
})

t.test('one that cannot start is not in the team, and its name is free again', async (t) => {
  let broken = true
  const fragile = defineAgent({
    start() {
      if (broken) throw new Error('no network')
    },
    receive: () => 'fine',
  })
  const team = localTeam(t, { ann: friendly }, { later: { bob: fragile } })
  await team.start()
  await t.rejects(team.addAgent({ name: 'bob' }), { code: 'START_FAILED', message: /no network/ })
  t.equal(team.getAgent('bob'), undefined)
  t.ok(team.health().ready)
  broken = false
  await team.addAgent({ name: 'bob' })
  t.equal(await ask(team, 'bob'), 'fine')
})

t.test('two of one name at a time: the second is refused', async (t) => {
  const team = localTeam(t, { ann: friendly }, { later: { bob: friendly } })
  const first = team.addAgent({ name: 'bob' })
  await t.rejects(team.addAgent({ name: 'bob' }), {
    code: 'CONFIGURATION',
    message: /role\.name: got "bob", which an agent has already/,
  })
  t.equal((await first).name, 'bob')
})

t.test('rule 16: what was sent by name is not overtaken by what is sent when the name is known', async (t) => {
  const got: string[] = []
  const full = defineAgent({
    async receive({ content }, context) {
      await context.sleep(1)
      got.push(content)
    },
  })
  const team = given(t, { later: { bob: full } }).team({
    async ann(_message, context) {
      const sent: Promise<void>[] = []
      for (let n = 0; n < 3; n++) sent.push(context.send('bob', `${n}`))
      void team.addAgent({ name: 'bob', communication: { mailboxCapacity: 1 } }).then(() => {})
      await context.sleep(0)
      for (let n = 3; n < 9; n++) {
        sent.push(context.send('bob', `${n}`))
        await context.sleep(n % 2)
      }
      await Promise.allSettled(sent)
    },
  })
  const asked = ask(team, 'ann')
  await team.clock.runToIdle()
  await asked
  t.same(got, [...got].sort())
  t.ok(got.length >= 6)
})

t.test('a turn that had sent to it by name before its thread died does not send it twice', async (t) => {
  const got: AgentMessage[] = []
  const keeps = defineAgent({ receive: (message) => void got.push(message) })
  const { opened, open } = gate()
  const team = given(t, { later: { bob: keeps } }).team({
    async ann(_message, context) {
      if (context.attempt === 1) {
        void team.addAgent({ name: 'bob' }) // the thread does not know of it yet
        await context.send('bob', 'once')
        await opened
      }
      await context.send('bob', 'once')
      return 'done'
    },
  })
  const answer = ask(team, 'ann')
  await team.clock.advance(1)
  team.crash('ann')
  open()
  await team.clock.advance(1)
  t.equal(await answer, 'done')
  t.equal(got.length, 1)
})
