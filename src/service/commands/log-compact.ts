/** `dramatis log compact --log <folder>`: gives up what a log does not need, while no process has it. */
import { compactLog } from '../../runtime/durability/compact-log.ts'
import { lineLogger } from '../../runtime/logging/default-logger.ts'
import { logFolder } from '../../runtime/replay/find-run.ts'
import { keepSettings } from '../../runtime/settings/settings.ts'
import { FileStore } from '../../runtime/store/file-store.ts'
import { EXIT } from '../failure.ts'
import { jsonText } from '../json-text.ts'
import { count } from '../log-report.ts'
import type { Surroundings } from './run.ts'

export interface LogCompactFlags {
  log: string
  keepRuns?: number
  keepDays?: number
  keepBytes?: number
  json?: boolean
}

/** Prints the sizes and resolves to the exit code. Rejects if there is no such log, if it is damaged, or held. */
export async function logCompact(
  { log, keepRuns, keepDays, keepBytes, json = false }: LogCompactFlags,
  { answer, stderr, folder }: Surroundings,
): Promise<number> {
  const store = new FileStore(logFolder(log, folder))
  const keep = keepSettings({
    ...(keepRuns !== undefined && { runs: keepRuns }),
    ...(keepDays !== undefined && { days: keepDays }),
    ...(keepBytes !== undefined && { bytes: keepBytes }),
  })
  try {
    const compacted = await compactLog(store, { keep, logger: lineLogger((line) => stderr.write(line)) })
    const { before, after, runsForgotten } = compacted
    const sizes = `${count(before, 'byte')} before, ${count(after, 'byte')} after`
    await answer.write(json ? jsonText(compacted) : `${sizes}; ${count(runsForgotten, 'finished run')} given up\n`)
    return EXIT.done
  } finally {
    await store.close()
  }
}
