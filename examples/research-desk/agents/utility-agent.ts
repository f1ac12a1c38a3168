/**
 * Needs no model: it runs the tool that the sub-task names with the input that it has. The results that the sub-task builds on
 * are `input.results` for code that is run.
 */
import { DramatisError, defineAgent } from 'dramatis'
import { type SubTask, type SubTaskResult, subTaskResultSchema, subTaskSchema } from 'dramatis/protocols'

export default defineAgent({
  input: subTaskSchema,
  output: subTaskResultSchema,
  async receive({ structuredData: subTask }, context): Promise<{ structuredData: SubTaskResult }> {
    const { subTaskId, parentTaskId, toolName } = subTask
    const head = { subTaskId, parentTaskId, workerAgentRole: context.role.name }
    const failed = (message: string, type?: string) => ({
      structuredData: { ...head, status: 'FAILED' as const, errorDetails: { message, ...(type && { type }) } },
    })
    if (toolName === undefined) return failed('The sub-task names no tool. Name one of calculator, convert, run_code.')
    try {
      const resultData = await context.tool(toolName, inputOf(subTask))
      return { structuredData: { ...head, status: 'COMPLETED', resultData } }
    } catch (error) {
      context.signal.throwIfAborted()
      if (!(error instanceof DramatisError)) throw error
      return failed(error.message, error.code)
    }
  },
})

function inputOf({ toolName, subTaskInput, contextSummary }: SubTask): object {
  if (toolName !== 'run_code') return subTaskInput
  return { ...subTaskInput, input: { ...Object(subTaskInput.input), results: contextSummary ?? '' } }
}
