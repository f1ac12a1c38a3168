import t from 'tap'
import { guardedLogger } from '../../src/runtime/logging/logger.ts'
import { isSecretName, Redactor } from '../../src/runtime/logging/redactor.ts'
import { CancelledError } from '../../src/shared/errors.ts'
import { Dice } from '../dice.ts'

const KEY = 'k3y/with+odd"letters'

function knowing(...keys: string[]): Redactor {
  const redactor = new Redactor()
  for (const key of keys) redactor.learn(key)
  return redactor
}

t.test('a known key is taken out, however often, also as it stands in a URL, in JSON and in base64', async (t) => {
  const redactor = knowing(KEY)
  t.equal(redactor.text(`${KEY} and ${KEY}`), '[redacted] and [redacted]')
  t.equal(redactor.text(`https://host/?key=${encodeURIComponent(KEY)}&a=1`), 'https://host/?key=[redacted]&a=1')
  t.notMatch(redactor.text(JSON.stringify({ text: KEY })), 'k3y')
  const base64 = Buffer.from(KEY).toString('base64')
  t.notMatch(redactor.text(base64), base64.slice(0, 12))
})

t.test('a known key is taken out in each form in which programs write it', async (t) => {
  const redactor = knowing(KEY, 'schl\u00fcssel/eins zwei')
  const forms = [
    JSON.stringify(KEY).replaceAll('/', '\\/'),
    encodeURIComponent(KEY),
    encodeURIComponent(KEY).toLowerCase(),
    'schl%c3%bcssel%2feins+zwei',
    'schl\\u00fcssel/eins zwei',
    'schl\\u00FCssel\\/eins zwei',
    [...KEY].map((letter) => `\\u${letter.charCodeAt(0).toString(16).padStart(4, '0')}`).join(''),
    Buffer.from(KEY).toString('hex'),
    Buffer.from(KEY).toString('hex').toUpperCase(),
    ...['a:', 'ab:', 'abc:'].map((user) => Buffer.from(`${user}${KEY}`).toString('base64')),
    ...['a:', 'ab:', 'abc:'].map((user) => Buffer.from(`${user}${KEY}, and more`).toString('base64url')),
  ]
  for (const form of forms) t.match(redactor.data(`it is ${form}.`), /^it is \S{0,8}\[redacted\]/, form)
})

t.test('of two keys the one within the other leaves nothing of it', async (t) => {
  t.equal(knowing('key-123456', 'key-123456-longer').text('key-123456-longer'), '[redacted]')
})

t.test('what is too short to be a key is left alone, and so is what nobody told', async (t) => {
  const redactor = knowing('short', '')
  t.equal(redactor.text('a short text'), 'a short text')
  t.equal(redactor.data('anything'), 'anything')
})

t.test('in logs and errors also what looks like a key, whoever has it', async (t) => {
  const redactor = new Redactor()
  for (const text of ['Authorization: Bearer abcdefghijkl', `sk-proj-${'a1'.repeat(10)}`, `AIza${'b2'.repeat(18)}`])
    t.match(redactor.text(`it was ${text}.`), '[redacted]')
  for (const text of ['the bearer of bad news', 'sk-8 is a road', 'ask-him-for-a-longer-answer-then'])
    t.equal(redactor.text(text), text)
})

t.test('data is looked into as deep as it goes, and is the same object where there is nothing', async (t) => {
  const redactor = knowing(KEY)
  const clean = { a: [1, { b: 'fine' }], when: new Date(0), none: null }
  t.equal(redactor.data(clean), clean)
  t.equal(redactor.fields(clean), clean)
  const dirty = { a: [1, { b: `has ${KEY}`, [`in ${KEY}`]: 1 }], when: clean.when }
  t.strictSame(redactor.data(dirty), { a: [1, { b: 'has [redacted]', 'in [redacted]': 1 }], when: clean.when })
  t.match(dirty.a[1], { b: `has ${KEY}` }, 'and what it was stays as it was')
})

t.test('what is frozen is copied as well as anything', async (t) => {
  const frozen = Object.freeze({ list: Object.freeze([KEY, Object.freeze({ [KEY]: KEY })]) })
  t.strictSame(knowing(KEY).data(frozen), { list: ['[redacted]', { '[redacted]': '[redacted]' }] })
})

t.test('a circle ends, on both ways', async (t) => {
  const redactor = knowing(KEY)
  const clean: Record<string, unknown> = { text: 'fine' }
  clean.self = clean
  t.equal(redactor.data(clean), clean)
  const dirty: Record<string, unknown> = { text: KEY }
  dirty.self = [dirty]
  const seen = redactor.data(dirty)
  t.equal(seen.text, '[redacted]')
  t.equal((seen.self as unknown[])[0], seen)
})

t.test('an error stays what it is: class, code, details and cause, without the key', async (t) => {
  const redactor = knowing(KEY)
  const error = new CancelledError(`no ${KEY}`, { path: KEY, agent: 'ann' }, new Error(`deep ${KEY}`))
  const seen = redactor.fields({ error }).error
  t.ok(seen instanceof CancelledError)
  t.strictSame([seen.code, seen.details], ['CANCELLED', { path: '[redacted]', agent: 'ann' }])
  t.notMatch(`${seen.stack} ${(seen.cause as Error).stack} ${JSON.stringify(seen)}`, KEY)
  t.match(error.message, KEY)
  const clean = new CancelledError('no', { agent: 'ann' })
  t.equal(redactor.fields(clean), clean)
})

