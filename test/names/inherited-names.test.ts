/** Names that objects inherit, and objects that are no plain ones. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import t, { type Test } from 'tap'
import { type Node, SyntaxKind } from 'typescript/unstable/ast'
import { isBinaryExpression, isElementAccessExpression } from 'typescript/unstable/ast/is'
import { API, type Type, TypeFlags } from 'typescript/unstable/sync'
import { z } from 'zod'
import { type AgentContext, type AgentHandlers, defineAgent, defineTool, loadTeam } from '../../src/index.ts'
import { httpApi } from '../../src/service/api/index.ts'
import { scriptedModel, testTeam } from '../../src/testing.ts'
import { workspace } from '../../src/tools/workspace.ts'
import { cases } from '../protocols/contract/cases.ts'
import { EVERYTHING, send, stage as served } from '../service/http/stage.ts'
import { echo, type Options, says, stage } from '../team/stage.ts'
import { call } from '../tools/calls.ts'

// Names that every plain object inherits work as any other name does, or are refused where they are given: what
// comes
// out for such a name is what comes out for "usual".

/** Names of agents begin with a letter. */
const AGENTS = ['constructor', 'toString', 'valueOf', 'hasOwnProperty', 'isPrototypeOf', 'toLocaleString']
const ALL = [...AGENTS, '__proto__', '__defineGetter__', 'prototype']

/** Returns a record of one field, whatever its name. */
const record = <Value>(name: string, value: Value): Record<string, Value> => Object.fromEntries([[name, value]])

/** Returns the error that a call fails with. */
const refusalOf = (make: () => Promise<unknown>): Promise<string> =>
  make().then(
    () => 'done',
    (error) => `${error.code}: ${error.message.replaceAll(/\S*dramatis-names-\w+|:\d+/g, '').split(',')[0]}`,
  )

const played = cases.filter(({ name }) => name !== 'custom')
const blackboard = { ...played.find(({ name }) => name === 'blackboard')!, name: 'blackboard, without interests' }

for (const { name: title, orchestration, cast } of [
  ...played,
  { ...blackboard, orchestration: { strategy: 'blackboard' as const } },
])
  t.test(`${title}: agents with such names`, async (t) => {
    const names = new Map(Object.keys(cast).map((name, at) => [name, AGENTS[at]!]))
    const result = await outcomeOf(t, renamed(orchestration, names), underOtherNames(cast, names))
    const usual = await outcomeOf(t, orchestration, cast)
    t.equal(result.error, null)
    const back = [...names].reduce((text, [old, name]) => text.replaceAll(name, old), `${result.finalOutput}`)
    t.equal(back, usual.finalOutput)
    t.equal(Object.keys(result.agentOutputs).length, Object.keys(usual.agentOutputs).length)
  })

/** Returns what an agent's turn comes to. */
async function turnOf(t: Test, act: (context: AgentContext) => unknown, options: Options<'ann'> = {}) {
  const ann = defineAgent({ receive: async (_message, context) => JSON.stringify(await act(context)) })
  const team = stage(t, { ann }, { ...options, enableBlackboard: true })
  const pending = team.execute('q')
  await team.clock.runToIdle()
  const { finalOutput, blackboardState, error } = await pending
  return { finalOutput, blackboardState, error }
}

type Feature = (t: Test, name: string) => Promise<unknown>

/** Features that take the name of an agent. */
const ofAgents: Record<string, Feature> = {
  'requests, health, metrics and usage': async (t, name) => {
    const team = stage(t, { ...record(name, echo), lead: echo }, { orchestration: { strategy: 'sequential' } })
    const pending = team.execute('q')
    await team.clock.runToIdle()
    const { agentOutputs, tokenUsage, finalOutput } = await pending
    const { agents } = team.health()
    const labels = team.metrics('prometheus').includes(`agent="${name}"`)
    return { agentOutputs, tokenUsage, finalOutput, agents: Object.keys(agents), labels }
  },
  'sync points with data': async (t, name) => {
    const meets = defineAgent({
      receive: async (_message, context) => JSON.stringify(await context.sync(name, context.role.name)),
    })
    const agents = [name, 'other']
    const team = stage<string>(t, { ...record(name, meets), other: meets }, {
      orchestration: { strategy: 'parallel' },
      syncPoints: [{ name, requiredAgents: agents, timeoutMs: 1_000, dataExchange: true }],
    } as Options<string>)
    const pending = team.execute('q')
    await team.clock.runToIdle()
    const { finalOutput, orchestrationTrace } = await pending
    return [finalOutput, orchestrationTrace.syncPointsReached]
  },
  'agents of a file': async (t, name) => {
    const { agents } = await loaded(t, `agents:\n  ${name}:\n    model: m\n`)
    return agents.map((each) => each.name)
  },
  'agents over HTTP': async (t, name) => {
    const { api } = teamOver(t, name, 'desk')
    const [known, unknown] = await Promise.all(
      [name, 'nobody'].map((agent) => send(api, 'GET', `/api/agents/${agent}`, { caller: EVERYTHING })),
    )
    return [known!.status, known!.body.name, unknown!.status]
  },
}

