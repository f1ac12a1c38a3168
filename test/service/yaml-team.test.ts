/** The command line with a team that is written as YAML. */
import t from 'tap'
import { dramatis } from './command-line.ts'

const AGENTS = {
  'agents.yaml': `agents:
  orchestrator:
    class: OrchestratorAgent
    can_delegate_to: [task_executor]
  task_executor:
    module: ./executor.mjs
`,
  'orchestrator_agent.ts': `import { defineAgent } from 'dramatis'
export default defineAgent({
  async receive(message, context) {
    const { result } = await context.delegate('task_executor', message.content)
    return \`Done: \${result as string}\`
  },
})
`,
  'executor.mjs': `import { defineAgent } from 'dramatis'
export default defineAgent({ receive: ({ content }) => content.toUpperCase() })
`,
}

t.test('run: the query goes to the first agent', async (t) => {
  const { code, stdout, stderr } = await dramatis(['run', 'agents.yaml', 'a calculator'], { cwd: t.testdir(AGENTS) })
  t.equal(code, 0, stderr)
  t.equal(stdout, 'Done: A CALCULATOR\n')
})

t.test('rehearse: many schedules of the same team', async (t) => {
  const args = ['rehearse', 'agents.yaml', 'a calculator', '--seeds', '20', '--faults', 'delay', '--json']
  const { code, stdout, stderr } = await dramatis(args, { cwd: t.testdir(AGENTS) })
  t.equal(code, 0, stderr)
  t.match(JSON.parse(stdout), { runs: 20, outcomes: { done: 20 } })
})

t.test('a file that is wrong ends both with 2, and the place', async (t) => {
  const cwd = t.testdir({ ...AGENTS, 'agents.yaml': 'agents:\n  ann:\n    class: Nobody\n' })
  for (const command of ['run', 'rehearse']) {
    const { code, stdout, stderr } = await dramatis([command, 'agents.yaml', 'go'], { cwd })
    t.equal(code, 2)
    t.equal(stdout, '')
    t.match(stderr, /agents\.yaml:3:12: agents\.ann\.class: got "Nobody"/, command)
  }
})
