import t from 'tap'
import { sentencesOf } from '../../src/shared/sentences.ts'

const cases: [what: string, text: string, sentences: string[]][] = [
  ['a text', 'Cats sleep. Dogs bark! Why?', ['Cats sleep.', 'Dogs bark!', 'Why?']],
  ['numbers', 'It fell by 3.5 mm. That is little.', ['It fell by 3.5 mm.', 'That is little.']],
  ['Chinese', '猫在睡觉。狗在叫!为什么?', ['猫在睡觉。', '狗在叫!', '为什么?']],
  ['Hindi', 'बिल्ली सोती है। कुत्ता भौंकता है।', ['बिल्ली सोती है।', 'कुत्ता भौंकता है।']],
  ['lines that go on', 'Cats\n  sleep\tall\r\nday. Dogs bark.', ['Cats sleep all day.', 'Dogs bark.']],
  ['an empty line', 'Cats sleep\n\nDogs bark', ['Cats sleep', 'Dogs bark']],
  ['a heading', '# Cats\nThey sleep.\n## Dogs', ['Cats', 'They sleep.', 'Dogs']],
  ['a list', '- cats\n  and dogs\n* birds\n2. fish\n> a quotation', ['cats and dogs', 'birds', 'fish', 'a quotation']],
  ['one letter written in two ways', 'Cafe\u0301 ouvert.', ['Caf\u00e9 ouvert.']],
  ['what has no words', '---\n\n```\n\n... !', []],
  ['nothing', '', []],
]

for (const [what, text, sentences] of cases) t.test(what, async (t) => t.same(sentencesOf(text), sentences))

t.test('a long paragraph has the sentences that it has in parts', async (t) => {
  const lines = Array.from({ length: 2_000 }, (_, at) => `Line ${at} has ${'so many words, '.repeat(at % 40)}and ends.`)
  t.strictSame(sentencesOf(lines.join(' ')), lines)
  const endless = `${'no end, '.repeat(2_000)}here.`
  t.strictSame(sentencesOf(`${endless} Next.`), [endless, 'Next.'])
})
