/** The command line as its user has it: its streams, its exit code; a process of its own where that is the point. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import type { MultiAgentResult, OrchestrationTrace } from '../../src/index.ts'
import { main } from '../../src/service/commands/program.ts'
import { onlyDeep } from '../how-many.ts'
import { dramatis } from './command-line.ts'
import { fakeSurroundings } from './fake-team.ts'

const compiled = (name: string) => fileURLToPath(new URL(`../fixtures/cli/${name}.js`, import.meta.url))
const source = (name: string) => `test/fixtures/cli/${name}.ts` // tests are started in the project's folder

interface Given {
  cwd?: string
  env?: Record<string, string>
  input?: string
}

/** The same as `dramatis`, in this process. */
async function inThisProcess(args: string[], { cwd = process.cwd(), env = {}, input = '' }: Given = {}) {
  const { surroundings, stdout, stderr } = fakeSurroundings()
  Object.assign(process.env, env)
  try {
    const code = await main(args, { ...surroundings, folder: cwd, stdin: Readable.from([input]) })
    return { code, stdout: stdout(), stderr: stderr() }
  } finally {
    for (const name of Object.keys(env)) delete process.env[name]
  }
}

t.test('stdout has the answer and nothing else; what anybody prints is on stderr', async (t) => {
  const { code, stdout, stderr } = await dramatis(['run', compiled('echo-team'), 'world'])
  t.equal(code, 0, stderr)
  t.equal(stdout, 'Hello, world\n')
  for (const who of [
    'printed by the team file',
    'printed by the protocol',
    'printed by the agent',
    'written by the agent',
  ]) {
    t.match(stderr, who)
  }
})

t.test('without a terminal, progress is plain lines; a crash costs neither the answer nor the exit code', async (t) => {
  const { code, stdout, stderr } = await dramatis(['run', compiled('crashing-team'), 'go'])
  t.strictSame({ code, stdout }, { code: 0, stdout: 'answered in attempt 2\n' })
  t.match(stderr, /^phoenix is ready$/m)
  t.match(stderr, /^task started: phoenix: go$/m)
  t.match(stderr, /^phoenix crashed: .*; restarts at once$/m)
  t.match(stderr, /^phoenix is ready again$/m)
  t.match(stderr, /^task completed: phoenix: go$/m)
  t.notMatch(stderr, '\u001b')
  t.notMatch(stderr, /^(?:warn|info) phoenix/m, 'each thing is said once')
})

t.test('a TypeScript team file with TypeScript agents runs from its source', async (t) => {
  const { code, stdout, stderr } = await dramatis(['run', source('typescript-team'), 'Welt'])
  t.equal(code, 0, stderr)
  t.equal(stdout, 'Servus, Welt\n')
})

t.test('--json prints the whole result, and --trace writes a diagram or data', async (t) => {
  const folder = t.testdir()
  const traceAs = async (name: string, ...flags: string[]) => {
    const path = join(folder, name)
    const args = ['run', compiled('echo-team'), 'world', '--trace', path, ...flags]
    const { code, stdout, stderr } = await (flags.length > 0 ? dramatis : inThisProcess)(args)
    t.equal(code, 0, stderr)
    return { stdout, trace: readFileSync(path, 'utf8') }
  }
  const { stdout, trace: diagram } = await traceAs('run.mmd', '--json')
  const result: WholeResult = JSON.parse(stdout)
  t.match(result, { success: true, finalOutput: 'Hello, world', error: null, blackboardState: null })
  t.ok(result.messageHistory.some(({ sender, content }) => sender === 'greeter' && content === 'Hello, world'))
  t.match(result.orchestrationTrace.decisions, [{ choice: 'greeter' }])
  t.match(diagram, /^sequenceDiagram\n/)
  t.match(diagram, / as greeter$/m)
  t.match(diagram, /->>p\d+: request$[\s\S]*-->>p\d+: response$/m)
  t.match((await traceAs('run.md')).trace, /^```mermaid\nsequenceDiagram\n[\s\S]*```\n$/)
  const data: OrchestrationTrace = JSON.parse((await traceAs('run.json')).trace)
  t.ok(data.messageFlow.some(({ to, type }) => to === 'greeter' && type === 'request'))
  t.ok(data.agentActivations.some(({ agent }) => agent === 'greeter'))
})

t.test('what a team file leaves open does not keep the process', async (t) => {
  const { code, stdout } = await dramatis(['run', compiled('open-handle-team'), 'world'])
  t.strictSame({ code, stdout }, { code: 0, stdout: 'Hello, world\n' })
})

