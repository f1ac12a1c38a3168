/**
 * Needs no model: it runs the tool that the sub-task names with the input that it has. The results that the sub-task builds on
 * are `input.results` for code that is run.
 */
import { defineAgent } from 'dramatis'
import { type SubTask, subTaskSchema } from 'dramatis/protocols'

export default defineAgent({
  input: subTaskSchema,
  async receive({ structuredData: subTask }, context) {
    const { toolName } = subTask
    if (toolName === undefined)
      throw new Error('The sub-task names no tool. Name one of calculator, convert, run_code.')
    return { structuredData: await context.tool(toolName, inputOf(subTask)) }
  },
})

function inputOf({ toolName, subTaskInput, contextSummary }: SubTask): object {
  if (toolName !== 'run_code') return subTaskInput
  return { ...subTaskInput, input: { ...Object(subTaskInput.input), results: contextSummary ?? '' } }
}
