/** Questions of agents on the command line. */
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { dramatis } from './command-line.ts'

const team = fileURLToPath(new URL('../fixtures/cli/asking-team.js', import.meta.url))

t.test('each question is put on stderr, and answered by a line of the input: by a choice or its number', async (t) => {
  const { code, stdout, stderr } = await dramatis(['run', team, 'go'], { input: '2\nann\n' })
  t.equal(stdout, 'ann has blue\n')
  t.equal(code, 0, stderr)
  t.match(stderr, '$orchestrator asks: Which color?\n  1. red\n  2. blue\n')
  t.match(stderr, '$orchestrator asks: And whose?\n')
})

t.test('what is no choice is asked again', async (t) => {
  const { stdout, stderr } = await dramatis(['run', team, 'go'], { input: 'green\nred\nbob\n' })
  t.equal(stdout, 'bob has red\n')
  t.match(stderr, /^answer: "green" is none of what is accepted: "red", "blue"\./m)
  t.equal(stderr.match(/asks: Which color/g)?.length, 2)
})

t.test('when the input has ended nobody can answer, and the run ends and says so', async (t) => {
  const { code, stdout, stderr } = await dramatis(['run', team, 'go'], { input: 'red\n' })
  t.strictSame({ code, stdout }, { code: 1, stdout: '' })
  t.match(stderr, /^error: .*\$orchestrator asked a question, and the input has ended: nobody can answer/m)
})