t.test('.env of the working directory is read for the team file alone, and what is set already wins', async (t) => {
  const cwd = t.testdir({ '.env': 'FROM_FILE=file\nFROM_BOTH=file\n' })
  const { code, stdout } = await dramatis(['run', compiled('env-team'), 'go'], {
    cwd,
    env: { FROM_BOTH: 'environment' },
  })
  t.strictSame({ code, stdout }, { code: 0, stdout: 'file environment, later undefined environment\n' })
})

type WholeResult = Pick<MultiAgentResult, 'success' | 'messageHistory' | 'orchestrationTrace'>

t.test('where the error is a text for people, the reasons stand behind it; else each is said once', async (t) => {
  const fails =
    "import { defineAgent } from 'dramatis'\nexport default defineAgent({ receive() { throw new Error('no ink') } })\n"
  const plans =
    "import { defineAgent } from 'dramatis'\nexport default defineAgent({ receive: () => ({ structuredData: { tasks: [{ agent: 'pen', task: 'write' }], reasoning: 'it writes' } }) })\n"
  const agents = 'agents:\n  chief: { module: ./chief.mjs }\n  pen: { module: ./pen.mjs }\n'
  const cwd = t.testdir({
    'chief.mjs': plans,
    'pen.mjs': fails,
    'desk.yaml': `${agents}orchestration: { strategy: supervisor, supervisor: chief, experts: [pen] }\n`,
    'pens.yaml': `${agents}orchestration: { strategy: sequential, agent_order: [pen] }\n`,
  })
  const desk = await inThisProcess(['run', 'desk.yaml', 'Write, please.'], { cwd })
  t.equal(desk.code, 1)
  t.match(desk.stderr, /^error: AGENT_FAILED: Sorry, .*\nleft out: pen: AGENT_FAILED: .*no ink$/m)
  const pens = await inThisProcess(['run', 'pens.yaml', 'Write, please.'], { cwd })
  t.match(pens.stderr, /^error: AGENT_FAILED: .*no ink$/m)
  t.notMatch(pens.stderr, 'left out')
})

// The same where it goes wrong: what is said, where, and with which exit code.

t.test('a failed run exits with 1, and as JSON its error is data', async (t) => {
  const plain = await dramatis(['run', compiled('failing-team'), 'print'])
  t.match(plain, { code: 1, stdout: '' })
  t.match(plain.stderr, /^error: [A-Z_]+: .*out of paper/m)
  t.notMatch(plain.stderr, /^ +at /m)
  const json = await inThisProcess(['run', compiled('failing-team'), 'print', '--json'])
  t.equal(json.code, 1)
  const result: unknown = JSON.parse(json.stdout)
  t.match(result, { success: false, error: { code: String, message: /out of paper/, details: Object } })
})

t.test('--timeout ends a run that takes too long', async (t) => {
  const { code, stdout, stderr } = await inThisProcess(['run', compiled('slow-team'), 'go', '--timeout', '300'])
  t.match({ code, stdout }, { code: 1, stdout: '' })
  t.match(stderr, /^error: RUN_TIMEOUT: /m)
})

