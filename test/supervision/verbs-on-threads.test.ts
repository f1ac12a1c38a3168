/** The verbs for several, and cancellation down a chain, on real threads. */
import t from 'tap'
import { createTeam, type DramatisError, type MultiAgentPattern, type OrchestratorContext } from '../../src/index.ts'
import { ask, gate, silent } from './teams.ts'

const fixture = (name: string) => new URL(`../fixtures/supervision/${name}.js`, import.meta.url)
type Test = { teardown(end: () => Promise<void>): void }

/** Resolves with the reports of the team as soon as there are so many. */
function reportsOf(team: MultiAgentPattern, count: number): Promise<string[]> {
  const reports: string[] = []
  return new Promise((resolve) => {
    team.events.subscribe((event) => {
      if (event.type !== 'message' || event.message.type !== 'report') return
      if (event.message.recipient === '$orchestrator') reports.push(event.message.content)
      if (reports.length === count) resolve(reports.sort())
    })
  })
}

function team(
  t: Test,
  module: string,
  agents: object[],
  run: (script: OrchestratorContext, query: string) => Promise<string>,
) {
  const made = createTeam({
    agents: agents.map((role) => ({ module: fixture(module), ...role }) as { name: string; module: URL }),
    orchestration: { strategy: 'custom', run },
    threads: { warmSpares: 0 },
    logger: silent,
  })
  t.teardown(() => made.close())
  return made
}

t.test('broadcast, report and a quorum of all', async (t) => {
  const heard = gate()
  const made = team(t, 'reports-what-it-hears', [{ name: 'a' }, { name: 'b' }, { name: 'c' }], async (script) => {
    const answers = await script.requestQuorum(['a', 'b', 'c'], 3, 'news')
    await heard.opened
    return answers
      .map(({ content }) => content)
      .sort()
      .join()
  })
  const reports = reportsOf(made, 6)
  const pending = made.execute('go')
  t.same(
    await reports,
    ['a', 'a', 'b', 'b', 'c', 'c'].map((name) => `${name} heard a broadcast: news`),
  )
  heard.open()
  const result = await pending
  t.equal(result.finalOutput, 'a,b,c')
  t.equal(result.messageHistory.filter(({ type }) => type === 'broadcast').length, 3)
})

t.test('rule 14: who watches an agent whose thread keeps dying is told of its end', async (t) => {
  const heard = gate()
  const mortal = { name: 'mortal', supervision: { maxRestarts: 0, poisonAttempts: 10 } }
  const made = team(t, 'reports-what-it-hears', [{ name: 'watcher' }, mortal], async (script) => {
    await script.request('watcher', 'watch mortal')
    const code = await script.request('mortal', 'exit').catch(({ code }: DramatisError) => code)
    await heard.opened
    return String(code)
  })
  const reports = reportsOf(made, 1)
  const pending = made.execute('go')
  t.match(await reports, [/^watcher heard a report: Agent "mortal" is gone for good: It died 1 times/])
  heard.open()
  t.equal((await pending).finalOutput, 'AGENT_TERMINATED')
})

t.test('tasks are delegated, handed off, refused and escalated', async (t) => {
  const agents = [
    { name: 'lead', data: { does: 'delegate', to: 'first' } },
    { name: 'first', data: { does: 'handoff', to: 'worker' } },
    { name: 'stuck', data: { does: 'escalate' }, escalateTo: 'worker' },
    { name: 'picky', data: { does: 'handoff', to: 'shirker' } },
    { name: 'shirker', data: { does: 'refuse' } },
    { name: 'worker', data: { does: 'work' } },
  ]
  const asked = ['lead', 'stuck', 'picky']
  const made = team(t, 'gives-tasks-away', agents, async (script) => {
    const outcomes = await script.requestAll(asked, 'dig')
    return outcomes.map((outcome) => (outcome.ok ? outcome.message.content : outcome.error.message)).join()
  })
  const run = made.launch('go')
  t.equal((await run.result).finalOutput, 'lead: worker did dig,stuck: guidance,picky did dig')
  t.same(run.tasks.map(({ assignedTo, status }) => `${assignedTo} ${status}`).sort(), [
    'first handed_off',
    'lead completed',
    'picky completed',
    'shirker refused',
    'stuck completed',
    'worker completed',
  ])
})

t.test('a request that is withdrawn takes the whole chain behind it along', async (t) => {
  const withdrawal = new AbortController()
  const chain = ['a', 'b', 'c', 'd'].map((name, i, names) => ({ name, data: { next: names[i + 1] } }))
  const finished: string[] = []
  const allEnded = gate()
  const made = team(t, 'waits-down-a-chain', chain, async (script) => {
    const code = await script
      .request('a', 'wait', { signal: withdrawal.signal })
      .catch(({ code }: DramatisError) => code)
    await allEnded.opened
    return String(code)
  })
  made.events.subscribe((event) => {
    if (event.type === 'turn.started' && event.agent === 'd') withdrawal.abort(new Error('not wanted any more'))
    if (event.type === 'turn.finished') finished.push(event.agent)
    if (finished.length === 4) allEnded.open()
  })
  t.equal((await made.execute('go')).finalOutput, 'CANCELLED')
  t.same(finished.slice(0, 4).sort(), ['a', 'b', 'c', 'd'])
  for (const { name } of chain) t.equal(await ask(made, name, 'hello'), `${name} is here`)
})

for (const reentrant of ['once', 'a hundred times', 'over a death of its thread'] as const) {
  t.test(`a worker asks the manager who awaits it, ${reentrant}`, async (t) => {
    const manager = { name: 'manager', reentrancy: 'chain', data: { to: 'worker' } }
    const made = team(t, 'asks-back', [manager, { name: 'worker', data: {} }], async (script, query) => {
      const times = reentrant === 'a hundred times' ? 100 : 1
      let answer = ''
      for (let i = 0; i < times; i++) answer = (await script.request('manager', query)).content
      return answer
    })
    const dies = reentrant === 'over a death of its thread'
    const { finalOutput } = await made.execute(dies ? 'die' : 'go')
    const attempt = dies ? 2 : 1
    const asked = { once: 1, 'a hundred times': 100, 'over a death of its thread': 0 }[reentrant]
    t.equal(finalOutput, `manager < worker < told by manager in attempt ${attempt}, ${asked} times asked`)
  })
}
