/**
 * What the two models say in a session that is played without a key: the files, the commands and their results are real. The
 * first test fails, as the executor has forgotten that division by zero is no number.
 */
import { scriptedModel } from 'dramatis/testing'
import { by } from '../lib/by.ts'

export const REQUEST = 'I need a calculator package.'

const WRONG = `export const add = (a, b) => a + b
export const subtract = (a, b) => a - b
export const multiply = (a, b) => a * b
export const divide = (a, b) => a / b
`

const RIGHT = WRONG.replace(
  'export const divide = (a, b) => a / b\n',
  `export function divide(a, b) {
  if (b === 0) throw new RangeError('division by zero')
  return a / b
}
`,
)

const TEST = `import assert from 'node:assert/strict'
import { test } from 'node:test'
import { add, divide, multiply, subtract } from './calculator.js'

test('calculates', () => {
  assert.equal(add(2, 3), 5)
  assert.equal(subtract(2, 3), -1)
  assert.equal(multiply(2, 3), 6)
  assert.equal(divide(6, 3), 2)
})

test('does not divide by zero', () => {
  assert.throws(() => divide(1, 0), RangeError)
})
`

const orchestrator = by(
  'orchestrator',
  {
    toolCall: {
      name: 'clarify_with_user',
      input: { question: 'Which operations?', choices: ['+, -, *, /', '+ and - alone'] },
    },
  },
  {
    when: '+, -, *, /',
    toolCall: { name: 'create_task_plan', input: { tasks: ['A module calculator.js with +, -, *, / and its tests'] } },
  },
  {
    toolCall: {
      name: 'delegate_to_executor',
      input: {
        task: 'Write calculator.js with add, subtract, multiply, divide, and tests that pass.',
        context: 'For Node.js, without packages.',
      },
    },
  },
  { when: 'works on it', toolCall: { name: 'get_executor_status', input: {} } },
  { when: '"executor":"task_executor"', reply: 'The executor is at work.' },
  {
    when: /2 tests pass/,
    reply: 'The calculator is done: calculator.js, with tests, which pass. Division by zero throws.',
  },
)

const executor = by(
  'task_executor',
  { toolCall: { name: 'decompose_task', input: { subtasks: ['write calculator.js', 'test it'] } } },
  { toolCall: { name: 'write_file', input: { path: 'package.json', content: '{ "type": "module" }\n' } } },
  { toolCall: { name: 'write_file', input: { path: 'calculator.js', content: WRONG } } },
  { toolCall: { name: 'mark_subtask_complete', input: { subtask: '1' } } },
  { toolCall: { name: 'write_file', input: { path: 'calculator.test.js', content: TEST } } },
  { toolCall: { name: 'run_cmd', input: { command: 'node', args: ['calculator.test.js'] } } },
  {
    when: /division by zero|divide by zero/i,
    toolCall: { name: 'write_file', input: { path: 'calculator.js', content: RIGHT } },
  },
  { toolCall: { name: 'run_cmd', input: { command: 'node', args: ['calculator.test.js'] } } },
  { when: /fail 0/, toolCall: { name: 'mark_subtask_complete', input: { subtask: '2', reason: 'both tests pass' } } },
  { toolCall: { name: 'list_dir', input: {} } },
  { when: 'calculator.test.js', reply: 'calculator.js is written; its 2 tests pass.' },
)

export const playedModel = () => scriptedModel([...orchestrator, ...executor])
