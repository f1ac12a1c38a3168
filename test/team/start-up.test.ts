import { spawnSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import t from 'tap'

t.test('a team of code loads the packages that it runs by, and no others', async (t) => {
  const program = fileURLToPath(new URL('../fixtures/team/packages-loaded.js', import.meta.url))
  const { status, stdout, stderr } = spawnSync(process.execPath, [program], { encoding: 'utf8' })
  t.equal(status, 0, stderr)
  t.strictSame(JSON.parse(stdout), ['comlink', 'immer', 'rxjs', 'uuid'])
})
