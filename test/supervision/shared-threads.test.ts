/**
 * Agents that share a thread: what one does to the others when it throws outside of its turn or blocks, and what becomes
 * of their messages and restarts when the thread ends.
 */
import { join } from 'node:path'
import { setImmediate as turn } from 'node:timers/promises'
import type { Test } from 'tap'
import t from 'tap'
import type { AgentRole, MultiAgentPatternOptions } from '../../src/index.ts'
import { folderOf } from '../durability/log-folders.ts'
import { ChaosTeam } from '../fixtures/chaos-team.ts'
import { endShared, shareThreads } from '../fixtures/share-threads.ts'
import { where } from '../kit/lists.ts'
import { ask, gate, heard, numbers, silent } from '../kit/team.ts'
import { FakeModel } from '../models/fake-model.ts'
import { watchThreads } from '../toolbox/desk.ts'

const fixture = (name: string) => new URL(`../fixtures/supervision/${name}.js`, import.meta.url)

function teamOf(t: Test, options: Partial<MultiAgentPatternOptions> & Pick<MultiAgentPatternOptions, 'agents'>) {
  const team = new ChaosTeam({
    logger: silent,
    orchestration: { strategy: 'custom', run: async () => 'done' },
    ...options,
    threads: { warmSpares: 0, ...options.threads },
  })
  t.teardown(() => team.close())
  const crashes = heard(team, 'agent.crashed', (event) => event)
  return Object.assign(team, {
    crashes,
    threadOf: (name: string) => team.host.directory.agent(name)?.incarnation?.thread,
  })
}

/** Agents of code on one thread; of each the module's name. */
function sharing(t: Test, modules: Record<string, string>, role: Omit<AgentRole, 'name'> = {}) {
  const agents = Object.entries(modules).map(([name, module]) => ({ ...role, name, module: fixture(module) }))
  const team = teamOf(t, { agents })
  shareThreads(team.host)
  return team
}

/** Model agents on one thread. */
function speakers(
  t: Test,
  names: readonly string[],
  options: Partial<MultiAgentPatternOptions> = {},
  model?: FakeModel,
) {
  return teamOf(t, {
    agents: names.map((name) => ({ name, systemPrompt: `You are ${name}.`, isolation: 'shared' as const })),
    models: { default: { client: model ?? new FakeModel(() => 'yes'), maxConcurrent: 400 } },
    ...options,
  })
}

t.test('200 model agents answer from one thread, which ends with the team', async (t) => {
  const alive = watchThreads(t)
  const names = numbers(200).map((number) => `speaker${number}`)
  const team = speakers(t, names)
  await team.start()
  t.equal(alive.size, 1)
  t.match(team.metrics('prometheus'), /^dramatis_threads\{use="agent"\} 1$/m)
  const answers = await Promise.all(names.map((name) => ask(team, name)))
  t.same(new Set(answers), new Set(['yes']))
  await team.close()
  t.equal(alive.size, 0)
})

t.test('an agent that is ended leaves its thread to the others', async (t) => {
  const alive = watchThreads(t)
  const team = speakers(t, ['ann', 'bob'])
  await team.start()
  const { epoch } = team.host.directory.agent('bob')!
  t.ok(team.terminate('ann'))
  t.equal(await ask(team, 'ann'), 'yes')
  t.equal(await ask(team, 'bob'), 'yes')
  t.match(team.crashes, [{ agent: 'ann', epoch: 1, restartInMs: 0 }])
  t.equal(team.host.directory.agent('bob')!.epoch, epoch)
  t.equal(alive.size, 1)
  await team.removeAgent('ann')
  t.equal(await ask(team, 'bob'), 'yes')
})

t.test(
  'the last agents that leave end their thread, and are gone when it is; who comes next has another',
  async (t) => {
    for (const together of [false, true]) {
      const alive = watchThreads(t)
      const team = speakers(t, ['ann', 'bob'])
      await team.start()
      const [thread] = alive
      const ann = team.removeAgent('ann')
      if (!together) {
        await ann
        t.equal(alive.size, 1, 'it has an agent still')
      }
      await Promise.all([ann, team.removeAgent('bob')])
      t.equal(alive.size, 0)
      await team.addAgent({ name: 'cat', isolation: 'shared' })
      t.equal(await ask(team, 'cat'), 'yes')
      t.equal(alive.size, 1)
      t.notOk(alive.has(thread!))
    }
  },
)

