/**
 * Whatever reads text of models, providers, pages, servers and agents takes time that grows with its length. A pattern that takes the
 * square of it blocks the process for as long as a stranger likes, and no time limit can act. Measured as a ratio of processor time.
 */
import t from 'tap'
import { jsonIn as jsonOfAnswer } from '../src/actors/model/structured-output.ts'
import { nestsTooDeep } from '../src/mailbox/json.ts'
import { Redactor } from '../src/runtime/logging/redactor.ts'
import { failureOf } from '../src/runtime/providers/openai-caller.ts'
import { ProviderRefusal } from '../src/runtime/providers/refusals.ts'
import { contributionsOf } from '../src/runtime/runs/result.ts'
import { oneLine } from '../src/service/shared/failure.ts'
import { SseFrames } from '../src/shared/answers.ts'
import { ModelError } from '../src/shared/errors.ts'
import { sentencesOf } from '../src/shared/sentences.ts'
import { visible } from '../src/shared/text.ts'
import { plainLine } from '../src/tools/text-bytes.ts'
import { growthOf, LINEAR } from './growth.ts'
import { request } from './runtime/models/asking.ts'

const redactor = new Redactor()
redactor.learn('aaaaaaaab-key')

function refusalOf(message: string): unknown {
  const asked = { provider: 'host', model: 'small' }
  return failureOf(new ProviderRefusal({ message }), {
    asked,
    request: request(),
    keyAdvice: 'Check KEY.',
    isKeyless: false,
    speaks: 'chat completions',
    redactor,
    now: 0,
  })
}

function contributions(text: string): unknown {
  const known = { finalOutput: text, messageHistory: [], tokenUsage: {}, agentExecutionTimesMs: { ann: 1, bob: 1 } }
  const speeches = ['ann', 'bob'].map((agent) => ({ agent, texts: [text] }))
  return contributionsOf(known, { query: text, speeches, tasks: [] })
}

const frames = (text: string) => [...new SseFrames().take(Buffer.from(text))]
const pieces = (text: string) => {
  const reader = redactor.pieces(() => {})
  for (let at = 0; at < text.length; at += 50) reader.push(text.slice(at, at + 50))
  reader.end()
}

/** Who reads, the text of `size` characters or about, and a size that takes some milliseconds. */
const readers: [reader: string, read: (text: string) => unknown, text: (size: number) => string, size: number][] = [
  ['an answer that is a fence of blank lines', jsonOfAnswer, (size) => `\`\`\`${'\n'.repeat(size)}`, 50_000],
  ['an answer of fences', jsonOfAnswer, (size) => '``` x'.repeat(size / 5), 50_000],
  ['an answer of fences with one line', jsonOfAnswer, (size) => `${'``` x'.repeat(size / 5)}\n`, 50_000],
  ['an answer of fences that are not closed', jsonOfAnswer, (size) => '``` x\n'.repeat(size / 6), 50_000],
  ['an answer of open brackets', jsonOfAnswer, (size) => '{['.repeat(size / 2), 50_000],
  ['an answer of wrong objects', jsonOfAnswer, (size) => '{a} '.repeat(size / 4), 5_000],
  ['a failure of dots', refusalOf, (size) => `${'.'.repeat(size)}x`, 100_000],
  ['a failure of dots and blanks', refusalOf, (size) => '. '.repeat(size / 2), 100_000],
  ['sentences', sentencesOf, (size) => 'It is so. '.repeat(size / 10), 10_000],
  ['one sentence without an end', sentencesOf, (size) => 'so it is, '.repeat(size / 10), 10_000],
  ['one word without an end', sentencesOf, (size) => 'a'.repeat(size), 10_000],
  ['lines that are marked', sentencesOf, (size) => '- a\n'.repeat(size / 4), 5_000],
  ['blanks', sentencesOf, (size) => ' '.repeat(size), 100_000],
  ['contributions of many sentences', contributions, (size) => numbered(size / 12), 3_000],
  ['brackets in JSON', nestsTooDeep, (size) => `[${'[],'.repeat(size / 3)}1]`, 100_000],
  ['quotes in JSON', nestsTooDeep, (size) => `["${'[\\"'.repeat(size / 3)}"]`, 100_000],
  ['a key that never ends', (text) => redactor.data(text), (size) => 'a'.repeat(size), 25_000],
  ['what looks like keys', (text) => redactor.text(text), (size) => 'Bearer sk-gho_'.repeat(size / 14), 25_000],
  ['a key that never ends, in pieces', pieces, (size) => 'a'.repeat(size), 10_000],
  ['names of fields', (text) => redactor.fields({ [text]: 'x' }), (size) => 'aA_key-'.repeat(size / 7), 25_000],
  ['a line of HTML', (text) => plainLine(text, 100), (size) => '<a &amp'.repeat(size / 7), 25_000],
  ['a line for a terminal', oneLine, (size) => ' \u001b'.repeat(size / 2), 25_000],
  ['text for a person', visible, (size) => 'a\u202e'.repeat(size / 2), 25_000],
  ['blank lines of a stream', frames, (size) => '\n'.repeat(size), 100_000],
  ['events of a stream', frames, (size) => 'data: 1\n\n'.repeat(size / 9), 25_000],
  ['one line of a stream', frames, (size) => `data: ${'x'.repeat(size)}`, 1_000_000],
]

function numbered(count: number): string {
  return Array.from({ length: count }, (_, at) => `It is ${at}.`).join(' ')
}

for (const [reader, read, text, size] of readers)
  t.test(`the time for ${reader} grows with the length`, async (t) => {
    const growth = growthOf((of) => void read(text(of)), size)
    t.ok(growth <= LINEAR, `four times the length takes ${growth.toFixed(1)} times as long`)
  })

// A cube, which four times the size makes 64 times as long: of a square the least of several tries can come near the bound.
t.test('the check itself tells what grows faster from what grows with the length', async (t) => {
  let sum = 0
  const cube = (size: number) => {
    for (let one = 0; one < size ** 3; one += 1) sum += one ^ size
  }
  t.ok(growthOf(cube, 100) > LINEAR)
  t.ok(sum > 0)
  t.ok(refusalOf('no') instanceof ModelError)
})
