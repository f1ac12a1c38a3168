/** Whatever an agent defines: the file has it as it was given, or the file is as it was. */
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { isDeepStrictEqual } from 'node:util'
import fc from 'fast-check'
import t from 'tap'
import { type AgentType, ConfigurationError, loadTeam } from '../../src/index.ts'
import { howMany } from '../how-many.ts'
import { pluck } from '../kit/lists.ts'

const numRuns = howMany(40, 2_000)

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
      { numRuns },
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
