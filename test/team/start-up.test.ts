import { spawnSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import t from 'tap'

t.test('a team of code loads the packages that it runs by, and no others', async (t) => {
  const program = fileURLToPath(new URL('../fixtures/team/packages-loaded.js', import.meta.url))
  const { status, stdout, stderr } = spawnSync(process.execPath, [program], { encoding: 'utf8' })
  t.equal(status, 0, stderr)
  const { packages, files }: { packages: string[]; files: number } = JSON.parse(stdout)
  t.strictSame(packages, ['comlink', 'immer', 'rxjs', 'uuid'])
  t.ok(files <= 20, `${files} files of ours, not one for each module`)
})