t.test('a thread that ends takes all along: turns and messages go on, and nobody is charged', async (t) => {
  const answers = gate()
  const model = new FakeModel(async () => {
    await answers.opened
    return 'yes'
  })
  const names = numbers(20).map((number) => `speaker${number}`)
  const team = speakers(t, names, { supervision: { maxRestarts: 0, poisonAttempts: 1 } }, model)
  await team.start()
  const asked = names.map((name) => ask(team, name))
  while (model.requests.length < names.length) await turn()
  endShared(team.threadOf('speaker0'))
  while (team.crashes.length < names.length) await turn()
  answers.open()
  t.same(new Set(await Promise.all(asked)), new Set(['yes']))
  t.equal(model.requests.length, names.length, 'no call of a model was made twice')
  t.match(team.crashes[0], {
    restartInMs: 0,
    error: { message: 'The thread that agent "speaker0" shares with others ended: exit code 1, from outside.' },
  })
})

t.test('each restarts by its own rule', async (t) => {
  const restarts = ['permanent', 'transient', 'temporary'] as const
  const team = teamOf(t, {
    agents: restarts.map((restart) => ({ name: restart, isolation: 'shared', supervision: { restart } })),
    models: { default: new FakeModel(() => 'yes') },
  })
  await team.start()
  endShared(team.threadOf('permanent'))
  while (team.crashes.length < 3) await turn()
  t.equal(await ask(team, 'permanent'), 'yes')
  t.equal(await ask(team, 'transient'), 'yes')
  await t.rejects(ask(team, 'temporary'), { code: 'AGENT_TERMINATED', message: /shares with others/ })
})

t.test('an error outside of a turn is charged to the agent at work alone', async (t) => {
  const team = sharing(t, { guilty: 'throws-outside-of-its-turn', other: 'echoes' })
  await team.start()
  await ask(team, 'other', 'hello')
  await t.rejects(ask(team, 'guilty', 'reject always'), { message: /died 2 times on this message, in the same way/ })
  const of = (agent: string) => team.crashes.filter((crash) => crash.agent === agent)
  t.match(of('guilty'), [{ error: { message: /threw outside of a turn: RangeError: nobody listened/ } }, {}])
  t.ok(of('other').length > 0) // once or twice: it may still have been starting when the second thread ended
  for (const crash of of('other'))
    t.match(crash, {
      error: {
        message:
          'The thread that agent "other" shares with others ended, at the work of agent "guilty": RangeError: nobody listened.',
        details: { agent: 'other', culprit: 'guilty' },
      },
    })
  t.equal(await ask(team, 'other', 'hello'), 'hello', 'it goes on')
  t.same(team.host.directory.agent('other')!.restartTimes, [], 'its restarts do not count')
})

t.test('a loop of one blocks the others until the watchdog ends it, and they go on', async (t) => {
  const supervision = { watchdogMs: 500 }
  const team = sharing(t, { looper: 'instance', other: 'instance' }, { supervision, concurrency: 4 })
  await team.start()
  const [stuck, ...others] = await Promise.all([
    ask(team, 'looper', 'loop'),
    ...numbers(5).map(() => ask(team, 'other', 'work')),
  ])
  t.equal(stuck, 'attempt 2')
  t.equal(others.length, 5)
  t.match(where(team.crashes, 'agent', 'looper'), [{ error: { message: /is stuck/, details: { watchdogMs: 500 } } }])
  for (const { error } of team.crashes.filter(({ agent }) => agent === 'other'))
    t.match(error, { message: /at the work of agent "looper": it was stuck/ })
})