const folder = (t: Test) => {
  const root = mkdtempSync(join(tmpdir(), 'dramatis-names-'))
  t.teardown(() => rmSync(root, { recursive: true, force: true }))
  return root
}

const loaded = (t: Test, text: string) => {
  const file = join(folder(t), 'usual.yaml')
  writeFileSync(file, text)
  return loadTeam(file)
}

const files = (t: Test, allow: string[] = []) => {
  const tools = workspace({ root: folder(t), allow })
  return (name: string, input: object) => call(tools.find((tool) => tool.name === name)!, input)
}

/** Tells the metadata of its run. */
const tells = defineAgent({ receive: (_message, { run }) => JSON.stringify(run.metadata) })

/** Features that take any name. */
const ofAll: Record<string, Feature> = {
  'keys of the blackboard': (t, name) =>
    turnOf(t, async (context) => {
      const { blackboard } = context
      const before = await blackboard.read(name)
      await context.publish(name, 1, name)
      return [before, (await blackboard.read(name))?.value, (await blackboard.query({ entryType: name })).length]
    }),
  'fields of states': (t, name) =>
    turnOf(t, async (context) => {
      const shared = context.shared('team_shared')
      const before = await shared.get(name)
      await shared.update(name, () => 1)
      context.setState((state) => void Object.assign(state, { words: record(name, [1]) }))
      context.setState(
        (state) => void Object.values(Reflect.get(state, 'words') as Record<string, number[]>)[0]!.push(2),
      )
      return [before, await shared.get(name), JSON.stringify(context.state)]
    }),
  'metadata of a run': async (t, name) => {
    const team = stage(t, { ann: tells })
    return (await team.execute('q', { metadata: record(name, 'x') })).finalOutput
  },
  'threads, models and keys of idempotency': async (t, name) => {
    const model = scriptedModel([{ reply: 'said' }])
    const team = testTeam(
      { agents: [{ name: 'ann', model: name }], orchestration: { strategy: 'sequential' } },
      { model },
    )
    t.teardown(() => team.close())
    const result = await team.execute('q', { threadId: name, models: record(name, name) })
    return [result.finalOutput, result.error?.code]
  },
  'tools that a model calls': async (t, name) => {
    const tool = defineTool({ name, description: 'd', input: z.object({ n: z.number() }), run: ({ n }) => n + 1 })
    const model = scriptedModel([{ toolCall: { name, input: { n: 1 } } }, { reply: 'done' }])
    const orchestration = { strategy: 'sequential' as const }
    const team = testTeam({ agents: [{ name: 'ann', tools: [tool] }], orchestration }, { model })
    t.teardown(() => team.close())
    const { finalOutput, error } = await team.execute('q')
    return [finalOutput, error?.code]
  },
  'tools that there are not': async (t, name) => {
    const model = scriptedModel([{ toolCall: { name, input: {} } }, { reply: 'done' }])
    const team = testTeam({ agents: [{ name: 'ann' }], orchestration: { strategy: 'sequential' } }, { model })
    t.teardown(() => team.close())
    const { finalOutput, error } = await team.execute('q')
    return [finalOutput, error?.code]
  },
  'commands and files': async (t, name) => {
    const use = files(t, [name])
    const run = await refusalOf(() => use('run_cmd', { command: name, args: [name] }))
    await use('write_file', { path: name, content: 'text' })
    return [run, await use('read_file', { path: name }), await use('list_dir', { path: '.' })]
  },
  'options that there are not': async (_t, name) => {
    const given = record(name, 1)
    const agents = [{ name: 'ann' }]
    const orchestration = { strategy: 'sequential' as const }
    const kinds = [
      () => testTeam({ agents, orchestration, ...given }),
      () => testTeam({ agents: [{ ...agents[0]!, ...given }], orchestration }),
      () => testTeam({ agents, orchestration: { ...orchestration, ...given } }),
      () => testTeam({ agents, orchestration: { strategy: name } as never }),
      () => testTeam({ agents: [{ name: 'ann', inheritFrom: name } as never], orchestration }),
      () => defineAgent({ receive: () => '', ...given }),
      () => defineTool({ name: 'a', description: 'd', input: z.object({}), run: () => 1, ...given }),
    ]
    return Promise.all(kinds.map((make) => refusalOf(async () => void (await make()))))
  },
  'files that say what there is not': async (t, name) =>
    Promise.all(
      [
        `${name}: 1\nagents:\n  ann: {}\n`,
        `agents:\n  ann:\n    ${name}: 1\n`,
        `agents:\n  ann:\n    class: ${name}\n`,
        `agents:\n  ann: {}\norchestration:\n  strategy: ${name}\n`,
      ].map((text) => refusalOf(() => loaded(t, text))),
    ),
  'bodies, queries and paths of HTTP': async (t, name) => {
    const { send } = served(t)
    const bodies = [
      { query: 'q', ...record(name, 1) },
      { query: 'q', team: name },
      { query: 'q', budget: record(name, 1) },
      { query: 'q', models: record(name, 1) },
      { query: 'q', models: record(name, name) },
      { query: 'q', threadId: name },
    ]
    const answers = await Promise.all([
      ...bodies.map((body) => send('POST', '/api/tasks', { body })),
      ...['tasks', 'tasks?a=1', 'agents', `tasks/${name}`, `teams/${name}`, name].map((path) =>
        send('GET', `/api/${path}${path.includes('?') ? '&' : '?'}${name}=1`),
      ),
      send('GET', '/api/tasks', { headers: { [name.replaceAll('_', 'x')]: '1' } }),
      send('POST', `/api/agents/${name}/messages`, { body: { content: 'x' } }),
      send('POST', '/api/agents/worker/messages', { body: { content: 'x', metadata: record(name, 'x') } }),
    ])
    return answers.map(({ status, body }) => [status, body?.code, body?.detail])
  },
  'metadata of a task over HTTP': async (t, name) => {
    const { send } = served(t, tells)
    const { body } = await send('POST', '/api/tasks', { body: { query: 'q', metadata: record(name, 'x') } })
    return (await send('GET', `/api/tasks/${body.id}?wait=5`)).body.answer
  },
  'teams over HTTP': async (t, name) => {
    const { api } = teamOver(t, 'ann', name)
    const { status, body } = await send(api, 'POST', '/api/tasks', { body: { query: 'q', team: name } })
    const other = await send(api, 'POST', '/v1/chat/completions', {
      body: { model: `${name}/ann`, messages: [{ role: 'user', content: 'q' }] },
    })
    return [status, body.team, other.status, (await send(api, 'GET', '/v1/models')).body.data.length]
  },
}

