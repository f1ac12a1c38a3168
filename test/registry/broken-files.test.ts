/** Files that cannot be a team: each error has its place; and whatever stands in a file or is defined. */

import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { isDeepStrictEqual } from 'node:util'
import fc from 'fast-check'
import t, { type Test } from 'tap'
import { stringify } from 'yaml'
import { type AgentType, ConfigurationError, createTeam, loadTeam } from '../../src/index.ts'
import { howMany } from '../how-many.ts'
import { pluck } from '../kit/lists.ts'
import { adder } from '../toolbox/tools.ts'

// Files that cannot be a team: each error says in which file, in which line and column, what is wrong and what to
// do.

type Files = string | Record<string, string>

/** What loading them is refused with. */
async function refusal(t: Test, files: Files): Promise<ConfigurationError> {
  const all = typeof files === 'string' ? { 'agents.yaml': files } : files
  const file = join(t.testdir(all), 'agents.yaml')
  try {
    await loadTeam(file)
  } catch (error) {
    if (error instanceof ConfigurationError) return error
    throw error
  }
  throw new Error('it was loaded')
}

interface Broken {
  file: Files
  line: number
  column: number
  says: RegExp
}

const broken: Record<string, Broken> = {
  'an empty file': { file: '', line: 1, column: 1, says: /the file is empty/ },
  'comments alone': { file: '# nothing\n', line: 1, column: 1, says: /the file is empty/ },
  'a text': { file: 'agents', line: 1, column: 1, says: /accepted: an object/ },
  'no agents': { file: '\nmax_concurrent_agents: 2\n', line: 1, column: 1, says: /agents: got nothing/ },
  'no entries': { file: 'agents: {}\n', line: 1, column: 9, says: /an entry for each agent/ },
  'a list of agents': {
    file: 'agents:\n  - name: ann\n',
    line: 2,
    column: 3,
    says: /agents: got a list of 1; accepted: an object/,
  },
  'a name that is none': {
    file: 'agents:\n  2nd agent: {}\n',
    line: 2,
    column: 14,
    says: /agents\.2nd agent: got "2nd agent"; accepted: a letter/,
  },
  'an unknown key of an agent': {
    file: 'agents:\n  ann:\n    can_delegate_too: []\n',
    line: 3,
    column: 5,
    says: /agents\.ann\.can_delegate_too: there is no such option; did you mean "canDelegateTo"\?/,
  },
  'an unknown option of the team': {
    file: 'agents: { ann: {} }\nmax_concurent_agents: 2\n',
    line: 2,
    column: 1,
    says: /did you mean "maxConcurrentAgents"\?/,
  },
  'an unknown key below': {
    file: 'agents:\n  ann:\n    limits: { max_heap: 2 }\n',
    line: 3,
    column: 15,
    says: /agents\.ann\.limits\.max_heap: there is no such option; did you mean "maxHeapMb"/,
  },
  'a name in an entry': {
    file: 'agents:\n  ann:\n    name: bob\n',
    line: 3,
    column: 5,
    says: /there is no such option/,
  },
  'a value of another type': {
    file: 'agents:\n  ann:\n    max_tokens: many\n',
    line: 3,
    column: 17,
    says: /agents\.ann\.max_tokens: got "many"; accepted: an integer/,
  },
  'an option that is code': {
    file: 'agents: { ann: {} }\nlogger: pino\n',
    line: 2,
    column: 9,
    says: /logger: got "pino".*give it to createTeam/,
  },
  'a key that comes twice': {
    file: 'agents:\n  ann: {}\n  bob: {}\n  ann: {}\n',
    line: 4,
    column: 3,
    says: /agents\.ann: it is there already, in line 2/,
  },
  'a key in both spellings': {
    file: 'agents:\n  ann:\n    max_tokens: 5\n    maxTokens: 6\n',
    line: 4,
    column: 5,
    says: /agents\.ann\.maxTokens: it is there already, in line 3/,
  },
  'a key that is a number': { file: 'agents:\n  7: {}\n', line: 2, column: 3, says: /a key is a text; got 7/ },
  'a key that is a list': {
    file: 'agents:\n  ? [a]\n  : {}\n',
    line: 2,
    column: 5,
    says: /a key is a text; got a list/,
  },
  'an unknown agent to delegate to': {
    file: 'agents:\n  lead:\n    can_delegate_to: [ worker, wroker ]\n  worker: {}\n',
    line: 3,
    column: 32,
    says: /agents\.lead\.can_delegate_to\[1\]: got "wroker".*Did you mean "worker"\?/,
  },
  'an unknown manager': {
    file: 'agents:\n  ann:\n    escalate_to: bob\n',
    line: 3,
    column: 18,
    says: /agents\.ann\.escalate_to: got "bob"/,
  },
  'an unknown class': {
    file: 'agents:\n  ann:\n    class: MyAgent\n',
    line: 3,
    column: 12,
    says: /agents\.ann\.class: got "MyAgent".*MyAgent\.ts, my_agent\.ts, my-agent\.ts/,
  },
  'a module that is not there': {
    file: 'agents:\n  ann:\n    module: ./ann.js\n',
    line: 3,
    column: 13,
    says: /agents\.ann\.module: got "\.\/ann\.js"; accepted: a file that is there/,
  },
  'a class that is a path': {
    file: 'agents:\n  ann:\n    class: ../ann\n',
    line: 3,
    column: 12,
    says: /agents\.ann\.class: got "\.\.\/ann"/,
  },
  'a module that no file can be': {
    file: 'agents:\n  ann:\n    module: "./a%2Fb\\0.js"\n',
    line: 3,
    column: 13,
    says: /accepted: a file that is there/,
  },
  'a class and a module': {
    file: 'agents:\n  ann:\n    class: A\n    module: ./b.js\n',
    line: 4,
    column: 13,
    says: /a module beside a class/,
  },
  'code from elsewhere': {
    file: 'agents:\n  ann:\n    module: https://example.com/a.js\n',
    line: 3,
    column: 13,
    says: /agents\.ann\.module: .*Code comes from files alone/,
  },
  'a circle of two': {
    file: 'agents:\n  ann:\n    can_delegate_to: [bob]\n  bob:\n    can_delegate_to: [ann]\n',
    line: 5,
    column: 23,
    says: /agents\.bob\.can_delegate_to\[0\]: got "ann", which closes a circle of delegations: ann -> bob -> ann/,
  },
  'a circle of one': {
    file: 'agents:\n  ann:\n    can_delegate_to:\n      - ann\n',
    line: 4,
    column: 9,
    says: /ann -> ann/,
  },
  'a circle beside the way': {
    file: 'agents:\n  a: { can_delegate_to: [b] }\n  b: { can_delegate_to: [c, d] }\n  c: {}\n  d: { can_delegate_to: [c, b] }\n',
    line: 5,
    column: 29,
    says: /: b -> d -> b/,
  },
  'an unknown agent in the protocol': {
    file: 'agents: { ann: {} }\norchestration:\n  strategy: sequential\n  agent_order: [anna]\n',
    line: 4,
    column: 17,
    says: /orchestration\.agent_order\[0\]: got "anna".*"ann"/,
  },
  'an unknown strategy': {
    file: 'agents: { ann: {} }\norchestration: { strategy: sequentail }\n',
    line: 2,
    column: 28,
    says: /Did you mean "sequential"\?/,
  },
  'a key in the clear': {
    file: 'agents:\n  ann:\n    data:\n      api_key: sk-secret\n',
    line: 4,
    column: 7,
    says: /agents\.ann\.data\.api_key: a key does not belong into a file.*api_key_env/,
  },
  'a key of a model': {
    file: 'agents: { ann: {} }\nmodels:\n  fast: { model: x, apiKey: sk-secret }\n',
    line: 3,
    column: 21,
    says: /models\.fast\.apiKey: .*api_key_env/,
  },
  'a variable with its value': {
    file: 'agents:\n  ann:\n    env: [KEY=sk-secret]\n',
    line: 3,
    column: 11,
    says: /agents\.ann\.env\[0\]: got a string that is no name/,
  },
  'no YAML': { file: 'agents:\n  ann: {\n', line: 3, column: 1, says: /this is no YAML/ },
  'a tab': { file: 'agents:\n\tann: {}\n', line: 2, column: 1, says: /this is no YAML/ },
  'two documents': {
    file: 'agents: { ann: {} }\n---\nagents: {}\n',
    line: 2,
    column: 1,
    says: /a second document begins here/,
  },
  'a tag': {
    file: 'agents:\n  ann:\n    data: !!js/function "() => 1"\n',
    line: 3,
    column: 11,
    says: /this is no YAML: Unresolved tag.*\.$/,
  },
  'an alias to nothing': {
    file: 'agents:\n  ann: *bob\n',
    line: 2,
    column: 8,
    says: /nothing before it is named &bob/,
  },
  'an alias to what it is in': {
    file: 'agents:\n  ann: &ann\n    data: { self: *ann }\n',
    line: 3,
    column: 19,
    says: /stands within what it repeats/,
  },
  'aliases of aliases': { file: bomb(), line: 0, column: 0, says: /more than 100000 values/ },
  'deep nesting': {
    file: `agents: ${'['.repeat(500)}${']'.repeat(500)}`,
    line: 1,
    column: 108,
    says: /nested more than 100 deep/,
  },
  'nesting without end': {
    file: `agents: ${'['.repeat(50_000)}`,
    line: 0,
    column: 0,
    says: /:1:\d+: this is nested too deeply/,
  },
  'a file that is too large': {
    file: `# ${'x'.repeat(2 ** 17)}`,
    line: 1,
    column: 1,
    says: /at most 131072 are read/,
  },
  'what an object is made of': {
    file: 'agents: { ann: {} }\n__proto__: { logger: 1 }\n',
    line: 2,
    column: 1,
    says: /__proto__: there is no such option/,
  },
  'agent_config: an unknown key': {
    file: { 'agents.yaml': 'agents: { ann: {} }', 'agent_config.yaml': 'llm:\n  modle: x\n' },
    line: 2,
    column: 3,
    says: /^agent_config\.yaml:2:3: llm\.modle: there is no such option; did you mean "model"/,
  },
  'agent_config: a wrong value': {
    file: { 'agents.yaml': 'agents: { ann: {} }', 'agent_config.yaml': 'context:\n  max_tokens: 0\n' },
    line: 2,
    column: 15,
    says: /^agent_config\.yaml:2:15: context\.max_tokens: got 0/,
  },
  'agent_config: a key': {
    file: { 'agents.yaml': 'agents: { ann: {} }', 'agent_config.yaml': 'llm:\n  model: x\n  api_key: sk-secret\n' },
    line: 3,
    column: 3,
    says: /llm\.api_key: .*api_key_env/,
  },
  'agent_config: an address without a model': {
    file: { 'agents.yaml': 'agents: { ann: {} }', 'agent_config.yaml': 'llm:\n  base_url: http://localhost\n' },
    line: 1,
    column: 1,
    says: /llm\.model: got nothing/,
  },
}

