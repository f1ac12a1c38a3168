/** `context.log`: writes log lines to the host's logger; their position in the journal is kept. */
import { LOG } from '../../mailbox/frame.ts'
import type { Logger, LogLevel } from '../definition/logger.ts'
import { LEVELS, logFields } from '../definition/logger.ts'
import type { Outbox } from '../transport/outbox.ts'
import type { TurnStart } from './turn-start.ts'

/** Creates the logger of a turn; the fields of `all` are added to each line. */
export function turnLogger(outbox: Outbox, start: TurnStart, all?: object): Logger {
  const write = (level: LogLevel) => (fields: object, text: string) => {
    // pino accepts a text alone as well
    const [data, words] = typeof fields === 'string' && text === undefined ? [{}, fields] : [fields, String(text)]
    outbox.begin(LOG, start.run, start.turn, 0, words, logFields(all ? { ...data, ...all } : data)).limit =
      LEVELS.indexOf(level)
    outbox.write(outbox.size(), 'soon')
  }
  return { debug: write('debug'), info: write('info'), warn: write('warn'), error: write('error') }
}