function teamOver(t: Test, agent: string, teamName: string) {
  const team = stage(t, record(agent, says('done')))
  const api = httpApi({
    teams: record(teamName, team),
    authorize: () => ({ id: 'me', may: ['run', 'watch', 'operate'] }),
  })
  t.teardown(() => api.close())
  return { api }
}

async function outcomeOf(t: Test, orchestration: unknown, cast: Parameters<typeof stage>[1]) {
  const team = stage(t, cast, { orchestration } as Options<string>)
  const pending = team.execute('why')
  await team.clock.runToIdle()
  return pending
}

/** Returns a value with other names as its strings, and as the keys of `interests`. */
function renamed(value: unknown, names: ReadonlyMap<string, string>): unknown {
  const nameOf = (name: string) => names.get(name) ?? name
  if (typeof value === 'string') return nameOf(value)
  if (Array.isArray(value)) return value.map((each) => renamed(each, names))
  if (typeof value !== 'object' || value === null) return value
  const fields = Object.entries(value).map(([key, field]) => [key, renamed(field, names)] as const)
  const isByAgent = fields.every(([key]) => names.has(key))
  return Object.fromEntries(isByAgent ? fields.map(([key, field]) => [nameOf(key), field]) : fields)
}

/** Agents that say the same under other names. */
function underOtherNames(cast: object, names: ReadonlyMap<string, string>) {
  const others = Object.entries(cast).map(([name, agent]: [string, AgentHandlers]) => [
    names.get(name),
    defineAgent({
      receive: async (message, context) => renamed(await agent.receive(message, context), names) as string,
    }),
  ])
  return Object.fromEntries(others)
}