t.test('what only a getter would make is left to who asks for it', async (t) => {
  const lazy = {
    get history(): string {
      throw new Error('nobody asked')
    },
    text: KEY,
  }
  t.equal(knowing(KEY).data(lazy).text, '[redacted]')
})

t.test('in the fields of a log the texts with the name of a secret are taken out', async (t) => {
  const redactor = new Redactor()
  const fields = { headers: { authorization: 'abc', 'x-api-key': 'abc' }, apiKey: 'abc', key: 'finding.1', tokens: 5 }
  t.strictSame(redactor.fields(fields), {
    headers: { authorization: '[redacted]', 'x-api-key': '[redacted]' },
    apiKey: '[redacted]',
    key: 'finding.1',
    tokens: 5,
  })
  t.equal(redactor.data(fields), fields, 'what agents say is theirs: there a name proves nothing')
})

t.test('names of secrets are told from others', async (t) => {
  for (const name of [
    'OPENAI_API_KEY',
    'GH_TOKEN',
    'DB_PASSWORD',
    'apiKey',
    'accessToken',
    'client_secret',
    'CRITIC_KEY',
  ])
    t.ok(isSecretName(name), name)
  for (const name of ['key', 'keyboard', 'tokens', 'maxTokens', 'tokenUsage', 'PATH', 'KEYRING', 'author', 'monkey'])
    t.notOk(isSecretName(name), name)
})

t.test('a logger is told neither in its text nor in its fields', async (t) => {
  const lines: unknown[] = []
  const tell = (fields: object, text: string) => void lines.push([fields, text])
  const logger = guardedLogger({ debug: tell, info: tell, warn: tell, error: tell }, knowing(KEY))
  for (const level of ['debug', 'info', 'warn', 'error'] as const) logger[level]({ said: KEY }, `it said ${KEY}`)
  t.strictSame(
    lines,
    Array.from({ length: 4 }, () => [{ said: '[redacted]' }, 'it said [redacted]']),
  )
})

t.test('a key is taken out of a text that comes in pieces, wherever it is cut', async (t) => {
  const keys = ['key-123456', 'key-123456-longer', '6-key-key-1234', 'aaaaaaaab', KEY]
  const redactor = knowing(...keys)
  const inPieces = (pieces: readonly string[]) => {
    const said: string[] = []
    const out = redactor.pieces((text) => said.push(text))
    for (const piece of pieces) out.push(piece)
    out.end()
    t.notOk(said.includes(''), 'nothing is no piece')
    return said
  }
  const text = `It is ${KEY}, the key-123456-longer one, not key-12345.`
  for (let at = 0; at <= text.length; at++)
    t.equal(inPieces([text.slice(0, at), text.slice(at)]).join(''), redactor.data(text), `cut at ${at}`)
  t.same(inPieces(['I have ', 'no ', 'secrets.']), ['I have ', 'no ', 'secrets.'], 'what is no key comes at once')
  t.same(inPieces(['the key-1', '2', 'th mile ']), ['the ', 'key-12th mile '])
  t.same(inPieces(['the key-123', '456-longer']), ['the ', '[redacted]'])

  for (let seed = 1; seed <= 500; seed++) {
    const dice = new Dice(seed)
    const parts = Array.from({ length: 8 }, () => {
      const key = dice.pick([...keys, 'words ', 'aaaa', 'k'])
      return key.slice(dice.chance(0.2) ? dice.upTo(4) : 0, dice.chance(0.3) ? -dice.upTo(4) : undefined)
    })
    const whole = parts.join('')
    const pieces: string[] = []
    for (let at = 0; at < whole.length; ) {
      const end = at + 1 + dice.upTo(6)
      pieces.push(whole.slice(at, end))
      at = end
    }
    const joined = inPieces(pieces).join('')
    if (joined !== redactor.data(whole))
      t.equal(joined, redactor.data(whole), `seed ${seed}: ${JSON.stringify(pieces)}`)
  }
})

t.test(
  'of a source that gives ever new keys the last 16 are taken out, and what was learned otherwise stays',
  async (t) => {
    const redactor = knowing('the-key-of-the-team')
    const source = {}
    for (let at = 100; at < 200; at += 1) redactor.learnFrom(source, `rotating-key-${at}`)
    redactor.learnFrom(source, 'rotating-key-184') // given once more: it is the newest
    redactor.learnFrom(source, 'rotating-key-200')
    const seen = (at: number) => redactor.data(`rotating-key-${at}`)
    t.strictSame([183, 184, 185, 186, 199, 200].map(seen), [
      'rotating-key-183',
      '[redacted]',
      'rotating-key-185',
      '[redacted]',
      '[redacted]',
      '[redacted]',
    ])
    redactor.learnFrom({}, 'key-of-another-source')
    t.equal(redactor.data('the-key-of-the-team, key-of-another-source'), '[redacted], [redacted]')
  },
)
