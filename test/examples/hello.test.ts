import { spawnSync } from 'node:child_process'
import t from 'tap'

t.test('the smallest team file answers from the command line', async (t) => {
  const args = ['dist/src/service/cli.js', 'run', 'examples/hello/team.ts', 'world']
  const { status, stdout, stderr } = spawnSync(process.execPath, args, { encoding: 'utf8' })
  t.strictSame({ status, stdout }, { status: 0, stdout: 'Hello, world!\n' }, stderr)
})
