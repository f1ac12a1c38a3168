/** `dramatis mcp [name=]<team file> ...`: teams by the Model Context Protocol, for the program that has started it. */
import { createTeam, type Team } from '../../index.ts'
import { lineLogger } from '../../runtime/logging/logger.ts'
import { servePipes } from '../mcp/stdio.ts'
import { type Closing, listenForClosing } from '../shared/code-watch.ts'
import { EXIT } from '../shared/failure.ts'
import { loadEnv, loadTeamFile } from '../shared/load-team-file.ts'
import type { Surroundings } from './run.ts'
import { EVERYTHING, LIMITS, namedFiles } from './serve.ts'

export interface McpFlags {
  /** Lets the program approve calls of tools in the tasks that it begins. */
  approveOwn?: boolean
  /** Serves each agent alone, too. */
  agents?: boolean
  /** Time for which a call waits for the end of its task, in ms. */
  wait?: number
}

/** Resolves to the exit code when the program has left, or a signal has ended this. */
export async function mcp(
  files: readonly string[],
  { approveOwn = false, agents = false, wait }: McpFlags,
  { answer, stderr, stdin, folder }: Surroundings,
  closing: Closing = listenForClosing(),
): Promise<number> {
  loadEnv(folder)
  const logger = lineLogger((text) => void stderr.write(text))
  const teams = new Map<string, Team>()
  try {
    for (const [name, file] of namedFiles(files))
      teams.set(name, createTeam({ logger, ...(await loadTeamFile(file, folder)) }))
    await Promise.all(Array.from(teams.values(), (team) => team.start()))
    const options = {
      teams: Object.fromEntries(teams),
      approveOwn,
      limits: LIMITS,
      mcp: {
        tools: agents ? (['ask', 'agents'] as const) : (['ask'] as const),
        ...(wait !== undefined && { waitMs: wait }),
      },
      logger,
    }
    const served = await servePipes(options, { id: 'local', may: EVERYTHING }, { answer, stdin })
    stderr.write(`dramatis serves ${[...teams.keys()].join(', ')} by MCP over stdin and stdout\n`)
    await Promise.race([closing.begun, served.over])
    await served.close()
    return EXIT.done
  } finally {
    closing.stop()
    await Promise.all(Array.from(teams.values(), (team) => team.close()))
  }
}
