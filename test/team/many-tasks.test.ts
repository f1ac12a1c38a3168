/** Many tasks of users at once: each is answered by its own parts, which carry the id of what they are parts of. */
import t from 'tap'
import { createTeam, type MultiAgentPattern, type Run } from '../../src/index.ts'
import { testTeam } from '../../src/testing.ts'
import desk from '../fixtures/team/desk.ts'
import { numbers, silent } from '../kit/team.ts'

const TASKS = 50

const agents = ['desk', 'reader', 'checker']
const options = {
  orchestration: { strategy: 'sequential' as const, agentOrder: ['desk'] },
  logger: silent,
}

/** Whatever it has of another's. */
function mixed(run: Run, query: string): string[] {
  const flaws: string[] = []
  const [whole, ...parts] = run.tasks
  for (const { description, parentTask, status } of parts) {
    if (parentTask !== whole?.id) flaws.push(`"${description}" is a part of ${parentTask}`)
    if (!description.startsWith(`${query}/`) || status !== 'completed') flaws.push(`"${description}" is ${status}`)
  }
  if (whole?.parentTask !== null || parts.length !== 3) flaws.push(`${query} has ${parts.length} parts`)
  for (const { content } of run.messageHistory)
    if (!content.startsWith(query)) flaws.push(`a message says ${JSON.stringify(content)}`)
  return flaws
}

async function check(t: Tap, team: Pick<MultiAgentPattern<string>, 'launch'>, advance: () => Promise<void>) {
  const queries = numbers(TASKS).map((number) => `task-${number}-`)
  const runs = queries.map((query) => team.launch(query))
  await advance()
  for (const [i, run] of runs.entries()) {
    const query = queries[i]!
    const { finalOutput, success } = await run.result
    t.equal(success, true)
    const lines = `${finalOutput}`.split('\n').map((line) => line.replace(/ for .*/, ''))
    t.same(lines, [`${query}/read by reader`, `${query}/check by checker`, `${query}/note by reader`])
    const owners = new Set(`${finalOutput}`.split('\n').flatMap((line) => line.split(' for ')[1]!.split(',')))
    t.same([...owners], [query], 'what an agent keeps for a run is of that run')
    t.same(mixed(run, query), [])
  }
  const ids = runs.flatMap((run) => run.tasks.map(({ id }) => id))
  t.equal(new Set(ids).size, TASKS * 4)
}

type Tap = Pick<typeof t, 'equal' | 'same'>

for (const concurrency of [1, 8])
  t.test(`${TASKS} tasks at once never mix, with ${concurrency} turns at a time`, async (t) => {
    const modules = Object.fromEntries(agents.map((name) => [name, desk]))
    const team = testTeam({ ...options, agents: agents.map((name) => ({ name, concurrency })) }, { modules })
    t.teardown(() => team.close())
    await check(t, team, () => team.clock.runToIdle())
  })

t.test(`${TASKS} tasks at once never mix on threads`, async (t) => {
  const module = new URL('../fixtures/team/desk.js', import.meta.url)
  const team = createTeam({ ...options, agents: agents.map((name) => ({ name, module, concurrency: 4 })) })
  t.teardown(() => team.close())
  await check(t, team, async () => {})
})
