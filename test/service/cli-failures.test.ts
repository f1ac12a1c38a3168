/** The same where it goes wrong: what is said, where, and with which exit code. */
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { dramatis } from './command-line.ts'

const compiled = (name: string) => fileURLToPath(new URL(`../fixtures/cli/${name}.js`, import.meta.url))

t.test('a failed run exits with 1, and as JSON its error is data', async (t) => {
  const plain = await dramatis(['run', compiled('failing-team'), 'print'])
  t.match(plain, { code: 1, stdout: '' })
  t.match(plain.stderr, /^error: [A-Z_]+: .*out of paper/m)
  t.notMatch(plain.stderr, /^ +at /m)
  const json = await dramatis(['run', compiled('failing-team'), 'print', '--json'])
  t.equal(json.code, 1)
  const result: unknown = JSON.parse(json.stdout)
  t.match(result, { success: false, error: { code: String, message: /out of paper/, details: Object } })
})

t.test('--timeout ends a run that takes too long', async (t) => {
  const { code, stdout, stderr } = await dramatis(['run', compiled('slow-team'), 'go', '--timeout', '300'])
  t.match({ code, stdout }, { code: 1, stdout: '' })
  t.match(stderr, /^error: RUN_TIMEOUT: /m)
})

t.test('wrong usage and configuration exit with 2 and a short message', async (t) => {
  const wrong: [string[], RegExp][] = [
    [['run', 'nowhere.js', 'go'], /^error: Team file "nowhere\.js": there is no such file/m],
    [['run', compiled('no-default-export'), 'go'], /has no default export/],
    [['run', compiled('throws-while-loaded'), 'go'], /TypeError: no such key \(at .*throws-while-loaded/],
    [['run', compiled('no-agents-team'), 'go'], /^error: agents: /m],
    [['run', compiled('no-module-team'), 'go'], /nowhere\.js/],
    [['run', compiled('echo-team'), 'go', '--trace', 'nowhere/run.mmd'], /--trace: /],
    [['converse', compiled('echo-team')], /unknown command 'converse'/],
  ]
  for (const [args, message] of wrong) {
    const { code, stdout, stderr } = await dramatis(args)
    t.strictSame({ code, stdout }, { code: 2, stdout: '' }, stderr)
    t.match(stderr, message)
    t.notMatch(stderr, /^ +at /m, 'no stack')
  }
})

t.test('DEBUG=dramatis shows the stack of an error', async (t) => {
  const { code, stderr } = await dramatis(['run', compiled('throws-while-loaded'), 'go'], {
    env: { DEBUG: 'dramatis' },
  })
  t.equal(code, 2)
  t.match(stderr, /^ +at .*throws-while-loaded/m)
})

t.test('Ctrl-C ends the run in good order and exits with 130', async (t) => {
  const { code, stdout, stderr } = await dramatis(['run', compiled('slow-team'), 'go'], { interruptAt: 'task started' })
  t.strictSame({ code, stdout }, { code: 130, stdout: '' })
  t.match(stderr, 'Interrupted')
  t.notMatch(stderr, /^error/m)
})

t.test('an interrupted run still prints its JSON', async (t) => {
  const args = ['run', compiled('slow-team'), 'go', '--json']
  const { code, stdout } = await dramatis(args, { interruptAt: 'task started' })
  t.equal(code, 130)
  const result: unknown = JSON.parse(stdout)
  t.match(result, { success: false, error: { code: 'RUN_ABORTED' } })
})
