/** Rule 14: who watches an agent is told exactly once when it is gone for good, also if it is gone already. */
import t from 'tap'
import { type AgentContext, type AgentMessage, type DramatisError, defineAgent } from '../../src/index.ts'
import { imbalances, leftovers } from './accounts.ts'
import { ask, gate, never, openTeam, outcomeOf } from './teams.ts'

/** An agent that watches `mortal` when it is asked to, and keeps what it observes. */
function watcher(watch = (context: AgentContext): Promise<unknown> => context.watch('mortal')) {
  const heard: AgentMessage[] = []
  const agent = defineAgent({
    async receive({ content }, context) {
      if (content === 'watch') await watch(context)
      return 'done'
    },
    observe: (message) => void heard.push(message),
  })
  return { heard, agent }
}

const stopsAtOnce = { mortal: { supervision: { maxRestarts: 0 } } }
const supervision = { coolDownMs: 1_000 }
/** The script lives as long as the test wants. */
function lasting() {
  const { opened, open } = gate()
  const orchestration = {
    strategy: 'custom' as const,
    run: async (script: AgentContext) => {
      await script.request('watcher', 'watch')
      await opened
      return 'done'
    },
  }
  return { orchestration, open }
}

t.test('rule 14: who watches is told once when the agent is gone for good, and not of a restart', async (t) => {
  const { heard, agent } = watcher()
  const { orchestration, open } = lasting()
  const roles = { mortal: { supervision: { maxRestarts: 1 } } }
  const team = openTeam(t, { watcher: agent, mortal: () => '' }, { orchestration, roles, supervision })
  const run = team.launch('go')
  await team.clock.advance(0)
  team.crash('mortal')
  await team.clock.advance(10)
  t.same(heard, [], 'it was started again')
  team.crash('mortal')
  await team.clock.advance(10)
  const reason = /It died 2 times/
  t.match(heard, [
    {
      type: 'report',
      sender: '$runtime',
      recipient: 'watcher',
      content: /^Agent "mortal" is gone for good: It died 2 times/,
      structuredData: { event: 'terminated', agent: 'mortal', reason },
      runId: run.id,
    },
  ])
  t.equal(run.messageHistory.filter(({ sender }) => sender === '$runtime').length, 1)
  await team.clock.advance(1_000)
  t.equal(team.getAgentStatus('mortal'), 'idle')
  for (let deaths = 0; deaths < 2; deaths++) {
    team.crash('mortal')
    await team.clock.advance(10)
  }
  t.equal(team.getAgentStatus('mortal'), 'failed')
  t.equal(heard.length, 1, 'it has ended again, and nobody watched again')
  open()
  await team.clock.advance(2_000)
  t.equal((await run.result).success, true)
  t.same(imbalances(team.host), [])
  t.same(leftovers(team.host), [])
})

t.test(
  'rule 14: who watches an agent that is gone already is told at once, once, and again of its next end',
  async (t) => {
    const { heard, agent } = watcher(async (context) => {
      await context.watch('mortal')
      await context.watch('mortal')
    })
    const { opened, open } = gate()
    const orchestration = {
      strategy: 'custom' as const,
      run: async (script: AgentContext) => {
        await script.request('watcher', 'watch')
        await opened
        await script.request('watcher', 'watch')
        await script.sleep(10)
        return 'done'
      },
    }
    const team = openTeam(t, { watcher: agent, mortal: () => '' }, { orchestration, roles: stopsAtOnce, supervision })
    await team.start()
    team.crash('mortal')
    await team.clock.advance(10)
    const run = team.launch('go')
    await team.clock.advance(10)
    t.match(heard, [{ structuredData: { event: 'terminated', agent: 'mortal' } }])
    t.equal(heard.length, 1)
    await team.clock.advance(1_000)
    open()
    await team.clock.advance(5)
    team.crash('mortal')
    await team.clock.advance(10)
    t.equal(heard.length, 2)
    t.equal((await run.result).success, true)
  },
)

t.test('rule 14: a watch survives the restart of the watcher, and a redelivered turn watches once', async (t) => {
  const { heard, agent } = watcher(async (context) => {
    await context.watch('mortal')
    if (context.attempt > 1) return
    team.crash('watcher')
    await never
  })
  const { orchestration, open } = lasting()
  const team = openTeam(t, { watcher: agent, mortal: () => '' }, { orchestration, roles: stopsAtOnce, supervision })
  const run = team.launch('go')
  await team.clock.advance(10)
  team.crash('mortal')
  await team.clock.advance(10)
  t.equal(heard.length, 1)
  open()
  t.equal((await run.result).success, true)
})

t.test('rule 14: the end comes into a full mailbox too', async (t) => {
  const { opened, open } = gate()
  const heard: string[] = []
  const agent = defineAgent({
    async receive(_message, context) {
      await context.watch('mortal')
      await opened
    },
    observe: ({ content }) => void heard.push(content),
  })
  const roles = { ...stopsAtOnce, watcher: { communication: { mailboxCapacity: 1, overflow: 'reject' as const } } }
  const team = openTeam(t, { watcher: agent, mortal: () => '' }, { roles })
  const run = team.launch('go')
  await team.clock.advance(10)
  team.crash('mortal')
  await team.clock.advance(10)
  t.same(heard, [])
  open()
  await run.result
  await team.clock.advance(10)
  t.equal(heard.length, 1)
  t.same(leftovers(team.host), [])
})

t.test('rule 14: a watch ends with its run, and the end of the team is no end of an agent', async (t) => {
  const { heard, agent } = watcher()
  const team = openTeam(t, { watcher: agent, mortal: () => '' }, { roles: stopsAtOnce, supervision })
  t.equal(await ask(team, 'watcher', 'watch'), 'done')
  await team.clock.advance(10)
  team.crash('mortal')
  await team.clock.advance(10)
  t.same(heard, [])
  const { orchestration } = lasting()
  const other = openTeam(t, { watcher: agent, mortal: () => '' }, { orchestration })
  const run = other.launch('go')
  await other.clock.advance(10)
  const closed = other.close()
  await other.clock.runToIdle()
  await closed
  t.equal((await run.result).success, false)
  t.same(heard, [])
  t.notOk(other.deadLetters.list().some(({ message }) => message.type === 'report'))
})

t.test('rule 14: nobody can watch whom nobody knows, nor without an observe', async (t) => {
  const codes: (string | undefined)[] = []
  const caught = (error: DramatisError) => void codes.push(`${error.code}: ${error.message}`)
  const { agent } = watcher((context) => context.watch('mortel').catch(caught))
  const orchestration = {
    strategy: 'custom' as const,
    run: async (script: AgentContext) => {
      await script.request('watcher', 'watch')
      await script.watch('mortal').catch(caught)
      await script.subscribe('key').catch(caught)
      await script.request('mortal', 'watch')
      return 'done'
    },
  }
  const mortal = (_message: unknown, context: AgentContext) => context.watch('watcher').catch(caught)
  const team = openTeam(t, { watcher: agent, mortal }, { orchestration })
  t.equal((await team.execute('go')).success, true)
  t.match(codes, [
    /^UNKNOWN_AGENT: .*"mortel"; did you mean "mortal"\?/,
    /^CONFIGURATION: context\.watch: a protocol script has no observe/,
    /^CONFIGURATION: context\.subscribe: a protocol script has no observe/,
    /^CONFIGURATION: context\.watch: agent "mortal" has no observe.*Give its definition one/,
  ])
  const waits = outcomeOf(ask(team, 'watcher', 'watch'))
  await team.clock.advance(0)
  t.ok(waits.settled)
})
