import fc from 'fast-check'
import t from 'tap'
import { compilePattern, matches } from '../../src/blackboard/entry.ts'
import { MessageRejectedError } from '../../src/shared/errors.ts'

t.test('a pattern without stars takes its own key only', async (t) => {
  t.ok(matches('finding.7', 'finding.7'))
  t.notOk(matches('finding.7', 'finding.70'))
  t.notOk(matches('finding.7', 'finding'))
})

t.test('a dot in a pattern is no wildcard', async (t) => {
  t.notOk(matches('a.b', 'axb'))
})

t.test('one star takes exactly one word', async (t) => {
  t.ok(matches('finding.*', 'finding.7'))
  t.notOk(matches('finding.*', 'finding'))
  t.notOk(matches('finding.*', 'finding.7.source'))
  t.ok(matches('*.7.*', 'finding.7.source'))
})

t.test('two stars take any number of words, also none', async (t) => {
  for (const key of ['finding', 'finding.7', 'finding.7.source']) t.ok(matches('finding.**', key), key)
  t.notOk(matches('finding.**', 'findings.7'))
  t.ok(matches('**', 'anything.at.all'))
  t.ok(matches('**.**', 'one'))
})

t.test('two stars in the middle leave the right words to the rest', async (t) => {
  t.ok(matches('a.**.c', 'a.c'))
  t.ok(matches('a.**.c', 'a.c.b.c'))
  t.notOk(matches('a.**.c', 'a.c.b'))
  t.ok(matches('**.b.*.d', 'b.b.c.d'))
})

t.test('characters that a regular expression would read stand for themselves', async (t) => {
  t.ok(matches('cost ($).[eu]+', 'cost ($).[eu]+'))
  t.notOk(matches('cost ($).[eu]+', 'cost ($).e'))
})

t.test('a compiled pattern can be asked again and again', async (t) => {
  const wanted = compilePattern('*.price')
  t.same(['oil.price', 'oil', 'gas.price', 'price'].filter(wanted), ['oil.price', 'gas.price'])
})

t.test('a pattern of many double stars does not run away', async (t) => {
  const pattern = `${'**.a.'.repeat(50)}b`
  t.notOk(matches(pattern, Array(128).fill('a').join('.')))
})

/** The meaning of a pattern, written down as plainly as it can be. */
function naive([first, ...rest]: string[], words: string[]): boolean {
  if (first === undefined) return words.length === 0
  if (first === '**') return naive(rest, words) || (words.length > 0 && naive([first, ...rest], words.slice(1)))
  return words.length > 0 && (first === '*' || first === words[0]) && naive(rest, words.slice(1))
}

t.test('a pattern takes what the plain definition takes', async (t) => {
  const pattern = fc.array(fc.constantFrom('a', 'b', '*', '**'), { minLength: 1, maxLength: 6 })
  const words = fc.array(fc.constantFrom('a', 'b', 'c'), { minLength: 1, maxLength: 7 })
  const agrees = fc.property(pattern, words, (pattern, words) => {
    return matches(pattern.join('.'), words.join('.')) === naive(pattern, words)
  })
  t.doesNotThrow(() => fc.assert(agrees, { numRuns: 1_000 }))
})

for (const bad of ['', '***', 'a..b', '.a', 'a.', 'find*', '*.b*d', 'x'.repeat(257)]) {
  t.test(`the pattern "${bad.slice(0, 20)}" is refused`, async (t) => {
    t.throws(() => compilePattern(bad), MessageRejectedError)
  })
}

t.test('the refusal of a pattern says what is accepted', async (t) => {
  t.throws(() => compilePattern('a..b'), { message: /"\*" stands for one word, "\*\*" for any number/ })
})
