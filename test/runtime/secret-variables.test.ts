import t from 'tap'
import { Redactor, SecretVariables } from '../../src/runtime/logging/redactor.ts'

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