function bomb(): string {
  const levels = Array.from(
    { length: 12 },
    (_, i) => `  l${i}: &l${i} [${Array(9).fill(i === 0 ? '1' : `*l${i - 1}`)}]`,
  )
  return `agents:\n  ann:\n    data:\n${levels.map((line) => `    ${line}`).join('\n')}\n`
}

for (const [what, { file, line, column, says }] of Object.entries(broken))
  t.test(what, async (t) => {
    const error = await refusal(t, file)
    t.match(error.message, says)
    if (line > 0) t.match(error.details, { line, column })
    t.match(error.message, new RegExp(`agent\\w+\\.yaml:${error.details.line}:${error.details.column}: `))
    t.notMatch(error.message, /sk-secret/)
    t.notMatch(JSON.stringify(error), /sk-secret/)
  })

t.test('what cannot be read', async (t) => {
  const folder = t.testdir({ 'folder.yaml': {}, 'latin1.yaml': Buffer.from([0x61, 0xe9, 0x3a]) })
  const says: Record<string, RegExp> = {
    'nowhere.yaml': /there is no such file/,
    'folder.yaml': /that is a folder/,
    'latin1.yaml': /Save it as UTF-8/,
  }
  for (const [name, message] of Object.entries(says))
    await t.rejects(loadTeam(join(folder, name)), { code: 'CONFIGURATION', message })
  for (const path of ['', 'a\0b', new URL('https://example.com/agents.yaml'), undefined])
    await t.rejects(loadTeam(path as string), { code: 'CONFIGURATION', details: { path: 'path' } })
})

