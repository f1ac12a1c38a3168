/**
 * Where the runtime and the agents write. The signature is pino's own, so that a pino logger fits as it is.
 *
 * @example
 * createTeam({ agents, orchestration, logger: pino() })
 */
export interface Logger {
  debug(fields: object, text: string): void
  info(fields: object, text: string): void
  warn(fields: object, text: string): void
  error(fields: object, text: string): void
}

/** The four methods of a logger. */
export type LogLevel = keyof Logger

/** The levels in the order of the numbers that LOG frames have for them. */
export const LEVELS: readonly LogLevel[] = ['debug', 'info', 'warn', 'error']

/** The level that a LOG frame carries in its limit. */
export const logLevel = (limit: number): LogLevel => LEVELS[limit] ?? 'info'

/** Log fields as JSON; what JSON has no word for is described, since a log line must not make a turn fail. */
export function logFields(fields: object): string {
  try {
    return (
      JSON.stringify(fields, (_key, value: unknown) => {
        if (value instanceof Error) return { name: value.name, message: value.message, stack: value.stack }
        return typeof value === 'bigint' || typeof value === 'function' ? String(value) : value
      }) ?? '{}'
    )
  } catch {
    return '{}'
  }
}
