/** Lines of the log: who prints them, what is left out of them, and that no secret is in them. */
import { type Level, type Logger as Pino, pino } from 'pino'
import t from 'tap'
import { defaultLogger, guardedLogger, lineLogger } from '../../src/runtime/logging/logger.ts'
import { PrintedLines } from '../../src/runtime/logging/printed-lines.ts'
import { isSecretName, Redactor, SecretVariables } from '../../src/runtime/logging/redactor.ts'
import { CancelledError } from '../../src/shared/errors.ts'
import { Dice } from '../dice.ts'
import { type Cast, localTeam, openTeam } from '../kit/team.ts'

/** What each entry becomes. */
function linesOf(...entries: [fields: object, text: string][]): string[] {
  const lines: string[] = []
  const logger = lineLogger((line) => lines.push(line.trimEnd()))
  for (const [fields, text] of entries) logger.warn(fields, text)
  return lines
}

t.test('the default logger writes one line an event, from info up', async (t) => {
  const lines: string[] = []
  const logger = lineLogger((line) => lines.push(line))
  logger.debug({}, 'not shown')
  logger.info({ agent: 'ann' }, 'started')
  logger.warn({}, 'two\nlines \u001b[31m')
  logger.error({ agent: 'ann', error: new Error('boom') }, 'failed')
  logger.error({ error: 'why' }, 'failed')
  logger.error({ error: null }, 'failed')
  t.strictSame(lines, [
    'info ann started\n',
    'warn two lines  [31m\n',
    'error ann failed: boom\n',
    'error failed: why\n',
    'error failed\n',
  ])
})

t.test('the fields of an entry stand behind its text, in words that people can read', async (t) => {
  const waits = [
    { agent: 'ann', for: ['bob'], kind: 'request' },
    { agent: 'bob', for: ['ann'], kind: 'request' },
  ]
  t.strictSame(
    linesOf(
      [{ event: 'deadlock', runId: 'r-1', cycle: ['ann', 'bob'], tail: [], waits, victim: null }, 'agents wait'],
      [{ agent: 'ann', epoch: 2, restartInMs: 12.5, warm: false, error: new Error('gone') }, 'crashed'],
      [{ note: 'two words', quoted: 'a "b"', empty: '', why: new RangeError('too far'), none: undefined }, 'said'],
    ),
    [
      'warn agents wait runId=r-1 cycle=[ann, bob] waits=[{agent=ann for=[bob] kind=request}, {agent=bob for=[ann] kind=request}]',
      'warn ann crashed: gone epoch=2 restartInMs=12.5 warm=false',
      'warn said note="two words" quoted="a \\"b\\"" empty="" why="too far"',
    ],
  )
})

t.test('fields are cut where they are long or deep, and what agents say is not shown', async (t) => {
  const [long, many, deep, words] = linesOf(
    [{ text: 'x'.repeat(5_000), after: 1 }, 'long'],
    [{ list: Array.from({ length: 5_000 }, (_, i) => i), after: 1 }, 'many'],
    [{ a: { b: { c: { d: { e: 1 } } } } }, 'deep'],
    [
      {
        prompt: 'a secret plan',
        messages: ['one', 'two'],
        content: { a: 'secret' },
        at: { messages: 7, query: 'secret' },
      },
      'words',
    ],
  )
  t.equal(long, `warn long text=${'x'.repeat(200)}... after=1`)
  t.match(many, /^warn many list=\[0, 1, .*, 19, \.\.\. 4980 more\] after=1$/)
  t.equal(deep, 'warn deep a={b={c={d={...}}}}')
  t.equal(
    words,
    'warn words prompt=(13 characters) messages=(2 items) content=(not shown) at={messages=7 query=(6 characters)}',
  )
  const wide = Object.fromEntries(Array.from({ length: 1_000 }, (_, i) => [`field${i}`, 'value']))
  const [whole = ''] = linesOf([wide, 'wide'])
  t.ok(whole.length < 1_100 && whole.endsWith(' ...'), 'and all of them together')
})

