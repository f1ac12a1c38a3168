/** The command line with a team that is written as YAML. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
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

/** An agent that defines another one, and gives it a task. */
const DEFINING = {
  'agents.yaml':
    'agents:\n  lead:\n    trust: privileged\n    module: ./lead.ts # who makes others\n    can_delegate_to: []\n',
  'lead.ts': `import { defineAgent } from 'dramatis'
export default defineAgent({
  async receive(message, context) {
    const name = await context.defineAgent({ name: 'tester', class: 'TestAgent', data: { times: 2 } })
    const { result } = await context.delegate(name, message.content)
    return result as string
  },
})
`,
  'test-agent.ts': `import { defineAgent } from 'dramatis'
export default defineAgent({
  receive: ({ content }, { role }) => content.repeat((role.data as { times: number }).times),
})
`,
}

t.test('an agent on its own thread defines another one: run keeps it in the file', async (t) => {
  const cwd = t.testdir(DEFINING)
  const { code, stdout, stderr } = await dramatis(['run', 'agents.yaml', 'tick'], { cwd })
  t.equal(code, 0, stderr)
  t.equal(stdout, 'ticktick\n')
  const written = readFileSync(join(cwd, 'agents.yaml'), 'utf8')
  t.match(
    written,
    /module: \.\/lead\.ts # who makes others\n {4}can_delegate_to: \[tester\]\n {2}tester:\n {4}class: TestAgent/,
  )
  const again = await dramatis(['run', 'agents.yaml', 'tick'], { cwd })
  t.equal(again.code, 1)
  t.match(again.stderr, /type\.name: got "tester"; accepted: a name that no agent has/)
})

t.test('... and rehearse does not, in as many runs as there are', async (t) => {
  const cwd = t.testdir(DEFINING)
  const args = ['rehearse', 'agents.yaml', 'tick', '--seeds', '20', '--faults', 'crash,delay', '--json']
  const { stdout, stderr } = await dramatis(args, { cwd })
  t.match(JSON.parse(stdout), { runs: 20, outcomes: { done: 20 } }, stderr)
  t.equal(readFileSync(join(cwd, 'agents.yaml'), 'utf8'), DEFINING['agents.yaml'])
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
