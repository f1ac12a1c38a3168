import t from 'tap'
import { nearest } from '../src/nearest.ts'

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
