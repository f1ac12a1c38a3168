import { spawnSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import type { Test } from 'tap'
import t from 'tap'
import type { loaded } from '../fixtures/loaded.ts'

t.test('a team of code loads the packages that it runs by, and no others', async (t) => {
  const { packages, files } = loadedBy(t, 'packages-loaded')
  t.strictSame(packages, ['comlink', 'immer', 'rxjs', 'uuid'])
  t.ok(files <= 20, `${files} files of ours, not one for each module`)
})

t.test('a command whose output is read by a program loads nothing that draws on a terminal', async (t) => {
  t.strictSame(loadedBy(t, 'command-loaded').packages, ['comlink', 'immer', 'rxjs', 'uuid'])
})

function loadedBy(t: Test, name: string): ReturnType<typeof loaded> {
  const program = fileURLToPath(new URL(`../fixtures/team/${name}.js`, import.meta.url))
  const { status, stdout, stderr } = spawnSync(process.execPath, [program], { encoding: 'utf8' })
  t.equal(status, 0, stderr)
  return JSON.parse(stdout)
}
