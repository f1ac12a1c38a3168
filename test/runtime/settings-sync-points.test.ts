import t from 'tap'
import { settingsFrom } from '../../src/runtime/settings/settings.ts'
import { detailsOf, errorFor, loose, module } from './settings-helpers.ts'

const agents = ['ann', 'bob'].map((name) => ({ name, module }))
const noon = { name: 'noon', requiredAgents: ['ann', 'bob'], timeoutMs: 5_000 }

/** Options with one point that has these fields in place of the good ones. */
const point = (fields: object) => ({ agents, syncPoints: [{ ...noon, ...fields }] })

t.test('a sync point has its defaults, and keeps what was given', async (t) => {
  const whole = { ...noon, name: 'dusk', onTimeout: 'abort', dataExchange: false }
  t.strictSame(settingsFrom(loose({ agents, syncPoints: [noon, whole] })).syncPoints, [
    { ...noon, onTimeout: 'proceed', dataExchange: true },
    whole,
  ])
  t.strictSame(settingsFrom(loose({ agents })).syncPoints, [])
})

t.test('what was given can be changed afterwards without effect', async (t) => {
  const requiredAgents = ['ann']
  const { syncPoints } = settingsFrom(loose(point({ requiredAgents })))
  requiredAgents.push('bob')
  t.strictSame(syncPoints[0]?.requiredAgents, ['ann'])
})

t.test('each wrong value is refused with its path', async (t) => {
  const wrong: [given: object, details: string][] = [
    [{ agents, syncPoints: {} }, 'syncPoints: an object'],
    [{ agents, syncPoints: ['noon'] }, 'syncPoints[0]: "noon"'],
    [point({ name: undefined }), 'syncPoints[0].name: nothing'],
    [point({ name: '' }), 'syncPoints[0].name: ""'],
    [point({ requiredAgents: undefined }), 'syncPoints[0].requiredAgents: nothing'],
    [point({ requiredAgents: 'ann' }), 'syncPoints[0].requiredAgents: "ann"'],
    [point({ requiredAgents: [] }), 'syncPoints[0].requiredAgents: an empty list'],
    [point({ requiredAgents: ['ann', 5] }), 'syncPoints[0].requiredAgents[1]: 5'],
    [point({ timeoutMs: undefined }), 'syncPoints[0].timeoutMs: nothing'],
    [point({ timeoutMs: 0 }), 'syncPoints[0].timeoutMs: 0'],
    [point({ timeoutMs: Number.POSITIVE_INFINITY }), 'syncPoints[0].timeoutMs: Infinity'],
    [point({ timeoutMs: '5s' }), 'syncPoints[0].timeoutMs: "5s"'],
    [point({ onTimeout: 'wait' }), 'syncPoints[0].onTimeout: "wait"'],
    [point({ dataExchange: 'yes' }), 'syncPoints[0].dataExchange: "yes"'],
    [point({ required: ['ann'] }), 'syncPoints[0].required: an option that does not exist'],
  ]
  for (const [given, details] of wrong) t.equal(detailsOf(given), details)
})

t.test('names are once each, and an agent that nobody defines is named with the one that was meant', async (t) => {
  t.match(errorFor({ agents, syncPoints: [noon, { ...noon, name: 'dusk' }, noon] }), {
    message: 'syncPoints[2].name: got "noon", which syncPoints[0] has already; accepted: each name once.',
  })
  t.match(errorFor(point({ requiredAgents: ['ann', 'bob', 'ann'] })), {
    message: 'syncPoints[0].requiredAgents[2]: got "ann", which it requires already; accepted: each name once.',
  })
  t.match(errorFor(point({ requiredAgents: ['ann', 'bobb'] })), {
    message:
      'syncPoints[0].requiredAgents[1]: got "bobb"; accepted: an agent of this team (ann, bob). Did you mean "bob"?',
  })
  t.match(errorFor(point({ requiredAgents: ['$orchestrator'] })), {
    details: { path: 'syncPoints[0].requiredAgents[0]' },
  })
})