t.test('two files that could be agent_config', async (t) => {
  const error = await refusal(t, {
    'agents.yaml': 'agents: { ann: {} }',
    'agent_config.yaml': '',
    'agent_config.yml': '',
  })
  t.match(error.message, /beside it is agent_config\.yml/)
})

t.test('what is given with the file is checked, too', async (t) => {
  const file = join(t.testdir({ 'agents.yaml': 'agents: { ann: { class: A } }' }), 'agents.yaml')
  const given: Record<string, object> = {
    'options.agents.A.maxTokens': { agents: { A: { name: 'A', maxTokens: 0 } } },
    'options.agents': { agents: [] },
    'options.tools': { tools: {} },
    'options.tools[0]': { tools: [{}] },
    'options.agent': { agent: {} },
  }
  for (const [path, options] of Object.entries(given))
    await t.rejects(loadTeam(file, options), { code: 'CONFIGURATION', details: { path } }, path)
})

t.test('a name in a file that is nearly that of a tool given with it is refused with its line', async (t) => {
  const tools = [adder('search').tool]
  const load = (yaml: string) => loadTeam(join(t.testdir({ 'agents.yaml': yaml }), 'agents.yaml'), { tools })
  await t.rejects(load('agents:\n  ann:\n    tools: [ request, serch ]\n'), {
    code: 'CONFIGURATION',
    message:
      /agents\.yaml:3:23: .*got "serch"; accepted: a tool given to loadTeam \(search\).* Did you mean "search"\?/,
  })
  const { agents } = await load(
    'agents:\n  ann:\n    tools: [ request, search, mathematics ]\n    skills: [ mathematics ]\n',
  )
  t.same(agents[0]?.tools, ['request', ...tools, 'mathematics'])
})

