/** `contextStrategy` of a role: each strategy with its own options. */
import t from 'tap'
import { settingsFrom } from '../../src/runtime/settings/settings.ts'
import { detailsOf, errorFor, loose, role } from './settings-helpers.ts'

const strategy = (contextStrategy: unknown) => role({ contextStrategy })

t.test('each strategy takes its options, and what is inherited', async (t) => {
  for (const contextStrategy of [
    { strategy: 'append_until_full' },
    { strategy: 'append_until_full', threshold: 1, keepRecent: 1, inherit: 'none' },
    { strategy: 'hierarchical', historyKeep: 12, inherit: 'summary' },
    { strategy: 'custom', inherit: 'full' },
  ])
    t.same(settingsFrom(loose(strategy(contextStrategy))).agents[0]?.contextStrategy, contextStrategy)
  t.equal(settingsFrom(loose({})).agents[0]?.contextStrategy, undefined)
})

t.test('what it is not is refused by its path', async (t) => {
  const at = 'agents[0].contextStrategy'
  for (const [given, details] of [
    ['append_until_full', `${at}: "append_until_full"`],
    [{}, `${at}.strategy: nothing`],
    [{ strategy: 'append' }, `${at}.strategy: "append"`],
    [{ strategy: 'append_until_full', threshold: 0 }, `${at}.threshold: 0`],
    [{ strategy: 'append_until_full', threshold: 1.1 }, `${at}.threshold: 1.1`],
    [{ strategy: 'append_until_full', threshold: '80%' }, `${at}.threshold: "80%"`],
    [{ strategy: 'append_until_full', keepRecent: 0 }, `${at}.keepRecent: 0`],
    [{ strategy: 'hierarchical', historyKeep: 1.5 }, `${at}.historyKeep: 1.5`],
    [{ strategy: 'custom', inherit: 'all' }, `${at}.inherit: "all"`],
    [{ strategy: 'hierarchical', keepRecent: 20 }, `${at}.keepRecent: an option that does not exist`],
    [{ strategy: 'append_until_full', historyKeep: 12 }, `${at}.historyKeep: an option that does not exist`],
    [{ strategy: 'custom', threshold: 0.5 }, `${at}.threshold: an option that does not exist`],
  ] as const)
    t.equal(detailsOf(strategy(given)), details)
  const hidden = Object.defineProperty({}, 'strategy', {
    enumerable: true,
    get() {
      throw new Error('no')
    },
  })
  t.match(errorFor(strategy(hidden)), { code: 'CONFIGURATION', details: { path: at } })
})

t.test('a model has no buildContext, so its role cannot have a strategy of its own', async (t) => {
  const client = { complete: () => {} }
  const options = { agents: [{ name: 'ann', contextStrategy: { strategy: 'custom' } }], models: { default: client } }
  t.match(errorFor(options), { details: { path: 'agents[0].contextStrategy.strategy' }, message: /buildContext/ })
})

t.test('an answer that fills the window leaves no room for the question', async (t) => {
  const { details, message } = errorFor(role({ maxTokens: 1_000, maxOutputTokens: 1_000 }))
  t.equal(details.path, 'agents[0].maxOutputTokens')
  t.match(message, /less than maxTokens \(1000\)/)
  t.doesNotThrow(() => settingsFrom(loose(role({ maxTokens: 1_000, maxOutputTokens: 999 }))))
})

t.test('what is changed in the options later changes nothing', async (t) => {
  const contextStrategy = { strategy: 'hierarchical', historyKeep: 3 }
  const settings = settingsFrom(loose(strategy(contextStrategy)))
  contextStrategy.historyKeep = 99
  t.match(settings.agents[0]?.contextStrategy, { historyKeep: 3 })
})
