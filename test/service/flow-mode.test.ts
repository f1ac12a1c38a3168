/** `FLOW_MODE` as the command line reads it. */
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { dramatis } from './command-line.ts'

const compiled = (name: string) => fileURLToPath(new URL(`../fixtures/cli/${name}.js`, import.meta.url))
const asked = (FLOW_MODE: string, team = 'desk-team', command = 'run', ...flags: string[]) =>
  dramatis([command, compiled(team), 'What?', ...flags], { env: { FLOW_MODE } })

t.test('a desk works by its plan, by a fixed flow, or as one agent', async (t) => {
  const planned = '## 1. Rain? (by weather) weather: Rain?\n'
  const fixed = '## 1. What? (by weather) weather: What? ## 2. What? (by finance) finance: What?\n'
  const answers = { '': planned, multi_agent: planned, graph: fixed, langgraph: fixed, tools: 'chief: What?\n' }
  for (const [mode, answer] of Object.entries(answers)) t.equal((await asked(mode)).stdout, answer, mode)
})

t.test('another mode is an error at the start, and so is one that the team has not', async (t) => {
  const unknown = await asked('swarm')
  t.equal(unknown.code, 2)
  t.equal(unknown.stdout, '')
  t.match(unknown.stderr, /FLOW_MODE: got "swarm"; accepted: tools, graph, langgraph, multi_agent\./)
  const other = await asked('tools', 'echo-team')
  t.equal(other.code, 2)
  t.match(other.stderr, /FLOW_MODE: got "tools"; only a team of the strategy "supervisor" has such a flow/)
  t.equal((await asked('multi_agent', 'echo-team')).stdout, 'Hello, What?\n')
})

t.test('a rehearsal plays the team in that flow, too', async (t) => {
  const { code, stdout, stderr } = await asked('tools', 'desk-team', 'rehearse', '--seed', '1')
  t.equal(code, 0, stderr)
  t.match(stdout, /chief/)
  t.notMatch(stdout, /weather/)
  t.equal((await asked('swarm', 'desk-team', 'rehearse', '--seed', '1')).code, 2)
})
