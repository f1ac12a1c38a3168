/** Opens the team that a command names: a team file, or the URL of a team that is served. */

import { environment } from '../../environment.ts'
import { ConfigurationError, createTeam } from '../../index.ts'
import { own } from '../../own.ts'
import { inFlowMode } from '../../protocols/flow-mode.ts'
import { lineLogger } from '../../runtime/logging/default-logger.ts'
import type { Print } from '../answer-stream.ts'
import { unlessAborted } from '../interrupt.ts'
import { loadEnv } from '../load-env.ts'
import { loadTeamFile } from '../load-team-file.ts'
import { withoutEvents } from '../progress.ts'
import { remoteSources } from './remote-source.ts'
import { localSource, type TeamSource } from './source.ts'

interface Options {
  folder: string
  /** Name of the variable with the token of a served team. */
  tokenEnv: string | undefined
  /** Takes the lines of the team's log. */
  print: Print
  /** Aborted when nobody waits for the team any more. */
  signal: AbortSignal
}

/** Returns the team that is meant, then those that are served beside it. */
export async function openSources(
  target: string,
  { folder, tokenEnv, print, signal }: Options,
): Promise<[TeamSource, ...TeamSource[]]> {
  loadEnv(folder)
  if (/^https?:\/\//.test(target))
    return remoteSources(target, tokenEnv === undefined ? undefined : tokenIn(tokenEnv), signal)
  const definition = inFlowMode(await unlessAborted(loadTeamFile(target, folder), signal), environment().FLOW_MODE)
  const team = createTeam({ ...definition, logger: definition.logger ?? withoutEvents(lineLogger(print)) })
  return [localSource(team)]
}

function tokenIn(name: string): string {
  const token = own(environment(), name)
  if (token) return token
  throw new ConfigurationError(
    `--token-env: the variable ${name} is not set; it has to have the token of the service.`,
    {
      path: '--token-env',
      got: name,
    },
  )
}
