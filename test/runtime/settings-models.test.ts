import t from 'tap'
import { modelNamesShape, modelsShape } from '../../src/runtime/settings/team-shape.ts'
import type { Check } from '../../src/shared/checks.ts'
import { ConfigurationError } from '../../src/shared/errors.ts'

/** The path of what is refused, and what it got; undefined if nothing is. */
function refusal(check: Check, value: unknown): string | undefined {
  try {
    check(value, 'models')
    return undefined
  } catch (error) {
    if (!(error instanceof ConfigurationError)) throw error
    t.notMatch(JSON.stringify(error) + error.stack, /SECRET/)
    return `${error.details.path}: ${error.details.got}`
  }
}

t.test('clients, places where to reach one, and "rehearsal" are accepted', async (t) => {
  const client = { complete: async function* () {} }
  for (const models of [
    'rehearsal',
    { mine: client },
    { main: { model: 'small' } },
    { main: { model: 'small', baseURL: 'http://127.0.0.1:11434/v1' } },
    { main: { model: 'small', apiKeyEnv: 'MAIN_KEY', apiKey: undefined }, other: { model: 'large', apiKey: 'SECRET' } },
    { main: { model: 'small', apiKey: async () => 'SECRET' } },
  ])
    t.equal(refusal(modelsShape, models), undefined)
})

t.test('what is wrong is named by its path, and no secret is shown', async (t) => {
  const entry = (fields: object) => ({ main: { model: 'small', ...fields } })
  for (const [models, says] of [
    ['openai', 'models: "openai"'],
    [['small'], 'models: a list of 1'],
    [{}, 'models: an object without models'],
    [{ main: 'SECRET' }, 'models.main: another text'],
    [{ main: {} }, 'models.main.model: nothing'],
    [{ main: { model: '' } }, 'models.main.model: ""'],
    [{ main: { complete: 'SECRET' } }, 'models.main: an object without complete'],
    [entry({ apikey: 'SECRET' }), 'models.main.apikey: an option that does not exist'],
    [entry({ apiKey: '' }), 'models.main.apiKey: another text'],
    [entry({ apiKey: ['SECRET'] }), 'models.main.apiKey: a list of 1'],
    [entry({ apiKeyEnv: 'MAIN_KEY=SECRET' }), 'models.main.apiKeyEnv: a string that is no name'],
    [entry({ apiKeyEnv: 'MAIN_KEY', apiKey: 'SECRET' }), 'models.main: both apiKey and apiKeyEnv'],
    [entry({ baseURL: 'localhost/SECRET' }), 'models.main.baseURL: another text'],
    [entry({ baseURL: 'https://me:SECRET@host/v1' }), 'models.main.baseURL: another text'],
    [entry({ baseURL: 'https://host/v1?key=SECRET' }), 'models.main.baseURL: another text'],
    [entry({ baseURL: 'ftp://host/v1' }), 'models.main.baseURL: another text'],
  ] as const)
    t.equal(refusal(modelsShape, models), says)
})

t.test('a run names other models by texts', async (t) => {
  t.equal(refusal(modelNamesShape, { default: 'large' }), undefined)
  t.equal(refusal(modelNamesShape, { default: '' }), 'models.default: ""')
  t.equal(refusal(modelNamesShape, { default: 5 }), 'models.default: 5')
  t.equal(refusal(modelNamesShape, 'large'), 'models: "large"')
})
