/**
 * Programs as users write them compile against the declarations that are shipped, under settings as strict as a user may
 * have; and what must not compile does not: an error that was expected and did not come is one too.
 */
import { spawnSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import t from 'tap'

const root = fileURLToPath(new URL('../../../', import.meta.url)) // this runs as dist/test/contract/types.test.js

t.test('the programs in test/types compile', async (t) => {
  const args = ['node_modules/typescript/bin/tsc', '-p', 'test/types', '--pretty', 'false']
  const { status, stdout, stderr } = spawnSync(process.execPath, args, { cwd: root, encoding: 'utf8' })
  t.equal(`${stdout}${stderr}`, '')
  t.equal(status, 0)
})
