/** Command that plays a task again with the code of today. */
import { quoted } from '../../shell-word.ts'

export interface Rehearsed {
  readonly id: string
  readonly query: string
  /** File of the team, and folder of its durable log, where they are known. */
  readonly file: string | null
  readonly log: string | null
}

/**
 * A task of a durable log is played with the answers that it got. Of any other its query is played through schedules,
 * with made-up answers.
 */
export function rehearsalCommand({ id, query, file, log }: Rehearsed): string {
  const begin = `npx dramatis rehearse ${file === null ? '<team file>' : quoted(file)}`
  return log === null ? `${begin} ${quoted(query, true)}` : `${begin} --from ${quoted(id)} --log ${quoted(log)}`
}
