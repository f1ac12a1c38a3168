/** `dramatis log compact --log <folder>`: gives up what a log does not need, while no process has it. */
import { resolve } from 'node:path'
import { compactLog } from '../../runtime/durability/compact-log.ts'
import { TraceArchive } from '../../runtime/durability/trace-archive.ts'
import { lineLogger } from '../../runtime/logging/default-logger.ts'
import { logFolder } from '../../runtime/replay/find-run.ts'
import { keepSettings } from '../../runtime/settings/settings.ts'
import { FileStore } from '../../runtime/store/file-store.ts'
import { environmentRedactor } from '../environment-redactor.ts'
import { EXIT } from '../failure.ts'
import { jsonText } from '../json-text.ts'
import { count } from '../log-report.ts'
import type { Surroundings } from './run.ts'

export interface LogCompactFlags {
  log: string
  keepRuns?: number
  keepDays?: number
  keepBytes?: number
  archive?: string
  json?: boolean
}

/** Prints the sizes and resolves to the exit code. Rejects if there is no such log, if it is damaged, or held. */
export async function logCompact(
  { log, keepRuns, keepDays, keepBytes, archive, json = false }: LogCompactFlags,
  { answer, stderr, folder }: Surroundings,
): Promise<number> {
  const store = new FileStore(logFolder(log, folder), { waitsForRoom: false })
  const keep = keepSettings({
    ...(keepRuns !== undefined && { runs: keepRuns }),
    ...(keepDays !== undefined && { days: keepDays }),
    ...(keepBytes !== undefined && { bytes: keepBytes }),
  })
  try {
    const logger = lineLogger((line) => stderr.write(line))
    const redactor = environmentRedactor(folder)
    const compacted = await compactLog(store, {
      keep,
      believesClock: keepDays !== undefined, // somebody says what is too old
      logger,
      ...(archive !== undefined && {
        archive: (name) => new TraceArchive({ folder: resolve(folder, archive), redactor, name }),
      }),
    })
    const { before, after, runsForgotten, runsNotArchived } = compacted
    const sizes = `${count(before, 'byte')} before, ${count(after, 'byte')} after`
    await answer.write(json ? jsonText(compacted) : `${sizes}; ${count(runsForgotten, 'finished run')} given up\n`)
    return runsNotArchived > 0 ? EXIT.failed : EXIT.done
  } finally {
    await store.close()
  }
}
