import t from 'tap'
import { unavailable } from '../../src/errors.ts'
import { settingsFrom } from '../../src/runtime/settings/settings.ts'
import { UNAVAILABLE } from '../../src/runtime/settings/unavailable.ts'
import { agents, errorFor, loose, module } from './settings-helpers.ts'

/** For each option that is not there yet: what asks for it, and what does not. */
const asking: Record<string, { asks: unknown[]; fine: unknown[] }> = {
  'stateManagement.log': { asks: [{ path: 'log' }], fine: ['memory'] },
  'stateManagement.durability': { asks: ['write_behind', 'commit'], fine: [] },
  'threads.max': { asks: [4], fine: [] },
  'threads.idleMs': { asks: [1_000], fine: [] },
}

/** Options in which the value stands at that path; in a list it is in the second entry. */
function optionsWith(path: string, value: unknown): object {
  const field = path
    .replace('agents[].', '')
    .split('.')
    .reduceRight<unknown>((inner, key) => ({ [key]: inner }), value)
  return path.startsWith('agents[]')
    ? { agents: [...agents, Object.assign({ name: 'bob', module }, field)] }
    : Object(field)
}

t.test('every option that is not there yet is refused by name, and nothing else of it', async (t) => {
  t.strictSame(UNAVAILABLE.map(({ path }) => path).sort(), Object.keys(asking).sort())
  for (const [pattern, { asks, fine }] of Object.entries(asking)) {
    const path = pattern.replace('[]', '[1]')
    for (const value of asks) {
      const error = errorFor(optionsWith(pattern, value))
      t.equal(error.details.path, path)
      t.match(error.message, `${path}: not available in this version; remove it.`)
    }
    for (const value of [...fine, undefined]) t.ok(settingsFrom(loose(optionsWith(pattern, value))), path)
  }
})

t.test('what is available instead is said', async (t) => {
  t.match(errorFor({ stateManagement: { log: { path: 'log' } } }), {
    message: 'stateManagement.log: not available in this version; remove it. Available: "memory".',
    details: { accepted: '"memory"' },
  })
})

t.test('an option of the wrong type is refused as that, not as unavailable', async (t) => {
  for (const [path, wrong] of Object.entries({
    taskRouting: 'best',
    budget: 5,
    models: 'all',
    tools: 'search',
    stateManagement: 'memory',
    'stateManagement.log': 'disk',
    'stateManagement.durability': 'none',
    'threads.max': 0,
    'threads.idleMs': -1,
    'supervision.strategy': 'one',
    'supervision.deadlock': true,
    'supervision.confirmMs': -1,
    'supervision.livelock': true,
    'agents[].supervision.restart': 'never',
    'agents[].limits.maxExternalMb': 0,
  })) {
    t.match(errorFor(optionsWith(path, wrong)).message, `${path.replace('[]', '[1]')}: got `)
  }
})

t.test('a verb that is not there yet has the same error', async (t) => {
  const error = unavailable('context.think')
  t.equal(error.message, 'context.think: not available in this version; remove it.')
  t.strictSame([error.code, error.details.path], ['CONFIGURATION', 'context.think'])
})