t.test('a loop is charged to the agent that the thread works for, although another one was found silent', async (t) => {
  const patient = { watchdogMs: 60_000 }
  const agents = [
    { name: 'looper', module: fixture('instance'), supervision: patient },
    { name: 'other', module: fixture('instance'), supervision: { watchdogMs: 500 } },
  ]
  const team = teamOf(t, { agents })
  shareThreads(team.host)
  await team.start()
  const looped = ask(team, 'looper', 'loop')
  const { incarnation } = team.host.directory.agent('looper')!
  while (incarnation!.thread.atWork !== incarnation!.thread) await turn()
  t.match(await ask(team, 'other', 'work'), /^attempt/)
  t.equal(await looped, 'attempt 2')
  const errors = new Map(team.crashes.map(({ agent, error }) => [agent, error]))
  t.match(errors.get('looper'), {
    message: /is stuck: .* Raise supervision\.watchdogMs of all agents that share it \(500\)/,
    details: { agent: 'looper', watchdogMs: 500 },
  })
  t.match(errors.get('other'), { message: /at the work of agent "looper": it was stuck/ })
})

t.test('with a durable log a run goes on in the next process, and no answer is paid twice', async (t) => {
  const path = join(folderOf(t), 'log')
  const options = {
    stateManagement: { path },
    orchestration: { strategy: 'sequential' as const },
  }
  const asked = gate()
  const first = new FakeModel(async ({ messages }) => {
    if (!`${messages[0]?.content}`.includes('bob')) return 'half of it'
    asked.open()
    return new Promise<never>(() => {})
  })
  const before = speakers(t, ['ann', 'bob'], options, first)
  const left = before.launch('go', { runId: 'one' })
  await asked.opened
  await before.flush()
  await before.close()
  t.equal(left.status, 'interrupted')
  const second = new FakeModel(() => 'all of it')
  const after = speakers(t, ['ann', 'bob'], options, second)
  await after.start()
  t.match(await after.getRun('one')?.result, { success: true, finalOutput: 'all of it' })
  t.same([first.requests.length, second.requests.length], [2, 1])
  t.equal(second.lastPrompt, 'half of it')
})

t.test('threads that agents share are not among those that threads.max bounds', async (t) => {
  const own = { name: 'own', module: fixture('echoes') }
  const agents = [own, ...numbers(3).map((n) => ({ name: `speaker${n}`, isolation: 'shared' as const }))]
  const team = speakers(t, [], { agents, threads: { max: 1 } })
  await team.start()
  t.equal(team.host.places.taken, 1)
  t.same(await Promise.all(agents.map(({ name }) => ask(team, name))), ['go', 'yes', 'yes', 'yes'])
})

t.test('an idle agent gives its seat up, and the last one ends the thread', async (t) => {
  const alive = watchThreads(t)
  const team = speakers(t, ['ann', 'bob'], { threads: { idleMs: 20 } })
  await team.start()
  t.equal(await ask(team, 'ann'), 'yes')
  while (alive.size > 0) await turn()
  t.same([team.getAgentStatus('ann'), team.getAgentStatus('bob')], ['passivated', 'passivated'])
  t.equal(await ask(team, 'bob'), 'yes')
  t.same(team.crashes, [])
})

t.test('large messages cross small rings in order', async (t) => {
  const long = 'All of it. '.repeat(20_000)
  const team = speakers(t, ['ann', 'bob'], {}, new FakeModel(({ messages }) => `${messages.at(-1)?.content}!`))
  await team.start()
  t.equal(await ask(team, 'ann', long), `${long}!`)
})

t.test('an agent that a script makes says itself that it shares a thread', async (t) => {
  const alive = watchThreads(t)
  const role = { name: 'bob', isolation: 'shared' as const }
  const team = speakers(t, ['ann'], {
    orchestration: {
      strategy: 'custom',
      async run(script, query) {
        if (query === 'code') return script.spawn({ ...role, module: fixture('echoes').href })
        return (await script.request(await script.spawn(role), 'Well?')).content
      },
    },
  })
  t.match(await team.execute('model'), { success: true, finalOutput: 'yes' })
  t.equal(alive.size, 1)
  const { error } = await team.execute('code')
  t.match(error?.message, /isolation: got "shared".*its code runs in it/)
})
