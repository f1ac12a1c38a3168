/** Tests of a user: a team in threads, and one of the test kit. They are the same under each runner of tests. */
import { AgentFailedError, createTeam, DramatisError } from 'dramatis'
import { testTeam } from 'dramatis/testing'

/** Declares the tests with a runner's own functions. `code`: what an agent of the test kit plays. */
export function testTeams({ test, expect }, code) {
  const orchestration = { strategy: 'sequential' }

  test('a team answers from its threads, and its errors keep their class', async () => {
    const module = new URL('./faulty.ts', import.meta.url)
    const team = createTeam({ agents: [{ name: 'ann', module }], orchestration })
    expect((await team.execute('world')).finalOutput).toBe('Hello, world')
    const { error } = await team.execute('fail')
    expect(error).toBeInstanceOf(AgentFailedError)
    expect(error).toBeInstanceOf(DramatisError)
    await team.close()
  })

  test('a team of the test kit answers, with the code that the test imports', async () => {
    const team = testTeam({ agents: [{ name: 'ann' }], orchestration }, { modules: { ann: code } })
    expect((await team.execute('world')).finalOutput).toBe('Hello, world')
    await team.close()
  })
}
