/** Agents that come to a team by its agents.yaml while it runs: written by hand, or defined by an agent. */
import { chmodSync, readdirSync, readFileSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import type { Test } from 'tap'
import t from 'tap'
import { textOf } from '../../src/actors/definition/content.ts'
import type { ModelRequest } from '../../src/actors/definition/model.ts'
import { type AgentContext, type AgentRole, type AgentType, loadTeam } from '../../src/index.ts'
import { FileSource } from '../../src/registry/team-text.ts'
import { pluck } from '../kit/lists.ts'
import { type Cast, given, type OpenTeam, openTeam } from '../kit/team.ts'
import { type Answer, calls, FakeModel } from '../models/fake-model.ts'
import { modelTeam } from '../models/teams.ts'

const YAML = `# Who is who
agents:
  lead: # plans
    trust: privileged
    can_delegate_to: [worker]

  worker:
    description: 'does it'
    can_delegate_to: []
# the end
`

type Act = (context: AgentContext) => unknown

process.env.NODE_ENV = 'production' // else the rehearsal model plays whoever has no code

interface Stage {
  file: string
  team: OpenTeam
  /** What the agent "lead" gives in a turn that does that. Rejects with what it throws. */
  play(act: Act): Promise<unknown>
  text(): string
}

const answers: Cast[string] = ({ content, sender }, { role }) => `${role.name} did ${content} of ${sender}`

async function stage(t: Test, yaml = YAML, given: Record<string, AgentRole> = {}): Promise<Stage> {
  const file = join(t.testdir({ 'agents.yaml': yaml }), 'agents.yaml')
  const { agents, ...options } = await loadTeam(file, { agents: given })
  let act: Act = () => ''
  let outcome: Promise<unknown> = Promise.resolve()
  const lead: Cast[string] = async (_message, context) => {
    outcome = (async () => act(context))()
    await outcome.catch(() => {})
    return 'done'
  }
  const names = ['tester', 'helper', 'other', ...Array.from({ length: 70 }, (_, n) => `t${n}`)]
  const cast = Object.fromEntries(agents.map(({ name }) => [name, name === 'lead' ? lead : answers]))
  const team = openTeam(t, cast, {
    ...options,
    roles: Object.fromEntries(agents.map(({ name, ...role }) => [name, role])),
    later: Object.fromEntries(names.map((name) => [name, answers])),
  })
  return {
    file,
    team,
    async play(what) {
      act = what
      const result = await team.execute('go')
      if (!result.success) throw result.error
      return outcome
    },
    text: () => readFileSync(file, 'utf8'),
  }
}

const added = (yaml: string, entry: string) => yaml.replace('# the end', `${entry}\n# the end`)

// ---- by hand

t.test('reload: who is new in the file joins the team', async (t) => {
  const { file, team } = await stage(t)
  await team.start()
  writeFileSync(
    file,
    added(YAML.replace('[worker]', '[worker, tester]'), '  tester: { can_delegate_to: [helper] }\n  helper: {}'),
  )
  t.same(await team.reload(), { added: ['tester', 'helper'], regranted: ['lead'], outdated: [] })
  t.same(team.getDelegationGraph(), { lead: ['worker', 'tester'], worker: [], tester: ['helper'], helper: [] })
  t.match(await team.delegateTask('lead', 'tester', 'a test'), { result: 'tester did a test of lead' })
  t.same(await team.reload(), { added: [], regranted: [], outdated: [] })
})

t.test('reload: what else has changed is named, and stays as it was', async (t) => {
  const { file, team } = await stage(t)
  writeFileSync(file, YAML.replace("description: 'does it'", 'description: rests'))
  t.same(await team.reload(), { added: [], regranted: [], outdated: ['worker'] })
  t.equal(team.getAgent('worker')?.role.description, 'does it')
  writeFileSync(file, 'agents:\n  lead:\n    trust: privileged\n')
  t.same(await team.reload(), { added: [], regranted: ['lead'], outdated: ['worker'] })
  t.equal(team.canDelegate('lead', 'worker'), false)
})

t.test('reload: a file that is wrong changes nothing, and is read again when it has changed', async (t) => {
  const { file, team } = await stage(t)
  writeFileSync(file, added(YAML, '  tester: { max_tokens: many }'))
  const refusal = { code: 'CONFIGURATION', message: /agents\.yaml:10:25: agents\.tester\.max_tokens: got "many"/ }
  await t.rejects(team.reload(), refusal)
  await t.rejects(team.reload(), refusal, 'as long as it is so')
  t.equal(team.getAgent('tester'), undefined)
  rmSync(file)
  await t.rejects(team.reload(), { code: 'CONFIGURATION', message: /there is no such file/ })
  writeFileSync(file, added(YAML, '  tester: {}'))
  t.match(await team.reload(), { added: ['tester'] })
})

t.test('reload: one that cannot join does not keep the others away', async (t) => {
  const { file, team } = await stage(t)
  writeFileSync(file, added(YAML, '  nobody: {}\n  tester: {}'))
  await t.rejects(team.reload(), { code: 'CONFIGURATION', message: /needs a model/ })
  t.equal(team.getAgent('nobody'), undefined)
  t.equal(team.getAgent('tester')?.name, 'tester')
})

t.test('reload: who was removed comes back, for the file has it', async (t) => {
  const { team } = await stage(t)
  await team.start()
  await team.removeAgent('worker')
  t.equal(team.getAgent('worker'), undefined)
  t.same(await team.reload(), { added: ['worker'], regranted: [], outdated: [] })
})

t.test('reload: before the start, and of a team that is closed or has no file', async (t) => {
  const { file, team, play } = await stage(t)
  writeFileSync(file, added(YAML, '  tester: {}'))
  t.match(await team.reload(), { added: ['tester'] })
  t.equal(await play(async (context) => (await context.request('tester', 'this')).content), 'tester did this of lead')
  await team.close()
  await t.rejects(team.reload(), { code: 'TEAM_CLOSED' })
  const other = openTeam(t, { any: answers })
  await t.rejects(other.reload(), { code: 'CONFIGURATION', details: { path: 'registry' } })
})

t.test('whoever names an agent that is new in the file reaches it', async (t) => {
  const ways: Record<string, (stage: Stage) => unknown> = {
    request: ({ play }) => play(async (context) => (await context.request('tester', 'this')).content),
    send: ({ play }) => play((context) => context.send('tester', 'this')),
    handoff: ({ play }) => play((context) => context.handoff('tester', 'this')),
    delegate: ({ play }) => play(async (context) => (await context.delegate('tester', 'this')).result),
    sendMessage: ({ team }) => team.sendMessage({ recipient: 'tester', content: 'this', requiresResponse: true }),
    'sendMessage to several': ({ team }) => team.sendMessage({ recipient: ['worker', 'tester'], content: 'this' }),
    delegateTask: ({ team }) => team.delegateTask('lead', 'tester', 'this'),
    getAgent: ({ team }) => team.getAgent('tester')!.run('this'),
    canDelegate: ({ team }) => t.equal(team.canDelegate('lead', 'tester'), true),
  }
  for (const [way, go] of Object.entries(ways))
    await t.test(way, async (t) => {
      const at = await stage(t)
      await at.team.start()
      writeFileSync(at.file, added(YAML.replace('[worker]', '[worker, tester]'), '  tester: {}'))
      await go(at)
      t.equal(at.team.getAgentStatus('tester') !== undefined, true)
      t.same(at.team.deadLetters.list(), [])
    })
})

t.test('the graph holds for it too', async (t) => {
  const { file, team, play } = await stage(t)
  await team.start()
  writeFileSync(file, added(YAML, '  tester: {}'))
  await t.rejects(
    play((context) => context.delegate('tester', 'this')),
    { code: 'DELEGATION_REFUSED' },
  )
})

t.test('a name that the file has not, or a file that is wrong, is nobody', async (t) => {
  const lines: string[] = []
  const { file, team, play } = await stage(t)
  const logger = team.host.logger as { error(fields: object, text: string): void }
  logger.error = (fields, text) => void lines.push(`${JSON.stringify(fields)} ${text}`)
  const unknown = { code: 'UNKNOWN_AGENT' }
  const asks: Act = (context) => context.request('tester', 'this')
  await t.rejects(play(asks), unknown)
  t.same(lines, [])
  writeFileSync(file, added(YAML, '  tester: {'))
  await t.rejects(play(asks), unknown)
  await t.rejects(play(asks), unknown)
  t.equal(lines.length, 1, 'it is told once')
  t.match(lines[0], /agents\.yaml:\d+:\d+: .* could not join the team/)
  writeFileSync(file, added(YAML, '  stranger: {}'))
  const stranger: Act = (context) => context.request('stranger', 'this')
  await t.rejects(play(stranger), unknown)
  await t.rejects(play(stranger), unknown)
  t.equal(lines.length, 2, 'so is one that cannot join')
  t.match(lines[1], /needs a model/)
})

t.test('an untrusted agent calls nobody in', async (t) => {
  const { file, team, play } = await stage(t, 'agents:\n  lead: { trust: untrusted }\n')
  await team.start()
  writeFileSync(file, 'agents:\n  lead: { trust: untrusted }\n  tester: {}\n')
  await t.rejects(
    play((context) => context.request('tester', 'this')),
    { code: 'MESSAGE_REJECTED' },
  )
  t.same(team.host.directory.byIndex.map(({ name }) => name).includes('tester'), false)
})

// ---- by an agent

t.test('an agent defines a type: it is in the team, may be given tasks, and stands in the file', async (t) => {
  const { team, play, text } = await stage(t)
  const type: AgentType = {
    name: 'tester',
    description: 'no: really',
    systemPrompt: 'Test it.\nTwice.',
    maxTokens: 4_000,
    canDelegateTo: ['worker'],
    capabilities: [{ name: 'tests', inputTypes: ['code'] }],
    data: { someKey: [1, null] },
  }
  const result = await play(async (context) => {
    const name = await context.defineAgent(type)
    return (await context.delegate(name, 'the calculator')).result
  })
  t.equal(result, 'tester did the calculator of lead')
  t.same(team.getDelegationGraph(), { lead: ['worker', 'tester'], worker: [], tester: ['worker'] })
  t.equal(
    text(),
    `# Who is who
agents:
  lead:
    # plans
    trust: privileged
    can_delegate_to: [worker, tester]

  worker:
    description: 'does it'
    can_delegate_to: []
  tester:
    description: "no: really"
    system_prompt: |-
      Test it.
      Twice.
    max_tokens: 4000
    can_delegate_to:
      - worker
    capabilities:
      - name: tests
        input_types:
          - code
    data:
      someKey:
        - 1
        - null

# the end
`,
  )
  t.same(await team.reload(), { added: [], regranted: [], outdated: [] })
})

t.test('the next team has it, too', async (t) => {
  const { file, play } = await stage(t)
  await play((context) => context.defineAgent({ name: 'tester', systemPrompt: 'yes', temperature: 0 }))
  const { agents } = await loadTeam(file)
  t.strictSame(agents[2], { canDelegateTo: [], systemPrompt: 'yes', temperature: 0, name: 'tester' })
})

t.test('what is refused changes neither the team nor the file', async (t) => {
  const { team, play, text } = await stage(t)
  const wrong: [object, string, RegExp][] = [
    [{}, 'CONFIGURATION', /type\.name: got nothing/],
    [{ name: '$x' }, 'CONFIGURATION', /type\.name/],
    [{ name: 'worker' }, 'CONFIGURATION', /type\.name: got "worker"; accepted: a name that no agent has/],
    [{ name: 'tester', env: ['HOME'] }, 'CONFIGURATION', /type\.env: there is no such option/],
    [{ name: 'tester', lifetime: 'run' }, 'CONFIGURATION', /type\.lifetime/],
    [
      { name: 'tester', class: 'Nobody' },
      'CONFIGURATION',
      /^type: "tester" cannot be defined: agents\.tester\.class: got "Nobody"/,
    ],
    [{ name: 'tester', module: './nowhere.js' }, 'CONFIGURATION', /agents\.tester\.module: got "\.\/nowhere\.js"/],
    [{ name: 'tester', data: { api_key: 'sk' } }, 'CONFIGURATION', /a key does not belong into a file/],
    [{ name: 'tester', escalateTo: 'nobody' }, 'CONFIGURATION', /agents\.tester\.escalate_to: got "nobody"/],
    [
      { name: 'tester', trust: 'untrusted', canDelegateTo: ['worker'] },
      'CONFIGURATION',
      /agents\.tester\.can_delegate_to/,
    ],
    [{ name: 'tester', canDelegateTo: ['lead'] }, 'DELEGATION_REFUSED', /nobody delegates to itself/],
    [{ name: 'tester', canDelegateTo: ['wroker'] }, 'UNKNOWN_AGENT', /did you mean "worker"/],
    [{ name: 'stranger' }, 'CONFIGURATION', /needs a model/], // it has no code, which is found when it joins
  ]
  for (const [type, code, message] of wrong)
    await t.rejects(
      play((context) => context.defineAgent(type as AgentType)),
      { code, message },
      JSON.stringify(type),
    )
  t.equal(text(), YAML)
  t.same(pluck(team.listAgents(), 'name'), ['lead', 'worker'])
})

t.test('it delegates to nobody to whom its maker may not', async (t) => {
  const { play, text } = await stage(t, YAML.replace('[worker]', '[]'))
  await t.rejects(
    play((context) => context.defineAgent({ name: 'tester', canDelegateTo: ['worker'] })),
    { code: 'DELEGATION_REFUSED', details: { path: 'type.canDelegateTo' } },
  )
  t.notMatch(text(), /tester/)
})

t.test('only who is privileged may, and a script', async (t) => {
  for (const trust of ['untrusted', 'internal']) {
    const { play, text } = await stage(t, `agents:\n  lead: { trust: ${trust} }\n`)
    const refusal = { code: 'CONFIGURATION', message: /context\.defineAgent: agent "lead" is .*trust: 'privileged'/ }
    await t.rejects(
      play((context) => context.defineAgent({ name: 'tester' })),
      refusal,
    )
    t.notMatch(text(), /tester/)
  }
  const file = join(t.testdir({ 'agents.yaml': YAML }), 'agents.yaml')
  const { agents: _, ...options } = await loadTeam(file)
  const team = given(t, {
    ...options,
    later: { tester: answers },
    script: async (script) => {
      const name = await script.defineAgent({ name: 'tester', trust: 'privileged', canDelegateTo: ['worker'] })
      return (await script.request(name, 'this')).content
    },
  }).team({ lead: answers, worker: answers })
  t.equal((await team.execute('go')).finalOutput, 'tester did this of $orchestrator')
  t.match(readFileSync(file, 'utf8'), /can_delegate_to: \[worker\]\n[\s\S]*tester:/, 'nobody else may give it tasks')
})

t.test('a model defines an agent that another model plays, and gives it a task', async (t) => {
  const file = join(t.testdir({ 'agents.yaml': 'agents:\n  lead: { trust: privileged }\n' }), 'agents.yaml')
  const isNew = ({ messages: [first] }: ModelRequest) => textOf(first?.content ?? '').startsWith('You test.')
  const answers: Answer[] = [
    calls(['define_agent', { name: 'tester', systemPrompt: 'You test.', description: 'tests' }]),
    calls(['define_agent', { name: 'other', systemPrompt: 'x', canDelegateTo: ['nobody'] }]),
    calls(['delegate', { to: 'tester', task: 'the sum' }]),
    'it is fine',
  ]
  const asked: ModelRequest[] = []
  const model = new FakeModel((request) => {
    if (isNew(request)) return 'tested'
    asked.push(request)
    return answers[asked.length - 1]!
  })
  const { team } = modelTeam(t, model, [], await loadTeam(file))
  t.equal((await team.execute('go')).finalOutput, 'it is fine')
  const told = asked.map(({ messages }) => messages.at(-1)?.content)
  t.equal(told[1], '"tester" is in the team now.')
  t.match(told[2], /No agent of this team is named "nobody"/)
  t.equal(told[3], 'tested')
  t.match(readFileSync(file, 'utf8'), /tester:\n +system_prompt: You test\./)
})

t.test('one that is added later may define agents, too', async (t) => {
  const file = join(t.testdir({ 'agents.yaml': 'agents:\n  lead: {}\n' }), 'agents.yaml')
  const { team, model } = modelTeam(t, ['done'], [], await loadTeam(file))
  const second = await team.addAgent({ name: 'second', trust: 'privileged' })
  t.equal(await second.run('go'), 'done')
  t.ok(model.requests[0]!.tools?.some(({ name }) => name === 'define_agent'))
})

t.test('a model that is untrusted has no tools, and answers', async (t) => {
  const file = join(
    t.testdir({ 'agents.yaml': 'agents:\n  lead: { trust: untrusted, escalate_to: boss }\n  boss: {}\n' }),
    'agents.yaml',
  )
  const { team, model } = modelTeam(t, ['done'], [], { ...(await loadTeam(file)), enableBlackboard: true })
  t.equal((await team.execute('go')).finalOutput, 'done')
  t.same(model.requests[0]!.tools ?? [], [])
  t.same(team.deadLetters.list(), [])
})

t.test('a team without a registry says so', async (t) => {
  const lead: Cast[string] = async (_message, context) => context.defineAgent({ name: 'tester' })
  const team = openTeam(t, { lead }, { roles: { lead: { trust: 'privileged' } } })
  const { error } = await team.execute('go')
  t.match(error?.message, /context\.defineAgent: this team has no registry\. Make it with loadTeam/)
})

t.test('one that does not start is not written, and its name is free', async (t) => {
  const { team, play, text } = await stage(t)
  const { lifecycle } = team.host
  const own = lifecycle.ready.bind(lifecycle)
  lifecycle.ready = async (agent) => {
    await own(agent)
    if (agent.name === 'tester') throw new Error('it does not start')
  }
  await t.rejects(
    play((context) => context.defineAgent({ name: 'tester' })),
    { message: /it does not start/ },
  )
  t.equal(text(), YAML)
  t.equal(team.getAgent('tester'), undefined)
  lifecycle.ready = own
  t.equal(await play((context) => context.defineAgent({ name: 'tester' })), 'tester')
})

t.test('one that cannot be written leaves again', async (t) => {
  const { file, team, play } = await stage(t)
  const { lifecycle } = team.host
  const own = lifecycle.ready.bind(lifecycle)
  lifecycle.ready = async (agent) => {
    if (agent.name === 'tester') rmSync(file)
    await own(agent)
  }
  await t.rejects(
    play((context) => context.defineAgent({ name: 'tester' })),
    { code: 'CONFIGURATION', message: /agents\.yaml: there is no such file/ },
  )
  t.equal(team.getAgent('tester'), undefined)
})

t.test('a file that cannot be replaced is left as it was', async (t) => {
  const folder = t.testdir({ 'agents.yaml': { inside: '' } })
  const source = new FileSource(pathToFileURL(join(folder, 'agents.yaml')), 'agents.yaml')
  t.throws(() => source.write('new'), { code: 'CONFIGURATION', message: /agents\.yaml: it cannot be written/ })
  t.same(readdirSync(folder), ['agents.yaml'])
})

t.test('what was written by hand meanwhile stays', async (t) => {
  const { file, team, play, text } = await stage(t)
  const { lifecycle } = team.host
  const own = lifecycle.ready.bind(lifecycle)
  lifecycle.ready = async (agent) => {
    if (agent.name === 'tester') writeFileSync(file, added(YAML, '  other: {} # by hand'))
    await own(agent)
  }
  await play((context) => context.defineAgent({ name: 'tester' }))
  t.match(text(), /other: \{\} # by hand[\s\S]*tester:/)
  t.equal(team.getAgent('other')?.name, 'other')
})

t.test('several at once are all written', async (t) => {
  const { team, play } = await stage(t)
  const names = Array.from({ length: 10 }, (_, n) => `t${n}`)
  await play((context) => Promise.all(names.map((name) => context.defineAgent({ name }))))
  t.same(team.getDelegationGraph().lead, ['worker', ...names])
  t.same((await team.reload()).added, [])
})

t.test('a run makes up to 64', async (t) => {
  const { play } = await stage(t)
  const makes: Act = async (context) => {
    for (let n = 0; n < 65; n++) await context.defineAgent({ name: `t${n}` })
  }
  await t.rejects(play(makes), { code: 'TEAM_OVERLOADED' })
})

t.test('a turn that is tried again does not define it twice', async (t) => {
  const { team, play, text } = await stage(t)
  let attempts = 0
  await play(async (context) => {
    const name = await context.defineAgent({ name: 'tester' })
    attempts += 1
    if (attempts === 1) {
      team.crash('lead')
      await context.sleep(1_000)
    }
    return name
  })
  t.equal(attempts, 2)
  t.equal(text().match(/tester:/g)?.length, 1)
})

t.test('who writes it leaves no other file, keeps its rights, and follows links', async (t) => {
  const folder = t.testdir({ real: { 'team.yaml': YAML }, links: {} })
  const real = join(folder, 'real', 'team.yaml')
  const link = join(folder, 'links', 'agents.yaml')
  chmodSync(real, 0o640)
  symlinkSync(real, link)
  const { registry } = await loadTeam(link)
  registry!.save({ name: 'tester' }, 'lead')
  t.match(readFileSync(real, 'utf8'), /tester/)
  t.equal(statSync(real).mode & 0o777, 0o640)
  t.same([readdirSync(join(folder, 'real')), readdirSync(join(folder, 'links'))], [['team.yaml'], ['agents.yaml']])
})