t.test('what only the team can know of a role is said with its line, too', async (t) => {
  process.env.NODE_ENV = 'production' // else the rehearsal model plays whoever has no code
  const file = join(t.testdir({ 'agents.yaml': '# a team\nagents:\n  bob: { system_prompt: Dig. }\n' }), 'agents.yaml')
  const options = await loadTeam(file)
  t.throws(() => createTeam(options), {
    message: `${file}:3:3: agents.bob.module: got nothing; accepted: the module`,
    details: { file, line: 3, column: 3, path: 'agents.bob.module' },
  })
  const others = [{ name: 'eve' }]
  t.throws(() => createTeam({ ...options, agents: others, orchestration: { strategy: 'sequential' } }), {
    message: /^agents\[0\]\.module: got nothing/,
  })
})

// Whatever stands in a file: it is a team, or it is refused with its place.

const numRuns = howMany(125, 20_000)

const GOOD = `agents:
  lead: &lead
    class: Lead # who plans
    can_delegate_to: [worker]
    limits: { max_heap_mb: 32 }
  worker:
    system_prompt: |
      Do it.
orchestration: { strategy: sequential, agent_order: [lead] }
max_concurrent_agents: 2
`
const classes = { agents: { Lead: { name: 'Lead' } } }

const words = ['agents', 'class', 'Lead', 'lead', 'can_delegate_to', 'tools', 'orchestration', 'strategy', 'parallel']
const signs = [
  ':',
  ': ',
  '\n',
  '\n  ',
  '- ',
  '[',
  ']',
  '{',
  '}',
  ',',
  '&a ',
  '*a ',
  '!!int ',
  '? ',
  '|',
  '>',
  '"',
  "'",
  '%',
  '#',
  '@',
  '~',
  '.inf',
  '0',
  '---\n',
  '\t',
  '\u0000',
  '\ud800',
  '__proto__',
  '<<',
]

const piece = fc.oneof(fc.constantFrom(...words), fc.constantFrom(...signs), fc.string({ maxLength: 4 }))

