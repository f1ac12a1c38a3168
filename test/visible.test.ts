import t from 'tap'
import { visible } from '../src/shared/text.ts'

t.test('what cannot be seen, or changes the order of what can, is written out', async (t) => {
  for (const [text, shown] of [
    ['rm -rf \u202e/emoh', 'rm -rf \\u{202e}/emoh'],
    ['a\u200bb\u2060c\ufeffd', 'a\\u{200b}b\\u{2060}c\\u{feff}d'],
    ['\u{e0072}\u{e006d}', '\\u{e0072}\\u{e006d}'],
    ['\u3164\u2800\u115f', '\\u{3164}\\u{2800}\\u{115f}'],
    ['a\u00a0b\u3000c\u2028d', 'a\\u{a0}b\\u{3000}c\\u{2028}d'],
    ['\u001b[2J\u009b1A\r\n', '\\u{1b}[2J\\u{9b}1A\\u{d}\\u{a}'],
    ['\ue000\ufdd0\ud800', '\\u{e000}\\u{fdd0}\\u{d800}'],
  ] as const)
    t.equal(visible(text), shown)
})

t.test('letters of any script, signs, emoji and plain spaces stay as they are', async (t) => {
  for (const text of ['plain text, "quoted" \\ {}', 'Grüße, 台北, สวัสดี, مرحبا', '😀 €5 – ½'])
    t.equal(visible(text), text)
})

t.test('a kind of character can be let through', async (t) => {
  t.equal(visible('two\nlines\r', '\n'), 'two\nlines\\u{d}')
})
