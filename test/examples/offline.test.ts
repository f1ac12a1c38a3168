/** What a new user starts first asks for no key and reaches for no network. */
import { spawnSync } from 'node:child_process'
import t from 'tap'

const guard = new URL('../fixtures/offline.js', import.meta.url).href

/** Only what finds programs is left of the environment: no key, no address of a provider. */
const start = (...args: string[]) =>
  spawnSync(process.execPath, ['--import', guard, ...args], {
    encoding: 'utf8',
    env: { PATH: process.env.PATH, HOME: process.env.HOME },
    timeout: 60_000,
  })

t.test('the guard ends who reaches for the network', async (t) => {
  for (const code of ["fetch('http://192.0.2.1/')", "require('net').connect(80, '192.0.2.1')"]) {
    const { status, stderr } = start('-e', code)
    t.equal(status, 70, code)
    t.match(stderr, 'reached for the network: 192.0.2.1')
  }
})

for (const example of ['data-desk', 'city-desk', 'coding-desk'])
  t.test(`${example} runs without a key and without a network`, async (t) => {
    const { status, stdout, stderr } = start(`dist/examples/${example}/main.js`)
    t.equal(status, 0, stderr)
    t.notMatch(stderr, 'reached for the network')
    t.not(stdout, '')
  })
