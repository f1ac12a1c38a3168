/** `dramatis acp <team file>`: a team by the Agent Client Protocol, for the editor that has started it. */
import { createTeam } from '../../index.ts'
import { lineLogger } from '../../runtime/logging/logger.ts'
import { serveAcp } from '../acp/stdio.ts'
import { type Closing, listenForClosing } from '../shared/code-watch.ts'
import { EXIT } from '../shared/failure.ts'
import { loadEnv, loadTeamFile } from '../shared/load-team-file.ts'
import type { Surroundings } from './run.ts'
import { EVERYTHING, LIMITS, namedFiles } from './serve.ts'

export interface AcpFlags {
  /** Lets the person at the editor approve calls of tools in the runs that begin there. */
  approveOwn?: boolean
}

/** Resolves to the exit code when the editor has left, or a signal has ended this. */
export async function acp(
  file: string,
  { approveOwn = false }: AcpFlags,
  { answer, stderr, stdin, folder }: Surroundings,
  closing: Closing = listenForClosing(),
): Promise<number> {
  loadEnv(folder)
  const logger = lineLogger((text) => void stderr.write(text))
  const [[name, path] = ['team', file]] = namedFiles([file])
  const team = createTeam({ logger, ...(await loadTeamFile(path, folder)) })
  try {
    await team.start()
    const caller = { id: 'local', may: EVERYTHING }
    const served = await serveAcp({ teams: { [name]: team }, approveOwn, limits: LIMITS, logger }, caller, {
      answer,
      stdin,
    })
    stderr.write(`dramatis serves ${name} by ACP over stdin and stdout\n`)
    await Promise.race([closing.begun, served.over])
    await served.close()
    return EXIT.done
  } finally {
    closing.stop()
    await team.close()
  }
}
