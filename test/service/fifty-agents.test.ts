/** The command line with a team of fifty, each on a thread of its own. */
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { dramatis } from './command-line.ts'

const team = fileURLToPath(new URL('../fixtures/cli/fifty-team.js', import.meta.url))

t.test('fifty agents start, answer and end', async (t) => {
  const { code, stdout, stderr } = await dramatis(['run', team, 'hi'])
  t.strictSame({ code, stdout }, { code: 0, stdout: '50 of 50\n' }, stderr)
  t.equal(stderr.match(/^agent-\d+ is ready$/gm)?.length, 50)
})

t.test('Ctrl-C while all of them are at work ends in good order', async (t) => {
  const { code, stdout, stderr } = await dramatis(['run', team, 'wait'], { interruptAt: 'task started: agent-50' })
  t.strictSame({ code, stdout }, { code: 130, stdout: '' })
  t.match(stderr, 'Interrupted')
  t.notMatch(stderr, /^error/m)
})