t.test('wrong usage and configuration exit with 2 and a short message', async (t) => {
  const wrong: [string[], RegExp][] = [
    [['run', 'nowhere.js', 'go'], /^error: Team file "nowhere\.js": there is no such file/m],
    [['run', compiled('no-default-export'), 'go'], /has no default export/],
    [['run', compiled('throws-while-loaded'), 'go'], /TypeError: no such key \(at .*throws-while-loaded/],
    [['run', compiled('no-agents-team'), 'go'], /^error: agents: /m],
    [['run', compiled('no-module-team'), 'go'], /nowhere\.js/],
    [['run', compiled('echo-team'), 'go', '--trace', 'nowhere/run.mmd'], /--trace: /],
    [['converse', compiled('echo-team')], /unknown command 'converse'/],
  ]
  for (const [at, [args, message]] of wrong.entries()) {
    const { code, stdout, stderr } = await (at === 0 ? dramatis : inThisProcess)(args)
    t.strictSame({ code, stdout }, { code: 2, stdout: '' }, stderr)
    t.match(stderr, message)
    t.notMatch(stderr, /^ +at /m, 'no stack')
  }
})

t.test('DEBUG=dramatis shows the stack of an error', async (t) => {
  const { code, stderr } = await dramatis(['run', compiled('throws-while-loaded'), 'go'], {
    env: { DEBUG: 'dramatis' },
  })
  t.equal(code, 2)
  t.match(stderr, /^ +at .*throws-while-loaded/m)
})

t.test('Ctrl-C ends the run in good order, prints its JSON and exits with 130', async (t) => {
  const args = ['run', compiled('slow-team'), 'go', '--json']
  const { code, stdout, stderr } = await dramatis(args, { interruptAt: 'task started' })
  t.equal(code, 130)
  t.match(stderr, 'Interrupted')
  t.notMatch(stderr, /^error/m)
  t.match(JSON.parse(stdout), { success: false, error: { code: 'RUN_ABORTED' } })
})

// Questions of agents on the command line.

const team = fileURLToPath(new URL('../fixtures/cli/asking-team.js', import.meta.url))

t.test('each question is put on stderr, and answered by a line of the input: by a choice or its number', async (t) => {
  const { code, stdout, stderr } = await dramatis(['run', team, 'go'], { input: '2\nann\n' })
  t.equal(stdout, 'ann has blue\n')
  t.equal(code, 0, stderr)
  t.match(stderr, '$orchestrator asks: Which color?\n  1. red\n  2. blue\n')
  t.match(stderr, '$orchestrator asks: And whose?\n')
})

t.test('what is no choice is asked again', async (t) => {
  const { stdout, stderr } = await inThisProcess(['run', team, 'go'], { input: 'green\nred\nbob\n' })
  t.equal(stdout, 'bob has red\n')
  t.match(stderr, /^answer: "green" is none of what is accepted: "red", "blue"\./m)
  t.equal(stderr.match(/asks: Which color/g)?.length, 2)
})

t.test('when the input has ended nobody can answer, and the run ends and says so', async (t) => {
  const { code, stdout, stderr } = await inThisProcess(['run', team, 'go'], { input: 'red\n' })
  t.strictSame({ code, stdout }, { code: 1, stdout: '' })
  t.match(stderr, /^error: .*\$orchestrator asked a question, and the input has ended: nobody can answer/m)
})

// The command line with a team of fifty, each on a thread of its own.

const fiftyAgentsTeam = fileURLToPath(new URL('../fixtures/cli/fifty-team.js', import.meta.url))

t.test('fifty agents start, answer and end', async (t) => {
  const { code, stdout, stderr } = await dramatis(['run', fiftyAgentsTeam, 'hi'])
  t.strictSame({ code, stdout }, { code: 0, stdout: '50 of 50\n' }, stderr)
  t.equal(stderr.match(/^agent-\d+ is ready$/gm)?.length, 50)
})

t.test('Ctrl-C while all of them are at work ends in good order', onlyDeep, async (t) => {
  const { code, stdout, stderr } = await dramatis(['run', fiftyAgentsTeam, 'wait'], {
    interruptAt: 'task started: agent-50',
  })
  t.strictSame({ code, stdout }, { code: 130, stdout: '' })
  t.match(stderr, 'Interrupted')
  t.notMatch(stderr, /^error/m)
})

// `FLOW_MODE` as the command line reads it.

const asked = (FLOW_MODE: string, team = 'desk-team', command = 'run', ...flags: string[]) =>
  inThisProcess([command, compiled(team), 'What?', ...flags], { env: { FLOW_MODE } })

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

// The command line with a team that is written as YAML.

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
  const { code, stdout, stderr } = await inThisProcess(args, { cwd: t.testdir(AGENTS) })
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
  const { code, stdout, stderr } = await inThisProcess(['run', 'agents.yaml', 'tick'], { cwd })
  t.equal(code, 0, stderr)
  t.equal(stdout, 'ticktick\n')
  const written = readFileSync(join(cwd, 'agents.yaml'), 'utf8')
  t.match(
    written,
    /module: \.\/lead\.ts # who makes others\n {4}can_delegate_to: \[tester\]\n {2}tester:\n {4}class: TestAgent/,
  )
  const again = await inThisProcess(['run', 'agents.yaml', 'tick'], { cwd })
  t.equal(again.code, 1)
  t.match(again.stderr, /type\.name: got "tester"; accepted: a name that no agent has/)
})

t.test('... and rehearse does not, in as many runs as there are', async (t) => {
  const cwd = t.testdir(DEFINING)
  const args = ['rehearse', 'agents.yaml', 'tick', '--seeds', '20', '--faults', 'crash,delay', '--json']
  const { stdout, stderr } = await inThisProcess(args, { cwd })
  t.match(JSON.parse(stdout), { runs: 20, outcomes: { done: 20 } }, stderr)
  t.equal(readFileSync(join(cwd, 'agents.yaml'), 'utf8'), DEFINING['agents.yaml'])
})

t.test('a file that is wrong ends both with 2, and the place', async (t) => {
  const cwd = t.testdir({ ...AGENTS, 'agents.yaml': 'agents:\n  ann:\n    class: Nobody\n' })
  for (const command of ['run', 'rehearse']) {
    const { code, stdout, stderr } = await inThisProcess([command, 'agents.yaml', 'go'], { cwd })
    t.equal(code, 2)
    t.equal(stdout, '')
    t.match(stderr, /agents\.yaml:3:12: agents\.ann\.class: got "Nobody"/, command)
  }
})
