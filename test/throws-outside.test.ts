/** The tap of compiled tests has no domains: what throws outside of a test must fail its file all the same. */
import { spawnSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import t from 'tap'

const file = fileURLToPath(new URL('./fixtures/tap/throws-outside.js', import.meta.url))

for (const [manner, code] of [
  ['thrown', 1],
  ['rejected', 1],
  ['not at all', 0],
] as const)
  t.test(`outside of a test: ${manner}`, async (t) => {
    const { status, stdout, stderr } = spawnSync(process.execPath, [file, manner], { encoding: 'utf8' })
    t.equal(status, code, stdout)
    t.equal(/^not ok 1 - waits/m.test(stdout), code === 1, stdout)
    t.equal(stderr.includes(`Error: ${manner} outside`), code === 1, stderr)
  })
