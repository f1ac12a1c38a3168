/** The names that the package gives, no more and no less: what is exported once cannot be taken back. */
import t from 'tap'
import * as parts from '../../src/actors/definition/content.ts'
import * as protocol from '../../src/actors/definition/protocol.ts'
import * as tool from '../../src/actors/definition/tool.ts'
import * as aiSdk from '../../src/ai-sdk/index.ts'
import * as bundling from '../../src/bundling/index.ts'
import * as dramatis from '../../src/index.ts'
import * as models from '../../src/models.ts'
import * as opentelemetry from '../../src/opentelemetry.ts'
import * as http from '../../src/service/api/index.ts'
import * as errors from '../../src/shared/errors.ts'
import * as testing from '../../src/testing.ts'
import * as tools from '../../src/tools/index.ts'

const functions = [
  'MultiAgentPattern',
  'agentRef',
  'createTeam',
  'defineAgent',
  'defineProtocol',
  'defineTeam',
  'defineTool',
  'jsonOutput',
  'loadTeam',
  'sequenceDiagram',
  'toolParts',
]
const errorNames = Object.keys(errors).filter((name) => name.endsWith('Error'))

t.test('the entry gives the functions, the class and the errors, and nothing that is inside', async (t) => {
  t.same(Object.keys(dramatis).sort(), [...functions, ...errorNames].sort())
})

t.test('there is one error class for each code, of that name', async (t) => {
  const classes = errorNames.filter((name) => name !== 'DramatisError')
  t.equal(classes.length, 48)
  for (const name of classes) {
    const error = errors.errorFrom({ code: codeOf(name), message: 'm', details: { a: 1 } })
    t.equal(error.name, name)
    t.ok(error instanceof dramatis.DramatisError)
    t.same(JSON.parse(JSON.stringify(error)), { code: codeOf(name), message: 'm', details: { a: 1 } })
  }
})

t.test('inside a thread the same names can be imported', async (t) => {
  const { agentRef, defineAgent } = dramatis
  const { defineProtocol } = protocol
  const { defineTool } = tool
  const { toolParts } = parts
  Object.defineProperty(globalThis, Symbol.for('dramatis.thread'), {
    value: { ...errors, agentRef, defineAgent, defineProtocol, defineTool, toolParts },
  })
  const inThread = await import('../../src/thread-api.ts')
  t.same(Object.keys(inThread).sort(), Object.keys(dramatis).sort())
  t.throws(() => inThread.createTeam(), { code: 'CONFIGURATION', message: /^createTeam belongs to the host/ })
  t.throws(() => new inThread.MultiAgentPattern(), { code: 'CONFIGURATION' })
})

t.test('the test kit gives its functions', async (t) => {
  const names = ['rehearsalModel', 'rehearse', 'rehearseRun', 'scriptedModel', 'testAgent', 'testTeam', 'virtualClock']
  t.same(Object.keys(testing).sort(), names)
})

t.test('the way to OpenTelemetry is one function', async (t) => {
  t.same(Object.keys(opentelemetry), ['openTelemetry'])
})

t.test('the way to the AI SDK is one function, and two help with clients of models', async (t) => {
  t.same(Object.keys(aiSdk), ['fromAiSdk'])
  t.same(Object.keys(models).sort(), ['textOf', 'wrapModel'])
})

t.test('the way to HTTP is one function, and one for tokens', async (t) => {
  t.same(Object.keys(http), ['bearerToken', 'httpApi'])
})

t.test('the way to a bundle is one function', async (t) => {
  t.same(Object.keys(bundling), ['dramatis'])
})

t.test('the built-in tools have these names', async (t) => {
  const web = ['exchangeRate', 'readWebpage', 'stockPrice', 'weather', 'webSearch']
  const local = [
    'calculator',
    'convert',
    'createTaskPlan',
    'decomposeTask',
    'markSubtaskComplete',
    'readFile',
    'runCode',
    'runCommand',
    'sights',
    'workspace',
    'writeFile',
  ]
  const names = [...web, ...local].sort()
  t.same(Object.keys(tools).sort(), names)
})

/** 'RunTimeoutError' -> 'RUN_TIMEOUT' */
function codeOf(name: string): errors.ErrorCode {
  const code = name
    .replace(/Error$/, '')
    .replace(/(?<!^)[A-Z]/g, '_$&')
    .toUpperCase()
  return code as errors.ErrorCode
}