/** The good file with a part of it replaced. */
const spoilt = fc
  .record({ at: fc.nat(GOOD.length), length: fc.nat(20), text: fc.array(piece, { maxLength: 4 }) })
  .map(({ at, length, text }) => GOOD.slice(0, at) + text.join('') + GOOD.slice(at + length))

const key = fc.oneof(
  fc.constantFrom(...words, 'module', 'supervision', 'sync_points', 'models', 'data', '__proto__', 'constructor'),
  fc.string(),
)
const { value } = fc.letrec((tie) => ({
  value: fc.oneof(
    { maxDepth: 4 },
    fc.constantFrom(...words),
    fc.integer(),
    fc.double(),
    fc.boolean(),
    fc.constant(null),
    tie('list'),
    tie('map'),
  ),
  list: fc.array(tie('value'), { maxLength: 3 }),
  map: fc.dictionary(key, tie('value'), { maxKeys: 4 }),
}))
const structured = fc.record(
  { agents: fc.dictionary(key, value, { maxKeys: 3 }), orchestration: value, tools: value },
  { requiredKeys: ['agents'] },
)

for (const [what, text] of Object.entries({
  'pieces of YAML': fc.array(piece, { maxLength: 30 }).map((pieces) => pieces.join('')),
  'a good file that was spoilt': spoilt,
  'a good file with values of any kind': structured.map((given) => stringify(given)),
}))
  t.test(what, async (t) => {
    const file = join(t.testdir({ 'agents.yaml': '' }), 'agents.yaml')
    const config = join(t.testdirName, 'agent_config.yaml')
    const isRefusedWell = async () => {
      try {
        const { agents } = await loadTeam(file, classes)
        return agents.length > 0
      } catch (error) {
        if (!(error instanceof ConfigurationError)) throw error
        return error.details.file !== undefined && Number(error.details.line) >= 1 && Number(error.details.column) >= 1
      }
    }
    await fc.assert(
      fc.asyncProperty(text, fc.boolean(), async (written, isConfig) => {
        writeFileSync(file, isConfig ? GOOD : written)
        writeFileSync(config, isConfig ? written : '')
        return isRefusedWell()
      }),
      { numRuns, interruptAfterTimeLimit: 60_000, markInterruptAsFailure: true },
    )
    t.pass()
  })

// Whatever an agent defines: the file has it as it was given, or the file is as it was.

const definedTypesNumRuns = howMany(10, 2_000)

const FILES: Record<string, string> = {
  'in blocks':
    '# all\nagents:\n    lead:   # first\n        can_delegate_to:\n            - worker\n\n    worker: {}   # last\n',
  'in flow': "agents: { lead: { canDelegateTo: [ worker ] }, 'worker': {} } # all\n",
  'with a name alone': 'agents:\n  lead:\n  worker:\n',
  'with Windows lines': 'agents:\r\n  lead:\r\n    can_delegate_to: [worker] # whom\r\n  worker: {}\r\n',
  'with more than agents': 'agents:\n  lead: { can_delegate_to: [] }\n\n# how\norchestration: { strategy: parallel }\n',
  'without a last line': 'agents: { lead: {} }',
}

const text = fc.oneof(
  fc.string(),
  fc.string({ unit: 'grapheme' }),
  fc.constantFrom(
    'yes',
    '~',
    'null',
    '0x1f',
    '1e3',
    '2024-01-01',
    '- a',
    '# a',
    'a: b',
    '*a',
    '&a',
    '!a',
    '|',
    '>',
    '\n',
    ' a ',
    'a\n\n b\n',
    "'",
    '"',
    '<<',
    '\t',
    '---',
  ),
)
const type: fc.Arbitrary<AgentType> = fc.record(
  {
    name: fc.constant('new'),
    description: text,
    systemPrompt: text,
    capabilities: fc.array(
      fc.oneof(
        text.filter((name) => name.trim() !== ''),
        fc.record({ name: text.filter((name) => name.trim() !== ''), inputTypes: fc.array(text) }),
      ),
      { maxLength: 2 },
    ),
    temperature: fc.double({ min: 0, max: 2, noNaN: true }).filter((value) => !Object.is(value, -0)),
    maxRounds: fc.integer({ min: 1, max: 100 }),
    weight: fc.constantFrom(null, 2, 0.5),
    trust: fc.constantFrom('untrusted' as const, 'internal' as const, 'privileged' as const),
    escalateTo: fc.constantFrom('lead', 'new'),
    data: fc.jsonValue().filter((value) => !/api[_-]?key|-0/i.test(JSON.stringify(value))),
  },
  { requiredKeys: ['name'] },
)

