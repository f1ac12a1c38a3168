/** Tests of a user under vitest: a team in threads, and one of the test kit. */
import { AgentFailedError, createTeam, DramatisError } from 'dramatis'
import { testTeam } from 'dramatis/testing'
import { expect, test } from 'vitest'
import faulty from './faulty.ts'

const module = new URL('./faulty.ts', import.meta.url)

test('a team answers from its threads, and its errors keep their class', async () => {
  const team = createTeam({ agents: [{ name: 'ann', module }], orchestration: { strategy: 'sequential' } })
  expect((await team.execute('vitest')).finalOutput).toBe('Hello, vitest')
  const { error } = await team.execute('fail')
  expect(error).toBeInstanceOf(AgentFailedError)
  expect(error).toBeInstanceOf(DramatisError)
  await team.close()
})

test('a team of the test kit answers, with the code that the test imports', async () => {
  const options = { agents: [{ name: 'ann' }], orchestration: { strategy: 'sequential' } }
  const team = testTeam(options, { modules: { ann: faulty } })
  expect((await team.execute('vitest')).finalOutput).toBe('Hello, vitest')
  await team.close()
})