t.test('the default logger writes to stderr', async (t) => {
  const written = t.capture(process.stderr, 'write', () => true)
  defaultLogger.info({}, 'hello')
  t.strictSame(written.args(), [['info hello\n']])
})

// The logger of a team can be pino's own: its bindings, levels and serializers do what they do elsewhere.

type Line = Readonly<Record<string, unknown>>

/** A pino logger, and what it has written. */
function recording(level: Level): { logger: Pino; lines: Line[] } {
  const lines: Line[] = []
  const write = (line: string) => void lines.push(JSON.parse(line) as Line)
  return { logger: pino({ level, base: { service: 'desk' } }, { write }), lines }
}

const WARN = 40

const cast: Cast = {
  ann: (message, context) => {
    context.log.debug({ step: 1 }, 'begins')
    context.log.warn({ step: 2 }, 'wonders')
    return message.content
  },
}

t.test('lines of agents have the bindings of the logger, their agent and their run', async (t) => {
  const { logger, lines } = recording('debug')
  const team = localTeam(t, cast, { logger: logger.child({ team: 'review' }) })
  await team.execute('go', { runId: 'run-1' })
  const all = { service: 'desk', team: 'review', agent: 'ann', runId: 'run-1' }
  t.match(
    lines.filter(({ step }) => step !== undefined),
    [
      { ...all, level: 20, step: 1, msg: 'begins' },
      { ...all, level: 40, step: 2, msg: 'wonders' },
    ],
  )
  t.match(
    lines.find(({ msg }) => msg === 'a run begins'),
    { level: 20, service: 'desk', team: 'review', runId: 'run-1' },
  )
})

t.test('what is below the level of the logger is not written', async (t) => {
  const { logger, lines } = recording('warn')
  const team = localTeam(t, cast, { logger })
  await team.execute('go')
  t.match(lines, [{ level: WARN, msg: 'wonders' }])
  t.equal(lines.length, 1)
})

t.test('the error of a crash is written with its code, without keys', async (t) => {
  const { logger, lines } = recording('warn')
  const team = openTeam(t, cast, { logger })
  await team.start()
  team.crash('ann', new Error('lost sk-12345678901234567890'))
  await team.clock.runToIdle()
  const [line] = lines
  t.match(line, { level: WARN, event: 'agent.crashed', agent: 'ann', error: { code: 'AGENT_CRASHED' } })
  t.match(line, { error: { message: /lost \[redacted\]/ } })
})

// What an agent prints, as lines: cut where they are too long, left out where they are too many.

function printer() {
  const heard: (string | number | { leftOut: number })[] = []
  let now = 0
  const lines = new PrintedLines(
    {
      line: (text) => heard.push(text),
      flooded: () => heard.push('flooded'),
      leftOut: (count) => heard.push({ leftOut: count }),
    },
    () => now,
  )
  return {
    lines,
    heard,
    pass(ms: number) {
      now += ms
    },
  }
}

t.test('a line is told when its end is there, in whatever pieces it comes', async (t) => {
  const { lines, heard } = printer()
  lines.write('on')
  lines.write('e\ntwo\n\nth')
  t.same(heard, ['one', 'two', ''])
  lines.write('ree')
  lines.end()
  t.same(heard.slice(3), ['three'])
})

t.test('of a line without end the beginning is kept, and the rest counted', async (t) => {
  const { lines, heard } = printer()
  for (let i = 0; i < 100; i++) lines.write('x'.repeat(10_000))
  lines.write('\nnext\n')
  t.same(heard, [`${'x'.repeat(16_384)} ... (${1_000_000 - 16_384} characters left out)`, 'next'])
})

t.test('lines beyond the most of a second are left out and counted', async (t) => {
  const { lines, heard, pass } = printer()
  lines.write('line\n'.repeat(12_000))
  t.equal(heard.length, 10_001)
  t.same(heard.slice(9_999), ['line', 'flooded'])
  pass(999)
  lines.write('line\n')
  t.equal(heard.length, 10_001)
  pass(1)
  lines.write('again\n')
  t.same(heard.slice(10_001), [{ leftOut: 2_001 }, 'again'])
})

