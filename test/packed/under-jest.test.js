/** Tests of a user under Jest with ES modules. */
import { expect, test } from '@jest/globals'
import { AgentFailedError, createTeam, DramatisError } from 'dramatis'
import { testTeam } from 'dramatis/testing'
import greeter from './greeter.js'

test('a team answers from its threads, and its errors keep their class', async () => {
  const module = new URL('./faulty.ts', import.meta.url)
  const team = createTeam({ agents: [{ name: 'ann', module }], orchestration: { strategy: 'sequential' } })
  expect((await team.execute('jest')).finalOutput).toBe('Hello, jest')
  const { error } = await team.execute('fail')
  expect(error).toBeInstanceOf(AgentFailedError)
  expect(error).toBeInstanceOf(DramatisError)
  await team.close()
})

test('a team of the test kit answers, with the code that the test imports', async () => {
  const options = { agents: [{ name: 'ann' }], orchestration: { strategy: 'sequential' } }
  const team = testTeam(options, { modules: { ann: greeter } })
  expect((await team.execute('jest')).finalOutput).toBe('Hello, jest')
  await team.close()
})
