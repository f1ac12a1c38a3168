/** `dramatis rehearse`, models that cost money, and tools that change something. */
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { main } from '../../src/service/commands/program.ts'
import { modelServer } from '../fixtures/model-server.ts'
import { fakeSurroundings } from './fake-team.ts'

const compiled = (name: string) => fileURLToPath(new URL(`../fixtures/rehearsal/${name}.js`, import.meta.url))
const team = compiled('paid-team')

async function rehearse(args: string[]) {
  const { surroundings, stdout, stderr } = fakeSurroundings()
  const code = await main(['rehearse', ...args], surroundings)
  return { code, stdout: stdout(), stderr: stderr() }
}

t.test('it asks no model that costs money, and says so; with --real-models it does', async (t) => {
  const server = await modelServer(t)
  server.always('Certainly.')
  process.env.PAID_MODELS = server.baseURL
  t.teardown(() => {
    delete process.env.PAID_MODELS
    delete process.env.PAID_KEY
  })
  const args = [team, 'hello', '--seeds', '3', '--faults', 'crash,delay']
  const rehearsed = await rehearse(args)
  t.match(rehearsed, { code: 0, stdout: /^done +3$/m }, 'it needs no key')
  t.equal(rehearsed.stderr, 'the rehearsal model answered in place of default, other; --real-models asks them\n')
  t.equal(server.calls.length, 0)

  process.env.PAID_KEY = 'key'
  const real = await rehearse([...args, '--real-models'])
  t.strictSame([real.code, real.stderr], [0, ''], real.stdout)
  t.ok(server.calls.length >= 6)
  t.same(new Set(server.calls.map(({ body }) => body.model)), new Set(['large', 'small']))
})

t.test('tools that change something, or work outside, do not run, and are named', async (t) => {
  const { code, stdout, stderr } = await rehearse([compiled('tools-team'), 'hello', '--seeds', '2', '--json'])
  t.strictSame([code, JSON.parse(stdout).outcomes.done], [0, 2], stdout)
  const names = 'calculator, list_dir, read_file, record, refund, run_cmd, weather, write_file'
  t.equal(stderr, `these tools did not run, but were answered with made-up values: ${names}; --real-tools runs them\n`)
})
