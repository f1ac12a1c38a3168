/** The first call under a budget does not block the host by a vocabulary: it is loaded if it is needed, and by halves. */
import { spawnSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import t from 'tap'

const program = fileURLToPath(new URL('../fixtures/models/with-budget.js', import.meta.url))

t.test('a call far from its limit is not counted beforehand, and one near it is', async (t) => {
  for (const [tokens, loaded] of [
    ['100000', '0'],
    ['5000', '0'],
    ['1000', '0 1 2'],
  ]) {
    const { stdout, stderr } = spawnSync(process.execPath, [program, `${tokens}`], { encoding: 'utf8' })
    t.equal(stdout, `hello 6 ${loaded}\n`, stderr.slice(0, 2_000))
  }
})
