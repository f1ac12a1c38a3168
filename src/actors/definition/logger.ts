import { thrownData } from '../../thrown.ts'

/**
 * The log that the runtime and the agents write to. The signature is pino's own, so a pino logger can be passed as it
 * is.
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

/** The levels in the order of the numbers by which LOG frames encode them. */
export const LEVELS: readonly LogLevel[] = ['debug', 'info', 'warn', 'error']

/** Returns the level that a LOG frame carries in its limit field. */
export const logLevel = (limit: number): LogLevel => LEVELS[limit] ?? 'info'

/**
 * Returns log fields as JSON. Values that JSON cannot represent become descriptions, since a log line must not make a
 * turn fail.
 */
export function logFields(fields: object): string {
  try {
    return (
      JSON.stringify(fields, (_key, value: unknown) => {
        if (value instanceof Error) return thrownData(value)
        return typeof value === 'bigint' || typeof value === 'function' ? String(value) : value
      }) ?? '{}'
    )
  } catch {
    return '{}'
  }
}
