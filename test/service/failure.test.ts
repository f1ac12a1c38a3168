import t from 'tap'
import { AgentFailedError, ConfigurationError, RunAbortedError } from '../../src/index.ts'
import { exitCodeOf, failureWords } from '../../src/service/shared/failure.ts'

t.test('what the user has to change exits with 2, everything else with 1', async (t) => {
  t.equal(exitCodeOf(new ConfigurationError('agents: got nothing')), 2)
  t.equal(exitCodeOf(new RunAbortedError('aborted')), 1)
  t.equal(exitCodeOf(new Error('disk full')), 1)
  t.equal(exitCodeOf('thrown as a string'), 1)
})

t.test('an error of another copy of the library counts as its own', async (t) => {
  const foreign = Object.assign(new Error('agents: got nothing'), { code: 'CONFIGURATION', details: {} })
  t.equal(exitCodeOf(foreign), 2)
  const system = Object.assign(new Error('no such file'), { code: 'ENOENT' })
  t.equal(failureWords(system, {}), 'no such file')
})

t.test('a failure is one line with its code and without its stack', async (t) => {
  t.equal(failureWords(new AgentFailedError('printer:\nout of paper'), {}), 'AGENT_FAILED: printer: out of paper')
  t.equal(failureWords(new ConfigurationError('agents: got nothing'), {}), 'agents: got nothing')
  t.equal(failureWords(undefined, {}), 'undefined')
  t.equal(failureWords(new TypeError('x is no function'), {}), 'TypeError: x is no function')
  t.equal(failureWords(new Error(''), {}), 'Error')
})

t.test('DEBUG=dramatis shows the stack', async (t) => {
  for (const DEBUG of ['dramatis', 'http,dramatis'])
    t.match(failureWords(new Error('why'), { DEBUG }), /at .*failure\.test/)
  t.notMatch(failureWords(new Error('why'), { DEBUG: 'dramatists' }), /at /)
})