t.test('so are those beyond the most characters', async (t) => {
  const { lines, heard } = printer()
  lines.write(`${'x'.repeat(16_383)}\n`.repeat(70))
  lines.end()
  t.equal(heard.length, 66)
  t.same(heard.slice(64), ['flooded', { leftOut: 6 }])
})

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
  'of a source that gives ever new keys the last 16 are taken out; what was learned otherwise stays',
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

/** What stays of the text when the variables are known. */
function seen(text: string, env: Record<string, string>, named: string[] = []): string {
  const redactor = new Redactor()
  new SecretVariables(
    () => env,
    named,
    redactor,
    () => 0,
  ).look()
  return redactor.data(text)
}

t.test('variables that are called like a secret are taken out by their values', async (t) => {
  for (const [name, value] of [
    ['DB_PASSWORD', 'correcthorse'],
    ['SVC_TOKEN', '123456789012'],
    ['PGPASSWORD', 'only-letters'],
    ['MYSQL_PWD', 'only letters'],
    ['GITHUB_PAT', 'github_pat_11AAAAAAA'],
    ['REDISCLI_AUTH', 'abcdefgh'],
    ['SMTP_PASS', 'abcdefgh'],
    ['AWS_SECRET_ACCESS_KEY', '/wJalrXUtnFEMI/K7MDENG/bPxRfiCY'],
    ['SESSION_SECRET', 'keyboard cat'],
    ['apiKey', 'abcdefgh'],
  ] as const)
    t.equal(seen(`<${value}>`, { [name]: value }), '<[redacted]>', name)
})

t.test('values that are words, paths or too short stay, and so do variables of other names', async (t) => {
  for (const [name, value] of [
    ['DB_PASSWORD', 'postgres'],
    ['DB_PASSWORD', 'secret'],
    ['API_TOKEN', 'undefined'],
    ['TLS_KEY', '/etc/ssl/private.pem'],
    ['HOME', '/home/ann-1'],
    ['PWD', '/home/ann-1/project'],
    ['OLDPWD', '/home/ann-1/project'],
    ['KEYBOARD', 'de-latin1-nodeadkeys'],
    ['AUTHOR', 'Ann Miller'],
    ['MONKEY', 'orang-utan'],
  ] as const)
    t.equal(seen(`<${value}>`, { [name]: value }), `<${value}>`, name)
})

t.test('the password in an address is taken out, not the rest of it', async (t) => {
  const env = { DATABASE_URL: 'postgres://ann:corr%40cthorse@db.example:5432/shop', OTHER: 'https://host/a@b' }
  t.equal(
    seen(`${env.DATABASE_URL} ${env.OTHER}`, env),
    'postgres://ann:[redacted]@db.example:5432/shop https://host/a@b',
  )
  t.equal(seen('it was corr@cthorse', env), 'it was [redacted]')
  t.equal(seen('postgres', { DATABASE_URL: 'postgres://postgres:postgres@localhost/db' }), 'postgres')
})

t.test('a variable that the user names is a secret whatever it is called and holds', async (t) => {
  t.equal(seen('postgres here', { PLAIN: 'postgres' }, ['PLAIN', 'NOT_SET']), '[redacted] here')
})

t.test('variables that are set later are known at the next look, which comes after a pause', async (t) => {
  const env: Record<string, string> = {}
  const redactor = new Redactor()
  let now = 0
  const secrets = new SecretVariables(
    () => env,
    [],
    redactor,
    () => now,
    250,
  )
  secrets.look()
  env.DB_PASSWORD = 'correcthorse'
  now = 249
  secrets.look()
  t.equal(redactor.data('correcthorse'), 'correcthorse')
  now = 250
  secrets.look()
  t.equal(redactor.data('correcthorse'), '[redacted]')
})
