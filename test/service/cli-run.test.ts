/** The command line as its user has it: a process of its own, its streams, its exit code. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import type { MultiAgentResult, OrchestrationTrace } from '../../src/index.ts'
import { dramatis } from './command-line.ts'

const compiled = (name: string) => fileURLToPath(new URL(`../fixtures/cli/${name}.js`, import.meta.url))
const source = (name: string) => `test/fixtures/cli/${name}.ts` // tests are started in the project's folder

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

t.test('without a terminal, progress is plain lines', async (t) => {
  const { stderr } = await dramatis(['run', compiled('crashing-team'), 'go'])
  t.match(stderr, /^phoenix is ready$/m)
  t.match(stderr, /^task started: phoenix: go$/m)
  t.match(stderr, /^phoenix crashed: .*; restarts at once$/m)
  t.match(stderr, /^phoenix is ready again$/m)
  t.match(stderr, /^task completed: phoenix: go$/m)
  t.notMatch(stderr, '\u001b')
  t.notMatch(stderr, /^(?:warn|info) phoenix/m, 'each thing is said once')
})

t.test('a crash on the way costs neither the answer nor the exit code', async (t) => {
  const { code, stdout } = await dramatis(['run', compiled('crashing-team'), 'go'])
  t.strictSame({ code, stdout }, { code: 0, stdout: 'answered in attempt 2\n' })
})

t.test('a TypeScript team file with TypeScript agents runs from its source', async (t) => {
  const { code, stdout, stderr } = await dramatis(['run', source('typescript-team'), 'Welt'])
  t.equal(code, 0, stderr)
  t.equal(stdout, 'Servus, Welt\n')
})

t.test('--json prints the whole result', async (t) => {
  const { code, stdout } = await dramatis(['run', compiled('echo-team'), 'world', '--json'])
  t.equal(code, 0)
  const result: WholeResult = JSON.parse(stdout)
  t.match(result, { success: true, finalOutput: 'Hello, world', error: null, blackboardState: null })
  t.ok(result.messageHistory.some(({ sender, content }) => sender === 'greeter' && content === 'Hello, world'))
  t.match(result.orchestrationTrace.decisions, [{ choice: 'greeter' }])
})

t.test('--trace writes a diagram or data', async (t) => {
  const folder = t.testdir()
  const traceAs = async (name: string) => {
    const path = join(folder, name)
    const { code, stderr } = await dramatis(['run', compiled('echo-team'), 'world', '--trace', path])
    t.equal(code, 0, stderr)
    return readFileSync(path, 'utf8')
  }
  const diagram = await traceAs('run.mmd')
  t.match(diagram, /^sequenceDiagram\n/)
  t.match(diagram, / as greeter$/m)
  t.match(diagram, /->>p\d+: request$[\s\S]*-->>p\d+: response$/m)
  t.match(await traceAs('run.md'), /^```mermaid\nsequenceDiagram\n[\s\S]*```\n$/)
  const data: OrchestrationTrace = JSON.parse(await traceAs('run.json'))
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
  const desk = await dramatis(['run', 'desk.yaml', 'Write, please.'], { cwd })
  t.equal(desk.code, 1)
  t.match(desk.stderr, /^error: AGENT_FAILED: Sorry, .*\nleft out: pen: AGENT_FAILED: .*no ink$/m)
  const pens = await dramatis(['run', 'pens.yaml', 'Write, please.'], { cwd })
  t.match(pens.stderr, /^error: AGENT_FAILED: .*no ink$/m)
  t.notMatch(pens.stderr, 'left out')
})
