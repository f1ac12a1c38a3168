import t from 'tap'
import { nearest, optionMeant } from '../src/shared/text.ts'

t.test('the nearest name is found over typing errors, case and underscores', async (t) => {
  const known = ['model', 'module', 'maxTokens', 'env']
  t.equal(nearest('modul', known), 'module')
  t.equal(nearest('modul', ['module', 'model']), 'module')
  t.equal(nearest('max_tokens', known), 'maxTokens')
  t.equal(nearest('MAXTOKEN', known), 'maxTokens')
  t.equal(nearest('nev', known), 'env')
  t.equal(nearest('moedl', known), 'model')
})

t.test('there is no nearest name if none is near', async (t) => {
  t.equal(nearest('timeout', ['module', 'env']), undefined)
  t.equal(nearest('a', ['b']), undefined)
  t.equal(nearest('x'.repeat(1_000_000), ['x'.repeat(999_999)]), undefined)
  t.equal(nearest('x', []), undefined)
})

t.test('an option is found by the word that other libraries have for it, where there is such an option', async (t) => {
  const role = ['name', 'systemPrompt', 'canDelegateTo', 'output', 'model', 'maxRounds']
  for (const [word, own] of [
    ['instructions', 'systemPrompt'],
    ['system_message', 'systemPrompt'],
    ['handoffs', 'canDelegateTo'],
    ['output_type', 'output'],
    ['llm', 'model'],
    ['maxSteps', 'maxRounds'],
    ['nmae', 'name'],
    ['constructor', undefined],
  ] as const)
    t.equal(optionMeant(word, role), own, word)
  t.equal(optionMeant('instructions', ['name', 'module']), undefined)
  t.equal(optionMeant('schema', ['name', 'input', 'run']), 'input')
  t.equal(nearest('instructions', role), undefined, 'names of agents and tools have no such words')
})