for (const [what, before] of Object.entries(FILES))
  t.test(`a file ${what}`, async (t) => {
    const file = join(t.testdir({ 'agents.yaml': '' }), 'agents.yaml')
    await fc.assert(
      fc.asyncProperty(type, fc.constantFrom('lead', null), async (given, maker) => {
        const json = JSON.parse(JSON.stringify(given)) as AgentType // as it comes from a thread
        writeFileSync(file, before)
        const { registry, agents } = await loadTeam(file)
        const role = registry!.check(json, maker)
        if (readFileSync(file, 'utf8') !== before) return false
        registry!.save(json, maker)
        const after = await loadTeam(file)
        const lead = { ...agents[0], canDelegateTo: [...agents[0]!.canDelegateTo!, ...(maker ? ['new'] : [])] }
        return (
          isDeepStrictEqual(role, { canDelegateTo: [], ...json }) &&
          isDeepStrictEqual(after.agents, [lead, ...agents.slice(1), role]) &&
          isDeepStrictEqual(registry!.read(), after.agents) &&
          commentsOf(before).every((comment) => readFileSync(file, 'utf8').includes(comment))
        )
      }),
      { numRuns: definedTypesNumRuns },
    )
    t.pass()
  })

t.test('the ends of lines stay what they are', async (t) => {
  for (const [what, ends] of Object.entries({ 'with Windows lines': /^(.*\r\n)+$/, 'in blocks': /^(.*\n)+$/ })) {
    const file = join(t.testdir({ 'agents.yaml': FILES[what]! }), 'agents.yaml')
    const { registry } = await loadTeam(file)
    registry!.save({ name: 'new', systemPrompt: 'one\ntwo' }, 'lead')
    t.match(readFileSync(file, 'utf8'), ends)
    t.equal(registry!.read()[2]!.systemPrompt, 'one\ntwo')
  }
})

const commentsOf = (yaml: string) => yaml.match(/#.*\w/g) ?? []

t.test('entries that share their content with others are left alone', async (t) => {
  const shared = {
    'a list': 'agents:\n  lead: { can_delegate_to: &all [] }\n  worker: { can_delegate_to: *all }\n',
    'an entry': 'agents:\n  lead: &same { can_delegate_to: [] }\n  worker: *same\n',
    'another entry': 'agents:\n  worker: &same { max_rounds: 3 }\n  lead: *same\n',
  }
  for (const [what, before] of Object.entries(shared)) {
    const file = join(t.testdir({ 'agents.yaml': before }), 'agents.yaml')
    const { registry } = await loadTeam(file)
    try {
      registry!.save({ name: 'new' }, 'lead')
      const { agents } = await loadTeam(file)
      t.same(
        agents.map(({ name, canDelegateTo }) => [name, canDelegateTo]),
        [
          ['lead', ['new']],
          ['worker', []],
          ['new', []],
        ],
        what,
      )
    } catch (error) {
      t.ok(error instanceof ConfigurationError, what)
      t.match(error, { message: /the entry of "lead" in .* shares its content/ })
      t.equal(readFileSync(file, 'utf8'), before, what)
    }
  }
})

t.test('a rehearsal keeps to itself what is defined in it', async (t) => {
  const before = FILES['in blocks']!
  const file = join(t.testdir({ 'agents.yaml': before }), 'agents.yaml')
  const { registry } = await loadTeam(file)
  const [one, two] = [registry!.rehearsed(), registry!.rehearsed()]
  one.save({ name: 'new' }, 'lead')
  t.same(pluck(one.read(), 'name'), ['lead', 'worker', 'new'])
  for (const other of [two, registry!]) t.same(pluck(other.read(), 'name'), ['lead', 'worker'])
  t.equal(readFileSync(file, 'utf8'), before)
})
