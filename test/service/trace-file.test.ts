import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { AgentFailedError } from '../../src/index.ts'
import { type OrchestrationTrace, sequenceDiagram } from '../../src/runtime/runs/trace.ts'
import { jsonText, traceFile, traceText } from '../../src/service/shared/json-text.ts'

const trace: OrchestrationTrace = {
  events: [],
  decisions: [],
  agentActivations: [],
  messageFlow: [{ from: '$user', to: 'critic', messageId: 'm', type: 'request', at: 1 }],
  syncPointsReached: [],
}

t.test('the name of the file says what is written into it', async (t) => {
  t.equal(traceText('run.mmd', trace), sequenceDiagram(trace))
  t.equal(traceText('RUN.MD', trace), `\`\`\`mermaid\n${sequenceDiagram(trace)}\`\`\`\n`)
  t.strictSame(JSON.parse(traceText('run.json', trace)), trace)
  t.strictSame(JSON.parse(traceText('run', trace)), trace)
})

t.test('the file is written where the command runs', async (t) => {
  const folder = t.testdir()
  await traceFile('run.mmd', folder)(trace)
  t.equal(readFileSync(join(folder, 'run.mmd'), 'utf8'), sequenceDiagram(trace))
})

t.test('a file that cannot be there is refused before the run', async (t) => {
  const folder = t.testdir({ taken: {} })
  t.throws(() => traceFile('nowhere/run.mmd', folder), {
    code: 'CONFIGURATION',
    message: /does not exist; make it first/,
  })
  t.throws(() => traceFile('taken', folder), { code: 'CONFIGURATION', message: /is a folder/ })
})

t.test('errors are data in JSON', async (t) => {
  const text = jsonText({
    error: new AgentFailedError('no', { agent: 'a' }, new Error('secret')),
    other: new TypeError('x'),
  })
  t.strictSame(JSON.parse(text), {
    error: { code: 'AGENT_FAILED', message: 'no', details: { agent: 'a' } },
    other: { name: 'TypeError', message: 'x' },
  })
})