const run = (features: Record<string, Feature>, names: readonly string[]) => {
  for (const [title, feature] of Object.entries(features))
    t.test(title, async (t) => {
      const usual = JSON.stringify(await feature(t, 'usual'))
      for (const name of names) t.equal(JSON.stringify(await feature(t, name))?.replaceAll(name, 'usual'), usual, name)
    })
}
run(ofAgents, AGENTS)
run(ofAll, ALL)

// An agent, a model or a field of a stranger's JSON may be called "constructor" or "__proto__". So no code looks
// into a
// plain object by a name that is not known when it is compiled: `own` reads a field that the object itself has,
// `Object.fromEntries` and Map write one, and `Reflect.get` says that what is inherited is wanted too.

const root = fileURLToPath(new URL('../../../', import.meta.url)) // this runs as dist/test/names/inherited-names.test.js

// place: why it may
const EXCEPT: Record<string, string> = {
  'src/shared/values.ts: fields[name]': 'after hasOwn',
  'src/mailbox/message.ts: (value as Record<string, unknown>)[key]': 'each message goes here; for...in gave the key',
  'src/shared/checks.ts: fields[key]': 'for...in gave the key, of the options that the code knows',
}

const CLOSED =
  TypeFlags.StringLiteral |
  TypeFlags.NumberLike |
  TypeFlags.ESSymbolLike |
  TypeFlags.EnumLike |
  TypeFlags.Index | // keyof: the compiler knows that the object has it
  TypeFlags.TypeParameter |
  TypeFlags.IndexedAccess

const isOpen = (type: Type | undefined): boolean =>
  type?.isUnionType() ? type.getTypes().some(isOpen) : type === undefined || (type.flags & CLOSED) === 0

/** Returns the keys of `object[key]` and `key in object` below a node. */
function keysIn(node: Node): Node[] {
  const keys: Node[] = []
  const visit = (inside: Node): undefined => {
    if (isElementAccessExpression(inside)) keys.push(inside.argumentExpression)
    if (isBinaryExpression(inside) && inside.operatorToken.kind === SyntaxKind.InKeyword) keys.push(inside.left)
    inside.forEachChild(visit)
  }
  visit(node)
  return keys.filter(({ kind }) => kind !== SyntaxKind.PrivateIdentifier)
}

/** Returns the places of a program where an open name is looked up, as `file: expression`. */
function lookupsOf(t: Test, config: string, folder: string): string[] {
  const api = new API({ cwd: root })
  t.teardown(() => api.close())
  const [project] = api.updateSnapshot({ openProject: `${root}${config}` }).getProjects()
  const { program, checker } = project!
  const files = program.getSourceFileNames().filter((file) => file.startsWith(`${root}${folder}/`))
  t.ok(files.length > 0)
  return files.flatMap((file) => {
    const keys = keysIn(program.getSourceFile(file)!)
    const types = checker.getTypeAtLocation(keys)
    const open = keys.filter((_key, at) => isOpen(types[at]))
    return open.map((key) => `${file.slice(root.length)}: ${key.parent.getText()}`)
  })
}

t.test('no name that is unknown to the compiler is looked up in a plain object', async (t) => {
  const found = lookupsOf(t, 'tsconfig.json', 'src')
  t.same([...new Set(found)].sort(), Object.keys(EXCEPT).sort())
})

t.test('nor in the page of the dashboard', async (t) => {
  const page = 'src/service/page'
  t.same(lookupsOf(t, `${page}/tsconfig.json`, page), [])
})
