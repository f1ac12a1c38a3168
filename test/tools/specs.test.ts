/** Every tool that works on the machine itself can be told to a model, and is bounded in time. */
import t from 'tap'
import { z } from 'zod'
import { calculator, convert, decomposeTask, markSubtaskComplete, runCode, workspace } from '../../src/tools/index.ts'
import { definitionOf } from './calls.ts'

const tools = [calculator, convert, runCode, decomposeTask, markSubtaskComplete, ...workspace({ root: 'x' })]

t.test('each has a name that every model accepts, a time limit, and a strict schema of its input', async (t) => {
  for (const tool of tools) {
    const { name, timeoutMs, input } = definitionOf(tool)
    t.match(name, /^[a-z_]{1,64}$/)
    t.ok(timeoutMs, name)
    if (!(input instanceof z.ZodType)) throw new TypeError(`the schema of ${name} is not zod's`)
    t.match(z.toJSONSchema(input, { io: 'input' }), { type: 'object', additionalProperties: false }, name)
  }
})

t.test('what is asked of a model is what it has to give, and no more', async (t) => {
  const required = tools.map((tool) => {
    const { name, input } = definitionOf(tool)
    return [name, input instanceof z.ZodType ? z.toJSONSchema(input, { io: 'input' }).required : undefined]
  })
  t.same(Object.fromEntries(required), {
    calculator: ['expression'],
    convert: ['value', 'from', 'to'],
    run_code: ['code'],
    decompose_task: ['subtasks'],
    mark_subtask_complete: undefined,
    write_file: ['path', 'content'],
    read_file: ['path'],
    list_dir: undefined,
    run_cmd: ['command'],
  })
})
