/** Whatever stands in a file: it is a team, or it is refused with its place. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import fc from 'fast-check'
import t from 'tap'
import { stringify } from 'yaml'
import { ConfigurationError, loadTeam } from '../../src/index.ts'
import { howMany } from '../how-many.ts'

const numRuns = howMany(500, 20_000)

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
