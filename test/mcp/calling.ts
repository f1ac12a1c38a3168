/** Runs in which an agent calls a tool of an MCP server, and the person who answers what it asks. */
import type { Test } from 'tap'
import { createTeam, type Run } from '../../src/index.ts'
import { type McpServer, type McpToolsOptions, mcpTools } from '../../src/mcp/index.ts'
import { silent } from '../kit/team.ts'
import { asked, type Call, callerModule } from '../toolbox/desk.ts'

/** A run in which an agent calls that tool of the server. */
export async function called(
  t: Test,
  server: McpServer,
  tool: string,
  input: object,
  { path, env = [], times, ...limits }: McpToolsOptions & { path?: string; env?: string[]; times?: number } = {},
) {
  const { tools, close, finishLogin } = await mcpTools(server, limits)
  const team = createTeam({
    agents: [{ name: 'ann', module: callerModule, tools, env }],
    orchestration: {
      strategy: 'custom',
      run: async (script, call) => JSON.stringify((await script.request('ann', call)).structuredData),
    },
    ...(path && { stateManagement: { path } }),
    threads: { warmSpares: 0 },
    logger: silent,
  })
  t.teardown(close)
  t.teardown(() => team.close())
  await team.start()
  const before = team.getRun('one') as Run<undefined> | undefined
  return { team, finishLogin, run: before ?? team.launch(asked(tool, input, times), { runId: 'one' }) }
}

export async function outcomeOf(run: Run): Promise<Call | undefined> {
  const { finalOutput } = await run.result
  return (JSON.parse(finalOutput!) as { outcomes: Call[] }).outcomes[0]
}

/** Answers what the run asks, in its order, and resolves to the questions. */
export async function answering(run: Run, answers: string[]): Promise<string[]> {
  const texts: string[] = []
  for await (const event of run.events({ types: ['question'] })) {
    if (event.type !== 'question') continue
    texts.push(event.text)
    await run.answer(event.questionId, answers.shift()!)
  }
  return texts
}
